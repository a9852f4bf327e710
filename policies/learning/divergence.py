"""Whether training still has numbers: once losses or weights are infinite or NaN, nothing comes of it any more."""

import math
from collections.abc import Iterator, Mapping

import torch

from isthmus.hardware.errors import IsthmusError


class DivergedError(IsthmusError, ValueError):
    """An update left values that are not finite."""


def not_finite(state: Mapping[str, object], figures: Mapping[str, float] | None = None) -> str:
    """Names of figures, and of tensors below a state, that are not finite, joined; empty where all are."""
    bad = [name for name, value in (figures or {}).items() if not math.isfinite(value)]
    tensors = dict(_tensors(state))
    if bad or not _sums_are_finite(list(tensors.values())):
        bad += [name for name, value in tensors.items() if not bool(torch.isfinite(value).all())]
    return ", ".join(bad[:4]) + (" ..." if len(bad) > 4 else "")


@torch.no_grad()
def _sums_are_finite(tensors: list[torch.Tensor]) -> bool:
    """Quick; a sum of finite values may be too large too, so that False means to look closer."""
    return not tensors or math.isfinite(torch.stack([tensor.float().sum() for tensor in tensors]).sum().item())


def _tensors(value: object, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Floating-point tensors below dicts and lists, with their places."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _tensors(part, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _tensors(part, f"{name}.{index}".lstrip("."))


__all__ = ["DivergedError", "not_finite"]
