"""`isthmus correct`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional

from .arm import ArmOptions, open_arm
from .run import operator_for


@dataclass(frozen=True, kw_only=True)
class Correct:
    """Run a policy with somebody beside the arm who takes over where it misses; every episode goes into a LeRobot dataset.

    Keyboard: space takes over and gives back, arrows and page keys move the tip, Enter says done, x stops.
    """

    bundle: Annotated[Path, Positional]
    """Policy to correct."""
    out: Path
    """Dataset directory; episodes are added to an existing one."""
    arm: ArmOptions = field(default_factory=ArmOptions)
    episodes: int = 20
    """How many targets to attempt."""
    operator: Literal["keyboard", "scripted"] = "keyboard"
    """Who corrects; the scripted operator watches a virtual arm."""
    seed: int = 0
    """Of the random targets."""
    log: Path = Path("correct.mcap")
    """Recording to write."""

    def run(self) -> int:
        """Attempt, record, convert; every finished episode is kept, also after Ctrl-C."""
        from isthmus.policies.bundle import load_bundle
        from isthmus.policies.learning.dataset import append_episodes, write_dataset

        from ..log import read_log
        from ..progress import attempts_progress
        from .attempts import CORRECTED_S, random_targets

        contract = load_bundle(self.bundle).manifest.contract
        with open_arm(self.arm) as arm:
            operator = operator_for(arm, self.operator, self.seed)
            targets = random_targets(arm.spec, self.episodes, self.seed)
            try:
                with arm.session([self.bundle], self.arm.calibration(), self.log) as session:
                    session.prepare(targets, operator=operator)
                    session.arm()
                    with attempts_progress("episodes", len(targets)) as show:
                        for index, target in enumerate(targets):
                            result = session.run_episode(target, CORRECTED_S, operator=operator, referee=arm.referee)
                            show(index, result)
            finally:
                episodes = read_log(self.log).episodes() if self.log.exists() else []
                if episodes and (self.out / "meta" / "info.json").exists():
                    append_episodes(self.out, episodes)
                elif episodes:
                    fps = round(1e9 / contract.period_ns)
                    write_dataset(self.out, episodes, fps=fps, repo_id=f"isthmus/{self.out.name}", task=contract.task)
        taken = sum(bool(episode.ticks["intervention"].any()) for episode in episodes)
        print(
            f"{len(episodes)} episodes, {taken} with a takeover, added to {self.out}\n"
            f"next: isthmus learn {self.out} --base {self.bundle} --out better.onnx"
        )
        return 0
