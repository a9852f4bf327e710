"""A network that says nothing of itself, and a TOML that says what it sees and does; docs/policies.md has an example.

For tools without a format of their own, and for trainers that nobody else uses. What belongs to the robot (limits, gains, default pose,
period) is given with the policy, like for every other format.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import onnx

from isthmus.hardware.signals import SIGNALS
from isthmus.hardware.structure import FormatError, structure

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
from .common import (
    Facts,
    Imported,
    Importer,
    ImportFailed,
    Missing,
    Numbers,
    agreed_period,
    ask_command,
    ask_latency,
    ask_robot,
    build_joints,
)
from .files import toml_tables
from .network import read_network
from .onnx_network import plain_network

KEYS = {"network", "observation", "action"}
KINDS = tuple(str(get_args(get_type_hints(kind)["kind"])[0]) for kind in get_args(Action))
COMMANDS = tuple(spec.name for spec in SIGNALS if spec.name.startswith("command."))


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
    policy = read_description(described)
    missing = Missing(path, facts)
    joints, sources = build_joints((*policy.action.joints, *policy.held), dict[str, Numbers](), facts, missing)
    contract = Contract(
        schema=SCHEMA,
        task=facts.task or described.stem,
        robot=ask_robot(facts, missing),
        joints=joints,
        period_ns=agreed_period(None, facts, missing),
        observation=policy.observation,
        action=policy.action,
        command=_command(policy, facts, missing),
        chain=None,
        latency_s=ask_latency(facts, missing),
        layout="time" if policy.layout == "time" else "term",
        clock=policy.clock,
        own_signals=policy.own_signals,
    )
    missing.check()
    network, memory = read_network(
        path.parent, policy.network, f"{described}: network", _observations(contract, described)
    )
    if not memory:
        network, memory = _plain(network, policy)
    return Imported(contract=contract, network=network, memory=memory, sources=sources)


def read_description(path: Path) -> BarePolicy:
    """What a TOML says of a network; raises ImportFailed saying which key is wrong and what is known."""
    data = toml_tables(path)
    action, command = data.get("action"), data.get("command")
    if not isinstance(action, dict) or action.get("kind") not in KINDS:
        kind = action.get("kind") if isinstance(action, dict) else action
        raise ImportFailed(f"{path}: action.kind = {kind!r}; known: {', '.join(KINDS)}")
    if "clip" not in action:
        raise ImportFailed(f'{path}: action.clip is missing; give the highest action, either way, or clip = "none"')
    if command is not None and command not in COMMANDS and not str(command).startswith("command."):
        raise ImportFailed(
            f"{path}: command = {command!r}; expected the name of a signal: {', '.join(COMMANDS)}, or one of own_signals that begins with "
            "command. (its range goes into the facts: command.low, command.high)"
        )
    clip = None if action["clip"] == "none" else action["clip"]
    try:
        policy = structure({**data, "action": {**action, "clip": clip}}, BarePolicy, source=str(path))
    except FormatError as error:
        raise ImportFailed(str(error)) from None
    if isinstance(policy.action, RotorSpeed):
        raise ImportFailed(f"{path}: action: rotors are not supported; expected joints")
    if policy.layout not in ("term", "time"):
        raise ImportFailed(f"{path}: layout {policy.layout!r}; expected 'term' or 'time'")
    return policy


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
    own = next((spec.width for spec in policy.own_signals if spec.name == policy.command), None)
    widths = {spec.name: spec.width for spec in SIGNALS} | ({} if own is None else {policy.command: own})
    count = widths.get(policy.command)
    values = (
        tuple(f"value {i}" for i in range(count)) if isinstance(count, int) else "one number for each of its values"
    )
    return ask_command(policy.command, values, facts, missing)


def _recognises(path: Path) -> bool:
    described = path.with_suffix(".toml")
    if path.suffix not in (".toml", ".onnx", ".pt") or not described.is_file():
        return False
    try:
        data = toml_tables(described)
    except ImportFailed:
        return False
    return set(data) >= KEYS


IMPORTER = Importer(
    name="bare",
    description="an .onnx or .pt beside a TOML of observation and action",
    recognises=_recognises,
    load=load,
)
