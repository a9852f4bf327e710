"""Fewer steps that do the same: no dead ones, no copies of what could be written in place, one loop instead of several."""

from .ir import Buffer, Loop, Operand, Program, Ref, Region, Step


def optimise(program: Program) -> None:
    """Improve a program in place."""
    drop_dead(program)
    write_in_place(program)
    fuse(program)
    drop_dead(program)


def drop_dead(program: Program) -> None:
    """Remove what nothing reads afterwards."""
    kept: list[Step] = []
    for step in reversed(program.steps):
        readers = [ref for later in kept for ref in later.reads()]
        if isinstance(step, Loop):
            step.stores = [store for store in step.stores if _wanted(store.region, readers)]
            _prune(step)
        if any(_wanted(region, readers) for region in step.writes()):
            kept.append(step)
    program.steps[:] = kept[::-1]


def _wanted(region: Region, readers: list[Ref]) -> bool:
    return region.buffer.place != "scratch" or any(region.overlaps(ref) for ref in readers)


def _prune(loop: Loop) -> None:
    """Remove operations whose result is not used."""
    used = {store.value for store in loop.stores if isinstance(store.value, int)}
    for number in range(len(loop.body) - 1, -1, -1):
        if number in used:
            used.update(o for o in loop.body[number].operands if isinstance(o, int))
    order = {old: new for new, old in enumerate(sorted(used))}
    loop.body = [loop.body[number] for number in sorted(used)]
    loop.replace(lambda operand: order[operand] if isinstance(operand, int) else operand)


def write_in_place(program: Program) -> None:
    """Where a whole scratch buffer is only copied somewhere, let its writers write there."""
    number = 0
    while number < len(program.steps):
        step = program.steps[number]
        source = _copied(step)
        if source is None:
            number += 1
            continue
        region = step.writes()[0]
        del program.steps[number]
        _move(program, source, region)


def _copied(step: Step) -> Buffer | None:
    """The scratch buffer that a step copies as a whole, and does nothing else."""
    if not isinstance(step, Loop) or step.body or len(step.stores) != 1:
        return None
    value = step.stores[0].value
    if not isinstance(value, Ref) or value.buffer.place != "scratch" or value.start != 0:
        return None
    return (
        value.buffer if value.size == value.buffer.size and step.stores[0].region.buffer is not value.buffer else None
    )


def _move(program: Program, old: Buffer, to: Region) -> None:
    def changed(operand: Operand) -> Operand:
        if isinstance(operand, Ref) and operand.buffer is old:
            return Ref(buffer=to.buffer, index=operand.index + to.start)
        return operand

    for step in program.steps:
        step.replace(changed)
        for region in step.writes():
            if region.buffer is old:
                region.buffer, region.start = to.buffer, region.start + to.start


def fuse(program: Program) -> None:
    """Let loops take in the earlier loops whose elements they read one by one."""
    number = 0
    while number < len(program.steps):
        step = program.steps[number]
        taken = _producer(program.steps, number, step) if isinstance(step, Loop) else None
        if taken is None or not isinstance(step, Loop):
            number += 1
            continue
        producer = program.steps[taken]
        assert isinstance(producer, Loop)
        _merge(producer, step)
        del program.steps[taken]
        number -= 1


def _producer(steps: list[Step], number: int, loop: Loop) -> int | None:
    """An earlier loop that can be done as part of this one: nobody else needs its results before."""
    reads = loop.reads()
    for earlier in range(number - 1, -1, -1):
        other = steps[earlier]
        if not isinstance(other, Loop) or other.size != loop.size:
            continue
        met = [ref for ref in reads if any(region.overlaps(ref) for region in other.writes())]
        exact = all(any(region.is_exactly(ref) for region in other.writes()) for ref in met)
        if met and exact and not _read_between(steps[earlier + 1 : number], other.writes()):
            return earlier
    return None


def _read_between(steps: list[Step], regions: list[Region]) -> bool:
    return any(region.overlaps(ref) for step in steps for ref in step.reads() for region in regions)


def _merge(producer: Loop, loop: Loop) -> None:
    shift = len(producer.body)

    def changed(operand: Operand) -> Operand:
        if isinstance(operand, int):
            return operand + shift
        for store in producer.stores:
            if store.region.is_exactly(operand):
                return store.value
        return operand

    loop.replace(changed)
    loop.body = [*producer.body, *loop.body]
    loop.stores = [*producer.stores, *loop.stores]
