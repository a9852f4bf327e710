"""A process that a session starts: the pipe to it, its first word and its last."""

import contextlib
import multiprocessing
import signal
import threading
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess

_START_S = 90.0
_STOP_S = 10.0
_SPAWN = multiprocessing.get_context("spawn")


@contextlib.contextmanager
def _interruption_put_off() -> Iterator[None]:
    """Ctrl-C waits until a process has been started whole.

    It goes to every process of a terminal: the new one, which cannot ignore it yet while it imports, is born with it blocked. And it may
    reach any thread of this one, which a blocked signal does not prevent: so it is caught here, and raised afterwards.
    """
    caught: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda number, frame: caught.append(number)) if main else None
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        if main:
            signal.signal(signal.SIGINT, before)
    if caught:
        signal.raise_signal(signal.SIGINT)


class Child:
    """A process and the pipe to it."""

    def __init__(self, name: str, target: Callable[..., None], setup: object) -> None:
        self.name = name
        self.pipe, theirs = _SPAWN.Pipe()
        self.process: BaseProcess = _SPAWN.Process(
            target=target, args=(setup, theirs), name=f"isthmus-{name}", daemon=True
        )
        with _interruption_put_off():
            self.process.start()
        theirs.close()

    def first_word(self) -> object:
        """What the process says once it is ready, or why it is not."""
        try:
            if self.pipe.poll(_START_S):
                return self.pipe.recv()
        except EOFError:
            pass
        self.process.join(1.0)
        return f"the {self.name} process ended with code {self.process.exitcode} before it was ready"

    def last_words(self) -> str:
        """Why the process ended, as far as it is known."""
        with contextlib.suppress(EOFError, OSError):
            if self.pipe.poll():
                return f"ended: {self.pipe.recv()}"
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"was killed by {signal.Signals(-code).name}"
        return f"ended with code {code}"

    def end(self, *, ask: bool) -> None:
        """Wait for the process to end, having asked it to where `ask`; kill it where it does not."""
        if ask:
            with contextlib.suppress(OSError):
                self.pipe.send("end")
        self.process.join(_STOP_S)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()
