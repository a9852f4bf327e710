"""A process that a session starts: the pipe to it, its first word and its last."""

import contextlib
import multiprocessing
import signal
from collections.abc import Callable
from multiprocessing.process import BaseProcess

_START_S = 90.0
_STOP_S = 10.0
_SPAWN = multiprocessing.get_context("spawn")


class Child:
    """A process and the pipe to it."""

    def __init__(self, name: str, target: Callable[..., None], setup: object) -> None:
        self.name = name
        self.pipe, theirs = _SPAWN.Pipe()
        self.process: BaseProcess = _SPAWN.Process(
            target=target, args=(setup, theirs), name=f"isthmus-{name}", daemon=True
        )
        # Ctrl-C goes to every process of a terminal, and this one cannot ignore it yet while it imports.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
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
