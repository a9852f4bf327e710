"""A leader arm: an SO-101 without torque that a person moves by hand."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from isthmus.hardware import feetech_protocol as sts
from isthmus.hardware.errors import CalibrationError, HardwareError
from isthmus.hardware.feetech_bus import FeetechBus
from isthmus.hardware.joint_calibration import ArmCalibration, EncoderMap, encoder_map
from isthmus.hardware.robot import RobotSpec

from ..messages import Drive
from ..modes import Mode
from .operator import OperatorError, View
from .person import Person

Mapping = Literal["clutch", "absolute"]

_POSITION = sts.register("present_position")
_MOVED_RAD = 0.01  # more than encoders flicker


@dataclass(frozen=True, kw_only=True)
class LeaderConfig:
    """A leader arm on a serial port of its own."""

    leader: RobotSpec  # the arm that is moved by hand; its joints drive those of the same name
    follower: RobotSpec
    port: str
    calibration: ArmCalibration  # of the leader
    mapping: Mapping = "clutch"
    tolerance: float = 0.1  # rad; absolute: how near each joint must be to the follower's before it drives
    whole_range: tuple[str, ...] = (
        "gripper",
    )  # joints whose range becomes the follower's: a trigger opens less than a gripper
    timeout_s: float = 0.02  # of one answer; with its retries far shorter than the runtime waits for an operator
    name: str = field(default="leader", init=False)
    moves: bool = field(default=True, init=False)
    engages: bool = field(default=False, init=False)

    @property
    def first_line(self) -> str:
        """What to do with it."""
        if self.mapping == "absolute":
            return (
                f"leader arm: first bring it into the robot's pose, each joint within {self.tolerance:.2f} rad: "
                "only then it takes over; it goes limp, hold it"
            )
        return "leader arm: moves the robot from where both are when you take over; it goes limp, hold it"

    def build(self) -> "LeaderArm":
        """Open the bus and switch torque off; raises OperatorError."""
        return LeaderArm(self)


class LeaderArm:
    """Joint angles of the leader as targets (absolute), or how far it was moved since the clutch closed."""

    def __init__(self, config: LeaderConfig) -> None:
        """See `LeaderConfig.build`."""
        leader, follower = config.leader, config.follower
        self._config = config
        self._ids = [joint.bus_id for joint in leader.joints]
        self._pairs = [
            (i, follower.joint_names.index(name))
            for i, name in enumerate(leader.joint_names)
            if name in follower.joint_names
        ]
        if not self._pairs:
            raise OperatorError(
                f"leader arm {leader.name!r} has no joint of robot {follower.name!r}: {', '.join(leader.joint_names)} "
                f"against {', '.join(follower.joint_names)}"
            )
        self._bus = FeetechBus(
            config.port,
            leader.baudrate,
            timeout_s=config.timeout_s,
            names={joint.bus_id: f"{joint.name} of the leader" for joint in leader.joints},
        )
        self._counts: np.ndarray | None = None
        self._clutch: np.ndarray | None = None  # pose of the leader when the clutch closed
        self._aligned = False
        try:
            self._map = encoder_map(config.calibration, leader)
            self._scale, self._shift = _range_maps(config, self._map)
            self._bus.open()
            self._relax()
            self._pose = self._acted = self._measure()
        except HardwareError as error:
            self._bus.close()
            raise OperatorError(f"leader arm: {error}") from None

    @property
    def drive(self) -> Drive:
        """What the values mean."""
        return Drive.JOINT_TARGET if self._config.mapping == "absolute" else Drive.JOINT_OFFSET

    def filenos(self) -> tuple[int, ...]:
        """None: servos speak only when asked."""
        return ()

    def read(self, person: Person) -> None:
        """Read all joints; raises OperatorError where the arm is gone."""
        try:
            self._pose = self._measure()
        except HardwareError as error:
            raise OperatorError(f"leader arm: {error}") from None
        if np.nanmax(np.abs(self._pose - self._acted)) > _MOVED_RAD:
            self._acted = self._pose
            person.act()

    def admits(self, view: View) -> bool:
        """Absolute: whether every joint is near enough to the follower's; else always."""
        if self._config.mapping == "clutch":
            return True
        given = np.isfinite(self._pose)
        away = np.abs(self._pose - view.executed_target)[given]
        return bool((away <= self._config.tolerance).all())  # false for NaN, where the follower's pose is not known

    def values(self, person: Person, view: View) -> tuple[float, ...]:
        """Targets or offsets (n,), rad, of the follower; NaN keeps a joint where it is."""
        # Not before the runtime has handed over: what the leader moved until then, or while the robot went back, does not count.
        driving = person.engaged and view.mode is Mode.TELEOP
        if self._config.mapping == "clutch":
            return tuple(self._offset(driving).tolist())
        return tuple(self._absolute(driving, person.engaged, view).tolist())

    def close(self) -> None:
        """Release the port; the arm stays limp."""
        self._bus.close()

    def _absolute(self, driving: bool, engaged: bool, view: View) -> np.ndarray:
        """While the leader is not where the robot is, as after going back, the robot stays."""
        self._aligned = driving and (self._aligned or self.admits(view))
        return self._pose if self._aligned or not engaged else np.full_like(self._pose, np.nan)

    def _offset(self, driving: bool) -> np.ndarray:
        if not driving:
            self._clutch = None
            return np.where(np.isfinite(self._pose), 0.0, np.nan)
        if self._clutch is None:
            self._clutch = self._pose
        return self._pose - self._clutch

    def _relax(self) -> None:
        """Torque off, so that the arm can be moved by hand; and refuse an arm that would be read wrongly."""
        for joint in self._config.leader.joints:
            self._bus.write_register(joint.bus_id, "torque_enable", 0, ignore_fault=True)
            model = self._bus.read_register(joint.bus_id, "model_number")
            if model != sts.STS3215_MODEL:
                raise HardwareError(
                    f"{self._bus.label(joint.bus_id)} is of model {model}, expected {sts.STS3215_MODEL}"
                )
            homing = self._bus.read_register(joint.bus_id, "homing_offset")
            expected = self._config.calibration.joints[joint.name].homing_offset
            if homing != expected:
                raise CalibrationError(
                    f"{self._bus.label(joint.bus_id)} holds homing_offset {homing}, its calibration says {expected}; "
                    "use the calibration file of the leader, not the follower's"
                )

    def _measure(self) -> np.ndarray:
        """Pose of the leader in the follower's joints, (n,) rad; NaN for joints that the leader has not."""
        replies = self._bus.sync_read(self._ids, _POSITION.address, _POSITION.size)
        for reply in replies:
            self._bus.raise_fault(reply)
        raw = np.array([sts.decode_value(_POSITION, reply.data) for reply in replies], dtype=np.float64)
        self._counts = (
            raw if self._counts is None else unwrapped(raw, self._counts, self._config.leader.counts_per_turn)
        )
        angles = self._scale * self._map.to_rad(self._counts) + self._shift
        pose = np.full(len(self._config.follower.joints), np.nan)
        for leader, follower in self._pairs:
            pose[follower] = angles[leader]
        return pose


def unwrapped(raw: np.ndarray, before: np.ndarray, counts_per_turn: int) -> np.ndarray:
    """Counts that go on across the encoder's end: of all that read as `raw` (n,), those nearest to `before` (n,)."""
    return before + (raw - before + counts_per_turn / 2) % counts_per_turn - counts_per_turn / 2


def _range_maps(config: LeaderConfig, encoders: EncoderMap) -> tuple[np.ndarray, np.ndarray]:
    """Scale and shift, (n,) each, of the leader's angles [rad]: one to one but for the joints of `whole_range`."""
    names = config.leader.joint_names
    scale, shift = np.ones(len(names)), np.zeros(len(names))
    for name in config.whole_range:
        if name in names and name in config.follower.joint_names:
            i = names.index(name)
            joint = config.follower.joints[config.follower.joint_names.index(name)]
            scale[i] = (joint.upper - joint.lower) / (encoders.upper[i] - encoders.lower[i])
            shift[i] = joint.lower - scale[i] * encoders.lower[i]
    return scale, shift
