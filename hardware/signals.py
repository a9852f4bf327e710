"""The registry of raw signals: what a simulated world and a robot both produce, by name, with unit and frame."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SignalSpec:
    """A named quantity. `width` is a number of values, or "joints" / "rotors" for one value each, in robot order."""

    name: str
    width: int | str
    unit: str
    frame: str
    description: str


SIGNALS: tuple[SignalSpec, ...] = (
    SignalSpec(name="joint_pos", width="joints", unit="rad", frame="joint", description="measured joint angles"),
    SignalSpec(name="joint_vel", width="joints", unit="rad/s", frame="joint", description="measured joint velocities"),
    SignalSpec(
        name="joint_target",
        width="joints",
        unit="rad",
        frame="joint",
        description="joint targets that were executed at the previous tick, whoever gave them",
    ),
    SignalSpec(
        name="joint_effort_target",
        width="joints",
        unit="N m or N",
        frame="joint",
        description="joint efforts that were executed at the previous tick, of robots that are driven by effort",
    ),
    SignalSpec(
        name="joint_velocity_target",
        width="joints",
        unit="rad/s",
        frame="joint",
        description="joint velocities that were commanded at the previous tick, of robots that are driven by velocity",
    ),
    SignalSpec(
        name="rotor_speed_target",
        width="rotors",
        unit="rad/s",
        frame="rotor",
        description="rotor speeds that were commanded at the previous tick, whoever gave them",
    ),
    SignalSpec(name="gyro", width=3, unit="rad/s", frame="base body", description="measured angular velocity"),
    SignalSpec(name="gravity", width=3, unit="1", frame="base body", description="direction of gravity, a unit vector"),
    SignalSpec(
        name="accelerometer", width=3, unit="m/s^2", frame="base body", description="specific force, +g upwards at rest"
    ),
    SignalSpec(name="base_pos", width=3, unit="m", frame="world", description="estimated position of the base"),
    SignalSpec(name="base_quat", width=4, unit="1", frame="body -> world", description="estimated attitude, wxyz"),
    SignalSpec(name="base_lin_vel", width=3, unit="m/s", frame="base body", description="estimated linear velocity"),
    SignalSpec(name="command.target", width=3, unit="m", frame="robot base", description="where the tip should be"),
    SignalSpec(
        name="command.velocity",
        width=3,
        unit="m/s, m/s, rad/s",
        frame="base body",
        description="wanted velocity forwards, to the left, and turning to the left",
    ),
    SignalSpec(name="command.position", width=3, unit="m", frame="world", description="where the base should be"),
    SignalSpec(name="command.angle", width=1, unit="rad", frame="joint", description="where a joint should be"),
    SignalSpec(name="command.cart", width=1, unit="m", frame="world", description="where the cart should be"),
    SignalSpec(
        name="command.spin",
        width=1,
        unit="rad/s",
        frame="palm",
        description="how fast to turn the object, about the palm's normal",
    ),
)


def signal(name: str) -> SignalSpec:
    """The spec of one signal; raises KeyError naming the known ones."""
    for spec in SIGNALS:
        if spec.name == name:
            return spec
    raise KeyError(f"unknown signal {name!r}; known: {', '.join(s.name for s in SIGNALS)}")


def signal_width(name: str, num_joints: int, num_rotors: int = 0) -> int:
    """Number of values that a signal has on a robot with so many joints and rotors."""
    width = signal(name).width
    return {"joints": num_joints, "rotors": num_rotors}[width] if isinstance(width, str) else width
