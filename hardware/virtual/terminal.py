"""The pseudo terminal that stands for the serial adapter."""

import contextlib
import os
import time
import tty
from pathlib import Path
from types import TracebackType

from .arm_clock import ArmClock
from .servo_bus import ServoBus

PACKET_GAP_S = 0.05  # a packet whose rest does not follow within this time is dropped


class BusTerminal:
    """Carries bytes between a pseudo terminal and the servo bus.

    The server keeps both ends open, so hosts may come and go.
    """

    def __init__(self, bus: ServoBus, clock: ArmClock, link: Path | None) -> None:
        self.clock = clock
        self.unplug_requested = False
        self._bus, self._link = bus, link
        self._last_byte = time.monotonic()
        self._host_end, self._device_end = os.openpty()
        tty.setraw(self._device_end)
        os.set_blocking(self._host_end, False)
        self.port = os.ttyname(self._device_end)
        if link is not None:
            temporary = link.with_name(f"{link.name}.{os.getpid()}")
            temporary.symlink_to(self.port)
            temporary.replace(link)

    def fileno(self) -> int:
        """The descriptor to poll; -1 when unplugged."""
        return self._host_end

    def exchange(self) -> float:
        """Bring the arm up to now and answer what the host sent; returns the time in s."""
        now = self.clock.now()
        if self._host_end < 0:
            return now
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self._host_end, 4096):
                self._drop_stale()
                if reply := self._bus.feed(data, now):
                    os.write(self._host_end, reply)  # a host that never reads loses bytes, as on a wire
        return now

    def _drop_stale(self) -> None:
        now = time.monotonic()
        if now - self._last_byte > PACKET_GAP_S:
            self._bus.forget_partial()
        self._last_byte = now

    def close(self) -> None:
        """Pull the plug: the host's end of the line goes dead. May be called twice."""
        self.unplug_requested = False
        if self._host_end < 0:
            return
        if self._link is not None and self._link.is_symlink() and os.readlink(self._link) == self.port:
            self._link.unlink()
        os.close(self._host_end)
        os.close(self._device_end)
        self._host_end = -1

    def __enter__(self) -> "BusTerminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
