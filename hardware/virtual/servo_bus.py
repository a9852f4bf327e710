"""STS3215 servos on one bus: bytes of the host in, bytes of the servos out. No I/O, no clock.

Frame: FF FF ID LEN INSTRUCTION PARAMETERS CHECKSUM with LEN = parameters + 2 and CHECKSUM = ~(ID + LEN + ...) & FF; a
reply has the error bits in place of the instruction. Numbers are little-endian, signed ones sign and magnitude. Speed
and acceleration profiles of the firmware (registers 41, 44, 46) are stored but not followed: a goal acts as a step.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from .faults import OVERLOAD, Fault, FaultTable

HEADER = b"\xff\xff"
BROADCAST = 0xFE
MAX_LENGTH = 250
MODEL_STS3215 = 777

ID, STATUS_LEVEL, MIN_POSITION, MAX_POSITION, MAX_TORQUE, P_GAIN, HOMING_OFFSET = 5, 8, 9, 11, 16, 21, 31
TORQUE_ENABLE, GOAL_POSITION, TORQUE_LIMIT, LOCK = 40, 42, 48, 55
PRESENT, PRESENT_END = (
    56,
    71,
)  # position 56, velocity 58, load 60, voltage 62, temperature 63, status 65, moving 66, current 69
VOLTAGE_DECIVOLT = 120
MOVING_STEPS_S = 25

# Factory values that are not zero: (address, size, value).
DEFAULTS = (
    (0, 1, 3), (1, 1, 10), (3, 2, MODEL_STS3215), (7, 1, 250), (STATUS_LEVEL, 1, 1), (MAX_POSITION, 2, 4095),
    (13, 1, 70), (14, 1, 140), (15, 1, 40), (MAX_TORQUE, 2, 1000), (18, 1, 12), (19, 1, 44), (20, 1, 47),
    (P_GAIN, 1, 32), (22, 1, 32), (24, 2, 16), (26, 1, 1), (27, 1, 1), (28, 2, 500), (30, 1, 1), (34, 1, 20),
    (35, 1, 200), (36, 1, 80), (TORQUE_LIMIT, 2, 1000), (LOCK, 1, 1), (85, 1, 254),
)  # fmt: skip


class ServoCommand(NamedTuple):
    """What a servo's registers make its motor do."""

    goal_counts: int  # of the encoder, homing offset removed
    torque_on: bool
    p_gain: int
    torque_limit: float  # 0 .. 1 of the stall torque


class Telemetry(NamedTuple):
    """What a servo measures."""

    position: int  # counts of the encoder
    velocity: int  # counts/s
    load: int  # -1000 .. 1000, drive in 1/1000
    temperature: int  # deg C
    current: int  # 6.5 mA


class Plant(Protocol):
    """The motors and encoders behind the registers."""

    def telemetry(self, index: int) -> Telemetry:
        """Measurements of servo `index` now."""
        ...

    def command(self, index: int, command: ServoCommand, time_s: float) -> None:
        """Hand over what was written to servo `index` at `time_s`."""
        ...


class _Servo:
    def __init__(self, index: int, bus_id: int) -> None:
        self.index = index
        self.registers = bytearray(256)
        for address, size, value in DEFAULTS:
            self.registers[address : address + size] = value.to_bytes(size, "little")
        self.registers[ID] = bus_id
        self.pending: tuple[int, bytes] | None = None  # of REG WRITE, until ACTION

    def word(self, address: int, sign_bit: int = 16) -> int:
        raw = self.registers[address] | self.registers[address + 1] << 8
        return -(raw ^ 1 << sign_bit) if raw >> sign_bit & 1 else raw

    def put_word(self, address: int, value: int, sign_bit: int = 16) -> None:
        raw = abs(value) | (1 << sign_bit if value < 0 else 0)
        self.registers[address : address + 2] = raw.to_bytes(2, "little")


class ServoBus:
    """The servos of one bus, in the order of `bus_ids`."""

    def __init__(self, bus_ids: Sequence[int], joint_names: tuple[str, ...], plant: Plant, *, seed: int) -> None:
        self._plant = plant
        self._servos = [_Servo(index, bus_id) for index, bus_id in enumerate(bus_ids)]
        self._faults = FaultTable(joint_names, seed)
        self._buffer = bytearray()
        self._time_s = 0.0
        self._handlers: dict[int, Callable[[int, bytes], bytes]] = {
            0x01: self._ping, 0x02: self._read, 0x03: self._write, 0x04: self._reg_write, 0x05: self._action,
            0x82: self._sync_read, 0x83: self._sync_write,
        }  # fmt: skip
        for servo in self._servos:  # a servo wakes up with its goal where it stands
            servo.put_word(GOAL_POSITION, plant.telemetry(servo.index).position, 15)

    def feed(self, data: bytes, time_s: float) -> bytes:
        """Bytes that arrived until `time_s`; returns what the servos send. Times must not decrease."""
        self._time_s = time_s
        self._buffer += data
        replies = b""
        while (packet := self._next_packet()) is not None:
            handler = self._handlers.get(packet[2])
            replies += handler(packet[0], packet[3:-1]) if handler else b""
        return replies

    def forget_partial(self) -> None:
        """Drop an unfinished packet: real servos do so when the rest does not follow."""
        self._buffer.clear()

    def inject(self, fault: Fault, time_s: float) -> None:
        """Break something; raises FormatError where the fault names what does not exist."""
        self._time_s = time_s
        self._faults.add(fault)
        for servo in self._servos:
            if self._faults.error_bits(servo.index) & OVERLOAD and servo.registers[TORQUE_ENABLE]:
                servo.registers[TORQUE_ENABLE] = 0
                self._obey(servo)
            if fault.kind == "frozen":
                self._refresh(servo)

    def clear(self) -> None:
        """Repair everything; torque that an overload cut stays off until it is switched on again."""
        self._faults.clear()

    def _next_packet(self) -> bytes | None:
        buffer = self._buffer
        while True:
            start = buffer.find(HEADER)
            if start < 0:
                del buffer[: len(buffer) - buffer.endswith(b"\xff")]
                return None
            del buffer[:start]
            if len(buffer) < 4:
                return None
            length = buffer[3]
            if buffer[2] == 0xFF or not 2 <= length <= MAX_LENGTH:
                del buffer[0]
                continue
            if len(buffer) < length + 4:
                return None
            packet = bytes(buffer[2 : length + 4])
            if _checksum(packet[:-1]) == packet[-1]:
                del buffer[: length + 4]
                return packet
            del buffer[0]  # not for us, or damaged: look for the next header

    def _addressed(self, bus_id: int) -> list[_Servo]:
        return [servo for servo in self._servos if self._hears(servo, bus_id)]

    def _hears(self, servo: _Servo, bus_id: int) -> bool:
        if self._faults.has("missing", servo.index):
            return False
        if bus_id in (BROADCAST, servo.registers[ID]):
            return True
        shared = self._faults.shares_id_of(servo.index)
        return shared is not None and self._servos[shared].registers[ID] == bus_id

    def _reply(self, servo: _Servo, bus_id: int, data: bytes = b"") -> bytes:
        shown_id = servo.registers[ID] if bus_id == BROADCAST else bus_id
        body = bytes((shown_id, len(data) + 2, self._faults.error_bits(servo.index))) + data
        return self._faults.strike(HEADER + body + bytes((_checksum(body),)), servo.index)

    def _ping(self, bus_id: int, parameters: bytes) -> bytes:
        return b"".join(self._reply(servo, bus_id) for servo in self._addressed(bus_id))

    def _read(self, bus_id: int, parameters: bytes) -> bytes:
        if len(parameters) != 2 or bus_id == BROADCAST:
            return b""
        start, end = parameters[0], parameters[0] + parameters[1]
        replies = b""
        for servo in self._addressed(bus_id):
            if start < PRESENT_END and end > PRESENT and not self._faults.has("frozen", servo.index):
                self._refresh(servo)
            replies += self._reply(servo, bus_id, bytes(servo.registers[start:end]).ljust(end - start, b"\0"))
        return replies

    def _sync_read(self, bus_id: int, parameters: bytes) -> bytes:
        return b"".join(self._read(servo_id, parameters[:2]) for servo_id in parameters[2:])

    def _write(self, bus_id: int, parameters: bytes) -> bytes:
        if len(parameters) < 2:
            return b""
        replies = b""
        for servo in self._addressed(bus_id):
            self._store(servo, parameters[0], parameters[1:])
            replies += self._acknowledge(servo, bus_id)
        return replies

    def _reg_write(self, bus_id: int, parameters: bytes) -> bytes:
        replies = b""
        for servo in self._addressed(bus_id) if len(parameters) >= 2 else ():
            servo.pending = (parameters[0], parameters[1:])
            replies += self._acknowledge(servo, bus_id)
        return replies

    def _action(self, bus_id: int, parameters: bytes) -> bytes:
        replies = b""
        for servo in self._addressed(bus_id):
            if servo.pending is not None:
                self._store(servo, *servo.pending)
                servo.pending = None
            replies += self._acknowledge(servo, bus_id)
        return replies

    def _sync_write(self, bus_id: int, parameters: bytes) -> bytes:
        if len(parameters) < 2:
            return b""
        address, size = parameters[:2]
        for start in range(2, len(parameters) - size, size + 1):
            for servo in self._addressed(parameters[start]):
                self._store(servo, address, parameters[start + 1 : start + 1 + size])
        return b""

    def _acknowledge(self, servo: _Servo, bus_id: int) -> bytes:
        silent = bus_id == BROADCAST or servo.registers[STATUS_LEVEL] == 0
        return b"" if silent else self._reply(servo, bus_id)

    def _store(self, servo: _Servo, address: int, data: bytes) -> None:
        for offset, value in enumerate(data, start=address):
            if offset < PRESENT or offset >= PRESENT_END:  # measurements cannot be written
                servo.registers[offset & 0xFF] = value
        if self._faults.error_bits(servo.index) & OVERLOAD:
            servo.registers[TORQUE_ENABLE] = 0
        self._obey(servo)

    def _obey(self, servo: _Servo) -> None:
        goal, low, high = servo.word(GOAL_POSITION, 15), servo.word(MIN_POSITION), servo.word(MAX_POSITION)
        if low < high:
            goal = min(max(goal, low), high)
        command = ServoCommand(
            goal_counts=goal + servo.word(HOMING_OFFSET, 11),
            torque_on=servo.registers[TORQUE_ENABLE] == 1,
            p_gain=servo.registers[P_GAIN],
            torque_limit=min(servo.word(TORQUE_LIMIT), 1000) / 1000,
        )
        self._plant.command(servo.index, command, self._time_s)

    def _refresh(self, servo: _Servo) -> None:
        now = self._plant.telemetry(servo.index)
        servo.put_word(56, now.position - servo.word(HOMING_OFFSET, 11), 15)
        servo.put_word(58, now.velocity, 15)
        servo.put_word(60, now.load, 10)
        servo.registers[62] = VOLTAGE_DECIVOLT
        servo.registers[63] = now.temperature
        servo.registers[65] = self._faults.error_bits(servo.index)
        servo.registers[66] = abs(now.velocity) > MOVING_STEPS_S
        servo.put_word(69, now.current, 15)


def _checksum(body: bytes) -> int:
    return ~sum(body) & 0xFF
