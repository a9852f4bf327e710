"""The registry of raw signals: what a simulated world and a robot both produce, by name, with unit and frame."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class SignalSpec:
    """A named quantity. `width` is a number of values, or "joints" for one value per joint in robot order."""

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
    SignalSpec(name="command.target", width=3, unit="m", frame="robot base", description="where the tip should be"),
)


def signal(name: str) -> SignalSpec:
    """The spec of one signal; raises KeyError naming the known ones."""
    for spec in SIGNALS:
        if spec.name == name:
            return spec
    raise KeyError(f"unknown signal {name!r}; known: {', '.join(s.name for s in SIGNALS)}")


def signal_width(name: str, num_joints: int) -> int:
    """Number of values that a signal has on a robot with `num_joints` joints."""
    width = signal(name).width
    return num_joints if width == "joints" else int(width)
