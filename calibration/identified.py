"""The result of calibration as a file, and as randomisation for training."""

import math
from dataclasses import dataclass, replace
from pathlib import Path

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.structure import read_json, write_json


class OtherRobotError(IsthmusError, ValueError):
    """What was identified of one robot is to be used for another."""


# Half-widths of randomisation never shrink below these: another day, another battery, another specimen.
MIN_HALF_WIDTH = {"friction_scale": 0.15, "gain_scale": 0.05, "payload_kg": 0.01, "latency_s": 0.004}


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A parameter with its 95 % interval. Where it is not identifiable, value and interval are those of the prior."""

    value: float
    lower: float
    upper: float
    std: float
    identifiable: bool


@dataclass(frozen=True, kw_only=True)
class JointError:
    """Root mean square difference of one joint, measured against simulated, on motion that was not fitted."""

    joint: str
    before_rad: float  # with the model as it is written
    after_rad: float  # with the identified parameters


@dataclass(frozen=True, kw_only=True)
class JointOffset:
    """Constant error of one joint's encoder: reading = angle + offset."""

    joint: str
    offset_rad: float
    std_rad: float
    identifiable: bool  # alone; where not, the value still counts: the offsets of all joints together fit the tip

    @property
    def text(self) -> str:
        """For people, in degrees."""
        value = f"{math.degrees(self.offset_rad):+.2f} +- {math.degrees(self.std_rad):.2f} deg"
        if self.identifiable:
            return f"{self.joint} {value}"
        return f"{self.joint} weakly determined: {value}, used because together they fit the tip"


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Uniform randomisation of one parameter of the simulator."""

    parameter: str  # name in the simulator
    centre: float
    half_width: float

    @property
    def lower(self) -> float:
        """Lower end; these parameters are never negative."""
        return max(self.centre - self.half_width, 0.0)

    @property
    def upper(self) -> float:
        """Upper end."""
        return self.centre + self.half_width


@dataclass(frozen=True, kw_only=True)
class Identified:
    """How one robot differs from its model. Parameters as in `rollout.PARAMETERS`."""

    robot: str
    log_id: str  # sha256 of the joint log
    physics_dt_s: float  # friction holds for simulation at this step
    friction_scale: Estimate
    gain_scale: Estimate
    payload_kg: Estimate
    latency_s: Estimate  # of the machine; see simulator_latency_s
    payload_per_gain: Estimate | None  # kg, given where the log does not separate the two
    heldout: tuple[JointError, ...]
    train_rmse_rad: float
    heldout_before_rad: float
    heldout_after_rad: float
    encoder_offset: tuple[JointOffset, ...] | None = None  # None: unknown, not identifiable from joint logs

    @property
    def simulator_latency_s(self) -> float:
        """Latency to set in a simulation at `physics_dt_s`: its Euler steps answer half a step early."""
        return self.latency_s.value + self.physics_dt_s / 2

    @property
    def encoder_offset_text(self) -> str:
        """Offsets in degrees, or why there are none."""
        if self.encoder_offset is None:
            return "not identifiable from joint logs: touch known points or the joint stops"
        return "; ".join(offset.text for offset in self.encoder_offset)

    def with_offsets(self, offsets: tuple[JointOffset, ...]) -> "Identified":
        """The same with encoder offsets measured elsewhere."""
        return replace(self, encoder_offset=offsets)

    def check_robot(self, robot: str) -> None:
        """Raises OtherRobotError where this is not the robot that was identified."""
        if robot != self.robot:
            raise OtherRobotError(f"what was identified is of robot {self.robot!r}, got {robot!r}: calibrate that one")

    def randomization(self) -> tuple[Spread, ...]:
        """Centre and half-width per simulator parameter for training: the 95 % interval, never narrower than a floor."""
        spreads = []
        for name, floor in MIN_HALF_WIDTH.items():
            estimate: Estimate = getattr(self, name)
            shift = self.physics_dt_s / 2 if name == "latency_s" else 0.0
            half = max(estimate.value - estimate.lower, estimate.upper - estimate.value, floor)
            spreads.append(Spread(parameter=name, centre=estimate.value + shift, half_width=half))
        return tuple(spreads)

    def save(self, path: Path) -> None:
        """Write as JSON."""
        write_json(path, self)


def load_identified(path: Path) -> Identified:
    """Read what `Identified.save` wrote; raises FormatError naming what does not fit."""
    return read_json(path, Identified)
