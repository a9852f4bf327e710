"""What the operating system can do for punctuality; each is asked for, none is needed, and what is refused is told with its remedy."""

import ctypes
import errno
import gc
import os
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType

CPU_LATENCY_DEVICE = "/dev/cpu_dma_latency"
_MCL_CURRENT, _MCL_FUTURE = 1, 2
_PR_SET_TIMERSLACK = 29

REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        "SCHED_FIFO": "put '* - rtprio 99' into /etc/security/limits.d/isthmus.conf and log in again; "
        "in a container: --cap-add SYS_NICE --ulimit rtprio=99",
        "CPU": "choose one of the CPUs that `taskset -p $$` lists; in a container: --cpuset-cpus",
        "mlockall": "put '* - memlock unlimited' into /etc/security/limits.d/isthmus.conf and log in again; "
        "in a container: --cap-add IPC_LOCK --ulimit memlock=-1",
        "cpu_dma_latency": f'let your group write {CPU_LATENCY_DEVICE}, by a udev rule KERNEL=="cpu_dma_latency", MODE="0660"; '
        f"in a container: --device {CPU_LATENCY_DEVICE}",
        "timer slack": "the kernel must be Linux 2.6.28 or newer; a sandbox may forbid prctl",
    }
)
"""What to do about each refusal, by the name that stands in `Granted.line`."""


@dataclass(frozen=True, kw_only=True)
class RealtimeConfig:
    """What is asked for."""

    priority: int = 70  # SCHED_FIFO, 1 .. 99; interrupt threads of an RT kernel run at 50
    cpu: int | None = None  # to stay on; None: the last one that this process may use
    cpu_latency_us: int = 0  # longest way out of a sleep state that CPUs may choose
    timer_slack_ns: int = 1  # by how much the kernel may delay a wake-up without SCHED_FIFO; 1 is the least


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Something that was asked for and not given."""

    what: str  # a key of REMEDIES
    why: str
    remedy: str


@dataclass(frozen=True, kw_only=True)
class Granted:
    """What the operating system said; picklable."""

    granted: tuple[str, ...]
    refused: tuple[Refusal, ...]

    def line(self) -> str:
        """One line for people."""
        refused = ", ".join(refusal.what for refusal in self.refused)
        return f"granted: {', '.join(self.granted) or 'none'}; refused: {refused or 'none'}"

    def __str__(self) -> str:
        return self.line()


class Realtime:
    """Real-time scheduling of this thread. A context manager: leaving it lets the CPUs sleep as deeply as before.

    Scheduling, affinity and locked memory stay: they end with the process.
    """

    def __init__(self, config: RealtimeConfig | None = None) -> None:
        """Ask for everything; raises nothing, see `granted`."""
        config = RealtimeConfig() if config is None else config
        self._latency_fd = -1
        self._granted: list[str] = []
        self._refused: list[Refusal] = []
        if self._ask("SCHED_FIFO", lambda: _set_priority(config.priority), detail=f" {config.priority}"):
            cpu = max(_allowed_cpus()) if config.cpu is None else config.cpu
            # Only with priority: without it a busy neighbour on that CPU would be worse than moving away.
            self._ask("CPU", lambda: os.sched_setaffinity(0, {cpu}), detail=f" {cpu}")
        self._ask("mlockall", _lock_memory)
        self._ask("cpu_dma_latency", lambda: self._hold_latency(config.cpu_latency_us))
        self._ask("timer slack", lambda: _set_timer_slack(config.timer_slack_ns), detail=f" {config.timer_slack_ns} ns")

    @property
    def granted(self) -> Granted:
        """What was granted and what refused."""
        return Granted(granted=tuple(self._granted), refused=tuple(self._refused))

    def close(self) -> None:
        """Let the CPUs sleep again; may be called twice."""
        if self._latency_fd >= 0:
            os.close(self._latency_fd)
            self._latency_fd = -1

    def _ask(self, what: str, ask: Callable[[], None], *, detail: str = "") -> bool:
        try:
            ask()
        except (OSError, AttributeError) as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else "this system does not have it"
            self._refused.append(Refusal(what=what, why=why, remedy=REMEDIES[what]))
            return False
        self._granted.append(f"{what}{detail}")
        return True

    def _hold_latency(self, latency_us: int) -> None:
        """The wish holds as long as the descriptor is open (Linux, Documentation/power/pm_qos_interface)."""
        descriptor = os.open(CPU_LATENCY_DEVICE, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, latency_us.to_bytes(4, "little", signed=True))
        except OSError:
            os.close(descriptor)
            raise
        self._latency_fd = descriptor

    def __enter__(self) -> "Realtime":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()


def ask_for_realtime() -> str:
    """Ask for everything, for the rest of this process's life; returns `Granted.line`."""
    return Realtime().granted.line()  # its descriptor is closed by nobody, so it stays open until the process ends


def remedies_of(line: str) -> tuple[str, ...]:
    """What to do about the refusals that a `Granted.line` names, one text each; none where nothing was refused."""
    _, _, refused = line.partition("refused: ")
    return tuple(f"{what}: {REMEDIES[what]}" for what in refused.split(", ") if what in REMEDIES)


def stop_garbage_collection() -> None:
    """No collection from here on: the tick makes no reference cycles, and a pause would be a late tick."""
    gc.collect()
    gc.freeze()
    gc.disable()


def _set_priority(priority: int) -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))


def _allowed_cpus() -> set[int]:
    return os.sched_getaffinity(0)


def _lock_memory() -> None:
    """What is mapped now; what comes later too, unless a limit would make its allocation fail."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    unlimited = soft == resource.RLIM_INFINITY or os.geteuid() == 0
    _call("mlockall", _MCL_CURRENT | (_MCL_FUTURE if unlimited else 0))


def _set_timer_slack(slack_ns: int) -> None:
    _call(
        "prctl", _PR_SET_TIMERSLACK, ctypes.c_ulong(slack_ns), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )


def _call(name: str, *arguments: object) -> None:
    """A function of libc that returns 0, or -1 and errno; raises OSError, or AttributeError where it does not exist."""
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments) != 0:
        code = ctypes.get_errno() or errno.EPERM
        raise OSError(code, os.strerror(code))
