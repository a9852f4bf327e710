"""Mistakes about the robot: orders, gains, scales, poses, zeros, limits."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from faults import (
    BOTH,
    DRIVER,
    Case,
    Fault,
    Inject,
    by_kind,
    exchanged,
    executed,
    manifest,
    one_joint,
    reorder,
    robot,
    signal,
    swap,
)

from isthmus.hardware.robot import load_robot
from isthmus.sim.randomization import RandomTerm, Uniform
from isthmus.sim.task import Task
from isthmus.sim.world import World

DEGREES = 180.0 / np.pi


SIDES = exchanged(("FL", "FR"), ("RL", "RR"))


ENDS = exchanged(("FL", "RL"), ("FR", "RR"))


def fixed(parameter: str, value: float) -> Callable[[Task], Task]:
    """A task in which one parameter is what it is."""

    def change(task: Task) -> Task:
        rest = tuple(term for term in task.randomization if getattr(term, "parameter", "") != parameter)
        term = RandomTerm(parameter=parameter, distribution=Uniform(low=value, high=value))
        return replace(task, randomization=(*rest, term))

    return change


def real(task: Callable[[Task], Task] = lambda t: t, world: Callable[[World], None] = lambda w: None) -> Inject:
    """A robot that is really so, under the policy."""
    return lambda case: replace(case, log=replace(case.good.elsewhere(task=task, world=world)))


def encoder(joint: int, offset: float) -> Inject:
    """An encoder whose zero is off; the servo's loop runs on what it reads."""

    def change(world: World) -> None:
        world.parameters["encoder_offset_rad"][:] = torch.eye(world.num_joints)[joint] * offset
        world.reset(torch.arange(world.num_envs))

    return real(once("encoder_offset_rad"), change)


def once(parameter: str) -> Callable[[Task], Task]:
    """A task in which one parameter is drawn but once, so that it stays what it is made."""

    def change(task: Task) -> Task:
        terms = tuple(
            replace(t, when="build") if getattr(t, "parameter", "") == parameter else t for t in task.randomization
        )
        return replace(task, randomization=terms)

    return change


def strong(factor: float) -> Inject:
    """Drives whose gains are not those of robot.toml, without a word of it anywhere."""

    return real(fixed("gain_scale", factor))


def other_robot(case: Case) -> Case:
    return replace(case, robot=load_robot("hand"))


def renamed(case: Case) -> Case:
    joints = tuple(replace(j, name=j.name.replace("_joint", "").upper()) for j in case.robot.joints)
    return replace(case, robot=replace(case.robot, joints=joints))


def motor_gains(values: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
    for joint in values["contract"]["joints"]:
        joint["kp"], joint["kd"] = 1.0, -0.0


def rounded(values: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
    values["contract"]["action"]["scale"] = 0.001
    values["sources"] = [{"path": "action.scale", "source": "policy.onnx: action_scale", "resolution": 0.0005}]


def smoothed(values: np.ndarray) -> np.ndarray:
    out, now = np.empty_like(values), values[0]
    for tick, value in enumerate(values):
        now = now + 0.15 * (value - now)
        out[tick] = now
    return out


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: values * factor


PHYSICAL_GAIN = r"gain|stiff|kp"


ROBOT_FAULTS: tuple[Fault, ...] = (
    # order and names
    Fault(
        name="two joints swapped in what is read",
        on="sway",
        words=(r"joints 2 and 6 .*swapped",),
        inject=swap(1, 5, *BOTH),
    ),
    Fault(
        name="two joints swapped in the driver",
        on="sway",
        words=(r"joints 1 and 3 .*swapped",),
        inject=swap(0, 2, *DRIVER),
    ),
    Fault(
        name="two arm joints swapped in what is read",
        on="reach",
        words=(r"joints 2 and 3 .*swapped",),
        inject=swap(1, 2, *BOTH),
    ),
    Fault(
        name="two arm joints swapped in the driver",
        on="reach",
        words=(r"joints 2 and 4 .*swapped",),
        inject=swap(1, 3, *DRIVER),
    ),
    Fault(
        name="two fingers' joints swapped", on="hand", words=(r"joints 6 and 11 .*swapped",), inject=swap(5, 10, *BOTH)
    ),
    Fault(
        name="joints of another simulator's order",
        on="sway",
        words=(r"kind|limb|order",),
        inject=reorder(by_kind, *BOTH),
    ),
    Fault(
        name="joints in reverse order",
        on="reach",
        words=(r"reverse",),
        inject=reorder(lambda n: list(range(len(n)))[::-1], *BOTH),
    ),
    Fault(
        name="joints in alphabetical order",
        on="hand",
        words=(r"alphabetical",),
        inject=reorder(lambda n: sorted(range(len(n)), key=lambda k: n[k]), *BOTH),
    ),
    Fault(
        name="joints shifted by one place",
        on="sway",
        words=(r"shifted by one",),
        inject=reorder(lambda n: [(k + 1) % len(n) for k in range(len(n))], *BOTH),
    ),
    Fault(
        name="left and right legs swapped in the driver",
        on="sway",
        words=(r"left and right",),
        inject=reorder(SIDES, *DRIVER),
    ),
    Fault(
        name="left and right legs swapped in what is read",
        on="sway",
        words=(r"left and right",),
        inject=reorder(SIDES, *BOTH),
    ),
    Fault(
        name="front and rear legs swapped in the driver",
        on="sway",
        words=(r"front and rear",),
        inject=reorder(ENDS, *DRIVER),
    ),
    Fault(
        name="velocities in another order than positions",
        on="sway",
        words=(r"joint_vel",),
        inject=reorder(by_kind, "joint_vel"),
    ),
    Fault(
        name="targets written in another order",
        on="sway",
        words=(r"swapped|limbs are in another order",),
        inject=executed(lambda v: v[:, [3, 4, 5, 0, 1, 2, 6, 7, 8, 9, 10, 11]]),
    ),
    Fault(name="joints renamed", on="sway", words=(r"joint names differ",), inject=renamed),
    Fault(name="another robot", on="sway", words=(r"trained for robot",), inject=other_robot),
    # gains and scales
    Fault(
        name="gains of torque motors in the metadata",
        on="sway",
        words=(r"torque motors|kp is 1",),
        inject=manifest(motor_gains),
    ),
    Fault(
        name="stiffness halved in the robot's description",
        on="sway",
        words=(r"stiffness kp .*0\.5|stiffness kp .*half",),
        inject=robot(kp=times(0.5)),
    ),
    Fault(name="damping left out", on="sway", words=(r"damping kd .*missing",), inject=robot(kd=times(0.0))),
    Fault(
        name="effort limits of another motor",
        on="sway",
        words=(r"effort limit",),
        inject=robot(effort_limit=times(0.4)),
    ),
    Fault(
        name="gains in another joint order",
        on="sway",
        words=(r"another joint order|effort limit",),
        inject=robot(effort_limit=lambda v: np.roll(v, 1)),
    ),
    Fault(name="drives twice as stiff, nobody says so", on="sway", words=(PHYSICAL_GAIN,), inject=strong(2.2)),
    Fault(name="drives half as stiff, nobody says so", on="sway", words=(PHYSICAL_GAIN,), inject=strong(0.4)),
    Fault(name="arm's drives much softer, nobody says so", on="reach", words=(PHYSICAL_GAIN,), inject=strong(0.25)),
    Fault(
        name="action scale left at a default",
        on="sway",
        words=(r"times as far",),
        inject=executed(lambda v: v[:1] + 0.55 * (v - v[:1])),
    ),
    Fault(name="action scale printed to three decimals", on="sway", words=(r"printed",), inject=manifest(rounded)),
    Fault(
        name="targets smoothed by the robot's own filter",
        on="sway",
        words=(r"smoothed|filter|late|old",),
        inject=executed(smoothed),
    ),
    # default pose, zeros and limits
    Fault(
        name="another default pose in the robot's description",
        on="sway",
        words=(r"default pose",),
        inject=robot(default_pos=lambda v: v + np.tile([0.0, 0.1, -0.1], 4)),
    ),
    Fault(
        name="default pose in another joint order",
        on="sway",
        words=(r"another joint order",),
        inject=robot(default_pos=lambda v: v[[0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11]]),
    ),
    Fault(name="default pose in degrees", on="sway", words=(r"degrees",), inject=robot(default_pos=times(DEGREES))),
    Fault(
        name="driver gives angles relative to the default pose",
        on="sway",
        words=(r"relative to the default",),
        inject=lambda c: signal("joint_pos", lambda v: v - c.robot.array("default_pos"))(c),
    ),
    Fault(name="limits of another specimen", on="reach", words=(r"limit",), inject=robot(upper=lambda v: v - 0.2)),
    Fault(
        name="one encoder 0.2 rad off in what is read",
        on="sway",
        words=(r"joint 5 .*off by",),
        inject=one_joint("joint_pos", 4, lambda v: v + 0.2),
    ),
    Fault(name="one hip encoder 0.2 rad off", on="sway", words=(r"off by",), inject=encoder(3, 0.2)),
    Fault(name="one thigh encoder 0.25 rad off", on="sway", words=(r"off by",), inject=encoder(7, 0.25)),
    Fault(
        name="one arm encoder off by a quarter turn",
        on="reach",
        words=(r"joint 3 .*off by",),
        inject=one_joint("joint_pos", 2, lambda v: v + np.pi / 2, "joint_target", "executed"),
    ),
    Fault(
        name="one joint's sign turned round",
        on="sway",
        words=(r"sign of joint 6",),
        inject=one_joint("joint_pos", 5, lambda v: -v, "joint_vel"),
    ),
    Fault(
        name="one arm joint's sign turned round in the driver",
        on="reach",
        words=(r"sign of joint 2",),
        inject=one_joint("joint_pos", 1, lambda v: -v, "joint_vel", "joint_target", "executed"),
    ),
    Fault(
        name="one velocity's sign turned round",
        on="reach",
        words=(r"sign of joint 1 .*joint_vel",),
        inject=one_joint("joint_vel", 0, lambda v: -v),
    ),
    Fault(
        name="an encoder wraps inside the range",
        on="reach",
        words=(r"turn|wrap",),
        inject=one_joint("joint_pos", 0, lambda v: np.where(v > np.median(v), v - 2 * np.pi, v)),
    ),
)
