"""`isthmus correct`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from tyro.conf import Positional, arg

from isthmus.hardware.joint_calibration import ArmCalibration

from ..attempt import StoppedByOperator
from ..snapshot import Scene
from .arm import ArmOptions, open_arm
from .attempts import random_targets
from .checks import OptionError, check_folder, check_range
from .run import operator_for

if TYPE_CHECKING:
    from isthmus.policies.bundle import Bundle

_DATASET_FILE = Path("meta") / "info.json"


@dataclass(frozen=True, kw_only=True)
class Correct:
    """Run a policy with somebody beside the arm who takes over where it misses; every episode goes into a LeRobot dataset.

    Keyboard: space takes over and gives back; arrows, page up and down, or w s a d e q move the tip; after a takeover Enter says done
    and g gives up; x stops the command.
    """

    bundle: Annotated[Path, Positional, arg(metavar="BUNDLE")]
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
    """Recording to write; one that is already there is kept under another name."""

    def run(self) -> int:
        """Attempt, record, convert; every finished episode is kept, also after Ctrl-C."""
        from isthmus.policies.bundle import load_bundle

        from .drive import drive

        self._check()
        bundle = load_bundle(self.bundle)
        calibration = self._calibration()
        stop: StoppedByOperator | None = None
        print("starting the arm", flush=True)
        with open_arm(self.arm) as arm:
            operator = operator_for(arm, self.operator, self.seed)
            targets = random_targets(arm.spec, self.episodes, self.seed)
            recording = False  # until then a file of that name is from another day
            try:
                with arm.session([self.bundle], calibration, self.log) as session:
                    recording = True
                    session.prepare(targets, operator=operator)
                    try:
                        drive(
                            session,
                            targets,
                            title="episodes",
                            policy_id=bundle.sha256,
                            referee=arm.referee,
                            operator=operator,
                            rows=[],
                            scene=Scene(
                                spec=arm.spec,
                                robot=f"{arm.spec.name} at {arm.port}",
                                policies=(self.bundle.name,),
                                episodes=len(targets),
                                period_ns=bundle.manifest.contract.period_ns,
                            ),
                        )
                    except StoppedByOperator as error:  # an orderly end: the arm parks
                        stop = error
            finally:
                if recording:
                    self._keep(bundle, calibration, stopped=-1 if stop is None else stop.episode)
        if stop is not None:
            raise stop
        print(f"next: isthmus learn {self.out} --base {self.bundle}")
        return 0

    def _check(self) -> None:
        check_range("--episodes", self.episodes, 1)
        check_range("--seed", self.seed, 0)
        check_folder("--out", self.out.absolute().parent)
        free = not self.out.exists() or (self.out.is_dir() and not any(self.out.iterdir()))
        if not free and not (self.out / _DATASET_FILE).is_file():
            raise OptionError(
                f"--out {self.out} exists and is no dataset; name a new folder, or one that holds a dataset"
            )

    def _calibration(self) -> ArmCalibration:
        """The joint calibration; refuses a dataset of another one before anybody corrects for nothing."""
        from isthmus.policies.learning.dataset import check_calibration

        calibration = self.arm.calibration()
        if (self.out / _DATASET_FILE).exists():
            check_calibration(self.out, calibration)
        return calibration

    def _keep(self, bundle: "Bundle", calibration: ArmCalibration, *, stopped: int) -> None:
        """Put the attempts of the recording into the dataset; the way to the rest pose is none.

        An attempt in which the arm could not be read, as when it is unplugged, stays in the recording only, and so does the one that
        was stopped, by its id in the recording.
        """
        from isthmus.policies.learning.dataset import COLUMNS, append_episodes, write_dataset

        from ..log import read_log

        required = [column.field for column in COLUMNS if not column.optional]
        episodes = [
            episode
            for episode in read_log(self.log).episodes()
            if episode.policy_id == bundle.sha256
            and not (episode.ticks["episode"] == stopped).any()
            and all(np.isfinite(episode.ticks[field]).all() for field in required)
        ]
        if not episodes:
            print(f"no episode ended, none was added to a dataset; recorded in {self.log}")
            return
        if (self.out / _DATASET_FILE).exists():
            append_episodes(self.out, episodes, calibration=calibration)
        else:
            contract = bundle.manifest.contract
            fps = round(1e9 / contract.period_ns)
            name = f"isthmus/{self.out.name}"
            write_dataset(self.out, episodes, fps=fps, repo_id=name, task=contract.task, calibration=calibration)
        taken = sum(bool(episode.ticks["intervention"].any()) for episode in episodes)
        print(f"{len(episodes)} episodes, {taken} with a takeover, added to {self.out}")
