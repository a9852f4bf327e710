"""An engine on a GPU for a world on the CPU."""

import dataclasses
from typing import Any, cast

import torch

from .engine import Engine

_HOST = torch.device("cpu")


def on_host(engine: Engine) -> Engine:
    """The engine as a world on the CPU needs it: tensors cross over at every call. An engine that is there already stays as it is."""
    return engine if engine.device == _HOST else cast(Engine, OnHost(engine))


class OnHost:
    """Passes every call on, its tensors moved to the engine's device and the results back."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self.device = engine, _HOST
        self.scene, self.num_envs, self.dt = engine.scene, engine.num_envs, engine.dt

    def __getattr__(self, name: str) -> Any:
        function, there = getattr(self._engine, name), self._engine.device

        def call(*args: Any, **kwargs: Any) -> Any:
            return moved(function(*moved(args, there), **moved(kwargs, there)), self.device)

        return call


def moved(value: Any, device: torch.device) -> Any:
    """Tensors, and tensors inside dataclasses and containers, on a device."""
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: moved(getattr(value, f.name), device) for f in dataclasses.fields(value)})
    if isinstance(value, dict):
        return {name: moved(item, device) for name, item in value.items()}
    return tuple(moved(item, device) for item in value) if isinstance(value, tuple) else value
