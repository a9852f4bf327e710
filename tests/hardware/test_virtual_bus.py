"""The servo bus, byte by byte, with motors that only remember."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isthmus.hardware.structure import FormatError
from isthmus.hardware.virtual.faults import Fault
from isthmus.hardware.virtual.servo_bus import ServoBus, ServoCommand, Telemetry

NAMES = ("pan", "lift", "grip")


class Motors:
    """Stands still at 2000 + index counts and remembers its commands."""

    def __init__(self) -> None:
        self.commands: list[tuple[int, ServoCommand, float]] = []
        self.velocity = -300

    def telemetry(self, index: int) -> Telemetry:
        return Telemetry(position=2000 + index, velocity=self.velocity, load=-250, temperature=31, current=40)

    def command(self, index: int, command: ServoCommand, time_s: float) -> None:
        self.commands.append((index, command, time_s))


@pytest.fixture
def motors() -> Motors:
    return Motors()


@pytest.fixture
def bus(motors: Motors) -> ServoBus:
    return ServoBus((1, 2, 3), NAMES, motors, seed=0)


def packet(*body: int) -> bytes:
    """A packet of ID, instruction, parameters."""
    framed = bytes((body[0], len(body), *body[1:]))
    return b"\xff\xff" + framed + bytes((255 - sum(framed) % 256,))


def test_ping_answers_as_in_the_manual_of_the_servo(bus):
    assert bus.feed(bytes.fromhex("ff ff 01 02 01 fb"), 0.0) == bytes.fromhex("ff ff 01 02 00 fc")


def test_a_bad_checksum_an_unknown_id_and_an_unknown_instruction_get_no_answer(bus):
    assert bus.feed(bytes.fromhex("ff ff 01 02 01 fa"), 0.0) == b""
    assert bus.feed(packet(9, 1), 0.0) == b""
    assert bus.feed(packet(1, 0x55), 0.0) == b""
    assert bus.feed(packet(1, 1), 0.0) == packet(1, 0)


def test_a_packet_is_found_behind_garbage_and_across_pieces(bus):
    data = b"\x00\xff\x13\xff\xff\xff" + packet(1, 1)[2:]
    assert b"".join(bus.feed(bytes((byte,)), 0.0) for byte in data) == packet(1, 0)


def test_an_unfinished_packet_can_be_forgotten(bus):
    assert bus.feed(b"\xff\xff\x01\x20\x03", 0.0) == b""
    bus.forget_partial()
    assert bus.feed(packet(1, 1), 0.0) == packet(1, 0)


def test_broadcast_ping_is_answered_by_everyone_and_broadcast_write_by_nobody(bus, motors):
    assert bus.feed(packet(0xFE, 1), 0.0) == packet(1, 0) + packet(2, 0) + packet(3, 0)
    assert bus.feed(packet(0xFE, 3, 40, 1), 0.0) == b""
    assert [command.torque_on for _, command, _ in motors.commands] == [True] * 3


def test_identity_and_factory_defaults_read_back(bus):
    assert bus.feed(packet(1, 2, 3, 3), 0.0) == packet(1, 0, 777 & 255, 777 >> 8, 1)
    assert bus.feed(packet(1, 2, 7, 1), 0.0) == packet(1, 0, 250)
    assert bus.feed(packet(1, 2, 9, 4), 0.0) == packet(1, 0, 0, 0, 4095 & 255, 4095 >> 8)
    assert bus.feed(packet(1, 2, 21, 1), 0.0) == packet(1, 0, 32)


def test_measurements_are_little_endian_sign_and_magnitude(bus):
    position, velocity, load = 2001, 300 | 1 << 15, 250 | 1 << 10
    words = [byte for word in (position, velocity, load) for byte in (word & 255, word >> 8)]
    assert bus.feed(packet(2, 2, 56, 8), 0.0) == packet(2, 0, *words, 120, 31)


def test_measurements_cannot_be_written(bus):
    bus.feed(packet(1, 3, 56, 0, 0), 0.0)
    assert bus.feed(packet(1, 2, 56, 2), 0.0) == packet(1, 0, 2000 & 255, 2000 >> 8)


def test_a_write_is_acknowledged_and_reaches_the_motor_with_its_time(bus, motors):
    assert bus.feed(packet(2, 3, 42, 0x34, 0x08), 1.5) == packet(2, 0)
    index, command, time_s = motors.commands[-1]
    assert (index, command.goal_counts, command.torque_on, time_s) == (1, 0x0834, False, 1.5)


def test_the_goal_is_clamped_to_the_position_limits_and_shifted_by_the_homing_offset(bus, motors):
    bus.feed(packet(1, 3, 9, 1000 & 255, 1000 >> 8, 3000 & 255, 3000 >> 8), 0.0)
    bus.feed(packet(1, 3, 31, 100, 1 << 3), 0.0)  # -100: sign bit 11
    bus.feed(packet(1, 3, 42, 3500 & 255, 3500 >> 8), 0.0)
    assert motors.commands[-1][1].goal_counts == 2900
    assert bus.feed(packet(1, 2, 56, 2), 0.0) == packet(1, 0, 2100 & 255, 2100 >> 8)


def test_sync_write_then_sync_read(bus, motors):
    assert bus.feed(packet(0xFE, 0x83, 42, 2, 1, 10, 0, 3, 20, 0), 0.0) == b""
    assert [(index, command.goal_counts) for index, command, _ in motors.commands] == [(0, 10), (2, 20)]
    assert bus.feed(packet(0xFE, 0x82, 42, 2, 3, 9, 1), 0.0) == packet(3, 0, 20, 0) + packet(1, 0, 10, 0)


def test_a_registered_write_waits_for_action(bus, motors):
    assert bus.feed(packet(1, 4, 42, 7, 0), 0.0) == packet(1, 0)
    assert motors.commands == []
    assert bus.feed(packet(0xFE, 5), 0.2) == b""
    assert [(index, command.goal_counts) for index, command, _ in motors.commands] == [(0, 7)]


def test_status_level_zero_silences_acknowledgements_only(bus):
    bus.feed(packet(1, 3, 8, 0), 0.0)
    assert bus.feed(packet(1, 3, 41, 9), 0.0) == b""
    assert bus.feed(packet(1, 2, 41, 1), 0.0) == packet(1, 0, 9)


def test_a_dropped_reply_comes_back_after_its_count(bus):
    bus.inject(Fault(kind="drop", joint="pan", count=2), 0.0)
    assert [bus.feed(packet(1, 1), 0.0) for _ in range(3)] == [b"", b"", packet(1, 0)]


def test_a_corrupt_reply_differs_in_one_bit_and_fails_its_checksum(bus):
    bus.inject(Fault(kind="corrupt", joint="pan", count=1), 0.0)
    damaged, sound = bus.feed(packet(1, 2, 56, 2), 0.0), bus.feed(packet(1, 2, 56, 2), 0.0)
    flips = [a ^ b for a, b in zip(damaged, sound, strict=True)]
    assert sum(bin(flip).count("1") for flip in flips) == 1
    assert flips[:4] == [0, 0, 0, 0]


def test_random_drops_have_their_probability(bus):
    bus.inject(Fault(kind="drop", probability=0.3), 0.0)
    lost = sum(bus.feed(packet(1, 1), 0.0) == b"" for _ in range(2000))
    assert abs(lost / 2000 - 0.3) < 5 * (0.3 * 0.7 / 2000) ** 0.5


def test_a_silent_servo_obeys_and_a_missing_one_does_not(bus, motors):
    bus.inject(Fault(kind="silent", joint="pan"), 0.0)
    bus.inject(Fault(kind="missing", joint="lift"), 0.0)
    assert bus.feed(packet(1, 3, 40, 1) + packet(2, 3, 40, 1), 0.0) == b""
    assert [index for index, _, _ in motors.commands] == [0]
    bus.clear()
    assert bus.feed(packet(1, 1) + packet(2, 1), 0.0) == packet(1, 0) + packet(2, 0)


def test_two_servos_answer_to_a_duplicate_id(bus):
    bus.inject(Fault(kind="duplicate", joint="grip", other="pan"), 0.0)
    assert bus.feed(packet(1, 1), 0.0) == packet(1, 0) * 2


def test_overload_is_reported_cuts_torque_and_latches(bus, motors):
    bus.feed(packet(1, 3, 40, 1), 0.0)
    bus.inject(Fault(kind="error", joint="pan", bits=0x20), 0.3)
    assert motors.commands[-1][1:] == (motors.commands[0][1]._replace(torque_on=False), 0.3)
    assert bus.feed(packet(1, 3, 40, 1), 0.4) == packet(1, 0x20)
    assert not motors.commands[-1][1].torque_on
    bus.clear()
    assert bus.feed(packet(1, 2, 40, 1), 0.5) == packet(1, 0, 0)
    bus.feed(packet(1, 3, 40, 1), 0.6)
    assert motors.commands[-1][1].torque_on


def test_a_frozen_sensor_keeps_its_value(bus, motors):
    before = bus.feed(packet(1, 2, 56, 8), 0.0)
    bus.inject(Fault(kind="frozen", joint="pan"), 0.0)
    motors.velocity = 500
    assert bus.feed(packet(1, 2, 56, 8), 1.0) == before
    bus.clear()
    assert bus.feed(packet(1, 2, 56, 8), 1.0) != before


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (Fault(kind="melt"), "unknown fault 'melt'; available: drop"),
        (Fault(kind="drop", joint="knee"), "unknown joint 'knee'; available: pan, lift, grip"),
        (Fault(kind="drop", probability=2.0), "probability must lie within 0 .. 1, got 2.0"),
        (Fault(kind="error", joint="pan"), "bits within 1 .. 127, got 0"),
        (Fault(kind="duplicate", joint="pan"), "needs `joint` and, as `other`"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(bus, fault, said):
    with pytest.raises(FormatError, match=said):
        bus.inject(fault, 0.0)


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_no_bytes_upset_the_bus(chunks):
    bus = ServoBus((1, 2, 3), NAMES, Motors(), seed=0)
    for chunk in chunks:
        bus.feed(chunk, 0.0)
    bus.forget_partial()
    bus.feed(packet(0xFE, 1), 0.0)


@given(st.integers(0, 254), st.sampled_from([1, 2, 3, 4, 5, 0x82, 0x83]), st.binary(max_size=30))
def test_no_well_framed_packet_upsets_the_bus(bus_id, instruction, parameters):
    ServoBus((1, 2, 3), NAMES, Motors(), seed=0).feed(packet(bus_id, instruction, *parameters), 0.0)
