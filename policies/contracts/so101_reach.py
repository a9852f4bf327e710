"""SO-101 reach: measured joints and the tip's error in, increments of five joint targets out; the gripper keeps its pose."""

from isthmus.hardware.kinematics import chain_from_mjcf
from isthmus.hardware.robot import load_robot

from ..contract import SCHEMA, CommandSpec, Contract, JointIncrement, ObservationTerm, contract_joints, history


def so101_reach() -> Contract:
    """The contract. An increment of 0.04 rad per 20 ms is 2 rad/s."""
    robot = load_robot("so101")
    chain = chain_from_mjcf(robot.model_path, robot.reach_site())
    return Contract(
        schema=SCHEMA,
        task="so101-reach",
        robot=robot.name,
        joints=contract_joints(robot),
        period_ns=20_000_000,
        observation=(
            ObservationTerm(name="joint_pos", scale=1.0),
            ObservationTerm(name="joint_vel", scale=0.3),
            ObservationTerm(name="joint_lead", scale=5.0, clip=0.4, lags=history(5)),
            ObservationTerm(name="tip_error", scale=5.0),
            ObservationTerm(name="tip_error", scale=50.0, clip=0.03),
            ObservationTerm(name="target", scale=4.0),
        ),
        action=JointIncrement(joints=chain.joint_names, scale=0.04, max_lead=0.35, clip=1.0),
        command=CommandSpec(signal="command.target", workspace=robot.reach_workspace()),
        chain=chain,
        latency_s=(0.003, 0.045),
    )
