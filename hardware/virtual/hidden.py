"""What the virtual arm's maker knows and nobody else: the hidden parameters of one specimen, from a TOML file."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from isthmus.hardware.robot import load_robot
from isthmus.hardware.structure import FormatError, read_toml

ARMS_DIR = Path(__file__).parent / "arms"

RANGES: Mapping[str, tuple[float, float]] = {
    "payload_kg": (0.0, 0.15),
    "friction_scale": (0.5, 2.0),
    "gain_scale": (0.6, 1.4),
    "latency_ms": (5.0, 40.0),
    "encoder_noise_counts": (0.0, 5.0),
    "backlash_deg": (0.0, 1.0),
    "encoder_offset_deg": (-3.0, 3.0),
}


@dataclass(frozen=True, kw_only=True)
class HiddenParameters:
    """How one specimen differs from the nominal robot; `RANGES` bounds every value."""

    seed: int  # of encoder noise and of faults that strike at random
    payload_kg: float  # point mass at the tip
    friction_scale: float  # on Coulomb and viscous friction of every joint
    gain_scale: float  # on the stiffness of every position loop
    latency_ms: float  # from the last byte of a write to the servo acting on it
    backlash_deg: Mapping[str, float]  # total gear play by joint, between motor and encoder
    encoder_offset_deg: Mapping[str, float]  # by joint: a driver with nominal calibration reads angle + offset
    encoder_noise_counts: float = 0.0  # standard deviation of every sample of the encoder

    def per_joint(self, field: str, joint_names: Iterable[str]) -> np.ndarray:
        """A per-joint table in rad, shape (n,), in the order of `joint_names`."""
        table: Mapping[str, float] = getattr(self, field)
        return np.deg2rad([table[name] for name in joint_names])


def arm_names() -> tuple[str, ...]:
    """Names of the specimens that ship with isthmus."""
    return tuple(sorted(path.stem for path in ARMS_DIR.glob("*.toml")))


def hidden_path(name_or_path: str | Path) -> Path:
    """The file of a specimen, by name or as given; raises FormatError for an unknown name."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = ARMS_DIR / f"{name_or_path}.toml"
        if not path.is_file():
            raise FormatError(f"unknown virtual arm {str(name_or_path)!r}; available: {', '.join(arm_names())}")
    return path


def load_hidden(name_or_path: str | Path) -> HiddenParameters:
    """Read a specimen by name (`hard`) or from the path of a TOML file.

    Raises:
        FormatError: unknown name, incomplete file or a value outside its range; says which and what is allowed.
    """
    path = hidden_path(name_or_path)
    hidden = read_toml(path, HiddenParameters)
    for field in fields(hidden):
        value = getattr(hidden, field.name)
        if isinstance(value, Mapping):
            _check_joints(field.name, value, path)
            for joint, number in value.items():
                _check_range(f"{field.name}.{joint}", field.name, number, path)
        elif field.name in RANGES:
            _check_range(field.name, field.name, value, path)
    return hidden


def _check_joints(field: str, table: Mapping[str, float], path: Path) -> None:
    expected = load_robot("so101").joint_names
    if set(table) != set(expected):
        raise FormatError(f"{path}: [{field}] needs exactly the joints {', '.join(expected)}; got {', '.join(table)}")


def _check_range(key: str, field: str, value: float, path: Path) -> None:
    low, high = RANGES[field]
    if not low <= value <= high:
        raise FormatError(f"{path}: {key} = {value} lies outside {low} .. {high}")
