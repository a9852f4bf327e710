"""SO-101 with a peg: measured joints, attitude and error of the peg's end in, increments of five joint targets out."""

from isthmus.hardware.kinematics import chain_from_mjcf
from isthmus.hardware.robot import load_robot

from ..contract import SCHEMA, CommandSpec, Contract, JointIncrement, ObservationTerm, contract_joints, history


def so101_insert() -> Contract:
    """The contract. An increment of 0.02 rad per 20 ms is 1 rad/s."""
    robot = load_robot("so101_peg")
    chain = chain_from_mjcf(robot.model_path, robot.reach_site())
    return Contract(
        schema=SCHEMA,
        task="so101-insert",
        robot=robot.name,
        joints=contract_joints(robot),
        period_ns=20_000_000,
        observation=(
            ObservationTerm(name="joint_pos", scale=1.0),
            ObservationTerm(name="joint_vel", scale=0.3),
            ObservationTerm(name="joint_lead", scale=10.0, clip=0.3, lags=history(3)),
            ObservationTerm(name="tip_error", scale=10.0),
            ObservationTerm(name="tip_error", scale=100.0, clip=0.02),
            ObservationTerm(name="tip_error", scale=500.0, clip=0.003),
            ObservationTerm(name="tip_rotation", scale=1.0),
            ObservationTerm(name="target", scale=4.0),
        ),
        action=JointIncrement(joints=chain.joint_names, scale=0.02, max_lead=0.3, clip=1.0),
        command=CommandSpec(signal="command.target", workspace=robot.reach_workspace()),
        chain=chain,
        latency_s=(0.003, 0.02),
    )
