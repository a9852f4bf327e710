"""Actuator networks for tests."""

import warnings
from pathlib import Path

import torch


def mlp(width: int, outputs: int = 1) -> torch.nn.Sequential:
    """Small and random, the same at every call."""
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(width, 32), torch.nn.Softsign(), torch.nn.Linear(32, 32), torch.nn.Softsign()
    ).append(torch.nn.Linear(32, outputs))


def save_net(
    net: torch.nn.Module,
    path: Path,
    width: int,
    *,
    names: tuple[str, str] = ("history", "effort"),
    free_rows: bool = True,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """The network as ONNX, in the form of an actuator network unless told otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the exporter that traces needs no onnxscript and is quick
        torch.onnx.export(
            net.to(dtype),
            (torch.zeros(1, width, dtype=dtype),),
            str(path),
            input_names=names[:1],
            output_names=names[1:],
            dynamic_axes={names[0]: {0: "rows"}, names[1]: {0: "rows"}} if free_rows else None,
            dynamo=False,
        )
    return path
