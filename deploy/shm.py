"""Records between processes over shared memory: `Mailbox` (newest wins) and `Ring` (every record, or counted as dropped).

Each slot carries the record's sequence number and a CRC over number and payload. A reader accepts a slot only when both fit, so a torn
read is noticed whatever the memory ordering of the machine, and a process killed in the middle of a write leaves only an unfinished slot.
No locks: nothing can be left locked by a process that died.
"""

import struct
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


_COUNTERS = struct.Struct("<Q")
_HEAD = struct.Struct("<QQ")  # of a slot: sequence, CRC
_HEADER_BYTES = 64


class _Block:
    """Header and slots of one shared-memory block: three counters of 8 bytes, then slots of sequence, CRC and payload."""

    def __init__(self, dtype: np.dtype, slots: int, name: str | None) -> None:
        self._owner = name is None
        self._stride = (_HEAD.size + dtype.itemsize + 7) // 8 * 8
        size = _HEADER_BYTES + self._stride * slots
        self._memory = _open(name, size)
        if self._memory.size < size:
            found = self._memory.size
            self._memory.close()
            raise ValueError(
                f"shared memory {name!r} has {found} bytes, expected {size}: the two sides use different dtypes"
            )
        self.dtype = dtype
        self._buffer: memoryview | None = self._memory.buf

    @property
    def name(self) -> str:
        """What the other processes attach to."""
        return self._memory.name

    def _counter(self, index: int) -> int:
        assert self._buffer is not None
        return _COUNTERS.unpack_from(self._buffer, 8 * index)[0]

    def _count(self, index: int, value: int) -> None:
        assert self._buffer is not None
        _COUNTERS.pack_into(self._buffer, 8 * index, value)

    def _put(self, index: int, sequence: int, record: np.ndarray) -> None:
        assert self._buffer is not None
        data = record.tobytes()
        if len(data) != self.dtype.itemsize:
            raise ValueError(
                f"a record of {len(data)} bytes, expected {self.dtype.itemsize}: {record.dtype} is not {self.dtype}"
            )
        start = _HEADER_BYTES + index * self._stride
        payload = start + _HEAD.size
        _HEAD.pack_into(self._buffer, start, sequence, zlib.crc32(data, sequence & 0xFFFFFFFF))
        self._buffer[payload : payload + len(data)] = data

    def _get(self, index: int, sequence: int) -> np.ndarray | None:
        """A copy of the slot's payload, or None where it does not hold exactly that record."""
        assert self._buffer is not None
        start = _HEADER_BYTES + index * self._stride
        data = bytes(self._buffer[start : start + _HEAD.size + self.dtype.itemsize])
        found, crc = _HEAD.unpack_from(data)
        if found != sequence or crc != zlib.crc32(memoryview(data)[_HEAD.size :], sequence & 0xFFFFFFFF):
            return None
        record = np.zeros((1,), dtype=self.dtype)
        record.view(np.uint8)[:] = np.frombuffer(data, np.uint8, offset=_HEAD.size)
        return record.reshape(())

    def close(self) -> None:
        """Leave the block; the creator also removes it. May be called twice."""
        if self._buffer is None:
            return
        self._buffer = None
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
        sequence = self._counter(0) + 1
        self._put(sequence % 2, sequence, record)
        self._count(0, sequence)

    def read(self) -> np.ndarray | None:
        """A copy of the newest record, shape (); None where there is none yet."""
        for _ in range(_ATTEMPTS):
            sequence = self._counter(0)
            if sequence == 0:
                return None
            record = self._get(sequence % 2, sequence)
            if record is not None:
                self._seen = sequence
                return record
        return None

    def read_new(self) -> np.ndarray | None:
        """Like `read`, but None as long as nothing newer than the last record read was written."""
        return None if self._counter(0) == self._seen else self.read()


class Ring(_Block):
    """One producer, one consumer, every record in order; where the consumer is too slow, new records are dropped and counted."""

    def __init__(self, dtype: np.dtype, capacity: int, *, name: str | None = None) -> None:
        """Create a ring of `capacity` records, or attach to the one called `name`."""
        super().__init__(dtype, capacity, name)
        self._capacity = capacity

    def push(self, record: np.ndarray) -> bool:
        """Append a record; False, and one more in `dropped`, where the ring is full."""
        head = self._counter(0)
        if head - self._counter(1) >= self._capacity:
            self._count(2, self._counter(2) + 1)
            return False
        self._put(head % self._capacity, head + 1, record)
        self._count(0, head + 1)
        return True

    def pop(self) -> np.ndarray | None:
        """The oldest record, shape (); None where there is none."""
        tail = self._counter(1)
        if self._counter(0) == tail:
            return None
        record = self._get(tail % self._capacity, tail + 1)
        if record is not None:
            self._count(1, tail + 1)
        return record

    @property
    def dropped(self) -> int:
        """Records that found the ring full."""
        return self._counter(2)
