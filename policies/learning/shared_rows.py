"""Multilayer perceptrons over many rows: shared among threads, and with hidden layers in bfloat16 where asked."""

from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

import torch
from torch import nn

# Rows that a thread works on at once; their activations mostly stay in cache. Fixed, so that no sum depends on the number of cores.
CHUNK = 1536
INFERENCE_CHUNK = 512

T = TypeVar("T")


class _Elu(torch.autograd.Function):
    """ELU (alpha 1) by exp, which is vectorised; torch's own goes through expm1 and takes twice the time."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.clamp(x, max=0).exp_().sub_(1).add_(torch.relu(x))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *grad_outputs: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return torch.clamp(y, max=0).add_(1).mul_(grad_outputs[0])


def elu(x: torch.Tensor) -> torch.Tensor:
    """ELU: x where positive, exp(x) - 1 elsewhere; within 1e-7 of torch's."""
    return _Elu.apply(x)  # pyright: ignore[reportReturnType]


def mlp_forward(mlp: nn.Sequential, x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """What `mlp(x)` gives, hidden layers computed in `dtype`; the last layer and the result stay float32."""
    *hidden, last = mlp
    y = x.to(dtype)
    for layer in hidden:
        if isinstance(layer, nn.Linear):
            y = nn.functional.linear(y, layer.weight.to(dtype), layer.bias.to(dtype))
        elif isinstance(layer, nn.ELU) and layer.alpha == 1.0:
            y = elu(y)
        else:
            y = layer(y)
    return last(y.float())


def each_chunk(workers: Executor, function: Callable[[slice], T], starts: range, stop: int) -> Iterator[T]:
    """`function` of the rows from each start to the next one, the last to `stop`, in order; several threads work on several chunks."""
    pieces = [slice(first, min(first + starts.step, stop)) for first in starts]
    if len(pieces) == 1:
        yield function(pieces[0])
        return
    for future in [workers.submit(function, piece) for piece in pieces]:
        yield future.result()
