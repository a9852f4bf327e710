"""Picking columns without copying them, where they lie side by side."""

Columns = slice | list[int]


def columns(indices: list[int]) -> Columns:
    """What picks these columns: a slice, which gives a view, where they are consecutive."""
    if indices and indices == list(range(indices[0], indices[0] + len(indices))):
        return slice(indices[0], indices[0] + len(indices))
    return indices
