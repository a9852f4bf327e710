"""Hand: joints and how far they lag behind their targets, over time, in; increments of sixteen joint targets out."""

from isthmus.hardware.robot import load_robot

from ..contract import SCHEMA, CommandSpec, Contract, JointIncrement, ObservationTerm, contract_joints, history


def hand_rotate() -> Contract:
    """The contract. An increment of 0.1 rad per 50 ms is 2 rad/s."""
    robot = load_robot("hand")
    return Contract(
        schema=SCHEMA,
        task="hand-rotate",
        robot=robot.name,
        joints=contract_joints(robot),
        period_ns=50_000_000,
        observation=(
            ObservationTerm(name="joint_pos", scale=1.0, lags=history(3)),
            ObservationTerm(name="joint_lead", scale=5.0, clip=0.4, lags=history(3)),
            ObservationTerm(name="command", scale=1.0),
        ),
        action=JointIncrement(joints=robot.joint_names, scale=0.1, max_lead=0.4, clip=1.0),
        command=CommandSpec(signal="command.spin", workspace=None, low=(0.5,), high=(1.0,)),
        chain=None,
        latency_s=(0.0, 0.02),
    )
