"""A person somewhere on the ROS 2 network: velocities or joint positions, and switches, as messages."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..messages import Drive, Verdict
from .hand_drive import HandDrive, need_three
from .operator import OperatorError, View
from .person import Person
from .ros2_node import MOTION_TYPES, Received, Ros2Node, Source

SWITCHES = ("engage", "rewind", "resume", "done", "give_up", "stop")


class Node(Protocol):
    """Where messages come from."""

    def fileno(self) -> int:
        """Readable when a message has come."""
        ...

    def take(self) -> list[Received]:
        """Messages since the last call; raises OperatorError."""
        ...

    def close(self) -> None:
        """May be called twice."""
        ...


@dataclass(frozen=True, kw_only=True)
class Ros2Config:
    """Topics below a namespace: `twist` or `joints`, and std_msgs/Bool on `engage`, `rewind`, `resume`, `done`, `give_up`, `stop`."""

    source: Source
    drive: HandDrive | None  # of a twist
    joint_names: tuple[str, ...]  # of the robot
    namespace: str = "/operator"
    frame: str = "base"  # frame_id that a twist must bear: the robot's base frame
    fresh_s: float = 0.2  # what is older, by stamp or by arrival, drives nothing
    node: Callable[[str, Source, tuple[str, ...]], Node] = Ros2Node
    name: str = field(default="ros2", init=False)
    moves: bool = field(default=True, init=False)
    engages: bool = field(default=True, init=False)

    @property
    def first_line(self) -> str:
        """What to publish."""
        return (
            f"ROS 2: publish true on {self.namespace}/engage at least every {self.fresh_s:g} s to drive, as if you HELD A BUTTON, "
            f"and {MOTION_TYPES[self.source][1]} on {self.namespace}/{self.source}; false, or silence, gives back"
        )

    def build(self) -> "Ros2":
        """Join the network; raises OperatorError where rclpy is not installed."""
        if not re.fullmatch(r"(/[A-Za-z_][A-Za-z0-9_]*)+", self.namespace):
            raise OperatorError(f"{self.namespace!r} is no ROS 2 namespace; expected one like /operator")
        if self.source == "twist":
            if self.drive is None:
                raise OperatorError("a ROS 2 twist has nothing to drive on this robot; publish joints instead")
            need_three(self.drive, "ROS 2 twist")
        return Ros2(self)


class Ros2:
    """Messages as motion and switches; whatever is stale is as good as let go."""

    def __init__(self, config: Ros2Config) -> None:
        """See `Ros2Config.build`."""
        self._config = config
        self._node = config.node(config.namespace, config.source, SWITCHES)
        self._motion: tuple[float, ...] = ()
        self._motion_ns = self._engage_ns = -(1 << 62)  # monotonic: when what they tell was so
        self._engage = self._rewind = False
        self._let_go = False  # since silence, or the start: only who has let go can take over

    @property
    def drive(self) -> Drive:
        """What the values mean."""
        return Drive.JOINT_TARGET if self._config.drive is None else self._config.drive.drive

    def filenos(self) -> tuple[int, ...]:
        """Readable when a message has come."""
        return (self._node.fileno(),)

    def read(self, person: Person) -> None:
        """Take in messages; raises OperatorError for one that means nothing, so that somebody looks at it."""
        self._tell(person)
        for received in self._node.take():
            before = (self._motion, self._engage, self._rewind)
            if received.topic == self._config.source:
                self._move(received)
            else:
                self._switch(received, person)
            if before != (self._motion, self._engage, self._rewind):  # the same again is nothing that a person did
                person.act()
            self._tell(person)

    def admits(self, view: View) -> bool:
        """Always: what is stale does not count as held."""
        return True

    def values(self, person: Person, view: View) -> tuple[float, ...]:
        """What the newest motion says; nothing as long as the person does not drive."""
        if person.engaged:
            return self._motion
        return (math.nan,) * len(self._config.joint_names) if self._config.drive is None else self._config.drive.rest

    def close(self) -> None:
        """Leave the network."""
        self._node.close()

    def _tell(self, person: Person) -> None:
        oldest = min(self._motion_ns, self._engage_ns)
        if self._engage and person.now_ns - oldest > self._config.fresh_s * 1e9:
            self._engage = self._let_go = False
        person.hold("ros2", self._engage)
        person.rewind("ros2", self._rewind)

    def _switch(self, received: Received, person: Person) -> None:
        on = bool(received.message.data)
        if received.topic == "engage":
            self._let_go |= not on
            self._engage, self._engage_ns = on and self._let_go, received.arrival_ns
        elif received.topic == "rewind":
            self._rewind = on
        elif on:
            person.act()
            acts = {
                "stop": person.stop,
                "resume": person.resume,
                "done": lambda: person.judge(Verdict.SUCCESS),
                "give_up": lambda: person.judge(Verdict.GIVE_UP),
            }
            acts[received.topic]()

    def _move(self, received: Received) -> None:
        topic = f"{self._config.namespace}/{received.topic}"
        if received.age_ns is None:
            raise OperatorError(f"a message on {topic} bears no time stamp; set header.stamp")
        if received.age_ns < -self._config.fresh_s * 1e9:
            raise OperatorError(
                f"a message on {topic} is stamped {-received.age_ns * 1e-9:.1f} s ahead of this computer's clock; "
                "synchronise the clocks"
            )
        drive = self._config.drive
        values = self._joints(received.message, topic) if drive is None else self._twist(received.message, topic, drive)
        self._motion, self._motion_ns = values, received.arrival_ns - max(received.age_ns, 0)

    def _twist(self, message: Any, topic: str, drive: HandDrive) -> tuple[float, ...]:
        """A twist as values of the drive; a command no farther than the policy was trained for."""
        if message.header.frame_id != self._config.frame:
            raise OperatorError(
                f"a twist on {topic} is in frame {message.header.frame_id!r}, expected the robot's base frame, "
                f"{self._config.frame!r}; transform it before it is sent, or set --ros2-frame"
            )
        linear, angular = message.twist.linear, message.twist.angular
        command = drive.drive is Drive.COMMAND
        values = (linear.x, linear.y, angular.z if command else linear.z)
        _check_finite(values, topic)
        if not command:
            return values
        return tuple(min(max(v, low), high) for v, low, high in zip(values, drive.low, drive.high, strict=True))

    def _joints(self, message: Any, topic: str) -> tuple[float, ...]:
        """Positions in robot order; NaN for joints that the message does not name."""
        names, positions = list(message.name), list(message.position)
        unknown = [name for name in names if name not in self._config.joint_names]
        if unknown or not names or len(names) != len(positions) or len(set(names)) != len(names):
            raise OperatorError(
                f"a message on {topic} names {names} with {len(positions)} positions; expected one position for each, "
                f"all of {', '.join(self._config.joint_names)}"
            )
        _check_finite(positions, topic)
        given = dict(zip(names, positions, strict=True))
        return tuple(given.get(name, math.nan) for name in self._config.joint_names)


def _check_finite(values: tuple[float, ...] | list[float], topic: str) -> None:
    if not all(map(math.isfinite, values)):
        raise OperatorError(f"a message on {topic} says {list(values)}; expected finite numbers")
