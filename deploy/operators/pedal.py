"""A foot pedal: to the computer a keyboard with few keys."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ..messages import Verdict
from .input_codes import Kind
from .input_device import InputDevice, open_input
from .operator import OperatorError
from .person import Person


def open_pedal(path: Path | None) -> InputDevice:
    """A pedal looks like any keyboard, so it must be named; raises OperatorError."""
    if path is None:
        raise OperatorError(
            "a pedal looks like any other keyboard; name its device with --pedal /dev/input/by-id/...-event-kbd"
        )
    return open_input(path, lambda device: bool(device.keys), what="pedal", option="--pedal")


@dataclass(frozen=True, kw_only=True)
class PedalConfig:
    """A pedal with up to three switches; key codes of linux/input-event-codes.h, as `evtest` shows them."""

    device: Path | None
    engage: int = 30  # KEY_A
    rewind: int | None = 48  # KEY_B; None: no such switch
    done: int | None = 46  # KEY_C; None: no such switch
    toggle: bool = False  # press to take over and press to give back, instead of holding
    open: Callable[[Path | None], InputDevice] = open_pedal
    name: str = field(default="pedal", init=False)
    moves: bool = field(default=False, init=False)
    engages: bool = field(default=True, init=False)

    @property
    def first_line(self) -> str:
        """What to hold."""
        how = (
            "press the pedal to drive, press again to give back"
            if self.toggle
            else "HOLD THE PEDAL DOWN to drive, let it go to give back"
        )
        rewind = "" if self.rewind is None else "; the second one, held too, goes back along the path"
        return f"pedal: {how}{rewind}{'' if self.done is None else '; the third one says done'}"

    def build(self) -> "Pedal":
        """Open the pedal; raises OperatorError."""
        return Pedal(self, self.open(self.device))


class Pedal:
    """Switches under a foot; another device gives the motion."""

    def __init__(self, config: PedalConfig, device: InputDevice) -> None:
        """Check that the pedal has the keys; raises OperatorError, and closes it, where it has not."""
        wanted = [code for code in (config.engage, config.rewind, config.done) if code is not None]
        missing = sorted(set(wanted) - device.keys)
        if missing or len(set(wanted)) != len(wanted):
            device.close()
            problem = (
                f"has no key {', '.join(map(str, missing))}" if missing else f"cannot have one key for two: {wanted}"
            )
            raise OperatorError(
                f"{device.name} ({device.path}) {problem}; see what it sends with: evtest {device.path}, and set --pedal-keys"
            )
        self._config, self._device = config, device
        self._down: set[int] = set()

    def filenos(self) -> tuple[int, ...]:
        """The pedal."""
        return (self._device.fileno(),)

    def read(self, person: Person) -> None:
        """Read what happened."""
        self._tell(person)
        for event in self._device.read():
            if event.kind != Kind.KEY:
                continue
            if event.value == 0:
                self._down.discard(event.code)
            elif event.code not in self._down:
                self._down.add(event.code)
                self._press(event.code, person)
            person.act()
            self._tell(person)

    def close(self) -> None:
        """Let others have the pedal."""
        self._device.close()

    def _press(self, code: int, person: Person) -> None:
        if code == self._config.engage and self._config.toggle:
            person.toggle()
        elif code == self._config.done:
            person.judge(Verdict.SUCCESS)

    def _tell(self, person: Person) -> None:
        if not self._config.toggle:
            person.hold("pedal", self._config.engage in self._down)
        person.rewind("pedal", self._config.rewind in self._down)
