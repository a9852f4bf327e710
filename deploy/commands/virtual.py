"""`isthmus virtual`."""

import time
from dataclasses import dataclass
from pathlib import Path

from isthmus.hardware.errors import IsthmusError

from .checks import check_output, check_range


@dataclass(frozen=True, kw_only=True)
class Virtual:
    """Start a virtual SO-101 and leave it running: a serial port that any STS3215 client can use. Ctrl-C ends it."""

    arm: str = "soft"
    """Hidden parameters: soft, worn, hard or the path of a file."""
    link: Path | None = None
    """Also make the port available under this name."""
    seconds: float | None = None
    """End by itself after so long."""

    def run(self) -> int:
        """Start, say the port, wait."""
        from isthmus.hardware.virtual.client import VirtualArm

        check_range("--seconds", self.seconds, 0)
        if self.link is not None:
            check_output("--link", self.link)
        with VirtualArm(self.arm) as virtual:
            if self.link is not None:
                if self.link.exists() and not self.link.is_symlink():
                    raise IsthmusError(f"{self.link} exists and is no link; choose another name for --link")
                self.link.unlink(missing_ok=True)
                self.link.symlink_to(virtual.port)
            print(f"virtual arm {self.arm!r} speaks STS3215 at {self.link or virtual.port}", flush=True)
            end = None if self.seconds is None else time.monotonic() + self.seconds
            try:
                while end is None or time.monotonic() < end:
                    time.sleep(0.1)
            except KeyboardInterrupt:
                pass
            finally:
                if self.link is not None:
                    self.link.unlink(missing_ok=True)
        return 0
