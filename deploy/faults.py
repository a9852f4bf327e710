"""Faults on their way from the first sign to limp joints: hold, and damp where nobody reacts."""

from .messages import make_event
from .ports import Sink


class Faults:
    """Tells of faults, each cause once, and knows when holding has lasted long enough."""

    def __init__(self, sink: Sink, hold_s: float) -> None:
        """Faults go to `sink`; after one the robot holds for `hold_s`."""
        self._sink, self._hold_ns = sink, round(hold_s * 1e9)
        self._deadline_ns: int | None = None
        self.text = ""  # the last one
        self.count = 0

    def note(self, text: str, *, now_ns: int, episode: int) -> None:
        """Tell of a fault, unless one is under way already: the first is the cause, the rest follow from it every tick."""
        if self._deadline_ns is not None:
            return
        self.text = text
        self.count += 1
        self._sink.event(make_event("fault", monotonic_ns=now_ns, episode=episode, text=text))

    def begin(self, now_ns: int) -> None:
        """From now on somebody should react."""
        if self._deadline_ns is None:
            self._deadline_ns = now_ns + self._hold_ns

    def end(self) -> None:
        """Somebody reacted."""
        self._deadline_ns = None

    def expired(self, now_ns: int) -> bool:
        """Whether nobody reacted in time; said once."""
        if self._deadline_ns is None or now_ns < self._deadline_ns:
            return False
        self._deadline_ns = None
        return True
