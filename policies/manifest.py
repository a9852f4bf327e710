"""What a bundle says of itself beside its graph."""

from dataclasses import dataclass

from .contract import Contract

SCHEMA = 2


@dataclass(frozen=True, kw_only=True)
class StateSpec:
    """A state tensor of the graph, zero at reset; input `state.<name>`, output `next.<name>`."""

    name: str
    width: int


@dataclass(frozen=True, kw_only=True)
class ResidualInfo:
    """What was composed onto a base."""

    base_sha256: str
    alpha: float  # bound of the residual, in action units
    gate_on: float  # probability at which the gate opens
    gate_off: float  # probability below which it closes
    episodes: int  # corrected episodes it was learnt from


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a bundle comes from."""

    created: str  # ISO 8601, UTC
    isthmus: str
    trainer: str  # package and version that trained the network
    seed: int
    environment_steps: int
    simulated_success: float | None  # share of episodes, None where nothing was evaluated


@dataclass(frozen=True, kw_only=True)
class SignalQuantiles:
    """How the values of a raw signal were distributed."""

    name: str
    quantiles: tuple[
        tuple[float, ...], ...
    ]  # for each value those at `Distribution.probabilities`, in the signal's unit


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """What the policy met in training: every tick of its episodes in the randomised simulator."""

    probabilities: tuple[float, ...]  # from 0, the smallest ever met, to 1
    signals: tuple[SignalQuantiles, ...]
    observation: tuple[tuple[float, ...], ...]  # for each value of the observation
    ticks: int  # that it is of


@dataclass(frozen=True, kw_only=True)
class StartEnvelope:
    """From where the policy was trained to start: the widest that episodes began with."""

    joint_pos_low: tuple[float, ...]  # rad or m, in the contract's order
    joint_pos_high: tuple[float, ...]
    joint_speed: float  # rad/s or m/s, of the fastest joint
    tilt: float | None  # rad from upright; None where gravity is not measured
    turn_rate: float | None  # rad/s; None where there is no gyro


@dataclass(frozen=True, kw_only=True)
class ValueSource:
    """Where an imported value was read, and how finely it was printed there."""

    path: str  # of the value in the contract, such as joints[3].kp
    source: str  # file and key
    resolution: float  # half a unit in the last printed place, 0 at full precision


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Everything a runtime must know of a policy. No value has a default: what is missing is an error."""

    schema: int
    name: str
    contract: Contract
    states: tuple[StateSpec, ...]
    residual: ResidualInfo | None
    provenance: Provenance
    distribution: Distribution | None  # None: not known, as of imported policies
    envelope: StartEnvelope | None  # likewise
    sources: tuple[ValueSource, ...]  # of an imported policy
