"""STS packets: round trips, broken streams, and byte-for-byte equality with the maker's own client."""

from itertools import pairwise
from typing import Any

import pytest
import scservo_sdk
from hypothesis import given
from hypothesis import strategies as st

from isthmus.hardware import feetech_protocol as sts

ids = st.integers(0, sts.MAX_ID)
byte = st.integers(0, 255)
status = st.builds(sts.StatusPacket, servo_id=ids, error=byte, data=st.binary(max_size=20))


class RecordingPort:
    """Stands in for the maker's serial port and keeps what its client sends."""

    is_using = False

    def __init__(self) -> None:
        self.sent = b""

    def clearPort(self) -> None: ...

    def writePort(self, packet: list[int]) -> int:
        self.sent = bytes(packet)
        return len(packet)

    def setPacketTimeout(self, length: int) -> None: ...

    def readPort(self, length: int) -> bytes:
        return b""

    def isPacketTimeout(self) -> bool:
        return True


@pytest.fixture(scope="module")
def maker() -> Any:
    return scservo_sdk.PacketHandler(0)


def test_a_ping_is_the_one_of_the_data_sheet() -> None:
    assert sts.ping_packet(1) == bytes.fromhex("ff ff 01 02 01 fb")


@given(servo_id=ids)
def test_pings_equal_the_makers_client(maker: Any, servo_id: int) -> None:
    port = RecordingPort()
    maker.ping(port, servo_id)
    assert sts.ping_packet(servo_id) == port.sent


@given(servo_id=ids, address=byte, size=byte)
def test_reads_equal_the_makers_client(maker: Any, servo_id: int, address: int, size: int) -> None:
    port = RecordingPort()
    maker.readTx(port, servo_id, address, size)
    assert sts.read_packet(servo_id, address, size) == port.sent


@given(servo_id=ids, address=byte, data=st.binary(min_size=1, max_size=20))
def test_writes_equal_the_makers_client(maker: Any, servo_id: int, address: int, data: bytes) -> None:
    port = RecordingPort()
    maker.writeTxOnly(port, servo_id, address, len(data), list(data))
    assert sts.write_packet(servo_id, address, data) == port.sent


@given(some=st.lists(ids, min_size=1, max_size=20, unique=True), address=byte, size=byte)
def test_sync_reads_equal_the_makers_client(maker: Any, some: list[int], address: int, size: int) -> None:
    port = RecordingPort()
    group = scservo_sdk.GroupSyncRead(port, maker, address, size)
    for servo_id in some:
        group.addParam(servo_id)
    group.txPacket()
    assert sts.sync_read_packet(some, address, size) == port.sent


@given(data=st.dictionaries(ids, st.binary(min_size=2, max_size=2), min_size=1, max_size=20), address=byte)
def test_sync_writes_equal_the_makers_client(maker: Any, data: dict[int, bytes], address: int) -> None:
    port = RecordingPort()
    group = scservo_sdk.GroupSyncWrite(port, maker, address, 2)
    for servo_id, value in data.items():
        group.addParam(servo_id, list(value))
    group.txPacket()
    assert sts.sync_write_packet(address, 2, data) == port.sent


@given(sign_bit=st.sampled_from([10, 11, 15]), data=st.data())
def test_sign_magnitude_equals_the_makers_client_and_returns(sign_bit: int, data: st.DataObject) -> None:
    value = data.draw(st.integers(-(1 << sign_bit) + 1, (1 << sign_bit) - 1))
    raw = sts.encode_sign_magnitude(value, sign_bit)
    assert raw == scservo_sdk.SCS_TOSCS(value, sign_bit)
    assert sts.decode_sign_magnitude(raw, sign_bit) == scservo_sdk.SCS_TOHOST(raw, sign_bit) == value


@given(packets=st.lists(status, max_size=5), cuts=st.lists(st.integers(0, 120), max_size=6))
def test_status_packets_survive_any_cutting_of_the_stream(packets: list[sts.StatusPacket], cuts: list[int]) -> None:
    stream = b"".join(map(sts.status_packet, packets))
    parser = sts.StatusParser(max_data=20)
    edges = [0, *sorted(min(c, len(stream)) for c in cuts), len(stream)]
    found = [p for start, end in pairwise(edges) for p in parser.feed(stream[start:end])]
    assert found == packets
    assert not parser.pending
    assert parser.discarded == 0


@given(noise=st.binary(max_size=30).filter(lambda b: b"\xff" not in b), packet=status)
def test_leading_noise_is_skipped(noise: bytes, packet: sts.StatusPacket) -> None:
    parser = sts.StatusParser(max_data=20)
    assert parser.feed(noise + sts.status_packet(packet)) == [packet]
    assert parser.discarded == len(noise)


@pytest.mark.parametrize("lead", ["ff", "ff ff", "ff ff ff", "ff ff 01", "ff ff 01 c8", "ff 01 02"])
def test_noise_that_looks_like_a_header_is_skipped(lead: str) -> None:
    packet = sts.StatusPacket(servo_id=3, error=0, data=b"\x10\x08")
    parser = sts.StatusParser(max_data=2)
    # A second packet flushes what the noise may have held back.
    assert parser.feed(bytes.fromhex(lead) + sts.status_packet(packet) * 2)[-1] == packet


def test_a_stray_ff_does_not_hold_back_a_packet() -> None:
    packet = sts.StatusPacket(servo_id=6, error=0, data=b"")
    assert sts.StatusParser(max_data=8).feed(b"\xff" + sts.status_packet(packet)) == [packet]


@given(packet=status, data=st.data())
def test_a_flipped_byte_never_passes_as_the_same_packet(packet: sts.StatusPacket, data: st.DataObject) -> None:
    good = sts.status_packet(packet)
    index = data.draw(st.integers(0, len(good) - 1))
    flip = data.draw(st.integers(1, 255))
    broken = good[:index] + bytes([good[index] ^ flip]) + good[index + 1 :]
    assert packet not in sts.StatusParser(max_data=20).feed(broken)


def test_a_broken_packet_does_not_swallow_the_next() -> None:
    good = sts.StatusPacket(servo_id=2, error=0, data=b"\x01\x02")
    broken = bytearray(sts.status_packet(sts.StatusPacket(servo_id=1, error=0, data=b"\x01\x02")))
    broken[5] ^= 1
    parser = sts.StatusParser(max_data=2)
    assert parser.feed(bytes(broken) + sts.status_packet(good)) == [good]
    assert parser.bad_checksums == 1


def test_a_short_packet_is_pending() -> None:
    parser = sts.StatusParser(max_data=2)
    assert parser.feed(sts.status_packet(sts.StatusPacket(servo_id=1, error=0, data=b"\x01\x02"))[:-1]) == []
    assert parser.pending


@given(reg=st.sampled_from(list(sts.REGISTERS.values())), data=st.data())
def test_register_values_return(reg: sts.Register, data: st.DataObject) -> None:
    bound = 1 << (8 * reg.size if reg.sign_bit is None else reg.sign_bit)
    value = data.draw(st.integers(0 if reg.sign_bit is None else -bound + 1, bound - 1))
    encoded = sts.encode_value(reg, value)
    assert len(encoded) == reg.size
    assert sts.decode_value(reg, encoded) == value


def test_registers_do_not_overlap() -> None:
    taken = [r.address + i for r in sts.REGISTERS.values() for i in range(r.size)]
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize(
    ("name", "value"), [("lock", 256), ("lock", -1), ("goal_position", 32768), ("homing_offset", -2048)]
)
def test_a_value_that_does_not_fit_names_its_register(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        sts.encode_value(sts.register(name), value)


def test_error_bits_have_words() -> None:
    assert sts.error_words(0x24) == "overheat, overload"
    assert sts.error_words(0x50) == "bit 0x10, bit 0x40"
    assert sts.error_words(0) == "none"


def test_ids_and_lengths_of_no_packet_are_refused() -> None:
    with pytest.raises(ValueError, match="253"):
        sts.ping_packet(253)
    with pytest.raises(ValueError, match="245"):
        sts.instruction_packet(1, sts.Instruction.WRITE, bytes(245))
    with pytest.raises(ValueError, match="2 bytes"):
        sts.sync_write_packet(42, 2, {1: b"\x00"})
    with pytest.raises(KeyError, match="goal_positon"):
        sts.register("goal_positon")
