"""What a robot must satisfy beyond the form of its file: numbers that joint, bus and workspace can have, and a model that fits."""

import math
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .kinematics import KinematicChain, chain_from_mjcf
from .structure import FormatError

if TYPE_CHECKING:
    from .imu_spec import ImuSpec
    from .robot import JointSpec, RobotSpec, RotorSpec, Workspace

_TURN = 2.0 * math.pi
_RANGE_TOLERANCE = 1e-3  # rad, for ranges that were rounded on the way from the model
_LOOKS_LIKE = {"rad": (_TURN, "degrees"), "rad/s": (20.0, "degrees/s"), "m": (3.0, "mm")}


@dataclass(frozen=True, kw_only=True)
class _Interval:
    """The numbers that a key may have. Both ends are finite, so that neither NaN nor infinity lies inside."""

    low: float
    high: float
    unit: str = ""
    open_low: bool = False  # whether `low` itself is refused
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = self.low < value if self.open_low else self.low <= value
        return above and (value < self.high if self.open_high else value <= self.high)

    def expected(self, key: str) -> str:
        """As an inequality with its unit."""
        low, high = "<" if self.open_low else "<=", "<" if self.open_high else "<="
        return f"{self.low:.10g} {low} {key} {high} {self.high:.10g} {self.unit}".rstrip()

    def hint(self, value: float) -> str:
        """What a number that is far too large probably is."""
        beyond, name = _LOOKS_LIKE.get(self.unit, (math.inf, ""))
        return f"; it looks like {name}, this file is in {self.unit}" if beyond <= abs(value) < math.inf else ""


_ANGLE = _Interval(low=-_TURN, high=_TURN, unit="rad")
_JOINT = {
    "default_pos": _ANGLE,
    "rest_pos": _ANGLE,
    "velocity_limit": _Interval(low=0.0, high=60.0, unit="rad/s", open_low=True),
}
_ACCELERATION = _Interval(low=0.0, high=10_000.0, unit="rad/s^2", open_low=True)
_BUS_JOINT = {
    "bus_id": _Interval(low=0, high=252),
    "velocity_limit": _Interval(low=0.0, high=20.0, unit="rad/s", open_low=True),
    "p_gain": _Interval(low=0, high=254),
}
_EFFORT = _Interval(low=0.0, high=500.0, unit="N m", open_low=True)
_SERVO = {
    "kp": _Interval(low=0.5, high=500.0, unit="N m/rad", open_low=True, open_high=True),
    "kd": _Interval(low=0.0, high=50.0, unit="N m s/rad"),
}
_SMALL_KP = _Interval(low=0.0, high=500.0, unit="N m/rad", open_low=True, open_high=True)  # finger joints have little
_BAUDRATE = _Interval(low=1, high=100_000_000, unit="bit/s")
_COUNTS = _Interval(low=1, high=2**20)
_ROTOR = {
    "thrust_coefficient": _Interval(low=0.0, high=1.0, unit="N/(rad/s)^2", open_low=True),
    "drag_coefficient": _Interval(low=0.0, high=1.0, unit="N m/(rad/s)^2", open_low=True),
    "time_constant": _Interval(low=0.0, high=1.0, unit="s"),
    "max_speed": _Interval(low=0.0, high=1e5, unit="rad/s", open_low=True),
}
_IMU = {"gyro_range": _Interval(low=0.0, high=100.0, unit="rad/s", open_low=True)}
_WORKSPACE = {
    "azimuth": _Interval(low=-math.pi, high=math.pi, unit="rad"),
    "radius": _Interval(low=0.0, high=3.0, unit="m", open_high=True),
    "height": _Interval(low=-3.0, high=3.0, unit="m", open_low=True, open_high=True),
}


def check_robot(spec: "RobotSpec", path: Path) -> None:
    """Refuse a robot that cannot be.

    Args:
        spec: what the file says.
        path: the file, for the error text.

    Raises:
        FormatError: names file, joint, key, value and what is expected.
    """
    _check_unique(spec, path)
    if spec.bus != "none":
        _check_bus(spec, path)
    for joint in spec.joints:
        _check_joint(joint, f"{path}: joint {joint.name!r}:")
    _check_number(f"{path}:", "counts_per_turn", spec.counts_per_turn, _COUNTS)
    for rotor in spec.rotors:
        _check_rotor(rotor, f"{path}: rotor {rotor.name!r}:")
    if spec.imu is not None:
        _check_imu(spec, spec.imu, f"{path}: [imu]")
    _check_model(spec, path)
    if (spec.tip_site is None) != (spec.workspace is None):
        raise FormatError(f"{path}: tip_site and [workspace] belong together; give both or neither")
    if spec.tip_site is not None and spec.workspace is not None:
        chain = _check_tip(spec, spec.tip_site, path)
        _check_workspace(spec, spec.workspace, chain, f"{path}: [workspace]")


def _check_number(where: str, key: str, value: float, interval: _Interval) -> None:
    if value not in interval:
        raise FormatError(f"{where} {key} = {value}; expected {interval.expected(key)}{interval.hint(value)}")


def _check_pair(where: str, key: str, pair: tuple[float, float], interval: _Interval) -> None:
    for value in pair:
        _check_number(where, key, value, interval)
    if not pair[0] < pair[1]:
        raise FormatError(f"{where} {key} = {list(pair)} {interval.unit}; expected the lower end first, then the upper")


def _check_unique(spec: "RobotSpec", path: Path) -> None:
    if not spec.joints and not spec.rotors:
        raise FormatError(f"{path}: joints = []; expected at least one [[joints]] or [[rotors]]")
    driven = {joint.drive for joint in spec.joints} - {"passive"}
    if len(driven) + bool(spec.rotors) > 1:
        raise FormatError(
            f"{path}: drives {sorted(driven)} and {len(spec.rotors)} rotors; expected one kind of drive in a robot"
        )
    names = [*spec.joint_names, *(rotor.name for rotor in spec.rotors)]
    ids = [joint.bus_id for joint in spec.joints] if spec.bus != "none" else []
    for field, values in (("name", names), ("bus_id", ids)):
        if len(set(values)) != len(values):
            raise FormatError(f"{path}: {field} of the joints must be unique, got {list(values)}")


def _check_bus(spec: "RobotSpec", path: Path) -> None:
    _check_number(f"{path}:", "baudrate", spec.baudrate, _BAUDRATE)
    for joint in spec.joints:
        where = f"{path}: joint {joint.name!r}:"
        for key, interval in _BUS_JOINT.items():
            _check_number(where, key, getattr(joint, key), interval)
        _check_number(where, "kp", joint.kp, _SERVO["kp"])
        if joint.direction not in (-1, 1):
            raise FormatError(f"{where} direction = {joint.direction}; expected 1 or -1")


def _check_rotor(rotor: "RotorSpec", where: str) -> None:
    for key, interval in _ROTOR.items():
        _check_number(where, key, getattr(rotor, key), interval)
    if rotor.spin not in (-1, 1):
        raise FormatError(f"{where} spin = {rotor.spin}; expected 1 or -1")


def _check_imu(spec: "RobotSpec", imu: "ImuSpec", where: str) -> None:
    if not spec.floating:
        raise FormatError(
            f"{where} is for a base that moves, but floating = false; remove the table or let the base float"
        )
    for key, interval in _IMU.items():
        _check_number(where, key, getattr(imu, key), interval)


def _check_joint(joint: "JointSpec", where: str) -> None:
    _check_pair(where, "range", (joint.lower, joint.upper), _ANGLE)
    for key, interval in _JOINT.items():
        _check_number(where, key, getattr(joint, key), interval)
    if joint.acceleration_limit is not None:
        _check_number(where, "acceleration_limit", joint.acceleration_limit, _ACCELERATION)
    if joint.drive != "passive":
        _check_number(where, "effort_limit", joint.effort_limit, _EFFORT)
    if joint.drive == "position":
        _check_number(where, "kp", joint.kp, _SMALL_KP)
        _check_number(where, "kd", joint.kd, _SERVO["kd"])
    own = _Interval(low=joint.lower, high=joint.upper, unit="rad")
    for key in ("default_pos", "rest_pos"):
        _check_number(where, key, getattr(joint, key), own)


def _check_model(spec: "RobotSpec", path: Path) -> None:
    """That the joints are the model's and stay within its ranges, and that what the file names is there."""
    if not spec.model_path.is_file():
        raise FormatError(f"{path}: model {spec.model_path} does not exist")
    ranges = _joint_ranges(spec.model_path)
    for joint in spec.joints:
        where = f"{path}: joint {joint.name!r}:"
        if (joint.name, joint.kind) not in ranges:
            own = ", ".join(name for name, kind in ranges if kind == joint.kind)
            raise FormatError(f"{where} {spec.model_path} has no such {joint.kind}; it has: {own}")
        lower, upper = ranges[joint.name, joint.kind]
        if not (joint.lower >= lower - _RANGE_TOLERANCE and joint.upper <= upper + _RANGE_TOLERANCE):
            raise FormatError(
                f"{where} range = {[joint.lower, joint.upper]} rad; expected no more than the {[lower, upper]} rad "
                f"of {spec.model_path}"
            )
    for key, tag, names in (
        ("base_body", "body", (spec.base_body,)),
        ("contact_bodies", "body", spec.contact_bodies),
        ("payload_site", "site", () if spec.payload_site is None else (spec.payload_site,)),
        ("rotors", "site", tuple(rotor.site for rotor in spec.rotors)),
    ):
        known = _names(spec.model_path, tag)
        for name in names:
            if name not in known:
                raise FormatError(
                    f"{path}: {key} names {name!r}; {spec.model_path} has no such {tag}, it has: {', '.join(known)}"
                )


def _check_tip(spec: "RobotSpec", tip_site: str, path: Path) -> KinematicChain:
    """The chain to the tip, of which every joint must be the robot's."""
    try:
        chain = chain_from_mjcf(spec.model_path, tip_site)
    except (KeyError, ValueError) as error:
        raise FormatError(f"{path}: tip_site = {tip_site!r}; no chain of named hinges leads there: {error}") from None
    missing = [name for name in chain.joint_names if name not in spec.joint_names]
    if missing:
        raise FormatError(f"{path}: joints {missing} move tip_site {tip_site!r}; expected them among the [[joints]]")
    return chain


def _root(model_path: Path) -> ET.Element:
    try:
        return ET.parse(model_path).getroot()
    except ET.ParseError as error:
        raise FormatError(f"{model_path}: cannot be read as XML: {error}") from None


def _names(model_path: Path, tag: str) -> list[str]:
    """Names of all elements of one kind in the worldbody."""
    world = _root(model_path).findall("worldbody")
    return [item.attrib["name"] for part in world for item in part.iter(tag) if "name" in item.attrib]


def _joint_ranges(model_path: Path) -> dict[tuple[str, str], tuple[float, float]]:
    """Range of each named hinge (rad) and slide (m) of an MJCF, by name and kind."""
    root = _root(model_path)
    compiler = root.find("compiler")
    degrees = compiler is None or compiler.get("angle", "degree") == "degree"  # MuJoCo's default
    joints = [joint for body in root.findall("worldbody") for joint in body.iter("joint")]
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for joint in joints:
        kind = joint.get("type", "hinge")
        if "name" in joint.attrib and kind in ("hinge", "slide"):
            unit = math.pi / 180.0 if degrees and kind == "hinge" else 1.0
            found[joint.attrib["name"], kind] = _range(joint, model_path, unit)
    return found


def _range(joint: ET.Element, model_path: Path, rad: float) -> tuple[float, float]:
    text = joint.get("range", "")
    try:
        lower, upper = (float(word) * rad for word in text.split())
    except ValueError:
        raise FormatError(
            f"{model_path}: joint {joint.get('name')!r}: range = {text!r}; expected two numbers on the joint itself"
        ) from None
    return lower, upper


def _check_workspace(spec: "RobotSpec", workspace: "Workspace", chain: KinematicChain, where: str) -> None:
    for key, interval in _WORKSPACE.items():
        _check_pair(where, key, getattr(workspace, key), interval)
    narrowest = min(joint.upper - joint.lower for joint in spec.joints if joint.name in chain.joint_names)
    # Beyond these, no pose is left to sample targets from.
    margin = _Interval(low=0.0, high=narrowest / 2.0, unit="rad", open_high=True)
    clearance = _Interval(low=0.0, high=3.0, unit="m", open_high=True)
    _check_number(where, "joint_margin", workspace.joint_margin, margin)
    _check_number(where, "clearance", workspace.clearance, clearance)
