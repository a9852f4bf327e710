"""What is simulated: a robot, what lies around it, and the ground. Each engine builds it in its own way."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from isthmus.hardware.robot import RobotSpec

from .terrain import HeightField


@dataclass(frozen=True, kw_only=True)
class SceneObject:
    """A body beside the robot, from an MJCF file whose worldbody holds exactly one body, without joints."""

    name: str
    model_path: Path
    free: bool  # moves freely; else it stays where a reset puts it
    pos: tuple[float, float, float]  # m, world, where it is until a reset moves it


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A robot and its surroundings. World z is up; the ground plane is z = 0."""

    robot: RobotSpec
    ground: Literal["none", "plane"] | HeightField = "none"  # "none": what the robot's own model has, if any
    objects: tuple[SceneObject, ...] = ()
    ground_friction: float = 1.0  # sliding friction coefficient of the ground's geom

    @property
    def free_bodies(self) -> tuple[str, ...]:
        """Names of the bodies that move freely, the robot's base first."""
        base = ("base",) if self.robot.floating else ()
        return base + tuple(item.name for item in self.objects if item.free)

    @property
    def fixed_objects(self) -> tuple[str, ...]:
        """Names of the objects that stay where they are put."""
        return tuple(item.name for item in self.objects if not item.free)
