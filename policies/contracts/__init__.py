"""One small file per task and robot: what the policy sees, how it acts."""

from ..contract import Contract, ContractError
from .cartpole_balance import cartpole_balance
from .go2_velocity import go2_velocity
from .hand_rotate import hand_rotate
from .quadrotor_hover import quadrotor_hover
from .so101_insert import so101_insert
from .so101_reach import so101_reach


def contracts() -> tuple[Contract, ...]:
    """The contract of every task that isthmus brings."""
    return cartpole_balance(), so101_reach(), so101_insert(), go2_velocity(), quadrotor_hover(), hand_rotate()


def get_contract(task: str) -> Contract:
    """The contract for a task; raises ContractError naming the known ones."""
    known = {contract.task: contract for contract in contracts()}
    if task not in known:
        raise ContractError(f"no contract for task {task!r}; known: {', '.join(known)}")
    return known[task]
