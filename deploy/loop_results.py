"""What a run of the whole loop comes to, as data: written by `demo` and `bench`, read by the report."""

from dataclasses import dataclass

from .commands.attempts import Attempts

ARM_FILE = "arm.toml"  # copy of the hidden parameters that ran, for the report alone
LOG_NAMES = (
    "1-zero-shot.mcap",
    "2-calibrated.mcap",
    "3-corrected.mcap",
    "4-residual.mcap",
)  # the last only where one was learned


@dataclass(frozen=True, kw_only=True)
class LoopConfig:
    """How big each stage is."""

    arm: str  # virtual arm
    seed: int
    lockstep: bool
    targets: int  # of each evaluation on the arm
    corrections: tuple[int, int]  # episodes with the operator: before the offsets are known, and after
    train_iterations: int
    train_seconds: float | None
    retrain_iterations: int  # at most, in the identified simulator
    simulated_episodes: int = 1000
    excitation_s: float = 20.0


@dataclass(frozen=True, kw_only=True)
class StageTime:
    """How long a stage took."""

    stage: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Rate:
    """Successes in simulation."""

    successes: int
    episodes: int


@dataclass(frozen=True, kw_only=True)
class LoopResults:
    """What every stage came to; the report is made from this and the files beside it."""

    config: LoopConfig
    simulation: Rate
    zero_shot: Attempts
    calibrated: Attempts
    corrected: Attempts  # offsets from the corrections, no residual
    residual: Attempts | None  # None where the corrections left nothing to learn
    promoted: str  # which policy won: "offsets" or "residual"
    verdict: str
    offsets_rad: dict[str, float]
    offset_std_rad: dict[str, float]
    interventions: tuple[int, int]  # corrected episodes of each round in which the operator took over
    ticks: int
    missed: int
    rate_error: float  # relative error of the achieved rate
    times: tuple[StageTime, ...]

    @property
    def final(self) -> Attempts:
        """The evaluation of the promoted policy."""
        return self.residual if self.promoted == "residual" and self.residual is not None else self.corrected
