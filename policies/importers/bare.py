"""A network that says nothing of itself, and a TOML that says what it sees and does.

For tools without a format of their own, and for trainers that nobody else uses.

    network = "policy.onnx"     # in the same folder
    held = ["waist"]            # joints that are not driven

    [[observation]]             # as in a contract: name, scale, offset, clip, lags, fill, joints, ...
    name = "gyro"
    scale = 0.25

    [action]                    # likewise
    kind = "joint-position"
    joints = ["left_hip", "left_knee"]
    scale = 0.5

What belongs to the robot (limits, gains, default pose, period) is given with the policy, like for every other format.
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import onnx

from isthmus.hardware.structure import FormatError, read_toml

from ..contract import (
    SCHEMA,
    Action,
    CommandSpec,
    Contract,
    ContractError,
    ObservationTerm,
    OwnSignal,
    PhaseClock,
    RotorSpeed,
    observation_width,
)
from ..contract_checks import check_contract
from .common import Facts, Imported, Importer, ImportFailed, Missing, Numbers, build_joints, period_ns
from .files import read_text
from .network import read_network
from .onnx_network import plain_network


@dataclass(frozen=True, kw_only=True)
class BarePolicy:
    """What the TOML says."""

    network: str  # name of an .onnx or .pt in the same folder
    observation: tuple[ObservationTerm, ...]
    action: Action
    held: tuple[str, ...] = ()  # joints that the policy does not drive
    command: str | None = None  # signal of the command
    layout: str = "term"  # or "time": all terms of a lag together
    clock: PhaseClock | None = None
    own_signals: tuple[OwnSignal, ...] = ()


def load(path: Path, facts: Facts) -> Imported:
    """The TOML, or the .onnx that it lies beside under the same name."""
    described = path.with_suffix(".toml")
    read_text(described)  # within bounds
    try:
        policy = read_toml(described, BarePolicy)
    except FormatError as error:
        raise ImportFailed(str(error)) from None
    if isinstance(policy.action, RotorSpeed):
        raise ImportFailed(f"{described}: action: rotors are not supported; expected joints")
    missing = Missing(path, facts)
    joints, sources = build_joints((*policy.action.joints, *policy.held), dict[str, Numbers](), facts, missing)
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or described.stem,
        robot=missing.ask(facts.robot, "robot", "name of the robot", ""),
        joints=joints,
        period_ns=period_ns(missing.ask(facts.period_s, "period_s", "s, between two actions", 0.02), facts.source),
        observation=policy.observation,
        action=policy.action,
        command=_command(policy, facts, missing),
        chain=None,
        latency_s=missing.ask(
            facts.latency_s, "latency_s", "s, command delay that training saw: [least, most]", (0.0, 0.0)
        ),
        layout="time" if policy.layout == "time" else "term",
        clock=policy.clock,
        own_signals=policy.own_signals,
    )
    missing.check()
    if policy.layout not in ("term", "time"):
        raise ImportFailed(f"{described}: layout {policy.layout!r}; expected 'term' or 'time'")
    network, memory = read_network(
        path.parent, policy.network, f"{described}: network", _observations(contract, described)
    )
    if not memory:
        network, memory = _plain(network, policy)
    return Imported(contract=contract, network=network, memory=memory, sources=sources)


def _plain(network: onnx.ModelProto, policy: BarePolicy) -> tuple[onnx.ModelProto, dict[str, int]]:
    """First input the observation, first output the action, then the parts of the memory and what follows each."""
    inputs, outputs = ([value.name for value in values] for values in (network.graph.input, network.graph.output))
    if len(inputs) != len(outputs):
        raise ImportFailed(
            f"{policy.network}: inputs {inputs} and outputs {outputs} are no pairs; expected the observation and the action, "
            "then each part of the memory and its next value, in the same order"
        )
    memory = dict(zip(inputs[1:], outputs[1:], strict=True))
    return plain_network(network, policy.network, observation=inputs[0], action=outputs[0], memory=memory)


def _observations(contract: Contract, path: Path) -> int:
    try:
        check_contract(contract)
    except ContractError as error:
        raise ImportFailed(f"{path}: {error}") from None
    return observation_width(contract)


def _command(policy: BarePolicy, facts: Facts, missing: Missing) -> CommandSpec | None:
    if policy.command is None:
        return None
    if facts.command is None:
        missing.ask(None, "command", f"low and high of {policy.command}", None)
        return CommandSpec(signal=policy.command, workspace=None)
    return CommandSpec(signal=policy.command, workspace=None, low=facts.command.low, high=facts.command.high)


def _recognises(path: Path) -> bool:
    described = path.with_suffix(".toml")
    if path.suffix not in (".toml", ".onnx", ".pt") or not described.is_file():
        return False
    try:
        data = tomllib.loads(read_text(described))
    except (ImportFailed, tomllib.TOMLDecodeError):
        return False
    return {"network", "observation", "action"} <= set(data)


IMPORTER = Importer(
    name="bare",
    description="an .onnx or .pt beside a TOML of observation and action",
    recognises=_recognises,
    load=load,
)
