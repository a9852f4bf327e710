"""What a policy or a critic that sees everything is shown, and whether two worlds show the same in the same places."""

from isthmus.sim.world import World

from ..contract import Contract
from .env import hidden_scale


def scaled_parameters(world: World) -> dict[str, tuple[float, ...]]:
    """The randomised parameters in the order in which they are shown, with what each of their values is multiplied by."""
    scales, names = iter(hidden_scale(world).tolist()), world.parameters
    return {name: tuple(next(scales) for _ in range(value.shape[1])) for name, value in names.items()}


def shown_otherwise(its: World, its_contract: Contract, here: World, contract: Contract) -> str:
    """What differs in what a critic is shown, in words; empty where nothing does."""
    if its_contract.observation != contract.observation or its_contract.joint_names != contract.joint_names:
        return f"it saw the observation of {its.task.name!r}, which differs from that of {here.task.name!r}"
    if its.task.name != here.task.name and its.task.privileged != here.task.privileged:
        return f"it saw what task {its.task.name!r} tells critics, task {here.task.name!r} tells others"
    theirs, ours = scaled_parameters(its), scaled_parameters(here)
    if list(theirs) != list(ours):
        return f"it saw the parameters {_names(theirs)}; here they are {_names(ours)}"
    scaled = [name for name in ours if theirs[name] != ours[name]]
    return "; ".join(
        f"it saw {name} times {_numbers(theirs[name])}, here it is times {_numbers(ours[name])}" for name in scaled
    )


def _names(parameters: dict[str, tuple[float, ...]]) -> str:
    return ", ".join(parameters) or "(none)"


def _numbers(scales: tuple[float, ...]) -> str:
    return ", ".join(f"{scale:.5g}" for scale in dict.fromkeys(scales))


__all__ = ["scaled_parameters", "shown_otherwise"]
