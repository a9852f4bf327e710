"""Who may use which core while training.

Torch and the physics engine each bring a pool of threads. Two pools that are busy at once on the same cores are several times slower than
one, and torch's own pool, whose threads wait for each other after every operation, becomes ten times slower as soon as any other
program wants a core. So it stays at one thread. The update shares its rows among Python threads instead: they meet once per
mini-batch and lose little when a core is taken away for a while.
"""

import os
from concurrent.futures import ThreadPoolExecutor

import torch


def available_cores() -> int:
    """Cores that this process may use; of a machine shared by the processes of a distributed run, its part."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


def one_torch_thread() -> None:
    """Torch's own pool off for the whole process; call before any work."""
    torch.set_num_threads(1)


def row_workers() -> ThreadPoolExecutor:
    """A thread per core, for work that releases the interpreter's lock."""
    return ThreadPoolExecutor(available_cores(), thread_name_prefix="isthmus-rows")


def bfloat16_is_fast() -> bool:
    """Whether this CPU multiplies bfloat16 in hardware; elsewhere it is slower than float32."""
    support = torch.cpu.get_capabilities() if hasattr(torch.cpu, "get_capabilities") else {}
    return bool(support.get("avx512_bf16") or support.get("amx_bf16") or support.get("bf16"))
