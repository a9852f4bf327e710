"""Whether so many environments fit into memory, told before anything is allocated, and in the same words where it runs out later.

What environments need is counted from below, so that nothing which would fit is refused; what is counted too low is told by the failure.
"""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch

from isthmus.hardware.errors import IsthmusError

UNCOUNTED = 2**16  # bytes; where so much for each environment is there, nobody needs to count
_TOLD = ("allocate memory", "not enough memory", "out of memory", "bad_alloc", "Storage size calculation overflowed")


class MemoryShortageError(IsthmusError):
    """More environments than memory holds."""


def check_memory(num_envs: int, bytes_each: Callable[[], float], *, device: str = "cpu") -> None:
    """Refuse more environments than memory can hold.

    Args:
        num_envs: how many.
        bytes_each: least that one of them needs, bytes; asked only when there may be too many.
        device: "cpu" or "cuda": whose memory.

    Raises:
        MemoryShortageError: says what is needed and what there is.
    """
    free = available_bytes(device)
    if free is None or num_envs * UNCOUNTED <= free:
        return
    each = bytes_each()
    if num_envs * each > free:
        raise MemoryShortageError(
            f"num_envs = {num_envs}: they need at least {_size(num_envs * each)} of memory ({each / 1e3:.1f} kB each), and"
            f" {_size(free)} are available; expected fewer than {int(free / each) + 1}"
        )


@contextlib.contextmanager
def telling_shortage(num_envs: int, *, device: str = "cpu") -> Iterator[None]:
    """Make whatever an allocation that failed raised a MemoryShortageError that names the environments."""
    try:
        yield
    except MemoryShortageError:
        raise
    except (MemoryError, RuntimeError, ValueError) as error:
        if not is_shortage(error):
            raise
        free = available_bytes(device)
        left = "" if free is None else f", {_size(free)} are available now"
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise MemoryShortageError(
            f"num_envs = {num_envs}: memory ran out{left}; expected fewer environments ({said})"
        ) from error


def is_shortage(error: BaseException) -> bool:
    """Whether an exception of Python, numpy, torch, MuJoCo or CUDA says that memory ran out."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _TOLD)


def tensor_bytes(tensors: Mapping[str, object]) -> int:
    """What the tensors of a mapping take, bytes."""
    return sum(value.nbytes for value in tensors.values() if isinstance(value, torch.Tensor))


def available_bytes(device: str = "cpu") -> int | None:
    """Memory that may still be taken: of the GPU, or of this computer and the group that this process runs in; None where nobody tells."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else None
    limits = [_of_computer(Path("/proc/meminfo")), *_of_groups(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]
    known = [limit for limit in limits if limit is not None]
    return min(known, default=None)


def _of_computer(meminfo: Path) -> int | None:
    """Memory that is free or can be freed, with swap, bytes."""
    try:
        lines = [line.split() for line in meminfo.read_text().splitlines()]
        sizes = {words[0].rstrip(":"): int(words[1]) * 1024 for words in lines if len(words) > 1}
        return sizes["MemAvailable"] + sizes.get("SwapFree", 0)
    except (OSError, ValueError, KeyError):
        return None


def _of_groups(membership: Path, root: Path) -> Iterator[int | None]:
    """What each control group above this process has left, bytes; what its files in memory take can be freed."""
    try:
        lines = [line.split(":", 2) for line in membership.read_text().splitlines()]
    except OSError:
        return
    for number, controllers, path in lines:
        if number == "0":
            top, left = root, _of_group
        elif "memory" in controllers.split(","):
            top, left = root / "memory", _of_old_group
        else:
            continue
        folder = top / path.strip("/")
        for group in (folder, *folder.parents):
            yield left(group)
            if group == top:
                break


def _of_group(group: Path) -> int | None:
    """Version 2; None without a limit."""
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        swap = int((group / "memory.swap.max").read_text()) if (group / "memory.swap.max").is_file() else 0
        return limit + swap - used + _listed(group / "memory.stat", "file")
    except (OSError, ValueError):  # "max": no limit
        return None


def _of_old_group(group: Path) -> int | None:
    """Version 1, where no limit is a number beyond any memory."""
    try:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        limit, used = (int((group / name).read_text()) for name in names)
        return limit - used + _listed(group / "memory.stat", "total_cache")
    except (OSError, ValueError):
        return None


def _listed(path: Path, key: str) -> int:
    return int(dict(line.split() for line in path.read_text().splitlines()).get(key, "0"))


def _size(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
