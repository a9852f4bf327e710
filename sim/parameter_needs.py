"""What a randomised parameter acts on: without it, drawing the parameter changes nothing, and telling a critic of it misleads."""

from collections.abc import Callable
from dataclasses import dataclass

from isthmus.hardware.robot import JointSpec

from .scene import Scene


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Where a parameter is to act."""

    scene: Scene
    estimates: tuple[str, ...]  # of the task
    joint: int | None  # the one that is drawn, of parameters with a value for each joint; None: all

    @property
    def joints(self) -> tuple[JointSpec, ...]:
        """The joints on which the parameter is to act."""
        joints = self.scene.robot.joints
        return joints if self.joint is None else joints[self.joint : self.joint + 1]

    @property
    def servos(self) -> tuple[JointSpec, ...]:
        """Those that follow position targets by their gains: one joint driven by effort makes all others so, networks have no gains."""
        robot = self.scene.robot
        by_effort = any(joint.drive == "effort" for joint in robot.joints)
        none = by_effort or robot.actuator.law == "net"
        return () if none else tuple(joint for joint in self.joints if joint.drive == "position")


@dataclass(frozen=True, kw_only=True)
class Need:
    """What must be there for a parameter to act."""

    text: str
    met: Callable[[Setting], bool]


JOINTS = Need(text="a joint", met=lambda at: bool(at.joints))
MOTORS = Need(text="a joint with a motor", met=lambda at: any(joint.effort_limit > 0 for joint in at.joints))
STIFFNESS = Need(
    text='a rotor, or a joint with drive = "position" and kp above 0 whose actuator is no network',
    met=lambda at: bool(at.scene.robot.rotors) or any(joint.kp > 0 for joint in at.servos),
)
DAMPING = Need(
    text='a joint with drive = "position" and kd above 0 whose actuator is no network',
    met=lambda at: any(joint.kd > 0 for joint in at.servos),
)
FLOATING = Need(text="a robot whose base floats", met=lambda at: at.scene.robot.floating)
PAYLOAD = Need(
    text="a robot with a payload_site in its robot.toml", met=lambda at: at.scene.robot.payload_site is not None
)
FREE_OBJECT = Need(text="a scene with a free object", met=lambda at: any(item.free for item in at.scene.objects))


def estimate(name: str) -> Need:
    """The need of a task whose robot floats and estimates a signal."""
    return Need(
        text=f"a floating robot and a task with {name!r} among its estimates",
        met=lambda at: at.scene.robot.floating and name in at.estimates,
    )
