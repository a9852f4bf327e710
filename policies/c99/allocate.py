"""Places in scratch memory: buffers that are never needed at the same time share them."""

from dataclasses import dataclass

from .ir import Buffer, Program


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Where each scratch buffer begins, and how many values of each type scratch holds."""

    starts: dict[Buffer, int]
    sizes: dict[str, int]


def allocate(program: Program) -> Layout:
    """A layout for a program's scratch buffers: largest first, each at the lowest place that is free as long as it lives."""
    lives = _lives(program)
    starts: dict[Buffer, int] = {}
    sizes: dict[str, int] = {}
    for buffer in sorted(lives, key=lambda b: -b.size):
        first, last = lives[buffer]
        taken = sorted(
            (starts[other], starts[other] + other.size)
            for other in starts
            if other.c_type == buffer.c_type and lives[other][0] <= last and first <= lives[other][1]
        )
        place = 0
        for start, end in taken:
            if place + buffer.size <= start:
                break
            place = max(place, end)
        starts[buffer] = place
        sizes[buffer.c_type] = max(sizes.get(buffer.c_type, 0), place + buffer.size)
    return Layout(starts=starts, sizes=sizes)


def _lives(program: Program) -> dict[Buffer, tuple[int, int]]:
    """First and last step at which each scratch buffer is needed."""
    lives: dict[Buffer, tuple[int, int]] = {}
    for number, step in enumerate(program.steps):
        touched = [*(ref.buffer for ref in step.reads()), *(region.buffer for region in step.writes())]
        for buffer in touched:
            if buffer.place == "scratch":
                lives[buffer] = (lives.get(buffer, (number, number))[0], number)
    return lives
