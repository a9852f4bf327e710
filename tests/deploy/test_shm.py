"""Mailboxes and rings under the worst readers, writers and deaths."""

import multiprocessing
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from shm_writers import DTYPE, is_whole, push_for_ever, record, write_for_ever

from isthmus.deploy.shm import Mailbox, Ring

SPAWN = multiprocessing.get_context("spawn")


def count_of(got: np.ndarray | None) -> int:
    assert got is not None
    return int(got["count"])


def wait_for_a_record(mailbox: Mailbox) -> None:
    deadline = time.monotonic() + 30.0
    while mailbox.read() is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_mailbox_gives_the_newest_record_and_only_once_as_news():
    mailbox = Mailbox(DTYPE)
    reader = Mailbox(DTYPE, name=mailbox.name)
    assert reader.read() is None
    for count in (1, 2, 3):
        mailbox.write(record(count))
    assert count_of(reader.read_new()) == 3
    assert reader.read_new() is None
    assert count_of(reader.read()) == 3
    reader.close()
    mailbox.close()
    mailbox.close()


def test_a_reader_never_sees_half_a_record_and_time_never_runs_backwards():
    mailbox = Mailbox(DTYPE)
    writer = SPAWN.Process(target=write_for_ever, args=(mailbox.name,), daemon=True)
    writer.start()
    wait_for_a_record(mailbox)
    last, reads = 0, 0
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        got = mailbox.read()
        if got is not None:
            assert is_whole(got)
            assert int(got["count"]) >= last
            last, reads = int(got["count"]), reads + 1
    writer.kill()
    writer.join()
    assert reads > 100
    mailbox.close()


@pytest.mark.parametrize("delay_s", [0.0, 0.003, 0.0071])
def test_a_writer_killed_at_any_time_leaves_a_whole_record_and_can_be_replaced(delay_s: float):
    mailbox = Mailbox(DTYPE)
    writer = SPAWN.Process(target=write_for_ever, args=(mailbox.name,), daemon=True)
    writer.start()
    wait_for_a_record(mailbox)
    time.sleep(delay_s)
    writer.kill()
    writer.join()
    left = mailbox.read()
    assert left is not None and is_whole(left)
    successor = Mailbox(DTYPE, name=mailbox.name)
    successor.write(record(-1))
    assert count_of(mailbox.read()) == -1
    successor.close()
    mailbox.close()


def test_a_half_written_slot_is_not_read():
    mailbox = Mailbox(DTYPE)
    mailbox.write(record(1))
    mailbox.write(record(2))
    assert mailbox._buffer is not None
    last = 64 + 16 + DTYPE.itemsize - 1  # of the first slot, which the second record is in, behind its sequence and CRC
    mailbox._buffer[last] ^= 1  # what a torn write looks like
    assert mailbox.read() is None
    mailbox.close()


def test_a_ring_keeps_order_and_counts_what_it_drops():
    ring = Ring(DTYPE, 4)
    reader = Ring(DTYPE, 4, name=ring.name)
    assert reader.pop() is None
    assert [ring.push(record(count)) for count in range(6)] == [True] * 4 + [False] * 2
    assert ring.dropped == reader.dropped == 2
    assert [count_of(reader.pop()) for _ in range(4)] == [0, 1, 2, 3]
    assert ring.push(record(9))
    assert count_of(reader.pop()) == 9
    assert reader.pop() is None
    reader.close()
    ring.close()


def test_what_a_killed_producer_pushed_arrives_whole_and_in_order():
    ring = Ring(DTYPE, 64)
    producer = SPAWN.Process(target=push_for_ever, args=(ring.name, 64), daemon=True)
    producer.start()
    got: list[np.ndarray] = []
    deadline = time.monotonic() + 30.0
    while len(got) < 2000:
        assert time.monotonic() < deadline
        popped = ring.pop()
        if popped is not None:
            got.append(popped)
    producer.kill()
    producer.join()
    while (popped := ring.pop()) is not None:
        got.append(popped)
    assert all(is_whole(made) for made in got)
    assert (np.diff([int(made["count"]) for made in got]) > 0).all()
    ring.close()


def test_two_sides_that_disagree_on_the_record_are_told():
    mailbox = Mailbox(np.dtype([("x", "<f8")]))
    huge = np.dtype([("x", "<f8", (100_000,))])
    with pytest.raises(ValueError, match="different dtypes"):
        Mailbox(huge, name=mailbox.name)
    mailbox.close()


def test_a_process_that_attached_and_ended_takes_nothing_away_and_says_nothing():
    mailbox = Mailbox(DTYPE)
    mailbox.write(record(5))
    code = f"""
        import numpy as np
        from isthmus.deploy.shm import Mailbox
        dtype = np.dtype([("count", "<i8"), ("values", "<f8", (200,))])
        print(int(Mailbox(dtype, name={mailbox.name!r}).read()["count"]))
    """
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60)
    assert (result.stdout.strip(), result.stderr) == ("5", "")
    again = Mailbox(DTYPE, name=mailbox.name)
    assert count_of(again.read()) == 5
    again.close()
    mailbox.close()
    with pytest.raises(FileNotFoundError):
        Mailbox(DTYPE, name=mailbox.name)
