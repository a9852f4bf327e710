"""A loop over elements as C: places that advance evenly are computed, others looked up in a table."""

import numpy as np

from .ir import Loop, Operand, Store
from .tables import Places, literal

Steps = tuple[int, ...]  # how far a place advances with each of the loop's counters


def loop_text(loop: Loop, places: Places, indent: str = "    ") -> str:
    """The loop, with its own block around it."""
    counts = _nest(loop)
    counters = ["i", "j"][: len(counts)]
    inner = indent + "    " * max(1, len(counts))
    lines = [f"{inner}{line}" for line in _body(loop, places, counts, counters)]
    if not counts:
        return "\n".join([f"{indent}{{", *lines, f"{indent}}}"])
    heads, tails = [], []
    for depth, (counter, count) in enumerate(zip(counters, counts, strict=True)):
        pad = indent + "    " * depth
        heads.append(f"{pad}for (int {counter} = 0; {counter} < {count}; ++{counter}) {{")
        tails.append(f"{pad}}}")
    return "\n".join([*heads, *lines, *tails[::-1]])


def _nest(loop: Loop) -> tuple[int, ...]:
    """Turns of the outer and inner loop: () for one turn, (n,) if that suffices for all places to advance evenly."""
    size = loop.size
    if size == 1:
        return ()
    flats = [ref.index.reshape(-1) for ref in loop.reads() if ref.uniform() is None]
    odd = [flat for flat in flats if even_steps(flat, (size,)) is None]
    for inner in range(size // 2, 1, -1):
        if odd and size % inner == 0:
            counts = (size // inner, inner)
            if all(even_steps(flat, counts) is not None for flat in odd):
                return counts
    return (size,)


def even_steps(flat: np.ndarray, counts: tuple[int, ...]) -> Steps | None:
    """By how much places advance with each counter, if they do so evenly; else None."""
    shaped = flat.reshape(counts)
    first = int(shaped.flat[0])
    steps, expected = [], np.full(counts, first)
    for axis, count in enumerate(counts):
        second = tuple(1 if k == axis else 0 for k in range(len(counts)))
        steps.append(int(shaped[second]) - first)
        expected = expected + steps[-1] * np.arange(count).reshape([-1 if k == axis else 1 for k in range(len(counts))])
    return tuple(steps) if (expected == shaped).all() else None


def _body(loop: Loop, places: Places, counts: tuple[int, ...], counters: list[str]) -> list[str]:
    lines = []
    for number, operation in enumerate(loop.body):
        operands = [_operand(o, places, counts, counters) for o in operation.operands]
        kind = "int" if operation.c_type == "unsigned char" else operation.c_type
        lines.append(f"const {kind} t{number} = {operation.template.format(*operands)};")
    return [*lines, *(_store(store, loop, places, counts, counters) for store in loop.stores)]


def _store(store: Store, loop: Loop, places: Places, counts: tuple[int, ...], counters: list[str]) -> str:
    name, first = places.base(store.region.buffer)
    steps = (counts[1], 1) if len(counts) == 2 else (1,) * len(counts)
    place = _sum(first + store.region.start, steps, counters)
    value = _operand(store.value, places, counts, counters)
    kind = store.region.buffer.c_type
    computed = isinstance(store.value, int) and loop.body[store.value].c_type == "unsigned char"
    return f"{name}[{place}] = {f'(unsigned char){value}' if computed and kind == 'unsigned char' else value};"


def _operand(operand: Operand, places: Places, counts: tuple[int, ...], counters: list[str]) -> str:
    if isinstance(operand, int):
        return f"t{operand}"
    same = operand.uniform()
    if same is not None:
        return literal(same.item(), operand.buffer.c_type)
    flat = operand.index.reshape(-1)
    steps = even_steps(flat, counts)
    values = operand.constant
    if values is not None and (steps is None or operand.buffer.size > 2 * flat.size):
        table = places.tables.name(values, operand.buffer.c_type)
        return f"{table}[{_own_place(counts, counters)}]"
    name, first = places.base(operand.buffer)
    if steps is not None:
        return f"{name}[{_sum(first + int(flat[0]), steps, counters)}]"
    return f"{name}[{_lookup(flat + first, places, counts, counters)}]"


def _lookup(flat: np.ndarray, places: Places, counts: tuple[int, ...], counters: list[str]) -> str:
    kind = "unsigned short" if flat.max() < 1 << 16 else "int"
    return f"{places.tables.name(flat.astype(np.int64), kind)}[{_own_place(counts, counters)}]"


def _own_place(counts: tuple[int, ...], counters: list[str]) -> str:
    """Which turn it is."""
    return _sum(0, (counts[1], 1) if len(counts) == 2 else (1,) * len(counts), counters)


def _sum(first: int, steps: Steps, counters: list[str]) -> str:
    text = str(first) if first or not any(steps) else ""
    for step, counter in zip(steps, counters, strict=True):
        if step:
            sign = " - " if step < 0 else " + " if text else ""
            text += f"{sign}{counter if abs(step) == 1 else f'{abs(step)} * {counter}'}"
    return text if text.strip() else "0"
