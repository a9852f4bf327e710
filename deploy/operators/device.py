"""One or more devices make an operator: buttons of all of them, motion of one."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ..messages import Drive, OperatorCommand
from .operator import OperatorError, View, ViewSource
from .person import Person


class Device(Protocol):
    """A thing in a person's hands or under their foot."""

    def read(self, person: Person) -> None:
        """Take in what happened since the last call and tell `person`; raises OperatorError where the device is gone."""
        ...

    def filenos(self) -> tuple[int, ...]:
        """Descriptors that become readable when something happens."""
        ...

    def close(self) -> None:
        """Give it back; may be called twice, also after it is gone."""
        ...


@runtime_checkable
class Motion(Protocol):
    """The part of a device that moves the robot."""

    @property
    def drive(self) -> Drive:
        """What the values mean."""
        ...

    def admits(self, view: View) -> bool:
        """Whether driving may begin now."""
        ...

    def values(self, person: Person, view: View) -> tuple[float, ...]:
        """The numbers for `drive`; at rest as long as the person is not engaged."""
        ...


class DeviceConfig(Protocol):
    """Describes a device; frozen and picklable, so that the device is opened by the process that runs it."""

    @property
    def name(self) -> str:
        """As in `--operator name`."""
        ...

    @property
    def moves(self) -> bool:
        """Whether the device gives motion."""
        ...

    @property
    def engages(self) -> bool:
        """Whether the device has a switch to take over with."""
        ...

    @property
    def first_line(self) -> str:
        """What a person must know before anything else: what to hold, what to press."""
        ...

    def build(self) -> Device:
        """Open the device; raises OperatorError."""
        ...


class DeviceOperator:
    """A person with devices; the first one that can moves the robot, and the buttons of all count."""

    def __init__(self, view: ViewSource, devices: Sequence[Device]) -> None:
        """The devices are open; this operator closes them."""
        self._view = view
        self._devices = devices
        self._motion = next(device for device in devices if isinstance(device, Motion))
        self._person = Person()

    def poll(self, now_ns: int) -> OperatorCommand:
        """Read every device."""
        view, person = self._view(), self._person
        person.look(view.episode, now_ns)
        for device in self._devices:
            device.read(person)
        person.admit(self._motion.admits(view))
        return person.command(self._motion.drive, self._motion.values(person, view))

    def filenos(self) -> tuple[int, ...]:
        """Of every device."""
        return tuple(fd for device in self._devices for fd in device.filenos())

    def close(self) -> None:
        """Close every device."""
        for device in self._devices:
            device.close()


@dataclass(frozen=True)
class DeviceFactory:
    """An `OperatorFactory` of one or more devices, for a process of its own."""

    configs: tuple[DeviceConfig, ...]

    def __post_init__(self) -> None:
        """Refuse what could never drive."""
        if not any(config.moves for config in self.configs):
            raise OperatorError(
                f"{self.name} has nothing that moves the robot; add a device that does, e.g. {self.name}+leader"
            )
        if not any(config.engages for config in self.configs):
            raise OperatorError(
                f"{self.name} has no switch to take over with; add one, e.g. {self.name}+pedal or {self.name}+keyboard"
            )

    @property
    def name(self) -> str:
        """The devices, e.g. `leader+pedal`."""
        return "+".join(config.name for config in self.configs)

    @property
    def __name__(self) -> str:  # what a log calls the operator, as it does functions and classes
        return self.name

    @property
    def first_lines(self) -> tuple[str, ...]:
        """What to show a person before anything moves."""
        return tuple(config.first_line for config in self.configs)

    def __call__(self, view: ViewSource) -> DeviceOperator:
        """Open all devices, or none."""
        with contextlib.ExitStack() as opened:
            devices: list[Device] = []
            for config in self.configs:
                device = config.build()
                opened.callback(device.close)
                devices.append(device)
            opened.pop_all()
            return DeviceOperator(view, devices)
