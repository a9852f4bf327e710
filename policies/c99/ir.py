"""What an ONNX graph becomes on its way to C: buffers, views of them, and steps that each fill places of buffers once."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from .names import CExportError

# Where a buffer lives: members of the caller's structs, scratch inside the state, or constant tables.
Place = Literal["input", "memory", "next", "output", "scratch", "constant"]
C_TYPES = {"float32": "float", "bool": "unsigned char", "int64": "int64_t", "int32": "int32_t"}


def c_type(dtype: np.dtype, what: str) -> str:
    """The C type of a tensor's values; raises CExportError naming what has another type."""
    if dtype.name not in C_TYPES:
        raise CExportError(f"{what} is of type {dtype.name}; compiled are {', '.join(C_TYPES)}")
    return C_TYPES[dtype.name]


@dataclass(kw_only=True, eq=False)
class Buffer:
    """A one-dimensional array in C."""

    place: Place
    name: str  # of the struct's member or table; "" in scratch
    size: int
    c_type: str
    data: np.ndarray | None = None  # of constants, flat


@dataclass(kw_only=True, eq=False)
class Ref:
    """A tensor as places in a buffer: element i of the tensor is `buffer[index.flat[i]]`."""

    buffer: Buffer
    index: np.ndarray  # int64, of the tensor's shape

    @property
    def size(self) -> int:
        """Number of values."""
        return self.index.size

    @property
    def start(self) -> int | None:
        """Where it begins, if its values lie one after another; else None."""
        flat = self.index.reshape(-1)
        first = int(flat[0])
        return first if (flat == np.arange(first, first + len(flat))).all() else None

    @property
    def constant(self) -> np.ndarray | None:
        """Its values, if they are constant."""
        return None if self.buffer.data is None else self.buffer.data[self.index]

    def uniform(self) -> np.generic | None:
        """The one constant that all its values are, else None."""
        values = self.constant
        return values.flat[0] if values is not None and (values == values.flat[0]).all() else None


def whole(buffer: Buffer, shape: tuple[int, ...]) -> Ref:
    """All of a buffer as a tensor."""
    return Ref(buffer=buffer, index=np.arange(buffer.size, dtype=np.int64).reshape(shape))


@dataclass(kw_only=True, eq=False)
class Region:
    """Consecutive places of a buffer."""

    buffer: Buffer
    start: int
    size: int

    def overlaps(self, ref: Ref) -> bool:
        """Whether a tensor has values here."""
        if ref.buffer is not self.buffer:
            return False
        return bool(((ref.index >= self.start) & (ref.index < self.start + self.size)).any())

    def is_exactly(self, ref: Ref) -> bool:
        """Whether a tensor is this, value by value."""
        return ref.buffer is self.buffer and ref.size == self.size and ref.start == self.start


Operand = int | Ref  # the number of an operation of the same loop, or a value of its own for each turn


@dataclass(kw_only=True, eq=False)
class Operation:
    """An expression over operands, `{0}`, `{1}` ..."""

    template: str
    operands: list[Operand]
    c_type: str


@dataclass(kw_only=True, eq=False)
class Store:
    """Turn i of a loop writes a value to place i of a region."""

    value: Operand
    region: Region


@dataclass(kw_only=True, eq=False)
class Loop:
    """The same operations for each element."""

    size: int
    body: list[Operation] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    def reads(self) -> list[Ref]:
        """Tensors that it reads."""
        operands = [o for operation in self.body for o in operation.operands] + [s.value for s in self.stores]
        return [o for o in operands if isinstance(o, Ref)]

    def writes(self) -> list[Region]:
        """Regions that it fills."""
        return [store.region for store in self.stores]

    def replace(self, change: Callable[[Operand], Operand]) -> None:
        """Change every operand."""
        for operation in self.body:
            operation.operands = [change(operand) for operand in operation.operands]
        for store in self.stores:
            store.value = change(store.value)


@dataclass(kw_only=True, eq=False)
class Call:
    """A kernel's call: `{x}` in the template becomes a pointer to what `arguments` name x, `{y}` to the region."""

    template: str
    arguments: dict[str, Ref]
    region: Region
    own: dict[str, Region] = field(default_factory=dict)  # scratch of the kernel itself, by name in the template

    def reads(self) -> list[Ref]:
        """Tensors that it reads; their values lie one after another."""
        return list(self.arguments.values())

    def writes(self) -> list[Region]:
        """Regions that it fills."""
        return [self.region, *self.own.values()]

    def replace(self, change: Callable[[Operand], Operand]) -> None:
        """Change every tensor."""
        for name, ref in self.arguments.items():
            changed = change(ref)
            assert isinstance(changed, Ref)
            self.arguments[name] = changed


@dataclass(kw_only=True, eq=False)
class Dense:
    """y = W x + b, which becomes a `Call` of one precision or another."""

    name: str  # of the node
    weights: np.ndarray  # (rows, columns) float32
    bias: np.ndarray  # (rows,) float32
    x: Ref
    region: Region

    def reads(self) -> list[Ref]:
        """Tensors that it reads."""
        return [self.x]

    def writes(self) -> list[Region]:
        """Regions that it fills."""
        return [self.region]

    def replace(self, change: Callable[[Operand], Operand]) -> None:
        """Change its input."""
        changed = change(self.x)
        assert isinstance(changed, Ref)
        self.x = changed


Step = Loop | Call | Dense


@dataclass(kw_only=True, eq=False)
class Program:
    """A model, compiled: steps in order, and what they read and fill."""

    inputs: list[Buffer]
    memory: list[Buffer]  # state as it was
    following: list[Buffer]  # the next state, one for each of memory
    outputs: list[Buffer]
    steps: list[Step]
