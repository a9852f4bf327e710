"""Go2: gyro, gravity, joints, command and last action in, targets around the default pose out."""

from isthmus.hardware.robot import load_robot

from ..contract import SCHEMA, CommandSpec, Contract, JointPosition, ObservationTerm, contract_joints


def go2_velocity(task: str = "go2-velocity") -> Contract:
    """The contract, for flat and rough ground alike. One unit of action is 0.25 rad."""
    robot = load_robot("go2")
    return Contract(
        schema=SCHEMA,
        task=task,
        robot=robot.name,
        joints=contract_joints(robot),
        period_ns=20_000_000,
        observation=(
            ObservationTerm(name="gyro", scale=0.25),
            ObservationTerm(name="gravity", scale=1.0),
            ObservationTerm(name="command", scale=1.0),
            ObservationTerm(name="joint_pos", scale=1.0),
            ObservationTerm(name="joint_vel", scale=0.05),
            ObservationTerm(name="last_action", scale=0.5),
        ),
        action=JointPosition(joints=robot.joint_names, scale=0.25, clip=8.0),
        command=CommandSpec(signal="command.velocity", workspace=None, low=(-1.0, -0.5, -1.0), high=(1.0, 0.5, 1.0)),
        chain=None,
        latency_s=(0.0, 0.02),
    )


def go2_velocity_rough() -> Contract:
    """The same for the task on rough ground, which the robot does not see."""
    return go2_velocity("go2-velocity-rough")
