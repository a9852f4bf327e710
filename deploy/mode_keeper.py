"""The mode a runtime is in, what changes it, and what a fault does: hold, then limp, and torque off until it is off."""

from collections.abc import Callable

from isthmus.hardware.errors import HardwareError
from isthmus.hardware.interface import Robot

from .faults import Faults
from .messages import make_event
from .modes import DRIVING, Event, Mode, next_mode
from .ports import Sink

DAMP_RETRY_NS = 500_000_000

OnChange = Callable[[Mode, Mode, bool], None]
"""Old mode, new mode, and whether sources of targets may change over smoothly."""


class ModeKeeper:
    """Keeps the mode. `now_ns` and `episode` are the runtime's, for the records."""

    def __init__(self, robot: Robot, sink: Sink, fault_hold_s: float, on_change: OnChange) -> None:
        """In IDLE. `on_change` is called when the mode has changed, before the robot goes limp where that is due."""
        self._robot, self._sink, self._on_change = robot, sink, on_change
        self.mode = Mode.IDLE
        self.faults = Faults(sink, fault_hold_s)
        self.now_ns = 0
        self.episode = -1
        self._damp_again_ns: int | None = None  # when to try once more to switch torque off

    @property
    def driving(self) -> bool:
        """Whether targets are written."""
        return self.mode in DRIVING

    def happen(self, event: Event, *, smooth: bool = True) -> bool:
        """Apply an event; whether the mode changed. `smooth` allows a blend between sources."""
        old, new = self.mode, next_mode(self.mode, event)
        if new is old:
            return False
        self.mode = new
        self._tell("mode", f"{old.name} -> {new.name} ({event.name})")
        self._on_change(old, new, smooth)
        if new in (Mode.DAMP, Mode.ESTOP):
            self._damp(f"{self.faults.text}; " if event is Event.HARDWARE_LOST else "")
        return True

    def expire(self) -> None:
        """Go on with what is due: limp where nobody reacted to a fault, and torque that could not be switched off."""
        if self.faults.expired(self.now_ns):
            self.happen(Event.FAULT_EXPIRED)
        if not self.driving and self._damp_again_ns is not None and self.now_ns >= self._damp_again_ns:
            self._damp("")

    def fail(self, event: Event, text: str) -> None:
        """A fault that ends driving, if not at once then when nobody reacts."""
        self.note(text)
        self.happen(event, smooth=False)
        if self.driving:
            self.faults.begin(self.now_ns)

    def note(self, text: str) -> None:
        """A fault that changes nothing."""
        self.faults.note(text, now_ns=self.now_ns, episode=self.episode)

    def ask_for_help(self, text: str) -> None:
        """The policy does not know what to do."""
        self._tell("help", text)
        self.happen(Event.HELP_WANTED)

    def hardware_fault(self, error: HardwareError) -> None:
        """Stop driving: hold where the bus still answers, otherwise try to damp."""
        text = f"{type(error).__name__}: {error}"
        if not self.driving:
            if text != self.faults.text:
                self.note(text)
            return
        try:
            self._robot.hold()
        except HardwareError:
            self.fail(Event.HARDWARE_LOST, text)
        else:
            self.fail(Event.HARDWARE_FAULT, text)

    def _damp(self, cause: str) -> None:
        again = self._damp_again_ns is not None
        self._damp_again_ns = None
        try:
            self._robot.damp()
        except HardwareError as error:
            self._damp_again_ns = self.now_ns + DAMP_RETRY_NS
            if not again:
                self.note(f"{cause}torque could not be switched off, trying on: {error}")

    def _tell(self, kind: str, text: str) -> None:
        self._sink.event(make_event(kind, monotonic_ns=self.now_ns, episode=self.episode, text=text))
