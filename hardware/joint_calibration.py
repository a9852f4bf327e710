"""Raw encoder counts <-> joint angles: LeRobot calibration files in and out, plus a fine `offset_rad` for each joint.

    q = sign * (raw - zero_count) * 2 pi / counts_per_turn - offset_rad

`sign` is the joint's direction, flipped by `drive_mode` 1; `zero_count` is where the uncorrected angle is zero.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from .errors import CalibrationError
from .robot import JointSpec, RobotSpec
from .structure import FormatError, read_json, write_json

HOMING_LIMIT = 2047  # magnitude of the servo's homing_offset register
NOMINAL_MARGIN = 0.1  # rad beyond the model's range: an unmeasured encoder may be that far off


@dataclass(frozen=True, kw_only=True)
class LerobotJoint:
    """One joint as LeRobot stores it; counts are those of the servo's present_position."""

    id: int
    drive_mode: int  # 1: the angle runs against the usual direction
    homing_offset: int  # counts, what the servo's register holds: present_position = encoder - homing_offset
    range_min: int  # counts
    range_max: int  # counts


@dataclass(frozen=True, kw_only=True)
class JointCalibration(LerobotJoint):
    """One joint as isthmus stores it."""

    zero_count: float  # counts
    offset_rad: float  # rad, the encoder's error against the model


@dataclass(frozen=True, kw_only=True)
class ArmCalibration:
    """All joints of one arm, by name."""

    robot: str
    joints: dict[str, JointCalibration]

    @classmethod
    def nominal(cls, spec: RobotSpec) -> "ArmCalibration":
        """The unmeasured arm: zero at half a turn, ranges of the model widened by `NOMINAL_MARGIN`."""
        calibration = cls(robot=spec.name, joints={j.name: _nominal_joint(j, spec) for j in spec.joints})
        return _checked(calibration, spec, source="nominal calibration")

    @classmethod
    def from_lerobot(cls, path: Path, spec: RobotSpec) -> "ArmCalibration":
        """Read LeRobot's calibration JSON.

        The middle of a calibrated range is the middle of the joint's range in the model; a joint that turns freely (its
        range is the whole turn) has its zero in the middle, as LeRobot has.

        Raises:
            CalibrationError: unreadable, or not for this robot; names joint, value and what is expected.
        """
        try:
            file = read_json(path, dict[str, LerobotJoint])
        except FormatError as error:
            raise CalibrationError(f"not a LeRobot calibration: {error}") from None
        _check_names(file, spec, str(path))
        joints = {joint.name: _from_lerobot(file[joint.name], joint, spec) for joint in spec.joints}
        return _checked(cls(robot=spec.name, joints=joints), spec, source=str(path))

    def to_lerobot(self, path: Path) -> None:
        """Write LeRobot's calibration JSON.

        Raises:
            CalibrationError: a joint has an `offset_rad`, for which LeRobot's form has no place.
        """
        corrected = [name for name, joint in self.joints.items() if joint.offset_rad != 0.0]
        if corrected:
            raise CalibrationError(
                f"LeRobot's form has no place for the offset_rad of {', '.join(corrected)}; "
                "save() keeps it, with_offsets({...: 0.0}) drops it"
            )
        keys = ("id", "drive_mode", "homing_offset", "range_min", "range_max")
        write_json(path, {name: {key: getattr(j, key) for key in keys} for name, j in self.joints.items()})

    @classmethod
    def load(cls, path: Path, spec: RobotSpec) -> "ArmCalibration":
        """Read what `save` wrote; raises CalibrationError naming joint, value and what is expected."""
        try:
            calibration = read_json(path, cls)
        except FormatError as error:
            raise CalibrationError(f"not an isthmus calibration: {error}") from None
        return _checked(calibration, spec, source=str(path))

    def save(self, path: Path) -> None:
        """Write as JSON, with everything that `load` needs."""
        write_json(path, self)

    def with_offsets(self, offsets: Mapping[str, float]) -> "ArmCalibration":
        """The same calibration with `offset_rad` [rad] of the named joints replaced; others keep theirs.

        Raises:
            CalibrationError: an unknown joint, or an offset that is not finite.
        """
        unknown = [name for name in offsets if name not in self.joints]
        if unknown:
            raise CalibrationError(
                f"no joint {', '.join(unknown)} in this calibration; joints: {', '.join(self.joints)}"
            )
        joints = {
            name: replace(joint, offset_rad=float(offsets.get(name, joint.offset_rad)))
            for name, joint in self.joints.items()
        }
        for name, joint in joints.items():
            _require(
                math.isfinite(joint.offset_rad), "with_offsets", name, "offset_rad", joint.offset_rad, "a finite number"
            )
        return replace(self, joints=joints)

    def difference(self, other: "ArmCalibration") -> str | None:
        """The first joint that the two would read at other angles, with both values; None where all read the same."""
        if (self.robot, set(self.joints)) != (other.robot, set(other.joints)):
            return f"robot {self.robot!r} with {list(self.joints)} against {other.robot!r} with {list(other.joints)}"
        for name, joint in self.joints.items():
            for key, unit in (("offset_rad", " rad"), ("zero_count", " counts"), ("drive_mode", "")):
                one, two = getattr(joint, key), getattr(other.joints[name], key)
                if one != two:
                    return f"joint {name!r}: {key} is {one:g}{unit} against {two:g}{unit}"
        return None


@dataclass(frozen=True, kw_only=True)
class EncoderMap:
    """Counts <-> rad for all joints at once, in robot order; every array has shape (n,)."""

    sign: np.ndarray
    zero_count: np.ndarray
    offset_rad: np.ndarray
    rad_per_count: float
    lower: np.ndarray  # rad, the calibrated range
    upper: np.ndarray  # rad

    def to_rad(self, counts: np.ndarray) -> np.ndarray:
        """Joint angles [rad] of raw positions [counts]."""
        return self.sign * (counts - self.zero_count) * self.rad_per_count - self.offset_rad

    def to_rad_per_s(self, counts_per_s: np.ndarray) -> np.ndarray:
        """Joint velocities [rad/s] of raw velocities [counts/s]."""
        return self.sign * counts_per_s * self.rad_per_count

    def to_counts(self, joint_pos: np.ndarray) -> np.ndarray:
        """The nearest raw positions [counts, int64] to joint angles [rad]."""
        counts = self.zero_count + self.sign * (joint_pos + self.offset_rad) / self.rad_per_count
        return np.rint(counts).astype(np.int64)


def encoder_map(calibration: ArmCalibration, spec: RobotSpec) -> EncoderMap:
    """The conversion for a robot; raises CalibrationError when the calibration is not for it."""
    _checked(calibration, spec, source="calibration")
    joints = [calibration.joints[name] for name in spec.joint_names]
    sign = np.array([_sign(j, s) for j, s in zip(joints, spec.joints, strict=True)], dtype=np.float64)
    zero = np.array([joint.zero_count for joint in joints])
    offset = np.array([joint.offset_rad for joint in joints])
    scale = 2.0 * math.pi / spec.counts_per_turn
    ends = np.array([[joint.range_min, joint.range_max] for joint in joints], dtype=np.float64).T
    ends_rad = np.sort(sign * (ends - zero) * scale - offset, axis=0)
    return EncoderMap(
        sign=sign, zero_count=zero, offset_rad=offset, rad_per_count=scale, lower=ends_rad[0], upper=ends_rad[1]
    )


def _sign(joint: LerobotJoint, spec: JointSpec) -> int:
    return -spec.direction if joint.drive_mode == 1 else spec.direction


def _nominal_joint(joint: JointSpec, spec: RobotSpec) -> JointCalibration:
    counts_per_rad = spec.counts_per_turn / (2.0 * math.pi)
    zero = spec.counts_per_turn // 2
    ends = sorted(
        zero + joint.direction * q * counts_per_rad
        for q in (joint.lower - NOMINAL_MARGIN, joint.upper + NOMINAL_MARGIN)
    )
    return JointCalibration(
        id=joint.bus_id,
        drive_mode=0,
        homing_offset=0,
        range_min=max(math.floor(ends[0]), 0),
        range_max=min(math.ceil(ends[1]), spec.counts_per_turn - 1),
        zero_count=float(zero),
        offset_rad=0.0,
    )


def _from_lerobot(joint: LerobotJoint, joint_spec: JointSpec, spec: RobotSpec) -> JointCalibration:
    middle = (joint.range_min + joint.range_max) / 2.0
    whole_turn = joint.range_min == 0 and joint.range_max == spec.counts_per_turn - 1
    middle_rad = 0.0 if whole_turn else (joint_spec.lower + joint_spec.upper) / 2.0
    zero = middle - _sign(joint, joint_spec) * middle_rad * spec.counts_per_turn / (2.0 * math.pi)
    return JointCalibration(
        id=joint.id,
        drive_mode=joint.drive_mode,
        homing_offset=joint.homing_offset,
        range_min=joint.range_min,
        range_max=joint.range_max,
        zero_count=zero,
        offset_rad=0.0,
    )


def _checked(calibration: ArmCalibration, spec: RobotSpec, *, source: str) -> ArmCalibration:
    if calibration.robot != spec.name:
        raise CalibrationError(f"{source}: is for robot {calibration.robot!r}, expected {spec.name!r}")
    _check_names(calibration.joints, spec, source)
    for joint_spec in spec.joints:
        _check_joint(calibration.joints[joint_spec.name], joint_spec, spec.counts_per_turn, source)
    return calibration


def _check_names(joints: Mapping[str, LerobotJoint], spec: RobotSpec, source: str) -> None:
    missing = [name for name in spec.joint_names if name not in joints]
    extra = [name for name in joints if name not in spec.joint_names]
    if missing or extra:
        raise CalibrationError(
            f"{source}: joints do not fit robot {spec.name!r}: missing {missing}, "
            f"not of this robot {extra}; expected {list(spec.joint_names)}"
        )


def _check_joint(joint: JointCalibration, spec: JointSpec, counts_per_turn: int, source: str) -> None:
    def require(ok: bool, key: str, expected: str) -> None:
        _require(ok, source, spec.name, key, getattr(joint, key), expected)

    last = counts_per_turn - 1
    require(joint.id == spec.bus_id, "id", f"{spec.bus_id} as in robot.toml")
    require(joint.drive_mode in (0, 1), "drive_mode", "0 or 1")
    require(abs(joint.homing_offset) <= HOMING_LIMIT, "homing_offset", f"-{HOMING_LIMIT} .. {HOMING_LIMIT}")
    require(0 <= joint.range_min <= last, "range_min", f"0 .. {last}")
    require(
        joint.range_min < joint.range_max <= last,
        "range_max",
        f"more than range_min {joint.range_min} and at most {last}; "
        "if the travel crosses 0, calibrate the homing offset again",
    )
    require(math.isfinite(joint.zero_count), "zero_count", "a finite number")
    require(math.isfinite(joint.offset_rad), "offset_rad", "a finite number")


def _require(ok: bool, source: str, joint: str, key: str, got: object, expected: str) -> None:
    if not ok:
        raise CalibrationError(f"{source}: joint {joint!r}: {key} is {got}, expected {expected}")
