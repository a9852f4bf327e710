"""`isthmus report`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True, kw_only=True)
class Report:
    """Make the report of a run of the loop anew: one HTML page with tables, plots and a picture of the arm."""

    directory: Annotated[Path, Positional, arg(metavar="DIRECTORY")]
    """Directory of the run, as `isthmus demo` names it: runs/<time>."""

    def run(self) -> int:
        """Write report.html and print where it is."""
        from ..report import write_report

        print(write_report(self.directory))
        return 0
