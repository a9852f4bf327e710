"""More environments than memory holds are refused with numbers, what fits never, and a failed allocation is told alike."""

from pathlib import Path

import numpy as np
import pytest
import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.robot import load_robot
from isthmus.hardware.structure import FormatError
from isthmus.sim import memory
from isthmus.sim.engines import make_engine
from isthmus.sim.memory import UNCOUNTED, MemoryShortageError, check_memory, telling_shortage
from isthmus.sim.scene import Scene

GB = 10**9


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> int:
    """A computer with so much memory left, bytes."""
    monkeypatch.setattr(memory, "available_bytes", lambda device="cpu": 8 * GB)
    return 8 * GB


def test_what_needs_more_than_there_is_is_refused_with_both_numbers(free: int):
    with pytest.raises(
        MemoryShortageError, match=r"num_envs = 3000000: .* 9\.0 GB .*\(3\.0 kB each\), and 8\.0 GB are"
    ):
        check_memory(3_000_000, lambda: 3000.0)


def test_what_just_fits_is_not_refused(free: int):
    check_memory(free // 4000, lambda: 4000.0)
    with pytest.raises(MemoryShortageError, match="expected fewer than 2000001"):
        check_memory(free // 4000 + 1, lambda: 4000.0)


def test_nobody_counts_where_there_is_plenty_or_nobody_knows(free: int, monkeypatch: pytest.MonkeyPatch):
    def count() -> float:
        raise AssertionError("counted")

    check_memory(free // UNCOUNTED, count)
    monkeypatch.setattr(memory, "available_bytes", lambda device="cpu": None)
    check_memory(10**12, count)


def test_an_engine_of_too_many_environments_is_refused_before_it_is_built(free: int):
    scene = Scene(robot=load_robot("cartpole"))
    with pytest.raises(MemoryShortageError, match=r"num_envs = 1000000000: .*GB"):
        make_engine("mujoco", scene, 10**9, dt=0.005)
    with pytest.raises(FormatError, match="num_envs = 0; expected at least 1"):
        make_engine("mujoco", scene, 0, dt=0.005)
    with pytest.raises(FormatError, match=r"dt = 0\.0; expected a positive"):
        make_engine("mujoco", scene, 1, dt=0.0)


def test_the_count_of_an_engine_is_below_what_it_takes(monkeypatch: pytest.MonkeyPatch):
    scene, counted = Scene(robot=load_robot("go2")), []
    monkeypatch.setattr("isthmus.sim.engines.check_memory", lambda n, each, device: counted.append(each()))
    engine = make_engine("mujoco", scene, 50, dt=0.005)
    held = engine.batch.state.nbytes + sum(value.nbytes for value in engine.parameters.values.values())  # pyright: ignore[reportAttributeAccessIssue]
    assert 0 < counted[0] <= 1.05 * held / 50


def tensor_too_large() -> None:
    torch.empty(2**50)


def array_too_large() -> None:
    np.zeros(2**50)


def raise_alike(error: Exception):
    def do() -> None:
        raise error

    return do


@pytest.mark.parametrize(
    "do",
    [
        tensor_too_large,
        array_too_large,
        raise_alike(MemoryError()),
        raise_alike(ValueError("std::bad_alloc")),
        raise_alike(RuntimeError("CUDA error: out of memory")),
        raise_alike(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")),
    ],
)
def test_an_allocation_that_fails_names_the_environments(do, free: int):
    words = r"num_envs = 77: memory ran out, 8\.0 GB are available now; expected fewer"
    with pytest.raises(IsthmusError, match=words), telling_shortage(77):
        do()


@pytest.mark.parametrize("error", [RuntimeError("shapes differ"), ValueError("no"), KeyError("x")])
def test_other_errors_stay_what_they_are(error: Exception):
    with pytest.raises(type(error)) as raised, telling_shortage(77):
        raise error
    assert raised.value is error


MEMINFO = "MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:  2000 kB\nSwapFree: 500 kB\nHugePages_Total: 0\n"


def test_a_computer_tells_what_is_free_and_what_can_be_freed(tmp_path: Path):
    path = tmp_path / "meminfo"
    path.write_text(MEMINFO)
    assert memory._of_computer(path) == 2500 * 1024
    path.write_text("MemTotal: 100 kB\n")
    assert memory._of_computer(path) is None and memory._of_computer(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("line", "place", "names"),
    [
        ("0::/jobs/mine", "jobs", ("memory.max", "memory.current", "file")),
        ("4:memory:/jobs/mine", "memory/jobs", ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache")),
    ],
)
def test_a_group_may_hold_less_than_its_computer(line: str, place: str, names: tuple[str, str, str], tmp_path: Path):
    group = tmp_path / place
    (group / "mine").mkdir(parents=True)
    for folder, limit in ((group, "5000"), (group / "mine", "max")):
        (folder / names[0]).write_text(limit)
        (folder / names[1]).write_text("3000")
        (folder / "memory.stat").write_text(f"anon 2000\n{names[2]} 900\n")
    (tmp_path / "cgroup").write_text(f"9:cpu:/\n{line}\n")
    left = [limit for limit in memory._of_groups(tmp_path / "cgroup", tmp_path) if limit is not None]
    assert left == [5000 - 3000 + 900]


def test_this_computer_tells_its_memory():
    assert 0 < (memory.available_bytes() or 1) < 2**50
