"""A session, input devices and messages that a test makes up, for operators."""

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from isthmus.deploy.messages import OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.axis import AxisRange
from isthmus.deploy.operators.input_codes import Kind
from isthmus.deploy.operators.input_device import InputEvent
from isthmus.deploy.operators.operator import Operator, OperatorError, View
from isthmus.deploy.operators.ros2_node import Received

TARGET = np.array([0.25, 0.05, 0.15])
TICK_NS = 20_000_000


class Stage:
    """A tip that goes exactly where the operator drives it, and a session around it."""

    def __init__(self, num_joints: int = 6) -> None:
        self.episode = -1
        self.tip = TARGET + np.array([0.05, -0.03, 0.02])
        self.now_ns = 10_000_000_000
        self.executed = np.zeros(num_joints)
        self.hands_over = True  # the runtime does what the operator asks
        self._last = OperatorCommand()

    def view(self) -> View:
        mode = Mode.POLICY if self.episode >= 0 else Mode.HOLD
        if self._last.engaged and self.hands_over:
            mode = Mode.REWIND if self._last.rewind else Mode.TELEOP
        return View(
            episode=self.episode,
            mode=mode,
            target=TARGET,
            joint_pos=self.executed.copy(),
            executed_target=self.executed.copy(),
        )

    def see(self) -> np.ndarray:
        return self.tip.copy()

    def run(self, operator: Operator, ticks: int) -> list[OperatorCommand]:
        commands = []
        for _ in range(ticks):
            command = self._last = operator.poll(self.now_ns)
            if command.engaged and len(command.values) == 3:
                self.tip = self.tip + np.array(command.values) * 0.02
            commands.append(command)
            self.now_ns += TICK_NS
        return commands


@dataclass(kw_only=True)
class OperatorBench:
    """An operator, and a person's hands on its devices."""

    operator: Operator
    stage: Stage
    width: int  # of the values
    engage: Callable[[], object]  # what a person does to drive
    release: Callable[[], object]  # and to give back
    move: Callable[[], object]  # as far as possible
    lose: Callable[[], object]  # unplug it
    press: dict[str, Callable[[], object]] = field(
        default_factory=dict
    )  # stop, done, give_up, resume, rewind, rewind_off
    refresh: Callable[[], object] = lambda: None  # what a device sends by itself, all the time
    held: bool = True  # the switch must be held

    def poll(self) -> OperatorCommand:
        """One tick."""
        self.refresh()
        return self.stage.run(self.operator, 1)[0]

    def do(self, action: Callable[[], object]) -> OperatorCommand:
        """A person acts, and the operator hears of it."""
        action()
        wait(self.operator.filenos(), 0.3)  # what goes through a terminal takes a moment
        return self.poll()

    def rest(self) -> None:
        """Time passes: keys of terminals come up."""
        self.stage.now_ns += 1_500_000_000
        self.poll()


class FakeInput:
    """An input device in memory: what is pressed is told, and at first what is already down."""

    def __init__(
        self,
        *,
        name: str = "fake",
        keys: Iterable[int] = (),
        axes: Mapping[Any, AxisRange] | None = None,
        relative: Iterable[int] = (),
        vendor: int = 0,
        product: int = 0,
    ) -> None:
        self.name, self.path, self.vendor, self.product = name, "/dev/input/event7", vendor, product
        self.keys, self.relative = frozenset(keys), frozenset(relative)
        self.axes: dict[int, AxisRange] = dict(axes or {})
        self.closed = 0
        self._gone = self._known = False
        self._down: set[int] = set()
        self._position: dict[int, int] = {}
        self._events: list[InputEvent] = []
        self._readable, self._written = os.pipe()
        os.set_blocking(self._readable, False)

    def fileno(self) -> int:
        return self._readable

    def read(self) -> list[InputEvent]:
        if self._gone:
            raise OperatorError(f"{self.name} is gone")
        events, self._events = self._events, []
        if not self._known:
            self._known = True
            events = [InputEvent(Kind.KEY, code, 1) for code in self._down]
            events += [InputEvent(Kind.ABS, code, value) for code, value in self._position.items()]
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 4096)
        return events

    def close(self) -> None:
        self.closed += 1

    def key(self, code: int, value: int = 1) -> None:
        (self._down.add if value else self._down.discard)(code)
        self._happen(InputEvent(Kind.KEY, code, value))

    def tap(self, code: int) -> None:
        self.key(code, 1)
        self.key(code, 0)

    def move(self, code: int, value: int) -> None:
        if self._position.get(code) != value:  # the kernel tells changes only
            self._position[code] = value
            self._happen(InputEvent(Kind.ABS, code, value))

    def move_relative(self, code: int, value: int) -> None:
        if value:  # the kernel drops relative events of nothing
            self._happen(InputEvent(Kind.REL, code, value))

    def unplug(self) -> None:
        self._gone = True
        os.write(self._written, b"\0")

    def opener(self) -> Callable[[Path | None], "FakeInput"]:
        return lambda path: self

    def _happen(self, event: InputEvent) -> None:
        self._events += [event, InputEvent(Kind.SYN, 0, 0)]
        os.write(self._written, b"\0")


class FakeNode:
    """Messages of a ROS 2 network that there is not."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._waiting: list[Received] = []
        self.lost = False
        self._readable, self._written = os.pipe()
        os.set_blocking(self._readable, False)

    def say(self, topic: str, message: object, *, age_s: float | None = None) -> None:
        age_ns = None if age_s is None else round(age_s * 1e9)
        self._waiting.append(Received(topic, self._stage.now_ns, age_ns, message))
        os.write(self._written, b"\0")

    def switch(self, name: str, on: bool) -> None:
        self.say(name, SimpleNamespace(data=on))

    def fileno(self) -> int:
        return self._readable

    def take(self) -> list[Received]:
        if self.lost:
            raise OperatorError("the ROS 2 node has ended")
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 4096)
        waiting, self._waiting = self._waiting, []
        return waiting

    def unplug(self) -> None:
        self.lost = True
        os.write(self._written, b"\0")

    def close(self) -> None: ...
