"""What the future of an object depends on, as a flat dict of tensors with dotted names, from which it resumes with the same bits."""

from collections.abc import Mapping
from typing import ClassVar, Protocol, runtime_checkable

import torch

from isthmus.hardware.errors import IsthmusError

State = dict[str, torch.Tensor]
_SHOWN = 4  # names in an error


class StateError(IsthmusError, ValueError):
    """A state of another object."""


@runtime_checkable
class Stateful(Protocol):
    """Something that can be left and taken up again."""

    def state_dict(self) -> State:
        """All that its future depends on, as tensors of their own."""
        ...

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from there; raises ValueError for the state of another object."""
        ...


class TensorState:
    """State in named attributes: tensors, numbers, dicts of tensors, and parts that are Stateful or None.

    Tensors are replaced and not written to, so that what was handed out before stays as it was.
    """

    _changing: ClassVar[tuple[str, ...]]  # names of the attributes

    def state_dict(self) -> State:
        """All that its future depends on, as tensors of their own."""
        state: State = {}
        for name in self._changing:
            key, value = name.lstrip("_"), getattr(self, name)
            if isinstance(value, torch.Tensor):
                state[key] = value.clone()
            elif isinstance(value, int | float):
                state[key] = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)
            elif isinstance(value, dict):
                state |= {f"{key}.{part}": tensor.clone() for part, tensor in value.items()}
            elif value is not None:
                state |= prefixed(key, value.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Go on from there; raises ValueError for the state of another object."""
        check_state(type(self).__name__, self.state_dict(), state)
        self._take(state)

    def _take(self, state: Mapping[str, torch.Tensor]) -> None:
        for name in self._changing:
            key, value = name.lstrip("_"), getattr(self, name)
            if isinstance(value, torch.Tensor):
                setattr(self, name, state[key].to(value.device, copy=True))
            elif isinstance(value, int | float):
                setattr(self, name, type(value)(state[key].item()))
            elif isinstance(value, dict):
                for part, tensor in value.items():
                    value[part] = state[f"{key}.{part}"].to(tensor.device, copy=True)
            elif value is not None:
                value.load_state_dict(part_of(key, state))


def prefixed(name: str, state: Mapping[str, torch.Tensor]) -> State:
    """The state of a part, as part of the whole's."""
    return {f"{name}.{key}": value for key, value in state.items()}


def part_of(name: str, state: Mapping[str, torch.Tensor]) -> State:
    """The state of a part, out of the whole's."""
    start = f"{name}."
    return {key.removeprefix(start): value for key, value in state.items() if key.startswith(start)}


def check_state(owner: str, mine: Mapping[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
    """Refuse (StateError) a state with other names, shapes or types than `mine`."""
    for what, names in (("lacks", mine.keys() - state.keys()), ("has, beyond its own,", state.keys() - mine.keys())):
        if names:
            shown = ", ".join(sorted(names)[:_SHOWN]) + (" ..." if len(names) > _SHOWN else "")
            raise StateError(f"state of another {owner}: it {what} {shown}; build the same one that was saved")
    for name, value in mine.items():
        got = state[name]
        if got.shape != value.shape or got.dtype != value.dtype:
            raise StateError(
                f"state of another {owner}: expected {name} of shape {tuple(value.shape)}, {value.dtype}, "
                f"got {tuple(got.shape)}, {got.dtype}; build the same one that was saved"
            )
