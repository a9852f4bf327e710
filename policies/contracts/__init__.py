"""One small file per task and robot: what the policy sees, how it acts."""

from ..contract import Contract, ContractError
from .so101_reach import so101_reach


def get_contract(task: str) -> Contract:
    """The contract for a task; raises ContractError naming the known ones."""
    known = {contract.task: contract for contract in (so101_reach(),)}
    if task not in known:
        raise ContractError(f"no contract for task {task!r}; known: {', '.join(known)}")
    return known[task]
