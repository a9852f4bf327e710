"""Where the numbers of training go."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from torch.utils.tensorboard import SummaryWriter

from isthmus.hardware.errors import IsthmusError


class MetricsError(IsthmusError, ValueError):
    """A place for metrics cannot be used."""


class MetricsWriter(Protocol):
    """Takes numbers by name."""

    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """Values after `steps` environment steps."""
        ...

    def close(self) -> None:
        """Everything is on its way to where it belongs when this returns."""
        ...


class TensorBoardWriter:
    """Event files in a folder."""

    def __init__(self, folder: Path, *, first_step: int) -> None:
        """Args: first_step: environment steps already done; what an aborted run wrote beyond is hidden."""
        self._writer = SummaryWriter(str(folder), purge_step=first_step or None)

    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """See MetricsWriter."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, steps)

    def close(self) -> None:
        """See MetricsWriter."""
        self._writer.close()


class WandbWriter:
    """A run of Weights & Biases, named after the run's directory and taken up again under the same name."""

    def __init__(self, directory: Path, config: object) -> None:
        """Raises MetricsError when wandb is not installed."""
        try:
            import wandb  # pyright: ignore[reportMissingImports]
        except ModuleNotFoundError:
            raise MetricsError("--wandb needs the package wandb: pip install wandb") from None
        name = directory.resolve().name
        self._run = wandb.init(project="isthmus", id=name, name=name, dir=str(directory), resume="allow", config=config)

    def write(self, steps: int, values: Mapping[str, float]) -> None:
        """See MetricsWriter."""
        self._run.log(dict(values), step=steps)

    def close(self) -> None:
        """See MetricsWriter."""
        self._run.finish()
