"""Random contracts and signals for property tests: every term, lag, fill, layout, clock and action space."""

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from isthmus.hardware.kinematics import chain_from_mjcf
from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import (
    SCHEMA,
    CommandSpec,
    Contract,
    JointEffort,
    JointIncrement,
    JointIntegral,
    JointPosition,
    JointVelocity,
    ObservationTerm,
    OwnSignal,
    PhaseClock,
    contract_joints,
    observation_width,
    sample_width,
)
from isthmus.policies.observation_terms import OBSERVATION_TERMS

ARM = load_robot("so101")
CHAIN = chain_from_mjcf(ARM.model_path, ARM.reach_site())
NUMBERS = st.floats(0.1, 3.0).map(lambda x: round(x, 3))
SIGNED = st.one_of(NUMBERS, NUMBERS.map(lambda x: -x))
TERMS = sorted(set(OBSERVATION_TERMS) - {"base_pos_error"})  # of another command


def per_joint(draw, values, count):
    return draw(st.one_of(values, st.lists(values, min_size=count, max_size=count).map(tuple)))


@st.composite
def actions(draw, joints):
    count = len(joints)
    common = {
        "joints": joints,
        "scale": per_joint(draw, SIGNED, count),
        "clip": draw(st.one_of(st.none(), NUMBERS)),
        "smoothing": draw(st.sampled_from([1.0, 1.0, 0.6])),
        "chunk": draw(st.sampled_from([1, 1, 3])),
    }
    if common["clip"] is not None and draw(st.booleans()):
        common["clip_low"] = -0.2
    kind = draw(
        st.sampled_from(["position", "absolute", "free", "bounded", "increment", "integral", "velocity", "effort"])
    )
    if kind == "increment":
        return JointIncrement(**common, max_lead=draw(NUMBERS))
    if kind == "integral":
        return JointIntegral(**common)
    if kind in ("velocity", "effort"):
        return {"velocity": JointVelocity, "effort": JointEffort}[kind](**common)
    others = draw(st.sampled_from(["keep", "default"]))
    extra = {
        "position": {},
        "absolute": {"offset": 0.0},
        "free": {"limited": False, "offset": per_joint(draw, SIGNED, count)},
        "bounded": {"lowest": -0.4, "highest": per_joint(draw, NUMBERS, count)},
    }[kind]
    return JointPosition(**common, **extra, others=others)


@st.composite
def terms(draw, contract, lags):
    name = draw(st.sampled_from([*TERMS, "phase_sin", "phase", "joint_pos", "last_action"]))
    spec = OBSERVATION_TERMS[name]
    term = ObservationTerm(name=name, scale=1.0)
    if spec.width == "each" and draw(st.booleans()):
        known = contract.action.joints if name.startswith("last_action") else contract.joint_names
        some = draw(st.lists(st.sampled_from(known), min_size=1, unique=True))
        term = replace(term, joints=tuple(some))
    if name == "signal":
        signal = draw(st.sampled_from(["sensor.scan", "gyro", "joint_effort_target", "command.target"]))
        width = contract.signal_width(signal)
        index = draw(st.one_of(st.none(), st.lists(st.integers(0, width - 1), min_size=1, max_size=4).map(tuple)))
        term = replace(term, signal=signal, index=index)
    if name == "constant":
        term = replace(term, values=tuple(draw(st.lists(SIGNED, min_size=1, max_size=3))))
    width = sample_width(term, contract)
    clip = draw(st.sampled_from([None, 0.3, (-0.2, 0.7)]))
    return replace(
        term,
        scale=per_joint(draw, SIGNED, width),
        offset=per_joint(draw, st.sampled_from([0.0, 0.0, 0.5]), width),
        clip=clip,
        clip_scaled=clip is not None and draw(st.booleans()),
        lags=draw(st.sampled_from([(0,), (0,), (2,), (0, 1, 2), (3, 2, 1, 0), (0, 2, 4)])) if lags is None else lags,
        fill=draw(st.sampled_from(["first", "zero"])),
    )


@st.composite
def contracts(draw):
    driven = tuple(draw(st.permutations(ARM.joint_names))[: draw(st.integers(1, 6))])
    still = draw(st.booleans())
    phases = draw(st.integers(1, 2))
    row = st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=phases, max_size=phases).map(tuple)
    contract = Contract(
        schema=SCHEMA,
        task="random",
        robot="so101",
        joints=contract_joints(ARM),
        period_ns=20_000_000,
        observation=(),
        action=draw(actions(driven)),
        command=CommandSpec(signal="command.target", workspace=ARM.reach_workspace()),
        chain=CHAIN,
        latency_s=(0.0, 0.01),
        layout=draw(st.sampled_from(["term", "time"])),
        clock=PhaseClock(
            frequency=draw(st.sampled_from([1.25, 1.7])),
            start=draw(row),
            still_below=0.15 if still else None,
            still_parts=((0, 1), (2,)) if still else (),
            still=draw(row) if still else (),
            restart=draw(row) if still else (),
        ),
        own_signals=(OwnSignal(name="sensor.scan", width=4, unit="m", description="a height scan"),),
    )
    lags = draw(st.sampled_from([(0,), (1, 0), (0, 1, 2)])) if contract.layout == "time" else None
    count = draw(st.integers(3, 8))
    return replace(contract, observation=tuple(draw(terms(contract, lags)) for _ in range(count)))


def random_signals(contract, ticks, seed):
    """Consecutive rows (ticks, width) of every signal, unit quaternions; commands that are small for a while."""
    rng = np.random.default_rng(seed)
    rows = {name: rng.normal(0.0, 0.6, (ticks, contract.signal_width(name))) for name in contract.signals}
    if "base_quat" in rows:
        rows["base_quat"] /= np.linalg.norm(rows["base_quat"], axis=-1, keepdims=True)
    rows["command.target"][ticks // 3 : ticks // 2] *= 0.01
    return {name: values.astype(np.float32) for name, values in rows.items()}


def random_network(contract, seed):
    """Weights (a, d) and biases of a linear layer and a tanh."""
    rng, width = np.random.default_rng(seed), observation_width(contract)
    actions = len(contract.action.joints) * contract.action.chunk
    return rng.normal(0, 1.5 / np.sqrt(width), (actions, width)).astype(np.float32), rng.normal(0, 0.3, actions).astype(
        np.float32
    )
