"""What is believed of a robot before it is measured: the range in which each hidden parameter lies."""

from dataclasses import dataclass

import numpy as np

from .rollout import PARAMETERS

Range = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Prior:
    """Uniform ranges, wide by default. Identification searches them, excitation is checked over them."""

    friction_scale: Range = (0.4, 3.0)  # of the model's Coulomb and viscous friction together
    gain_scale: Range = (0.55, 1.5)  # of the position loop's gain
    payload_kg: Range = (0.0, 0.2)  # point mass at the tip
    latency_s: Range = (0.0, 0.06)  # from the last byte of a write to the servo acting on it
    encoder_offset_rad: float = 0.055  # each joint's reading may be off by this, either way

    def __post_init__(self) -> None:
        for name in PARAMETERS:
            low, high = getattr(self, name)
            if not 0.0 <= low < high < float("inf"):
                raise ValueError(f"prior of {name}: expected 0 <= low < high, got {low} .. {high}")

    @property
    def lower(self) -> np.ndarray:
        """Lower ends in the order of PARAMETERS."""
        return np.array([getattr(self, name)[0] for name in PARAMETERS])

    @property
    def upper(self) -> np.ndarray:
        """Upper ends in the order of PARAMETERS."""
        return np.array([getattr(self, name)[1] for name in PARAMETERS])

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """Draw parameters, (count, 4) in the order of PARAMETERS."""
        return rng.uniform(self.lower, self.upper, size=(count, len(PARAMETERS)))
