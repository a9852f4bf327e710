"""Picking columns without copying them, where they lie side by side."""

Columns = slice | list[int]


def columns(indices: list[int]) -> Columns:
    """What picks these columns: a slice, which gives a view, where they are consecutive."""
    if indices and indices == list(range(indices[0], indices[0] + len(indices))):
        return slice(indices[0], indices[0] + len(indices))
    return indices


def runs(indices: list[int]) -> list[slice]:
    """The fewest slices that pick these columns, one after the other."""
    found: list[slice] = []
    for index in indices:
        if found and found[-1].stop == index:
            found[-1] = slice(found[-1].start, index + 1)
        else:
            found.append(slice(index, index + 1))
    return found
