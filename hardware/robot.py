"""What a robot is: joints, limits, gains and its model, read from `robots/<name>/robot.toml`."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .robot_checks import check_robot
from .structure import FormatError, read_toml

ROBOTS_DIR = Path(__file__).parent / "robots"


@dataclass(frozen=True, kw_only=True)
class JointSpec:
    """One joint; angles in rad, zero and sign as in model.xml."""

    name: str
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
    model_path: Path  # MJCF
    tip_site: str  # site in the MJCF that reaches for targets
    bus: str  # which driver speaks to it
    baudrate: int
    counts_per_turn: int
    workspace: Workspace

    @property
    def joint_names(self) -> tuple[str, ...]:
        """Joint names in bus order."""
        return tuple(joint.name for joint in self.joints)

    def array(self, field: str) -> np.ndarray:
        """One number per joint, e.g. `spec.array("kp")`. Shape (n,), float64."""
        return np.array([getattr(joint, field) for joint in self.joints], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class _Defaults:
    kp: float | None = None
    kd: float | None = None
    effort_limit: float | None = None
    velocity_limit: float | None = None
    direction: int | None = None
    p_gain: int | None = None


@dataclass(frozen=True, kw_only=True)
class _JointFile(_Defaults):
    name: str
    bus_id: int
    range: tuple[float, float]
    default_pos: float
    rest_pos: float


@dataclass(frozen=True, kw_only=True)
class _RobotFile:
    name: str
    description: str
    model: str
    tip_site: str
    bus: str
    baudrate: int
    counts_per_turn: int
    workspace: Workspace
    joints: tuple[_JointFile, ...]
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
            raise FormatError(f"unknown robot {str(name_or_path)!r}; available: {', '.join(robot_names())}")
    file = read_toml(path, _RobotFile)
    spec = RobotSpec(
        name=file.name,
        description=file.description,
        joints=tuple(_joint(joint, file.defaults, path) for joint in file.joints),
        model_path=path.parent / file.model,
        tip_site=file.tip_site,
        bus=file.bus,
        baudrate=file.baudrate,
        counts_per_turn=file.counts_per_turn,
        workspace=file.workspace,
    )
    check_robot(spec, path)
    return spec


def _joint(joint: _JointFile, defaults: _Defaults, path: Path) -> JointSpec:
    values: dict[str, float] = {}
    for key in ("kp", "kd", "effort_limit", "velocity_limit", "direction", "p_gain"):
        own, common = getattr(joint, key), getattr(defaults, key)
        if own is None and common is None:
            raise FormatError(f"{path}: joint {joint.name!r} has no {key}, and [defaults] has none either")
        values[key] = common if own is None else own
    lower, upper = joint.range
    return JointSpec(
        name=joint.name,
        bus_id=joint.bus_id,
        lower=lower,
        upper=upper,
        default_pos=joint.default_pos,
        rest_pos=joint.rest_pos,
        **values,  # pyright: ignore[reportArgumentType]
    )
