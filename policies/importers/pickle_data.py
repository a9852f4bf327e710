"""What a pickle says, as data: its instructions are read one by one, and none of what it asks to import or to call is imported or called.

Enough of the format for the pickles inside TorchScript archives: a global is a `Name`, a call of one is a `Made`, a stored
tensor a `Stored`.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass, field

from .common import ImportFailed

MAX_OPCODES = 1_000_000


@dataclass(frozen=True)
class Name:
    """A class or function that the pickle names."""

    module: str
    name: str


@dataclass
class Made:
    """What a pickle would make by calling something; `state` is what it would then give the result."""

    name: Name
    args: object
    state: object = None
    items: dict[object, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """A persistent id: where a pickle says that other data are."""

    key: object


class _Machine:
    """The pickle's stack; `marks` are the stack's depths at which a MARK was put."""

    def __init__(self) -> None:
        self.stack: list[object] = []
        self.marks: list[int] = []
        self.memo: dict[int, object] = {}

    def above_mark(self) -> list[object]:
        start = self.marks.pop()
        items, self.stack[start:] = self.stack[start:], []
        return items

    def make(self) -> None:
        args, name = self.stack.pop(), self.stack.pop()
        if not isinstance(name, Name):
            raise TypeError(f"a call of {type(name).__name__}")
        self.stack.append(Made(name, args))

    def build(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if not isinstance(made, Made):
            raise TypeError(f"a state for {type(made).__name__}")
        made.state = state

    def set_items(self, pairs: list[object]) -> None:
        target = self.stack[-1]
        items = target.items if isinstance(target, Made) else target
        if not isinstance(items, dict):
            raise TypeError(f"items for {type(target).__name__}")
        items.update(zip(pairs[::2], pairs[1::2], strict=True))

    def append(self, values: list[object]) -> None:
        target = self.stack[-1]
        if not isinstance(target, list):
            raise TypeError(f"an element for {type(target).__name__}")
        target.extend(values)

    def take(self, count: int) -> list[object]:
        if len(self.stack) < count or (self.marks and len(self.stack) - count < self.marks[-1]):
            raise IndexError("more is taken than was put")
        items, self.stack[len(self.stack) - count :] = self.stack[len(self.stack) - count :], []
        return items

    def get(self, index: int) -> None:
        self.stack.append(self.memo[index])

    def put(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


def _global(machine: _Machine, argument: str) -> None:
    module, _, name = argument.partition(" ")
    machine.stack.append(Name(module, name))


_VALUES = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = {
    "BININT",
    "BININT1",
    "BININT2",
    "LONG1",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINFLOAT",
    "BINSTRING",
    "SHORT_BINSTRING",
}
_ACTIONS: dict[str, Callable[[_Machine, object], object]] = {
    "PROTO": lambda m, a: None,
    "FRAME": lambda m, a: None,
    "MARK": lambda m, a: m.marks.append(len(m.stack)),
    "EMPTY_DICT": lambda m, a: m.stack.append({}),
    "EMPTY_LIST": lambda m, a: m.stack.append([]),
    "EMPTY_TUPLE": lambda m, a: m.stack.append(()),
    "TUPLE": lambda m, a: m.stack.append(tuple(m.above_mark())),
    "TUPLE1": lambda m, a: m.stack.append(tuple(m.take(1))),
    "TUPLE2": lambda m, a: m.stack.append(tuple(m.take(2))),
    "TUPLE3": lambda m, a: m.stack.append(tuple(m.take(3))),
    "LIST": lambda m, a: m.stack.append(m.above_mark()),
    "APPEND": lambda m, a: m.append(m.take(1)),
    "APPENDS": lambda m, a: m.append(m.above_mark()),
    "SETITEM": lambda m, a: m.set_items(m.take(2)),
    "SETITEMS": lambda m, a: m.set_items(m.above_mark()),
    "GLOBAL": lambda m, a: _global(m, str(a)),
    "REDUCE": lambda m, a: m.make(),
    "NEWOBJ": lambda m, a: m.make(),
    "BUILD": lambda m, a: m.build(),
    "BINPERSID": lambda m, a: m.stack.append(Stored(*m.take(1))),
    "BINGET": lambda m, a: m.get(int(str(a))),
    "LONG_BINGET": lambda m, a: m.get(int(str(a))),
    "BINPUT": lambda m, a: m.put(int(str(a))),
    "LONG_BINPUT": lambda m, a: m.put(int(str(a))),
}


def pickle_data(data: bytes, source: str) -> object:
    """What the pickle holds.

    Raises:
        ImportFailed: it ends early, or uses an instruction that no TorchScript archive needs.
    """
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count > MAX_OPCODES:
                raise ImportFailed(f"{source}: more than {MAX_OPCODES} instructions; a policy has fewer")
            if opcode.name == "STOP":
                return machine.take(1)[0]
            _step(machine, opcode.name, argument)
    except ImportFailed:
        raise
    except Exception as error:  # genops raises whatever its readers raise
        raise ImportFailed(f"{source}: not a pickle that TorchScript writes: {error}") from None
    raise ImportFailed(f"{source}: the pickle ends early; copy the file again")


def _step(machine: _Machine, name: str, argument: object) -> None:
    if name in _VALUES:
        machine.stack.append(_VALUES[name])
    elif name in _LITERALS:
        machine.stack.append(argument)
    elif name in _ACTIONS:
        _ACTIONS[name](machine, argument)
    else:
        raise ValueError(f"instruction {name}")
