"""Cartpole: positions, speeds and the wanted place in, force on the cart out."""

from isthmus.hardware.robot import load_robot

from ..contract import SCHEMA, CommandSpec, Contract, JointEffort, ObservationTerm, contract_joints


def cartpole_balance() -> Contract:
    """The contract. One unit of action is the motor's 10 N."""
    robot = load_robot("cartpole")
    return Contract(
        schema=SCHEMA,
        task="cartpole-balance",
        robot=robot.name,
        joints=contract_joints(robot),
        period_ns=20_000_000,
        observation=(
            ObservationTerm(name="all_joint_pos", scale=1.0),
            ObservationTerm(name="all_joint_vel", scale=0.5),
            ObservationTerm(name="command", scale=1.0),
            ObservationTerm(name="last_action", scale=1.0),
        ),
        action=JointEffort(joints=("slider",), scale=10.0, clip=1.0),
        command=CommandSpec(signal="command.cart", workspace=None, low=(-1.0,), high=(1.0,)),
        chain=None,
        latency_s=(0.0, 0.02),
    )
