"""Training in several processes of one machine: gradients are averaged over gloo, each process has worlds of its own."""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
from torch import distributed

from isthmus.hardware.errors import IsthmusError

WAIT = timedelta(minutes=10)  # for another process, before giving up: longer than any iteration or save


T = TypeVar("T")


class DistributedError(IsthmusError, RuntimeError):
    """A process of a distributed run failed."""


@dataclass(frozen=True, kw_only=True)
class Process:
    """This process among those that train together."""

    rank: int = 0
    count: int = 1

    @property
    def multi_gpu(self) -> dict[str, int] | None:
        """What rsl-rl wants to know; None alone."""
        if self.count == 1:
            return None
        return {"global_rank": self.rank, "local_rank": self.rank, "world_size": self.count}

    def any(self, flag: bool) -> bool:
        """Whether any process says so; every process must ask."""
        if self.count == 1:
            return flag
        votes = torch.tensor([float(flag)])
        distributed.all_reduce(votes)
        return bool(votes > 0)

    def wait(self) -> None:
        """Until every process is here."""
        if self.count > 1:
            distributed.barrier()


def this_process() -> Process:
    """Alone, unless `launch` started it."""
    if not distributed.is_initialized():
        return Process()
    return Process(rank=distributed.get_rank(), count=distributed.get_world_size())


def launch(function: Callable[..., T], arguments: tuple[object, ...], processes: int) -> T:
    """Run `function(*arguments)` in so many processes that know of each other; what the first one returned.

    Args:
        function: importable by its module and name.
        arguments: given to every process; picklable.
        processes: on this machine.

    Raises:
        DistributedError: one of them failed; the others have been ended.
        KeyboardInterrupt: they ended after Ctrl-C.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        run_id=f"isthmus-{os.getpid()}",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        max_restarts=0,
        start_method="spawn",
    )
    before = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
    }
    try:
        return elastic_launch(config, _joined)(function, arguments)[0]
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        said = failure.message  # a text, or a mapping with one
        text = said.get("message", said) if isinstance(said, dict) else said
        raise DistributedError(f"process {rank} of {processes} failed: {text}") from None
    except SignalException:
        raise KeyboardInterrupt from None
    finally:  # the launcher leaves its own handlers behind
        for number, handler in before.items():
            signal.signal(number, handler)


def _joined(function: Callable[..., T], arguments: tuple[object, ...]) -> T:
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))  # as orderly as by Ctrl-C
    distributed.init_process_group("gloo", timeout=WAIT)
    try:
        return function(*arguments)
    finally:
        distributed.destroy_process_group()
