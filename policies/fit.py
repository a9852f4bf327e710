"""Whether a contract and a simulated task belong together: the one check for training, evaluation and export."""

from collections.abc import Collection

from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf
from isthmus.hardware.robot import RobotSpec

from .contract import Contract, ContractError, bind
from .contract_checks import check_contract


def fit(contract: Contract, robot: RobotSpec, *, task: str, period: float, signals: Collection[str]) -> list[int]:
    """Match a contract to a simulated task.

    Args:
        contract: of a policy.
        robot: the task's.
        task: the task's name.
        period: s, the task's control tick.
        signals: names of the raw signals that the task gives.

    Returns:
        As `bind`. Training needs them in the robot's own order, see `fit_in_order`.

    Raises:
        ContractError: they do not belong together; says where.
    """
    check_contract(contract)
    period_ns = round(period * 1e9)
    if contract.robot != robot.name or contract.period_ns != period_ns:
        raise ContractError(
            f"a policy for {contract.robot!r} at {contract.period_ns} ns does not fit task {task!r} "
            f"({robot.name!r} at {period_ns} ns)"
        )
    order = bind(contract, robot)
    if contract.chain is not None and (robot.tip_site is None or contract.chain != _own_chain(robot)):
        raise ContractError(
            f"contract: chain differs from the one to the tip in {robot.model_path}; make it from there"
        )
    missing = sorted(set(contract.signals) - set(signals))
    if missing:
        raise ContractError(
            f"the policy needs signals {missing}, which task {task!r} does not give; it gives {sorted(signals)}"
        )
    return order


def fit_in_order(contract: Contract, robot: RobotSpec, *, task: str, period: float, signals: Collection[str]) -> None:
    """As `fit`, of a contract whose graph takes a world's signals as they are: joints must be in the robot's order."""
    order = fit(contract, robot, task=task, period=period, signals=signals)
    if order != sorted(order):
        raise ContractError(
            f"contract: joints are {list(contract.joint_names)}, expected the robot's order, {list(robot.joint_names)}; "
            "a robot finds a bundle's joints by name, training and export do not"
        )


def _own_chain(robot: RobotSpec) -> KinematicChain:
    return chain_from_mjcf(robot.model_path, robot.reach_site())
