"""Ground with height: a height field as data."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, kw_only=True)
class HeightField:
    """Heights on a square grid, centred on the world origin. Row index grows with x, column index with y."""

    heights: np.ndarray  # (rows, columns) m, float32
    spacing: float  # m between neighbours, along x and y
