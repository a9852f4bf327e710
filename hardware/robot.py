"""What a robot is: joints, limits, gains and its model, read from `robots/<name>/robot.toml`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from .actuator_spec import ActuatorSpec, resolve_actuator
from .imu_spec import ImuSpec
from .robot_checks import check_robot
from .structure import FormatError, read_toml

ROBOTS_DIR = Path(__file__).parent / "robots"
NO_BUS = "none"  # a robot that is only simulated: its file has no keys of a bus

Drive = Literal["position", "effort", "passive"]


@dataclass(frozen=True, kw_only=True)
class JointSpec:
    """One joint; rad, N m and so on for a hinge, m, N and so on for a slide; zero and sign as in model.xml."""

    name: str
    kind: Literal["hinge", "slide"]
    drive: Drive  # what a command to the joint means: a target position, an effort, or nothing
    bus_id: int
    lower: float  # rad
    upper: float  # rad
    default_pos: float  # rad
    rest_pos: float  # rad, part of the pose in which the robot may go limp without falling
    velocity_limit: float  # rad/s that may be commanded
    effort_limit: float  # N m
    kp: float  # N m/rad
    kd: float  # N m s/rad
    direction: int  # +1: encoder counts up with the angle, -1: down
    p_gain: int  # the servo's own gain register that gives kp
    acceleration_limit: float | None = None  # rad/s^2 of the target that may be commanded; None: not limited


@dataclass(frozen=True, kw_only=True)
class RotorSpec:
    """One propeller: thrust = thrust_coefficient * speed^2 along the site's z axis, at the site."""

    name: str
    site: str  # in the MJCF, z along the thrust
    spin: int  # +1: the propeller turns counter-clockwise seen from above, so that its drag turns the body clockwise
    thrust_coefficient: float  # N/(rad/s)^2
    drag_coefficient: float  # N m/(rad/s)^2
    time_constant: float  # s, of the speed's first-order answer to a command
    max_speed: float  # rad/s


@dataclass(frozen=True, kw_only=True)
class Workspace:
    """Where the tip may be sent: a cylindrical shell sector around the first joint's axis, in the base frame."""

    azimuth: tuple[float, float]  # rad, about the axis of the first joint
    radius: tuple[float, float]  # m, horizontal distance from that axis
    height: tuple[float, float]  # m above the base plane
    joint_margin: float  # rad kept from the joint limits
    clearance: float  # m that every joint and the tip keep above the base plane


@dataclass(frozen=True, kw_only=True)
class RobotSpec:
    """A robot: its joints in bus order, its model and its bus."""

    name: str
    description: str
    joints: tuple[JointSpec, ...]
    rotors: tuple[RotorSpec, ...]
    actuator: ActuatorSpec  # of all joints
    imu: ImuSpec | None  # of a floating base; None: a gyro that reads without limit
    model_path: Path  # MJCF
    floating: bool  # whether the base moves freely
    base_body: str  # body in the MJCF that carries the IMU; of a floating robot the one with the free joint
    tip_site: str | None  # site in the MJCF that reaches for targets
    payload_site: str | None  # site in the MJCF where a payload sits
    contact_bodies: tuple[str, ...]  # bodies in the MJCF whose contact forces matter, feet above all
    bus: str  # which driver speaks to it; NO_BUS for none
    baudrate: int
    counts_per_turn: int  # of the joints' encoders; for a slide, counts per metre
    workspace: Workspace | None  # where the tip may be sent

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names in bus order."""
        return tuple(joint.name for joint in self.joints)

    def reach_workspace(self) -> Workspace:
        """The workspace of a robot that reaches; raises FormatError when it has none."""
        if self.workspace is None:
            raise FormatError(f"robot {self.name!r} has no [workspace]: it does not reach for points")
        return self.workspace

    def reach_site(self) -> str:
        """The tip site of a robot that reaches; raises FormatError when it has none."""
        if self.tip_site is None:
            raise FormatError(f"robot {self.name!r} has no tip_site: it does not reach for points")
        return self.tip_site

    def array(self, field: str) -> np.ndarray:
        """One number per joint, e.g. `spec.array("kp")`. Shape (n,), float64."""
        return np.array([getattr(joint, field) for joint in self.joints], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class _Defaults:
    kind: Literal["hinge", "slide"] | None = None
    drive: Drive | None = None
    kp: float | None = None
    kd: float | None = None
    effort_limit: float | None = None
    velocity_limit: float | None = None
    acceleration_limit: float | None = None
    direction: int | None = None
    p_gain: int | None = None


@dataclass(frozen=True, kw_only=True)
class _JointFile(_Defaults):
    name: str
    range: tuple[float, float]
    default_pos: float
    rest_pos: float
    bus_id: int | None = None


@dataclass(frozen=True, kw_only=True)
class _RobotFile:
    name: str
    description: str
    model: str
    bus: str
    base_body: str
    floating: bool = False
    tip_site: str | None = None
    payload_site: str | None = None
    contact_bodies: tuple[str, ...] = ()
    baudrate: int | None = None
    counts_per_turn: int
    workspace: Workspace | None = None
    joints: tuple[_JointFile, ...] = ()
    rotors: tuple[RotorSpec, ...] = ()
    actuator: ActuatorSpec = field(default_factory=ActuatorSpec)
    imu: ImuSpec | None = None
    defaults: _Defaults = _Defaults()


def robot_names() -> tuple[str, ...]:
    """Names of the robots that ship with isthmus."""
    return tuple(sorted(path.parent.name for path in ROBOTS_DIR.glob("*/robot.toml")))


def load_robot(name_or_path: str | Path) -> RobotSpec:
    """Read a robot by name (`so101`) or from the path of its robot.toml.

    Raises:
        FormatError: unknown name, or a file that is not complete and consistent; says which value and what is expected.
    """
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = ROBOTS_DIR / str(name_or_path) / "robot.toml"
        if not path.is_file():
            raise FormatError(
                f"unknown robot {str(name_or_path)!r}; available: {', '.join(robot_names())}, or the path of a robot.toml"
            )
    file = read_toml(path, _RobotFile)
    spec = RobotSpec(
        name=file.name,
        description=file.description,
        joints=tuple(_joint(joint, file, path) for joint in file.joints),
        rotors=file.rotors,
        actuator=resolve_actuator(file.actuator, len(file.joints), path),
        imu=file.imu,
        model_path=path.parent / file.model,
        floating=file.floating,
        base_body=file.base_body,
        tip_site=file.tip_site,
        payload_site=file.payload_site,
        contact_bodies=file.contact_bodies,
        bus=file.bus,
        baudrate=int(_bus_value(file, "baudrate", file.baudrate, str(path))),
        counts_per_turn=file.counts_per_turn,
        workspace=file.workspace,
    )
    check_robot(spec, path)
    return spec


def _joint(joint: _JointFile, file: _RobotFile, path: Path) -> JointSpec:
    where = f"{path}: joint {joint.name!r}"

    def value(key: str) -> float | str | None:
        own, common = getattr(joint, key), getattr(file.defaults, key)
        return common if own is None else own

    def needed(key: str) -> float:
        number = value(key)
        if number is None:
            raise FormatError(f"{where} has no {key}, and [defaults] has none either")
        return number  # pyright: ignore[reportReturnType]

    drive = value("drive") or "position"
    lower, upper = joint.range
    return JointSpec(
        name=joint.name,
        kind=value("kind") or "hinge",  # pyright: ignore[reportArgumentType]
        drive=drive,  # pyright: ignore[reportArgumentType]
        lower=lower,
        upper=upper,
        default_pos=joint.default_pos,
        rest_pos=joint.rest_pos,
        velocity_limit=needed("velocity_limit"),
        acceleration_limit=value("acceleration_limit"),  # pyright: ignore[reportArgumentType]
        effort_limit=needed("effort_limit") if drive != "passive" else 0.0,
        kp=needed("kp") if drive == "position" else 0.0,
        kd=needed("kd") if drive == "position" else 0.0,
        bus_id=int(_bus_value(file, "bus_id", joint.bus_id, where)),
        direction=int(_bus_value(file, "direction", value("direction"), where, without=1)),
        p_gain=int(_bus_value(file, "p_gain", value("p_gain"), where)),
    )


def _bus_value(file: _RobotFile, key: str, value: object, where: str, *, without: int = 0) -> float:
    """A key that a robot on a bus must have and one without a bus must not have; `without` stands in for it there."""
    if file.bus == NO_BUS:
        if value is not None:
            raise FormatError(f'{where} has {key} = {value}, but bus = "{NO_BUS}"; remove {key} or name the bus')
        return without
    if value is None:
        raise FormatError(f"{where} has no {key}, which bus {file.bus!r} needs (a joint's may stand in [defaults])")
    return value  # pyright: ignore[reportReturnType]
