"""The MuJoCo model of one specimen: the robot's own model.xml plus payload, friction and gear play."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

import mujoco
import numpy as np

from isthmus.hardware.robot import RobotSpec

from .hidden import HiddenParameters

TIMESTEP_S = 0.002
PLAY_ARMATURE = 1e-4  # kg m2, numerical floor of the output gear: the link's own inertia is of that size or above
PLAY_DAMPING = 0.02  # N m s/rad, grease and bearing
PLAY_STOP = (2 * TIMESTEP_S, 1.0)  # solref: the stiffest tooth contact that this time step carries


def play_name(joint: str) -> str:
    """Name of the hinge between a joint's motor and its output shaft."""
    return f"{joint}_play"


def build_model(spec: RobotSpec, hidden: HiddenParameters) -> mujoco.MjModel:
    """Compile the specimen's model.

    Each joint keeps its hinge as the motor side of the gear (armature, friction and torque act there). Where there is
    backlash, a second hinge on the same axis, limited to +-backlash / 2, carries the link: motor + play is the angle of
    the output shaft, which is what an STS3215 measures.
    """
    model = mujoco.MjSpec.from_file(str(spec.model_path))
    model.option.timestep = TIMESTEP_S
    backlash = hidden.per_joint("backlash_deg", spec.joint_names)
    for name, play in zip(spec.joint_names, backlash, strict=True):
        motor = model.joint(name)
        if play > 0:
            _add_play(motor, play)
        motor.damping = np.asarray(motor.damping) * hidden.friction_scale
        motor.frictionloss = motor.frictionloss * hidden.friction_scale
    if hidden.payload_kg > 0:
        _add_payload(model, spec, hidden.payload_kg)
    return model.compile()


def _add_play(motor: mujoco.MjsJoint, play: float) -> None:
    joint = motor.parent.add_joint(
        name=play_name(motor.name),
        type=mujoco.mjtJoint.mjJNT_HINGE,
        axis=motor.axis,
        pos=motor.pos,
        limited=True,
        range=[-play / 2, play / 2],
        armature=PLAY_ARMATURE,
        frictionloss=0.0,
        solref_limit=PLAY_STOP,
        solimp_limit=[0.99, 0.99, 0.001, 0.5, 2.0],
    )
    joint.damping = np.array([PLAY_DAMPING, 0.0, 0.0])


def _add_payload(model: mujoco.MjSpec, spec: RobotSpec, mass: float) -> None:
    site = model.site(spec.reach_site())
    inertia = 0.4 * mass * 0.01**2  # a ball of 10 mm radius: MuJoCo wants no mass without inertia
    site.parent.add_body(
        name="payload", pos=site.pos, mass=mass, ipos=[0, 0, 0], inertia=[inertia] * 3, explicitinertial=True
    )
