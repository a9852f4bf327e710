"""The Feetech serial bus: one transaction at a time, bounded waits, bounded retries, typed errors."""

import errno
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import serial

from . import feetech_protocol as sts
from .errors import (
    BusTimeout,
    CorruptPacket,
    Disconnected,
    DuplicateId,
    HardwareError,
    PortBusy,
    PortForbidden,
    PortNotFound,
    ServoFault,
)
from .port_permission import permission_remedy
from .port_users import PortUser, port_users

_BITS_PER_BYTE = 10  # start, eight data, stop
_RETURN_DELAY_S = 0.0005  # factory setting of register return_delay
_READ_SLICE_S = 0.005  # how late a deadline may be noticed
_PING_LISTEN_S = 0.005  # after the first answer to a ping, for a second one
_MAX_NOISE = 256  # bytes beyond the expected ones after which a transaction gives up


class FeetechBus:
    """Servos on one half-duplex serial line.

    Args:
        port: e.g. `/dev/serial/by-id/...`.
        baudrate: bit/s.
        timeout_s: how long an answer may take, beside the time its bytes need on the wire.
        retries: how often a transaction without a good answer is repeated.
        names: joint name of each id, for error texts.
    """

    def __init__(
        self,
        port: str,
        baudrate: int,
        *,
        timeout_s: float = 0.05,
        retries: int = 2,
        names: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self.port = port
        self.baudrate = baudrate
        self.timeout_s = timeout_s
        self.retries = retries
        self.names = names
        self.repaired_errors = 0  # failed attempts that a retry made good
        self.low_latency = False  # whether the adapter was switched to low latency
        self._serial: serial.Serial | None = None

    @property
    def is_open(self) -> bool:
        """Whether the port is open."""
        return self._serial is not None

    def open(self) -> None:
        """Open the port for us alone.

        Raises:
            PortNotFound: there is no such port.
            PortBusy: another process has it.
            PortForbidden: this user may not open it.
            HardwareError: no serial port, or a baud rate it does not know.
        """
        if self._serial is not None:
            return
        try:
            self._serial = serial.Serial(
                self.port, self.baudrate, timeout=_READ_SLICE_S, write_timeout=self.timeout_s, exclusive=True
            )
        except (OSError, ValueError) as error:
            raise _open_error(self.port, self.baudrate, error) from error
        self.low_latency = _try_low_latency(self._serial)

    def close(self) -> None:
        """Close the port; may be called twice."""
        port, self._serial = self._serial, None
        if port is not None:
            port.close()

    def ping(self, servo_id: int) -> int:
        """Ask a servo whether it is there; returns its error byte. Listens a little longer, for a second of that id."""
        replies = self._transact(sts.ping_packet(servo_id), [servo_id], 0, listen_s=_PING_LISTEN_S)
        return replies[0].error

    def read_register(self, servo_id: int, name: str) -> int:
        """One register of one servo; raises ServoFault when its answer reports a fault."""
        register = sts.register(name)
        packet = sts.read_packet(servo_id, register.address, register.size)
        reply = self._transact(packet, [servo_id], register.size)[0]
        self.raise_fault(reply)
        return sts.decode_value(register, reply.data)

    def write_register(self, servo_id: int, name: str, value: int, *, ignore_fault: bool = False) -> None:
        """Write one register of one servo and wait for its word; raises ServoFault when it reports a fault."""
        register = sts.register(name)
        packet = sts.write_packet(servo_id, register.address, sts.encode_value(register, value))
        reply = self._transact(packet, [servo_id], 0)[0]
        if not ignore_fault:
            self.raise_fault(reply)

    def sync_read(self, ids: Sequence[int], address: int, size: int) -> list[sts.StatusPacket]:
        """The same `size` bytes of memory of several servos, in the order of `ids`; faults are left to the caller."""
        return self._transact(sts.sync_read_packet(ids, address, size), ids, size)

    def sync_write(self, name: str, values: Mapping[int, int]) -> None:
        """Write one register of several servos (id -> value) at once; servos do not confirm it."""
        register = sts.register(name)
        data = {servo_id: sts.encode_value(register, value) for servo_id, value in values.items()}
        self._send(sts.sync_write_packet(register.address, register.size, data))

    def raise_fault(self, reply: sts.StatusPacket) -> None:
        """Raise ServoFault if an answer's error byte is not zero."""
        if reply.error == 0:
            return
        label = self.label(reply.servo_id)
        raise ServoFault(
            f"{label} reports {sts.error_words(reply.error)} (error byte 0x{reply.error:02x}); take the load off, "
            "let it cool, check the supply voltage; an overload stays until the arm is switched off and on",
            joint=self.names.get(reply.servo_id, f"id {reply.servo_id}"),
            bits=reply.error,
        )

    def label(self, servo_id: int) -> str:
        """How error texts call a servo, e.g. `servo 3 (elbow_flex)`."""
        name = self.names.get(servo_id)
        return f"servo {servo_id} ({name})" if name else f"servo {servo_id}"

    def _transact(
        self, packet: bytes, ids: Sequence[int], size: int, *, listen_s: float = 0.0
    ) -> list[sts.StatusPacket]:
        """Send, and collect one answer of `size` data bytes from each id."""
        timed_out = False
        for attempt in range(self.retries + 1):
            try:
                replies = self._attempt(packet, ids, size, listen_s)
            except (BusTimeout, CorruptPacket, DuplicateId) as error:
                if attempt == self.retries:
                    # An answer to an earlier attempt that comes too late only looks like a second servo.
                    if timed_out and isinstance(error, DuplicateId):
                        raise self._too_late() from error
                    raise
                timed_out |= isinstance(error, BusTimeout)
            else:
                self.repaired_errors += attempt
                return replies
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _attempt(self, packet: bytes, ids: Sequence[int], size: int, listen_s: float) -> list[sts.StatusPacket]:
        self._send(packet)
        expected = len(ids) * (sts.STATUS_OVERHEAD + size)
        wire_s = (len(packet) + expected) * _BITS_PER_BYTE / self.baudrate + len(ids) * _RETURN_DELAY_S
        deadline = time.monotonic() + wire_s + self.timeout_s
        answers = _Answers(ids, size)
        while not answers.complete:
            chunk = self._receive(max(1, expected - answers.received))
            answers.add(chunk)
            late = not chunk and time.monotonic() > deadline  # what has arrived counts, even if we were slow to look
            if late or answers.hopeless:
                break
        self._listen(answers, listen_s)
        self._judge(answers)
        return [answers.replies[servo_id] for servo_id in ids]

    def _listen(self, answers: "_Answers", listen_s: float) -> None:
        """Take in what came beyond the expected answers."""
        until = time.monotonic() + listen_s
        while answers.complete:
            answers.add(self._receive(self._waiting()))
            if time.monotonic() >= until:
                return
            time.sleep(listen_s / 5.0)

    def _judge(self, answers: "_Answers") -> None:
        if answers.twice:
            labels = ", ".join(self.label(servo_id) for servo_id in answers.twice)
            raise DuplicateId(
                f"two answers from {labels} on {self.port}: two servos have this id; give one of them another id"
            )
        if answers.complete:
            return
        missing = ", ".join(self.label(servo_id) for servo_id in answers.missing)
        if answers.received == 0:
            raise BusTimeout(
                f"no answer from {missing} on {self.port} within {self.timeout_s * 1e3:.0f} ms, "
                f"tried {self.retries + 1} times; check power, cable and id"
            )
        if answers.answered and not answers.garbled:
            raise BusTimeout(
                f"no answer from {missing} on {self.port}, tried {self.retries + 1} times; "
                f"{answers.answered} answered; check the cable behind the last one"
            )
        raise CorruptPacket(
            f"no valid answer from {missing} on {self.port}, tried {self.retries + 1} times: "
            f"{answers.garbled}; check cable, baud rate and supply, and that no two servos share an id"
        )

    def _send(self, packet: bytes) -> None:
        port = self._port()
        try:
            if port.in_waiting:
                port.read(port.in_waiting)  # what a timed-out transaction left behind
            port.write(packet)
        except serial.SerialTimeoutException:
            raise BusTimeout(
                f"{self.port} took no data for {self.timeout_s * 1e3:.0f} ms; is the adapter stuck?"
            ) from None
        except OSError as error:
            raise self._disconnected(error) from error

    def _receive(self, size: int) -> bytes:
        try:
            return self._port().read(size) if size else b""
        except OSError as error:
            raise self._disconnected(error) from error

    def _waiting(self) -> int:
        try:
            return self._port().in_waiting
        except OSError as error:
            raise self._disconnected(error) from error

    def _port(self) -> serial.Serial:
        if self._serial is None:
            raise HardwareError(f"{self.port} is not open; call connect() first")
        return self._serial

    def _too_late(self) -> BusTimeout:
        return BusTimeout(
            f"answers on {self.port} come later than {self.timeout_s * 1e3:.0f} ms; is this computer or the adapter overloaded?"
        )

    def _disconnected(self, error: OSError) -> Disconnected:
        return Disconnected(f"{self.port} went away ({error}); plug the adapter in again and reconnect")


class _Answers:
    """What came back in one attempt."""

    def __init__(self, ids: Sequence[int], size: int) -> None:
        self._ids = ids
        self._size = size
        self._parser = sts.StatusParser(max_data=size)
        self._expected = len(ids) * (sts.STATUS_OVERHEAD + size)
        self.replies: dict[int, sts.StatusPacket] = {}
        self.twice: list[int] = []
        self.received = 0  # bytes
        self._strangers: list[str] = []
        self._stranger_bytes = 0

    def add(self, data: bytes) -> None:
        self.received += len(data)
        for packet in self._parser.feed(data):
            if packet.servo_id not in self._ids or len(packet.data) != self._size:
                self._strangers.append(f"answer of {len(packet.data)} bytes from id {packet.servo_id}")
                self._stranger_bytes += sts.STATUS_OVERHEAD + len(packet.data)
            elif packet.servo_id in self.replies:
                self.twice.append(packet.servo_id)
            else:
                self.replies[packet.servo_id] = packet

    @property
    def complete(self) -> bool:
        return len(self.replies) == len(self._ids)

    @property
    def hopeless(self) -> bool:
        """As many bytes as were expected are here, and no answer is in them; late answers to others do not count."""
        full = self.received - self._stranger_bytes >= self._expected and not self._parser.pending
        return not self.complete and (full or self.received > self._expected + _MAX_NOISE)

    @property
    def missing(self) -> list[int]:
        return [servo_id for servo_id in self._ids if servo_id not in self.replies]

    @property
    def answered(self) -> str:
        return ", ".join(str(servo_id) for servo_id in self._ids if servo_id in self.replies)

    @property
    def garbled(self) -> str:
        parser = self._parser
        reasons = list(self._strangers)
        if parser.bad_checksums:
            reasons.append(f"{parser.bad_checksums} bad checksums")
        if parser.discarded:
            reasons.append(f"{parser.discarded} bytes of no packet")
        if parser.pending:
            reasons.append("a packet that stops short")
        return ", ".join(reasons)


def _open_error(port: str, baudrate: int, error: OSError | ValueError) -> HardwareError:
    code = getattr(error, "errno", None)
    if code in (errno.ENOENT, errno.ENODEV, errno.ENXIO):
        return PortNotFound(f"serial port {port} does not exist; plug the adapter in, look in /dev/serial/by-id")
    if code in (errno.EBUSY, errno.EAGAIN):
        return PortBusy(
            f"serial port {port} is in use by another process{_named(port_users(port))}; end that one first "
            "(a command that was just killed gives the port back within a few seconds)"
        )
    if code in (errno.EACCES, errno.EPERM):
        return PortForbidden(f"no permission to open serial port {port}; {permission_remedy(port)}")
    return HardwareError(f"{port} cannot be opened as a serial port at {baudrate} baud: {error}")


def _named(users: Sequence[PortUser]) -> str:
    return f": {', '.join(map(str, users))}" if users else ""


def _try_low_latency(port: serial.Serial) -> bool:
    """Ask the adapter to pass bytes on at once; a pty or another system may not know how."""
    try:
        port.set_low_latency_mode(True)
    except (OSError, ValueError, AttributeError, NotImplementedError):
        return False
    return True
