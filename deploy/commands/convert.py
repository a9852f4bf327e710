"""`isthmus convert`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from .checks import OptionError, check_folder, check_not_input, check_output

if TYPE_CHECKING:
    from ..log import Log


@dataclass(frozen=True, kw_only=True)
class Convert:
    """Turn a recording into a table or a dataset for other tools.

    A file is CSV (.csv), Parquet (.parquet) or for the rerun viewer (.rrd), with every tick; a folder is a LeRobotDataset v3, with every
    attempt that was brought to an end.
    """

    log: Annotated[Path, Positional, arg(metavar="LOG")]
    """Recording of `isthmus run` (.mcap)."""
    out: Path
    """What to write: NAME.csv, NAME.parquet, NAME.rrd, or a new folder."""
    robot: str | None = None
    """For a dataset: robot name or robot.toml; without it the one that the recording names."""
    joints: Path | None = None
    """For a dataset: joint calibration that the recording was made with; a dataset says which that was."""
    task: str = "isthmus"
    """For a dataset: what was tried, in words."""

    def run(self) -> int:
        """Read, write, say how much."""
        from ..convert import WRITERS
        from ..log import read_log

        check_not_input("--out", self.out, self.log, "the recording")
        write = WRITERS.get(self.out.suffix)
        if write is None and self.out.suffix:
            raise OptionError(
                f"--out {self.out} ends with {self.out.suffix}, expected {', '.join(WRITERS)}, or a folder without an ending"
            )
        log = read_log(self.log)
        if not log.complete:
            print(f"{self.log} ends in the middle; what is there is converted")
        if len(log.ticks) == 0:
            raise OptionError(f"{self.log} holds no tick; there is nothing to convert")
        if write is None:
            count = self._dataset(log)
            print(f"{count} episodes written to {self.out}")
            return 0
        check_output("--out", self.out)
        write(self.out, log)
        print(f"{len(log.ticks)} ticks written to {self.out}")
        return 0

    def _dataset(self, log: "Log") -> int:
        from isthmus.hardware.robot import load_robot
        from isthmus.policies.learning.dataset import write_dataset

        from .arm import read_calibration

        check_folder("--out", self.out.absolute().parent)
        if self.joints is None:
            raise OptionError(
                "a dataset says which joint calibration its angles were read with: give --joints FILE, the one the recording was made with"
            )
        episodes = log.episodes()
        if not episodes:
            raise OptionError(f"{self.log} holds no attempt that was brought to an end; convert it to .csv or .parquet")
        calibration = read_calibration(self.joints, load_robot(self.robot or log.metadata.robot))
        fps = round(1e9 / log.metadata.period_ns)
        name = f"isthmus/{self.out.name}"
        write_dataset(self.out, episodes, fps=fps, repo_id=name, task=self.task, calibration=calibration)
        return len(episodes)
