"""Constant tables of a source, each kept once, and how buffers are written in C."""

import numpy as np

from .allocate import Layout
from .ir import Buffer, Ref
from .names import bare_number, number

SCRATCH = {
    "float": "work",
    "unsigned char": "flags",
    "int64_t": "longs",
    "int32_t": "ints",
    "uint32_t": "words",
}
PER_LINE = {"float": 8, "uint32_t": 10}


class Tables:
    """Tables as they are asked for, in order."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, bytes], str] = {}
        self._texts: list[str] = []

    def name(self, data: np.ndarray, c_type: str) -> str:
        """The table of these values, made when it is new."""
        flat = np.ascontiguousarray(data).reshape(-1)
        key = (c_type, flat.tobytes())
        if key not in self._names:
            self._names[key] = name = f"c{len(self._names)}"
            self._texts.append(f"static const {c_type} {name}[{len(flat)}] = {{\n{rows(flat, c_type)}\n}};\n")
        return self._names[key]

    def text(self) -> str:
        """All tables."""
        return "\n".join(self._texts)


def rows(flat: np.ndarray, c_type: str) -> str:
    """Values in lines."""
    texts = [_bare(value, c_type) for value in flat.tolist()]
    step = PER_LINE.get(c_type, 16)
    return ",\n".join("    " + ", ".join(texts[k : k + step]) for k in range(0, len(texts), step))


def _bare(value: float, c_type: str) -> str:
    if c_type == "float":
        return bare_number(value)
    return f"0x{int(value):08x}u" if c_type == "uint32_t" else literal(value, c_type).strip("()")


def literal(value: float, c_type: str) -> str:
    """A value in an expression."""
    if c_type == "float":
        return number(value)
    whole = int(value)
    if c_type == "int64_t":
        return f"(-{-(whole + 1)}LL - 1)" if whole < 0 else f"{whole}LL"
    return f"({whole})" if whole < 0 else f"{whole}"


class Places:
    """How a step function names buffers."""

    def __init__(self, layout: Layout, tables: Tables) -> None:
        self.layout = layout
        self.tables = tables

    def base(self, buffer: Buffer) -> tuple[str, int]:
        """Name of the array that a buffer lies in, and where it begins there."""
        if buffer.place == "scratch":
            return SCRATCH[buffer.c_type], self.layout.starts[buffer]
        if buffer.data is not None:
            return self.tables.name(buffer.data, buffer.c_type), 0
        return {"input": "in", "memory": "now", "next": "next", "output": "out"}[buffer.place] + f"->{buffer.name}", 0

    def pointer(self, ref: Ref) -> str:
        """Address of a tensor whose values lie one after another."""
        start = ref.start
        assert start is not None
        values = ref.constant
        if values is not None and ref.size < ref.buffer.size:
            return self.tables.name(values, ref.buffer.c_type)
        return self.address(ref.buffer, start)

    def address(self, buffer: Buffer, start: int) -> str:
        """Address of a place in a buffer."""
        name, first = self.base(buffer)
        return f"{name} + {first + start}" if first + start else name
