"""The Feetech bus over a pty, against servos that misbehave in every way the driver must name."""

import time
from collections.abc import Callable, Iterator

import pytest
from fake_bus import FakeBus, checked

from isthmus.hardware.errors import (
    BusTimeout,
    CorruptPacket,
    Disconnected,
    DuplicateId,
    HardwareError,
    PortBusy,
    PortNotFound,
)
from isthmus.hardware.feetech_bus import FeetechBus

TIMEOUT_S = 0.25  # generous: the servos' thread shares a busy machine with us
GIVE_UP_S = 5.0  # far above 3 attempts, far below for ever: a bound, not a latency


def drop(reply: bytes) -> bytes:
    return b""


def flip(reply: bytes) -> bytes:
    return reply[:-2] + bytes([reply[-2] ^ 0x10]) + reply[-1:]


def cut(reply: bytes) -> bytes:
    return reply[:-2]


def noise_before(reply: bytes) -> bytes:
    return b"\x00\xff\x13" + reply


def from_another_id(reply: bytes) -> bytes:
    return reply[:2] + bytes([reply[2] + 1]) + reply[3:-1] + bytes([(reply[-1] - 1) % 256])


@pytest.fixture
def fake() -> Iterator[FakeBus]:
    bus = FakeBus()
    yield bus
    bus.unplug()


@pytest.fixture
def bus(fake: FakeBus) -> Iterator[FeetechBus]:
    bus = FeetechBus(fake.port, 1_000_000, timeout_s=TIMEOUT_S)
    bus.open()
    yield bus
    bus.close()


def test_registers_are_read_and_written(fake: FakeBus, bus: FeetechBus) -> None:
    assert bus.ping(3) == 0
    assert bus.read_register(3, "model_number") == 777
    bus.write_register(3, "homing_offset", -34)
    assert fake.servos[3].get(31, 2) == 34 | 1 << 11
    assert bus.read_register(3, "homing_offset") == -34


def test_a_sync_read_is_one_packet_and_keeps_the_asked_order(fake: FakeBus, bus: FeetechBus) -> None:
    replies = bus.sync_read([5, 1, 3], 56, 2)
    assert [(r.servo_id, int.from_bytes(r.data, "little")) for r in replies] == [(5, 2050), (1, 2010), (3, 2030)]
    assert len(fake.received) == 1


def test_a_port_that_does_not_exist_is_named() -> None:
    with pytest.raises(PortNotFound, match="/dev/ttyNOWHERE"):
        FeetechBus("/dev/ttyNOWHERE", 1_000_000).open()


def test_a_port_in_use_is_busy(fake: FakeBus, bus: FeetechBus) -> None:
    with pytest.raises(PortBusy, match=r"another process.*just killed gives the port back within a few seconds"):
        FeetechBus(fake.port, 1_000_000).open()


def test_a_file_is_no_serial_port(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(HardwareError, match="cannot be opened as a serial port"):
        FeetechBus(str(tmp_path / "file"), 1_000_000).open()


def test_a_pty_refuses_low_latency_and_that_is_told(bus: FeetechBus) -> None:
    assert bus.low_latency is False


@pytest.mark.parametrize("fault", [drop, flip, cut, from_another_id])
def test_one_bad_answer_is_repaired_and_counted_once(
    fake: FakeBus, bus: FeetechBus, fault: Callable[[bytes], bytes]
) -> None:
    fake.mangles.append(fault)
    assert bus.read_register(2, "present_position") == 2020
    assert bus.repaired_errors == 1
    assert len(fake.received) == 2


def test_one_bad_answer_in_a_sync_read_is_repaired(fake: FakeBus, bus: FeetechBus) -> None:
    fake.mangles.extend([bytes, bytes, flip])
    replies = bus.sync_read([1, 2, 3, 4], 56, 2)
    assert [int.from_bytes(r.data, "little") for r in replies] == [2010, 2020, 2030, 2040]
    assert bus.repaired_errors == 1


def test_noise_before_an_answer_is_skipped_without_a_retry(fake: FakeBus, bus: FeetechBus) -> None:
    fake.mangle_all = noise_before
    assert bus.read_register(2, "present_position") == 2020
    assert bus.repaired_errors == 0


@pytest.mark.parametrize(
    ("fault", "error", "text"),
    [
        (drop, BusTimeout, "no answer from servo 2 (shoulder_lift)"),
        (flip, CorruptPacket, "bad checksum"),
        (cut, CorruptPacket, "stops short"),
        (from_another_id, CorruptPacket, "from id 3"),
        (lambda reply: b"\x55" * 2000, CorruptPacket, "bytes of no packet"),
    ],
    ids=["drop", "flip", "cut", "wrong id", "babble"],
)
def test_bad_answers_that_stay_have_their_own_error_within_bounded_time(
    fake: FakeBus, bus: FeetechBus, fault: Callable[[bytes], bytes], error: type[HardwareError], text: str
) -> None:
    bus.names = {2: "shoulder_lift"}
    fake.mangle_all = fault
    start = time.monotonic()
    with pytest.raises(error) as caught:
        bus.read_register(2, "present_position")
    assert time.monotonic() - start < GIVE_UP_S
    assert text in str(caught.value)
    assert bus.repaired_errors == 0
    assert fake.count(0x02) == 3  # one attempt and two retries


def test_one_silent_servo_of_a_sync_read_is_named_with_those_that_answered(fake: FakeBus, bus: FeetechBus) -> None:
    del fake.servos[3]
    with pytest.raises(BusTimeout, match=r"no answer from servo 3 .* 1, 2, 4 answered"):
        bus.sync_read([1, 2, 3, 4], 56, 2)


def test_two_servos_of_one_id_are_found_by_a_ping(fake: FakeBus, bus: FeetechBus) -> None:
    fake.doubled = {4}
    with pytest.raises(DuplicateId, match="servo 4"):
        bus.ping(4)


def test_two_servos_of_one_id_are_found_in_a_sync_read(fake: FakeBus, bus: FeetechBus) -> None:
    fake.doubled = {2}
    with pytest.raises(DuplicateId, match="servo 2"):
        bus.sync_read([1, 2, 3], 56, 2)


def test_an_answer_after_its_time_is_no_second_servo(fake: FakeBus, bus: FeetechBus) -> None:
    def late(reply: bytes) -> bytes:
        time.sleep(1.5 * TIMEOUT_S)
        return reply

    fake.mangles.append(late)
    assert bus.read_register(1, "present_position") == 2010
    assert bus.read_register(2, "present_position") == 2020
    assert bus.read_register(1, "goal_position") == 100
    assert bus.repaired_errors >= 1


def test_doubled_answers_after_a_timeout_are_late_and_no_second_servo(fake: FakeBus, bus: FeetechBus) -> None:
    fake.mangles.extend([drop, lambda reply: reply * 2, lambda reply: reply * 2])
    with pytest.raises(BusTimeout, match="later than 250 ms"):
        bus.read_register(1, "present_position")


def test_a_late_answer_of_another_servo_is_waited_out(fake: FakeBus, bus: FeetechBus) -> None:
    def after_another(reply: bytes) -> bytes:
        fake.say(checked(bytes.fromhex("03 04 00 ee 07")))
        time.sleep(0.02)
        return reply

    fake.mangles.append(after_another)
    assert bus.read_register(2, "present_position") == 2020
    assert bus.repaired_errors == 0


def test_stale_bytes_are_no_answer(fake: FakeBus, bus: FeetechBus) -> None:
    fake.mangles.append(
        lambda reply: reply + bytes.fromhex("ff ff 02 04 00 01 01 f7")
    )  # a good answer, of nobody's question
    assert bus.read_register(1, "present_position") == 2010
    fake.settle()
    assert bus.read_register(2, "present_position") == 2020


@pytest.mark.parametrize("action", ["read", "write"])
def test_an_unplugged_cable_is_a_disconnect(fake: FakeBus, bus: FeetechBus, action: str) -> None:
    fake.unplug()
    with pytest.raises(Disconnected, match="went away"):
        if action == "read":
            bus.read_register(1, "present_position")
        else:
            bus.sync_write("goal_position", {1: 2048})
