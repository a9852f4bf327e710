"""STS3215 servos behind a real pty, in a thread, that can be made to misbehave. Shares no code with the driver."""

import os
import select
import threading
import time
import tty
from collections import deque
from collections.abc import Callable, Sequence

Mangle = Callable[[bytes], bytes]

PING, READ, WRITE, SYNC_READ, SYNC_WRITE = 0x01, 0x02, 0x03, 0x82, 0x83
TORQUE, GOAL, PRESENT = 40, 42, 56


def checked(body: bytes) -> bytes:
    """Header and checksum around `id length ...`."""
    return b"\xff\xff" + body + bytes([255 - sum(body) % 256])


class FakeServo:
    """Memory, and a horn that is at its goal at once while torque is on."""

    def __init__(self, *, position: int = 2048) -> None:
        self.memory = bytearray(96)
        self.error = 0
        self.visited: list[int] = []  # positions under torque
        self.put(3, 777, 2)
        self.put(7, 250, 1)
        self.put(GOAL, 100, 2)  # a stale goal, as after power-on elsewhere: nobody may drive there
        self.put(PRESENT, position, 2)
        self.put(62, 121, 1)
        self.put(63, 31, 1)

    def put(self, address: int, value: int, size: int) -> None:
        self.memory[address : address + size] = value.to_bytes(size, "little")

    def get(self, address: int, size: int) -> int:
        return int.from_bytes(self.memory[address : address + size], "little")

    def write(self, address: int, data: bytes) -> None:
        self.memory[address : address + len(data)] = data
        if self.memory[TORQUE]:
            self.memory[PRESENT : PRESENT + 2] = self.memory[GOAL : GOAL + 2]
            self.visited.append(self.get(PRESENT, 2))


class FakeBus:
    """The far end of the cable.

    Attributes:
        port: name of the pty to open.
        received: instruction packets so far.
        mangles: what happens to the coming replies, one each; e.g. `lambda reply: b""` drops one.
        mangle_all: what happens to every reply.
        doubled: ids of which there are two servos.
    """

    def __init__(self, ids: Sequence[int] = (1, 2, 3, 4, 5, 6)) -> None:
        self.servos = {servo_id: FakeServo(position=2000 + 10 * servo_id) for servo_id in ids}
        self.received: list[bytes] = []
        self.mangles: deque[Mangle] = deque()
        self.mangle_all: Mangle = bytes
        self.doubled: set[int] = set()
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.port = os.ttyname(self._slave)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def count(self, instruction: int, address: int | None = None) -> int:
        """How many instructions of a kind arrived."""
        return sum(p[4] == instruction and (address is None or p[5] == address) for p in list(self.received))

    def say(self, data: bytes) -> None:
        """Put bytes on the line that nobody asked for."""
        os.write(self._master, data)

    def settle(self) -> None:
        """Wait until the far end has worked off what was sent: a broadcast write has no answer to wait for."""
        quiet, seen = 0, len(self.received)
        while quiet < 5:
            time.sleep(0.005)
            quiet = quiet + 1 if len(self.received) == seen else 0
            seen = len(self.received)

    def unplug(self) -> None:
        self._stop.set()
        self._thread.join()
        for fd in (self._master, self._slave):
            if fd >= 0:
                os.close(fd)
        self._master = self._slave = -1

    def _serve(self) -> None:
        buffer = b""
        while not self._stop.is_set():
            if not select.select([self._master], [], [], 0.01)[0]:
                continue
            buffer += os.read(self._master, 4096)
            while len(buffer) >= 4 and len(buffer) >= 4 + buffer[3]:
                packet, buffer = buffer[: 4 + buffer[3]], buffer[4 + buffer[3] :]
                assert packet == checked(packet[2:-1]), packet.hex(" ")
                self.received.append(packet)
                self._execute(packet[2], packet[4], packet[5:-1])

    def _execute(self, servo_id: int, instruction: int, params: bytes) -> None:
        if instruction == SYNC_WRITE:
            address, size = params[:2]
            for start in range(2, len(params), size + 1):
                servo = self.servos.get(params[start])
                if servo:
                    servo.write(address, params[start + 1 : start + 1 + size])
        elif instruction == SYNC_READ:
            for one in params[2:]:
                self._answer(one, params[0], params[1])
        elif instruction == READ:
            self._answer(servo_id, *params)
        elif instruction == WRITE and servo_id in self.servos:
            self.servos[servo_id].write(params[0], params[1:])
            self._answer(servo_id, 0, 0)
        elif instruction == PING:
            self._answer(servo_id, 0, 0)

    def _answer(self, servo_id: int, address: int, size: int) -> None:
        servo = self.servos.get(servo_id)
        if servo is None:
            return
        reply = checked(bytes([servo_id, size + 2, servo.error]) + bytes(servo.memory[address : address + size]))
        mangle = self.mangles.popleft() if self.mangles else self.mangle_all
        reply = mangle(reply * (2 if servo_id in self.doubled else 1))
        if reply:
            self.say(reply)
