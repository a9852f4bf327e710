"""The operator's own process: a key reaches the runtime at once, a heartbeat besides; it ends with a word, or with its supervisor."""

import multiprocessing
import os
import pty
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import Connection
from threading import Thread

import numpy as np
import pytest

from isthmus.deploy.messages import OPERATOR_DTYPE, OperatorCommand, operator_from_record, status_dtype
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators import process
from isthmus.deploy.operators.keyboard import KeyboardOperator
from isthmus.deploy.operators.operator import OperatorError, OperatorFactory, ViewSource
from isthmus.deploy.operators.process import OperatorSetup, operator_main, view_of
from isthmus.deploy.shm import Mailbox

N = 3


class Mailboxes:
    def __init__(self) -> None:
        self.status = Mailbox(status_dtype(N))
        self.commands = Mailbox(OPERATOR_DTYPE)

    def setup(self, factory: OperatorFactory) -> OperatorSetup:
        return OperatorSetup(factory=factory, num_joints=N, status=self.status.name, commands=self.commands.name)

    def tick(self, episode: int) -> None:
        record = np.zeros((), dtype=status_dtype(N))
        record["episode"], record["mode"] = episode, Mode.POLICY
        record["target"], record["joint_pos"], record["executed_target"] = 0.25, [1, 2, 3], [4, 5, 6]
        self.status.write(record)

    def command(self) -> OperatorCommand:
        record = self.commands.read()
        return OperatorCommand() if record is None else operator_from_record(record)

    def until(self, wanted: Callable[[OperatorCommand], bool]) -> OperatorCommand:
        deadline = time.monotonic() + 10.0
        while not wanted(command := self.command()):
            assert time.monotonic() < deadline, f"never came: {command}"
        return command


@pytest.fixture
def boxes() -> Iterator[Mailboxes]:
    boxes = Mailboxes()
    yield boxes
    boxes.status.close()
    boxes.commands.close()


class Served:
    """The process's main in a thread of this one."""

    def __init__(self, boxes: Mailboxes, factory: OperatorFactory) -> None:
        self.pipe, control = multiprocessing.Pipe()
        self.codes: list[object] = []
        self._thread = Thread(target=self._main, args=(boxes.setup(factory), control), daemon=True)
        self._thread.start()

    def _main(self, setup: OperatorSetup, control: Connection) -> None:
        try:
            operator_main(setup, control)
            self.codes.append(0)
        except SystemExit as end:
            self.codes.append(end.code)

    def wait(self) -> object:
        """The exit code."""
        self._thread.join(10.0)
        return self.codes[0]


@pytest.fixture
def serve(boxes: Mailboxes, monkeypatch: pytest.MonkeyPatch) -> Callable[[OperatorFactory], Served]:
    monkeypatch.setattr(process.signal, "signal", lambda *_: None)  # only a main thread may
    return partial(Served, boxes)


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    os.close(theirs)
    os.close(ours)


def test_a_key_reaches_the_runtime_without_waiting_for_a_heartbeat(
    boxes: Mailboxes,
    serve: Callable[[OperatorFactory], Served],
    terminal: tuple[int, str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(process, "_HEARTBEAT_S", 3600.0)
    boxes.tick(0)
    served = serve(partial(KeyboardOperator, terminal=terminal[1]))
    boxes.until(lambda c: c.sequence == 1)
    for press in range(4):
        time.sleep(0.15)  # sooner is a terminal's repeat
        sent_ns = time.monotonic_ns()
        os.write(terminal[0], b" ")
        command = boxes.until(lambda c, sent_ns=sent_ns: c.pressed_ns > sent_ns)
        assert command.engaged == (press % 2 == 0)
    assert boxes.command().sequence == 5  # and nobody polls in vain
    served.pipe.send("end")
    assert served.wait() == 0


def test_the_heart_beats_while_nobody_does_anything(
    boxes: Mailboxes, serve: Callable[[OperatorFactory], Served], terminal: tuple[int, str]
):
    served = serve(partial(KeyboardOperator, terminal=terminal[1]))
    boxes.until(lambda c: c.sequence > 10)
    served.pipe.send("end")
    assert served.wait() == 0
    assert process._HEARTBEAT_S < 0.02


def test_a_terminal_that_is_closed_ends_the_process_with_a_word(boxes: Mailboxes):
    ours, theirs = pty.openpty()
    spawn = multiprocessing.get_context("spawn")
    pipe, control = spawn.Pipe()
    setup = boxes.setup(partial(KeyboardOperator, terminal=os.ttyname(theirs)))
    child = spawn.Process(target=operator_main, args=(setup, control))
    child.start()
    control.close()
    assert pipe.poll(60.0) and pipe.recv() == "ready"
    boxes.until(lambda c: c.heartbeat_ns > 0)
    os.close(theirs)
    os.close(ours)
    assert pipe.poll(10.0) and "the keyboard cannot be read" in pipe.recv()
    child.join(10.0)
    assert child.exitcode == 2


class Breaking:
    """An operator whose device goes away at its third poll."""

    def __init__(self, view: ViewSource) -> None:
        self.polls = self.closed = 0

    def poll(self, now_ns: int) -> OperatorCommand:
        self.polls += 1
        if self.polls == 3:
            raise OperatorError("the pad is gone; plug it in again")
        return OperatorCommand(sequence=self.polls, heartbeat_ns=now_ns)

    def filenos(self) -> tuple[int, ...]:
        return ()

    def close(self) -> None:
        self.closed += 1


def test_a_device_that_vanishes_is_told_and_closed(boxes: Mailboxes, serve: Callable[[OperatorFactory], Served]):
    operator = Breaking(lambda: None)  # pyright: ignore[reportArgumentType]
    served = serve(lambda view: operator)
    assert served.wait() == 2 and operator.closed == 1
    assert [served.pipe.recv(), served.pipe.recv()] == ["ready", "the pad is gone; plug it in again"]
    assert boxes.command().sequence == 2  # no heartbeat any more: the runtime holds


def test_a_device_that_cannot_be_opened_is_told_instead_of_ready(serve: Callable[[OperatorFactory], Served]):
    def factory(view: ViewSource) -> Breaking:
        raise OperatorError("no gamepad found")

    served = serve(factory)
    assert served.wait() == 2 and served.pipe.recv() == "no gamepad found"


def test_an_operator_sees_what_the_runtime_publishes(boxes: Mailboxes):
    view = view_of(boxes.status, N)
    before = view()
    assert before.episode == -1 and before.mode is Mode.IDLE
    assert np.isnan(before.joint_pos).all() and np.isnan(before.executed_target).all()
    boxes.tick(7)
    after = view()
    assert after.episode == 7 and after.mode is Mode.POLICY and after.target.tolist() == [0.25] * 3
    assert after.joint_pos.tolist() == [1, 2, 3] and after.executed_target.tolist() == [4, 5, 6]
