"""Each wish for punctuality may be refused; the others are still asked for, and the refusal comes with its cause and remedy."""

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from isthmus.deploy import realtime
from isthmus.deploy.realtime import REMEDIES, Realtime, RealtimeConfig, remedies_of


def refuse(code: int) -> Callable[..., None]:
    def refused(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    return refused


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[object, ...]]:
    """A system that grants everything, and what it was asked; this process stays as it is."""
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: asked.append(("affinity", cpus)))
    monkeypatch.setattr(
        os, "sched_setscheduler", lambda pid, policy, param: asked.append((policy, param.sched_priority))
    )
    monkeypatch.setattr(realtime, "_call", lambda *arguments: asked.append(arguments))
    device = tmp_path / "cpu_dma_latency"
    device.touch()
    monkeypatch.setattr(realtime, "CPU_LATENCY_DEVICE", str(device))
    return asked


def test_everything_is_asked_for(calls: list[tuple[object, ...]], tmp_path: Path):
    with Realtime(RealtimeConfig(priority=42, cpu_latency_us=7)) as granted:
        line = granted.granted.line()
    assert line == "granted: SCHED_FIFO 42, CPU 2, mlockall, cpu_dma_latency, timer slack 1 ns; refused: none"
    assert (os.SCHED_FIFO, 42) in calls and ("affinity", {2}) in calls
    assert (tmp_path / "cpu_dma_latency").read_bytes() == b"\x07\0\0\0"
    assert any(call[0] == "prctl" and call[1] == 29 for call in calls)


def test_the_wish_for_latency_holds_until_it_is_closed(calls: list[tuple[object, ...]], tmp_path: Path):
    def is_open() -> bool:
        here = str(tmp_path / "cpu_dma_latency")
        return any(os.readlink(fd) == here for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink())

    asked = Realtime()
    assert is_open()
    asked.close()
    asked.close()
    assert not is_open()


def refused_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setscheduler", refuse(errno.EPERM))


def refused_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_setaffinity", refuse(errno.EINVAL))


def refused_call(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    def patch(monkeypatch: pytest.MonkeyPatch) -> None:
        granted = realtime._call
        monkeypatch.setattr(realtime, "_call", lambda n, *a: refuse(errno.EPERM)() if n == name else granted(n, *a))

    return patch


def refused_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    granted = os.open
    device = realtime.CPU_LATENCY_DEVICE
    monkeypatch.setattr(os, "open", lambda path, *a: refuse(errno.EACCES)() if path == device else granted(path, *a))


@pytest.mark.parametrize(
    ("what", "patch"),
    [
        ("SCHED_FIFO", refused_priority),
        ("CPU", refused_cpu),
        ("mlockall", refused_call("mlockall")),
        ("cpu_dma_latency", refused_latency),
        ("timer slack", refused_call("prctl")),
    ],
)
def test_a_refusal_is_told_with_cause_and_remedy_and_the_rest_is_granted(
    what: str,
    patch: Callable[[pytest.MonkeyPatch], None],
    calls: list[tuple[object, ...]],
    monkeypatch: pytest.MonkeyPatch,
):
    patch(monkeypatch)
    with Realtime() as asked:
        granted = asked.granted
    (refusal,) = granted.refused
    assert refusal.what == what and refusal.remedy == REMEDIES[what]
    assert refusal.why in (os.strerror(errno.EPERM), os.strerror(errno.EACCES), os.strerror(errno.EINVAL))
    assert len(granted.granted) == (3 if what == "SCHED_FIFO" else 4)  # no CPU of its own without priority
    assert str(granted).endswith(f"refused: {what}")
    assert remedies_of(str(granted)) == (f"{what}: {REMEDIES[what]}",)


def test_a_system_without_real_time_refuses_everything_and_nothing_is_raised(
    calls: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delattr(os, "sched_setscheduler")
    monkeypatch.setattr(realtime, "_call", lambda name, *_: getattr(object(), name))
    monkeypatch.setattr(realtime, "CPU_LATENCY_DEVICE", "/dev/isthmus-nothing")
    with Realtime() as asked:
        granted = asked.granted
    assert granted.granted == ()
    assert [refusal.what for refusal in granted.refused] == ["SCHED_FIFO", "mlockall", "cpu_dma_latency", "timer slack"]
    assert len(remedies_of(granted.line())) == 4


def test_later_memory_is_locked_only_where_no_limit_would_make_its_allocation_fail(
    calls: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for limit, flags in ((1 << 30, 1), (-1, 3)):
        monkeypatch.setattr(realtime.resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        calls.clear()
        Realtime().close()
        assert ("mlockall", flags) in calls


def test_what_was_granted_fits_the_status_and_travels_between_processes(
    calls: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
):
    ours, theirs = multiprocessing.Pipe()
    with Realtime() as asked:
        theirs.send(asked.granted)
        assert ours.recv() == asked.granted
    refused_priority(monkeypatch)
    monkeypatch.setattr(realtime, "_call", refuse(errno.EPERM))
    refused_latency(monkeypatch)
    with Realtime() as asked:
        assert len(asked.granted.line().encode()) < 200
    assert remedies_of("lockstep") == () and remedies_of("granted: CPU 1; refused: none") == ()


def test_a_real_refusal_of_libc_is_an_error_with_its_text():
    with pytest.raises(OSError, match="Invalid argument"):
        realtime._call("prctl", -1, 0, 0, 0)
