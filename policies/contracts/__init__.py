"""One small file per task and robot: what the policy sees, how it acts.

Installed packages add theirs by entry point group `isthmus.contracts`, under the name of their task.
"""

from collections.abc import Callable

from isthmus.hardware.plugins import plugins

from ..contract import Contract, ContractError
from ..contract_checks import check_contract
from .cartpole_balance import cartpole_balance
from .go2_velocity import go2_velocity, go2_velocity_rough
from .hand_rotate import hand_rotate
from .quadrotor_hover import quadrotor_hover
from .so101_insert import so101_insert
from .so101_reach import so101_reach

OWN: dict[str, Callable[[], Contract]] = {
    "cartpole-balance": cartpole_balance,
    "so101-reach": so101_reach,
    "so101-insert": so101_insert,
    "go2-velocity": go2_velocity,
    "go2-velocity-rough": go2_velocity_rough,
    "quadrotor-hover": quadrotor_hover,
    "hand-rotate": hand_rotate,
}


def contracts() -> tuple[Contract, ...]:
    """The contract of every task that isthmus brings."""
    return tuple(make() for make in OWN.values())


def get_contract(task: str) -> Contract:
    """The contract for a task; raises ContractError naming the known ones, or what is wrong with it."""
    known = plugins("isthmus.contracts", Contract, OWN)
    if task not in known:
        raise ContractError(f"no contract for task {task!r}; known: {', '.join(known)}")
    contract = known[task]()
    if contract.task != task:
        raise ContractError(f"the contract for {contract.task!r} is registered as {task!r}; use one name")
    check_contract(contract)
    return contract
