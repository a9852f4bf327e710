"""`isthmus replay`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

EXIT_DIFFERS = 1


@dataclass(frozen=True, kw_only=True)
class ReplayLog:
    """Give a recording's signals to its policy again and compare every bit of what it says.

    Ends with 0 where all is the same, and with 1 at the first tick that differs: another machine, another version, or a changed file.
    """

    log: Annotated[Path, Positional, arg(metavar="LOG")]
    """Recording of `isthmus run` (.mcap)."""
    bundles: Annotated[tuple[Path, ...], Positional, arg(metavar="BUNDLES", help_behavior_hint="(required)")]
    """The policies that ran, in any order."""

    def run(self) -> int:
        """Replay, say how it went."""
        from isthmus.policies.bundle import load_bundle

        from ..log import read_log
        from ..replay import replay

        log = read_log(self.log)
        result = replay(log, [load_bundle(path).policy() for path in self.bundles])
        if not log.complete:
            print(f"{self.log} ends in the middle; what is there was replayed")
        if result.skipped:
            print(
                f"{result.skipped} ticks left out: records before them are missing, so the policy's memory is not known"
            )
        if result.first is None:
            print(f"{result.compared} ticks, every bit the same")
            return 0
        first = result.first
        print(
            f"tick {first.tick} is the first that differs: {first.field}[{first.index}] was {first.recorded!r}, "
            f"is now {first.replayed!r}; {result.compared - 1} ticks before it are the same"
        )
        return EXIT_DIFFERS
