"""Feetech STS packets and registers: encode and decode, no I/O.

An instruction is `FF FF id length instruction params checksum`; a status packet has the error byte in place of the
instruction. `length` counts params + 2; the checksum is `~(id + length + ... + params) & 0xFF`; numbers are
little-endian. Sources: Feetech STS3215 memory table; LeRobot's register tables.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType

HEADER = b"\xff\xff"
BROADCAST_ID = 0xFE
MAX_ID = 0xFC
STATUS_OVERHEAD = 6  # bytes of a status packet beside its data
STS3215_MODEL = 777
_MAX_PARAMS = 244  # a packet has at most 250 bytes


class Instruction(IntEnum):
    """What an instruction packet asks for."""

    PING = 0x01
    READ = 0x02
    WRITE = 0x03
    SYNC_READ = 0x82
    SYNC_WRITE = 0x83


ERROR_WORDS: Mapping[int, str] = MappingProxyType(
    {0x01: "voltage", 0x02: "angle sensor", 0x04: "overheat", 0x08: "overcurrent", 0x20: "overload"}
)


@dataclass(frozen=True, kw_only=True)
class Register:
    """A value in a servo's memory; with a `sign_bit` it is stored as sign and magnitude."""

    name: str
    address: int
    size: int  # bytes, 1 or 2
    sign_bit: int | None = None


def _table(*rows: tuple[str, int, int] | tuple[str, int, int, int]) -> Mapping[str, Register]:
    registers = (Register(name=r[0], address=r[1], size=r[2], sign_bit=r[3] if len(r) == 4 else None) for r in rows)
    return MappingProxyType({register.name: register for register in registers})


REGISTERS = _table(  # name, address, size[, sign bit]; 0 .. 39 and 85 are EPROM
    ("model_number", 3, 2),
    ("id", 5, 1),
    ("baud_rate", 6, 1),
    ("return_delay", 7, 1),  # 2 us
    ("min_position", 9, 2),
    ("max_position", 11, 2),
    ("max_temperature", 13, 1),  # deg C
    ("max_torque", 16, 2),  # 0.1 %
    ("p_gain", 21, 1),
    ("d_gain", 22, 1),
    ("i_gain", 23, 1),
    ("homing_offset", 31, 2, 11),  # present_position = encoder - homing_offset
    ("operating_mode", 33, 1),  # 0: position
    ("torque_enable", 40, 1),
    ("acceleration", 41, 1),  # 100 counts/s^2
    ("goal_position", 42, 2, 15),
    ("goal_time", 44, 2),
    ("goal_velocity", 46, 2, 15),
    ("torque_limit", 48, 2),  # 0.1 %
    ("lock", 55, 1),  # 1: EPROM is write-protected
    ("present_position", 56, 2, 15),
    ("present_velocity", 58, 2, 15),  # counts/s
    ("present_load", 60, 2, 10),  # 0.1 %
    ("present_voltage", 62, 1),  # 0.1 V
    ("present_temperature", 63, 1),  # deg C
    ("status", 65, 1),
    ("moving", 66, 1),
    ("present_current", 69, 2, 15),
    ("max_acceleration", 85, 1),
)


def register(name: str) -> Register:
    """The register of that name; raises KeyError naming the known ones."""
    if name not in REGISTERS:
        raise KeyError(f"unknown register {name!r}; known: {', '.join(REGISTERS)}")
    return REGISTERS[name]


def encode_sign_magnitude(value: int, sign_bit: int) -> int:
    """A signed number as magnitude with a sign bit; raises ValueError when the magnitude does not fit."""
    if abs(value) >= 1 << sign_bit:
        raise ValueError(f"{value} does not fit below sign bit {sign_bit}: magnitude must be < {1 << sign_bit}")
    return value if value >= 0 else -value | 1 << sign_bit


def decode_sign_magnitude(raw: int, sign_bit: int) -> int:
    """The signed number in a word whose sign is bit `sign_bit` (bits above it are ignored)."""
    magnitude = raw & ((1 << sign_bit) - 1)
    return -magnitude if raw >> sign_bit & 1 else magnitude


def encode_value(reg: Register, value: int) -> bytes:
    """A register's value as bytes; raises ValueError naming the register when it does not fit."""
    limit = 1 << (8 * reg.size)
    try:
        raw = value if reg.sign_bit is None else encode_sign_magnitude(value, reg.sign_bit)
    except ValueError as error:
        raise ValueError(f"register {reg.name}: {error}") from None
    if not 0 <= raw < limit:
        raise ValueError(f"register {reg.name}: got {value}, expected 0 .. {limit - 1}")
    return raw.to_bytes(reg.size, "little")


def decode_value(reg: Register, data: bytes) -> int:
    """A register's value from its bytes."""
    raw = int.from_bytes(data, "little")
    return raw if reg.sign_bit is None else decode_sign_magnitude(raw, reg.sign_bit)


def error_words(bits: int) -> str:
    """The names of the faults in an error byte, e.g. `overheat, overload`."""
    named = [word for bit, word in ERROR_WORDS.items() if bits & bit]
    unnamed = [f"bit 0x{1 << i:02x}" for i in range(8) if bits >> i & 1 and 1 << i not in ERROR_WORDS]
    return ", ".join(named + unnamed) or "none"


def checksum(body: bytes | bytearray) -> int:
    """Checksum over everything between the header and the checksum itself."""
    return ~sum(body) & 0xFF


def instruction_packet(servo_id: int, instruction: int, params: bytes = b"") -> bytes:
    """Any instruction packet; raises ValueError for an id or a length that the protocol has not."""
    if not 0 <= servo_id <= MAX_ID and servo_id != BROADCAST_ID:
        raise ValueError(f"servo id must be 0 .. {MAX_ID} or {BROADCAST_ID} (all), got {servo_id}")
    if len(params) > _MAX_PARAMS:
        raise ValueError(f"a packet carries at most {_MAX_PARAMS} parameter bytes, got {len(params)}")
    body = bytes((servo_id, len(params) + 2, instruction)) + params
    return HEADER + body + bytes((checksum(body),))


def ping_packet(servo_id: int) -> bytes:
    """Ask a servo whether it is there."""
    return instruction_packet(servo_id, Instruction.PING)


def read_packet(servo_id: int, address: int, size: int) -> bytes:
    """Ask one servo for `size` bytes of its memory."""
    return instruction_packet(servo_id, Instruction.READ, bytes((address, size)))


def write_packet(servo_id: int, address: int, data: bytes) -> bytes:
    """Write bytes into one servo's memory."""
    return instruction_packet(servo_id, Instruction.WRITE, bytes((address,)) + data)


def sync_read_packet(ids: Sequence[int], address: int, size: int) -> bytes:
    """Ask several servos for the same bytes; each answers with its own status packet, in this order."""
    return instruction_packet(BROADCAST_ID, Instruction.SYNC_READ, bytes((address, size, *ids)))


def sync_write_packet(address: int, size: int, data: Mapping[int, bytes]) -> bytes:
    """Write `size` bytes into each servo of `data` (id -> bytes); nobody answers."""
    wrong = {servo_id: value.hex(" ") for servo_id, value in data.items() if len(value) != size}
    if wrong:
        raise ValueError(f"every servo needs {size} bytes, got {wrong}")
    blocks = b"".join(bytes((servo_id,)) + value for servo_id, value in data.items())
    return instruction_packet(BROADCAST_ID, Instruction.SYNC_WRITE, bytes((address, size)) + blocks)


@dataclass(frozen=True, kw_only=True)
class StatusPacket:
    """A servo's answer; `error` is its error byte, see `error_words`."""

    servo_id: int
    error: int
    data: bytes


def status_packet(packet: StatusPacket) -> bytes:
    """The bytes that a servo sends."""
    body = bytes((packet.servo_id, len(packet.data) + 2, packet.error)) + packet.data
    return HEADER + body + bytes((checksum(body),))


class StatusParser:
    """Finds status packets in a byte stream that may hold noise, broken and partial packets.

    Args:
        max_data: the longest data part to expect; a longer one is noise, so that a broken length byte cannot swallow
            the stream.
    """

    def __init__(self, *, max_data: int) -> None:
        self._max_length = max_data + 2
        self._buffer = bytearray()
        self.bad_checksums = 0
        self.discarded = 0  # bytes that belonged to no packet

    @property
    def pending(self) -> bool:
        """Whether the stream ends in what may be the beginning of a packet."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> list[StatusPacket]:
        """Take more of the stream; returns the packets that are now complete."""
        self._buffer += data
        packets: list[StatusPacket] = []
        while self._at_packet():
            end = 4 + self._buffer[3]
            if len(self._buffer) < end:
                break
            body = bytes(self._buffer[2 : end - 1])
            if checksum(body) == self._buffer[end - 1]:
                packets.append(StatusPacket(servo_id=body[0], error=body[2], data=body[3:]))
                del self._buffer[:end]
            else:
                self.bad_checksums += 1
                self._skip_byte()  # a whole packet may begin inside the broken one
        return packets

    def _at_packet(self) -> bool:
        while self._buffer and not self._plausible():
            self._skip_byte()
        return len(self._buffer) >= 4

    def _plausible(self) -> bool:
        start = self._buffer[:4]
        return (
            HEADER.startswith(start[:2])
            and (len(start) < 3 or start[2] <= MAX_ID)
            and (len(start) < 4 or 2 <= start[3] <= self._max_length)
        )

    def _skip_byte(self) -> None:
        del self._buffer[0]
        self.discarded += 1
