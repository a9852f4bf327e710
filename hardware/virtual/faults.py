"""What can be broken on the virtual bus, on purpose."""

from dataclasses import dataclass

import numpy as np

from isthmus.hardware.structure import FormatError

OVERLOAD = 0x20
KINDS = {
    "drop": "replies get lost",
    "corrupt": "a bit of the reply flips",
    "silent": "the servo obeys but does not answer",
    "missing": "the servo hears nothing: loose plug",
    "duplicate": "the servo also answers to the id of joint `other`",
    "error": "the servo reports the error bits `bits`; overload (0x20) also switches its torque off",
    "frozen": "position, velocity, load and temperature keep the value of the moment",
}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One thing that is wrong with the bus or a servo."""

    kind: str  # one of KINDS
    joint: str | None = None  # None: every servo
    probability: float = 1.0  # drop and corrupt: of each reply
    count: int | None = None  # drop and corrupt: how many replies, then it is over; None: until cleared
    bits: int = 0  # error: the status byte
    other: str | None = None  # duplicate: whose id

    def check(self, joint_names: tuple[str, ...]) -> None:
        """Raises FormatError where the fault names what does not exist."""
        if self.kind not in KINDS:
            raise FormatError(f"unknown fault {self.kind!r}; available: {', '.join(KINDS)}")
        for name in (self.joint, self.other):
            if name is not None and name not in joint_names:
                raise FormatError(f"unknown joint {name!r}; available: {', '.join(joint_names)}")
        if not 0 <= self.probability <= 1:
            raise FormatError(f"probability must lie within 0 .. 1, got {self.probability}")
        if self.kind == "error" and not 0 < self.bits < 0x80:
            raise FormatError(f"an error fault needs bits within 1 .. 127, got {self.bits}")
        if self.kind == "duplicate" and (self.other is None or self.joint is None or self.other == self.joint):
            raise FormatError(
                "a duplicate fault needs `joint` and, as `other`, the joint whose id it shall also answer to"
            )


class FaultTable:
    """The faults in force; `seed` decides which replies random ones strike."""

    def __init__(self, joint_names: tuple[str, ...], seed: int) -> None:
        self._names = joint_names
        self._rng = np.random.default_rng(seed)
        self._active: list[tuple[Fault, int | None]] = []

    def add(self, fault: Fault) -> None:
        """Put a fault in force; raises FormatError where it names what does not exist."""
        fault.check(self._names)
        self._active.append((fault, fault.count))

    def clear(self) -> None:
        """Repair everything."""
        self._active.clear()

    def has(self, kind: str, index: int) -> bool:
        """Whether a fault of this kind is in force for a servo."""
        return any(fault.kind == kind and self._concerns(fault, index) for fault, _ in self._active)

    def error_bits(self, index: int) -> int:
        """The status byte of a servo."""
        bits = 0
        for fault, _ in self._active:
            if fault.kind == "error" and self._concerns(fault, index):
                bits |= fault.bits
        return bits

    def shares_id_of(self, index: int) -> int | None:
        """Index of the servo to whose id this one answers too."""
        for fault, _ in self._active:
            if fault.kind == "duplicate" and fault.other is not None and self._concerns(fault, index):
                return self._names.index(fault.other)
        return None

    def strike(self, reply: bytes, index: int) -> bytes:
        """What is left of a reply on its way to the host."""
        if not self._active:
            return reply
        if self.has("silent", index):
            return b""
        for slot, (fault, left) in enumerate(self._active):
            if fault.kind not in ("drop", "corrupt") or not self._concerns(fault, index) or left == 0:
                continue
            if self._rng.random() < fault.probability:
                self._active[slot] = (fault, None if left is None else left - 1)
                reply = b"" if fault.kind == "drop" else _flip_bit(reply)
        return reply

    def _concerns(self, fault: Fault, index: int) -> bool:
        return fault.joint is None or fault.joint == self._names[index]


def _flip_bit(reply: bytes) -> bytes:
    if not reply:
        return reply
    middle = max(
        4, len(reply) // 2
    )  # behind header, id and length: the frame stays a frame, the checksum does not hold
    return reply[:middle] + bytes([reply[middle] ^ 0x10]) + reply[middle + 1 :]
