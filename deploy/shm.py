"""Records between processes over shared memory: `Mailbox` (newest wins) and `Ring` (every record, or counted as dropped).

Each slot carries the record's sequence number and a CRC over number and payload. A reader accepts a slot only when both fit, so a torn
read is noticed whatever the memory ordering of the machine, and a process killed in the middle of a write leaves only an unfinished slot.
No locks: nothing can be left locked by a process that died.
"""

import sys
import zlib
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory

import numpy as np

_ATTEMPTS = 100  # a reader that is lapped this often in a row has no chance of keeping up


def _open(name: str | None, size: int) -> SharedMemory:
    if name is None:
        return SharedMemory(create=True, size=size)
    if sys.version_info >= (3, 13):
        return SharedMemory(name=name, track=False)
    # Before 3.13 attaching registers the block as well, and whoever unregisters first takes it away from its creator.
    register = resource_tracker.register
    resource_tracker.register = lambda name, rtype: None
    try:
        return SharedMemory(name=name)
    finally:
        resource_tracker.register = register


def _crc(payload: np.ndarray, sequence: int) -> int:
    return zlib.crc32(payload.view(np.uint8).data, sequence & 0xFFFFFFFF)


class _Block:
    """Header and slots of one shared-memory block."""

    def __init__(self, dtype: np.dtype, slots: int, name: str | None) -> None:
        self._owner = name is None
        slot = np.dtype([("sequence", "<u8"), ("crc", "<u8"), ("payload", dtype)], align=True)
        size = 64 + slot.itemsize * slots
        self._memory = _open(name, size)
        if self._memory.size < size:
            found = self._memory.size
            self._memory.close()
            raise ValueError(
                f"shared memory {name!r} has {found} bytes, expected {size}: the two sides use different dtypes"
            )
        self.dtype = dtype
        self._header = np.ndarray((8,), dtype="<u8", buffer=self._memory.buf)
        self._slots = np.ndarray((slots,), dtype=slot, buffer=self._memory.buf, offset=64)
        self._payloads = self._slots["payload"]
        self._out = np.zeros((1,), dtype=dtype)
        self._scratch = np.zeros((1,), dtype=slot)

    @property
    def name(self) -> str:
        """What the other processes attach to."""
        return self._memory.name

    def _put(self, index: int, sequence: int, record: np.ndarray) -> None:
        self._out[0] = record
        slot = self._scratch
        slot["sequence"] = sequence
        slot["crc"] = _crc(self._out, sequence)
        slot["payload"] = self._out
        self._slots[index] = slot[0]

    def _get(self, index: int, sequence: int) -> np.ndarray | None:
        """A copy of the slot's payload, or None where it does not hold exactly that record."""
        slot = self._slots[index : index + 1].copy()
        payload = np.ascontiguousarray(slot["payload"])
        if int(slot["sequence"][0]) != sequence or int(slot["crc"][0]) != _crc(payload, sequence):
            return None
        return payload.reshape(())

    def close(self) -> None:
        """Leave the block; the creator also removes it. May be called twice."""
        if not hasattr(self, "_slots"):
            return
        del self._header, self._slots, self._payloads
        self._memory.close()
        if self._owner:
            self._memory.unlink()


class Mailbox(_Block):
    """One writer, any number of readers; a reader gets the newest whole record."""

    def __init__(self, dtype: np.dtype, *, name: str | None = None) -> None:
        """Create a mailbox, or attach to the one called `name`."""
        super().__init__(dtype, 2, name)
        self._seen = 0

    def write(self, record: np.ndarray) -> None:
        """Publish a record of the mailbox's dtype, shape ()."""
        sequence = int(self._header[0]) + 1
        self._put(sequence % 2, sequence, record)
        self._header[0] = sequence

    def read(self) -> np.ndarray | None:
        """A copy of the newest record, shape (); None where there is none yet."""
        for _ in range(_ATTEMPTS):
            sequence = int(self._header[0])
            if sequence == 0:
                return None
            record = self._get(sequence % 2, sequence)
            if record is not None:
                self._seen = sequence
                return record
        return None

    def read_new(self) -> np.ndarray | None:
        """Like `read`, but None as long as nothing newer than the last record read was written."""
        return None if int(self._header[0]) == self._seen else self.read()


class Ring(_Block):
    """One producer, one consumer, every record in order; where the consumer is too slow, new records are dropped and counted."""

    def __init__(self, dtype: np.dtype, capacity: int, *, name: str | None = None) -> None:
        """Create a ring of `capacity` records, or attach to the one called `name`."""
        super().__init__(dtype, capacity, name)
        self._capacity = capacity

    def push(self, record: np.ndarray) -> bool:
        """Append a record; False, and one more in `dropped`, where the ring is full."""
        head = int(self._header[0])
        if head - int(self._header[1]) >= self._capacity:
            self._header[2] += 1
            return False
        self._put(head % self._capacity, head + 1, record)
        self._header[0] = head + 1
        return True

    def pop(self) -> np.ndarray | None:
        """The oldest record, shape (); None where there is none."""
        tail = int(self._header[1])
        if int(self._header[0]) == tail:
            return None
        record = self._get(tail % self._capacity, tail + 1)
        if record is not None:
            self._header[1] = tail + 1
        return record

    @property
    def dropped(self) -> int:
        """Records that found the ring full."""
        return int(self._header[2])
