"""A contract's plan as ONNX, around any network: raw signals and states in, targets and next states out.

Few nodes, each over the whole observation: on small networks the nodes cost as much as the arithmetic.
"""

from collections.abc import Mapping

import numpy as np
import onnx
from onnx import TensorProto

from . import plan
from .contract import REFERENCE, Contract, JointIncrement, JointIntegral, observation_width
from .onnx_nodes import GraphError, NodeList, embed, opset_of, prepared, shape_of, tensor
from .onnx_terms import computed_term
from .plan import action_plan, clock_cycle, observation_plan, state_widths

PARTS = ("observation", "base_action", "residual_action", "gate_prob", "gate")


def policy_model(
    contract: Contract,
    network: onnx.ModelProto,
    *,
    memory: Mapping[str, int] | None = None,
    reference: onnx.ModelProto | None = None,
    parts: Mapping[str, int] | None = None,
) -> onnx.ModelProto:
    """One graph of contract and network, as `bundle.py` keeps it.

    Args:
        contract: of the policy.
        network: first input the observation (1, d), first output the action (1, a); then for each state of `memory`, in its order, one
            input and one output of shape (1, width).
        memory: width of each state that the network keeps; they become the states `network.<name>`, zero at reset.
        reference: computes the contract's "reference.<what>" signals, its outputs beside `next.<name>`; its inputs are signals of the
            contract and `state.<name>`.

        parts: width of each further output that the network has after those, "part.<what>"; they become outputs of the graph.

    Raises:
        GraphError: says which tensor does not fit.
        ContractError: the contract cannot be computed.
    """
    memory = {f"network.{name}": width for name, width in (memory or {}).items()}
    network = prepared(network)
    _check_network(contract, network, memory, parts or {})
    nodes, widths = NodeList(), {**state_widths(contract), **memory}
    opsets = [opset_of(network)]
    if reference is not None:
        reference = prepared(reference)
        widths |= _reference_states(reference)
        opsets.append(opset_of(reference))
        embed(
            nodes, reference, "reference", {v.name: v.name for v in (*reference.graph.input, *reference.graph.output)}
        )
    observation, memories = observe(nodes, contract), tuple(memory)
    inner = [observation, *(f"state.{name}" for name in memories)]
    whole = "base_action" if contract.action.chunk == 1 else "chunk"
    outer = [whole, *(f"next.{name}" for name in memories), *(parts or {})]
    graph = network.graph
    ends = zip((*graph.input, *graph.output), (*inner, *outer), strict=True)
    embed(nodes, network, "network", {value.name: name for value, name in ends})
    act(nodes, contract, whole)
    _empty_parts(nodes, len(contract.action.joints))
    return _model(contract, nodes, widths, parts or {}, max(opsets))


def observe(nodes: NodeList, contract: Contract) -> str:
    """Add the observation, named "observation", and next states of what was seen."""
    seen = observation_plan(contract)
    _clock(nodes, contract)
    sample = nodes.concat(_sources(nodes, contract))
    sample = nodes.shifted(sample, -seen.offset)
    sample = nodes.scaled(nodes.bounded(sample, seen.lower, seen.upper), seen.scale)
    if plan.TICKS in state_widths(contract):
        nodes.add("Add", f"state.{plan.TICKS}", nodes.constant(np.float32(1.0)), name=f"next.{plan.TICKS}")
    if seen.frames > 1:
        return _with_past(nodes, contract, sample)
    return nodes.add("Identity", sample, name="observation")


def act(nodes: NodeList, contract: Contract, action: str) -> str:
    """Add the target that a network's action becomes, named as the contract's output, and next states of what was done."""
    rule, done, widths = contract.action, action_plan(contract), state_widths(contract)
    action = first_of_chunk(nodes, contract, action)
    # A state's next value is named as it is made: a node that only renames costs as much as one that computes.
    name = f"next.{plan.LAST_ACTION}" if plan.LAST_ACTION in widths else None
    clipped = nodes.bounded(action, done.clip_low, done.clip_high, name=name)
    if plan.LAST_ACTION_RAW in widths:
        nodes.add("Identity", action, name=f"next.{plan.LAST_ACTION_RAW}")
    if plan.SMOOTHED in widths:
        share = nodes.constant(np.float32(rule.smoothing))
        step = nodes.add("Mul", nodes.add("Sub", clipped, f"state.{plan.SMOOTHED}"), share)
        clipped = nodes.add("Add", f"state.{plan.SMOOTHED}", step, name=f"next.{plan.SMOOTHED}")
    return add_target(nodes, contract, clipped)


def add_target(nodes: NodeList, contract: Contract, clipped: str) -> str:
    """Add the target that an action becomes that is clipped and smoothed already."""
    change, name = nodes.scaled(clipped, action_plan(contract).scale), f"{contract.action.target}_next"
    rule, done, joints = contract.action, action_plan(contract), len(contract.joints)
    if isinstance(rule, JointIncrement):
        lead = nodes.constant(np.float32(rule.max_lead))
        measured, executed = (nodes.columns(s, list(done.driven), joints) for s in ("joint_pos", "joint_target"))
        moved = nodes.add("Max", nodes.add("Add", executed, change), nodes.add("Sub", measured, lead))
        target = nodes.add("Min", moved, nodes.add("Add", measured, lead))
    elif isinstance(rule, JointIntegral):
        total = nodes.add("Add", f"state.{plan.INTEGRAL}", change)
        total = nodes.bounded(total, done.lower - done.offset, done.upper - done.offset)
        target = nodes.shifted(nodes.add("Identity", total, name=f"next.{plan.INTEGRAL}"), done.offset)
    else:
        target = nodes.shifted(change, done.offset)
    target = nodes.bounded(target, done.lower, done.upper, name=name if done.drives_all else None)
    if done.drives_all:
        return target
    others = "joint_target" if done.others is None else nodes.row(done.others)
    return nodes.add("Gather", nodes.concat([target, others]), nodes.constant(done.scatter), axis=1, name=name)


def _sources(nodes: NodeList, contract: Contract) -> list[str]:
    """Raw values of every term, side by side."""
    sources: list[str] = []
    widths = state_widths(contract)
    for block in observation_plan(contract).blocks:
        source, places = block.source, list(block.columns)
        if block.constant:
            sources.append(nodes.row(np.array(block.constant)))
        elif source.startswith("state."):
            sources.append(nodes.columns(source, places, widths[source.removeprefix("state.")]))
        elif source in contract.signals or source.startswith(REFERENCE):
            sources.append(nodes.columns(source, places, contract.signal_width(source)))
        elif source == "joint_lead":
            both = (nodes.columns(s, places, len(contract.joints)) for s in ("joint_target", "joint_pos"))
            sources.append(nodes.add("Sub", *both))
        else:
            sources.append(computed_term(nodes, source, contract))
    return sources


def _with_past(nodes: NodeList, contract: Contract, sample: str) -> str:
    """Add the observation and the history's next state: both are picked from [history, sample] at once."""
    seen, past = observation_plan(contract), f"state.{plan.HISTORY}"
    if plan.STARTED in state_widths(contract):
        first = nodes.columns(sample, seen.kept.tolist(), len(seen.scale))
        first = first if not seen.zero_filled.any() else nodes.add("Mul", first, nodes.row(~seen.zero_filled))
        first = nodes.concat([first] * (seen.frames - 1))
        past = nodes.where(nodes.above_half(f"state.{plan.STARTED}"), past, first)
        nodes.add("Identity", nodes.constant(np.ones((1, 1))), name=f"next.{plan.STARTED}")
    picked = nodes.add("Gather", nodes.concat([past, sample]), nodes.constant(seen.pick_all), axis=1)
    nodes.split(picked, {"observation": len(seen.pick), f"next.{plan.HISTORY}": seen.history_width})
    return "observation"


def _clock(nodes: NodeList, contract: Contract) -> None:
    """Add the clock's phases of now, named "phase", and its next state; the rule is `contract.PhaseClock`."""
    clock = contract.clock
    if clock is None or plan.CLOCK not in state_widths(contract):
        return
    count, begin, cycle = f"state.{plan.CLOCK}", nodes.row(np.array(clock.start)), clock_cycle(contract)
    small = None
    if clock.still_below is not None:
        small = _small(nodes, contract)
        left = nodes.add("And", nodes.above_half(f"state.{plan.STANDING}"), nodes.add("Not", small))
        again = nodes.add("Or", nodes.above_half(f"state.{plan.RESTARTED}"), left)
        count = nodes.where(left, nodes.constant(np.zeros((1, 1))), count)
        begin = nodes.where(again, nodes.row(np.array(clock.restart)), begin)
        for name, value in ((plan.STANDING, small), (plan.RESTARTED, again)):
            nodes.add("Cast", value, to=TensorProto.FLOAT, name=f"next.{name}")
    passed = count if cycle is None else _turned(nodes, count, *cycle)
    whole, one = nodes.add("Add", begin, passed), nodes.constant(np.float32(1.0))
    running = nodes.add("Mod", whole, one, fmod=1, name=None if small else "phase")
    if small:
        nodes.add("Where", small, nodes.row(np.array(clock.still)), running, name="phase")
    step, limit = (clock.frequency * contract.period_ns * 1e-9, 1.0) if cycle is None else (1.0, float(cycle[0]))
    after = nodes.add("Add", count, nodes.constant(np.float32(step)))
    nodes.add("Mod", after, nodes.constant(np.float32(limit)), fmod=1, name=f"next.{plan.CLOCK}")


def _turned(nodes: NodeList, count: str, ticks: int, turns: int) -> str:
    """Phase after so many ticks of a clock that turns so many times in so many ticks; see `plan.clock_cycle`."""
    ticks_constant = nodes.constant(np.float32(ticks))
    if turns > 1:
        count = nodes.add("Mod", nodes.add("Mul", count, nodes.constant(np.float32(turns))), ticks_constant, fmod=1)
    return nodes.add("Div", count, ticks_constant)


def _small(nodes: NodeList, contract: Contract) -> str:
    """Whether every part of the command is small, bool."""
    clock, command = contract.clock, contract.need_command().signal
    assert clock is not None and clock.still_below is not None
    small = ""
    for part in clock.still_parts:
        values = nodes.columns(command, list(part), contract.signal_width(command))
        size = nodes.add("ReduceL2", values, nodes.constant(np.array([1])), keepdims=1)
        here = nodes.add("Less", size, nodes.constant(np.float32(clock.still_below)))
        small = nodes.add("And", small, here) if small else here
    return small


def first_of_chunk(nodes: NodeList, contract: Contract, action: str) -> str:
    """This tick's action of a chunk; a new chunk begins when the one before is used up."""
    count, chunk = len(contract.action.joints), contract.action.chunk
    if chunk == 1:
        return action
    left, one = f"state.{plan.CHUNK_LEFT}", nodes.constant(np.float32(1.0))
    waits = nodes.above_half(left)
    waiting = nodes.concat([f"state.{plan.CHUNK}", nodes.row(np.zeros(count))])
    current = nodes.where(waits, waiting, action)
    rest = nodes.columns(current, list(range(count, count * chunk)), count * chunk)
    nodes.add("Identity", rest, name=f"next.{plan.CHUNK}")
    fresh = nodes.constant(np.full((1, 1), chunk - 1.0))
    nodes.add("Where", waits, nodes.add("Sub", left, one), fresh, name=f"next.{plan.CHUNK_LEFT}")
    return nodes.add("Gather", current, nodes.constant(np.arange(count)), axis=1, name="base_action")


def _empty_parts(nodes: NodeList, num_actions: int) -> None:
    """A policy of one part has no residual and no gate."""
    for name, width in (("residual_action", num_actions), ("gate_prob", 1), ("gate", 1)):
        nodes.add("Identity", nodes.constant(np.zeros((1, width))), name=name)


def _model(
    contract: Contract, nodes: NodeList, widths: Mapping[str, int], parts: Mapping[str, int], opset: int
) -> onnx.ModelProto:
    inputs = [tensor(name, contract.signal_width(name)) for name in contract.signals]
    inputs += [tensor(f"state.{name}", width) for name, width in widths.items()]
    count = len(contract.action.joints)
    outputs = [tensor(f"{contract.action.target}_next", contract.signal_width(contract.action.target))]
    outputs += [tensor(*part) for part in zip(PARTS, (observation_width(contract), count, count, 1, 1), strict=True)]
    outputs += [tensor(f"next.{name}", width) for name, width in widths.items()]
    outputs += [tensor(name, width) for name, width in parts.items()]
    return nodes.model("policy", inputs, outputs, opset)


def _check_network(
    contract: Contract, network: onnx.ModelProto, memory: Mapping[str, int], parts: Mapping[str, int]
) -> None:
    """Inputs and outputs in number, type and width."""
    actions = len(contract.action.joints) * contract.action.chunk
    for what, values, widths in (
        ("input", network.graph.input, (observation_width(contract), *memory.values())),
        ("output", network.graph.output, (actions, *memory.values(), *parts.values())),
    ):
        wanted = [[1, width] for width in widths]
        found = [shape_of(value) for value in values]
        if found != wanted or any(v.type.tensor_type.elem_type != TensorProto.FLOAT for v in values):
            names = [value.name for value in values]
            raise GraphError(
                f"the network's {what}s {names} have shapes {found}; the contract asks for float32 of shapes {wanted}"
                f" ({'observation' if what == 'input' else 'action'}, then its memory)"
            )


def _reference_states(reference: onnx.ModelProto) -> dict[str, int]:
    names = {value.name: shape_of(value)[-1] for value in reference.graph.output if value.name.startswith("next.")}
    return {name.removeprefix("next."): int(width) for name, width in names.items()}
