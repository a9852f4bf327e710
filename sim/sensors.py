"""What sensors make of true states: raw signals, with noise where it arises."""

import math

import torch


def encoder_reading(
    joint_pos: torch.Tensor, offset: torch.Tensor, counts_per_turn: int, noise_counts: torch.Tensor
) -> torch.Tensor:
    """Angle as an encoder reports it: offset, noise, then rounding to whole counts.

    Args:
        joint_pos: (..., n) true angle, rad.
        offset: (..., n) encoder error, rad; a reading is angle + offset.
        counts_per_turn: resolution.
        noise_counts: (..., n) additive noise, counts.

    Returns:
        (..., n) rad.
    """
    resolution = 2.0 * math.pi / counts_per_turn
    return torch.round((joint_pos + offset) / resolution + noise_counts) * resolution
