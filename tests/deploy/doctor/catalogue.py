"""The catalogue: classes of mistakes between training and robot that people have made, on five robots."""

import numpy as np
from catalogue_robot import DEGREES, ROBOT_FAULTS, times
from faults import (
    BOTH,
    Case,
    Fault,
    between,
    by_time,
    every,
    executed,
    file,
    late,
    manifest,
    narrower,
    one_joint,
    seen,
    signal,
    signals,
    stamps,
    weights,
    without,
    world_frame,
)

QUARTER = np.array(
    [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
)  # a body turned by 90 degrees about z, seen from within


def reversed_history(values: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
    """The contract says newest first where the graph shows oldest first."""
    for term in values["contract"]["observation"]:
        term["lags"] = term["lags"][::-1]


def zero_filled(values: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
    for term in values["contract"]["observation"]:
        if len(term["lags"]) > 1:
            term["fill"] = "zero"


def default_pose(values: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
    for joint in values["contract"]["joints"]:
        joint["default_pos"] = 0.0


def scaled_term(values: dict) -> None:  # pyright: ignore[reportMissingTypeArgument]
    values["contract"]["observation"][0]["scale"] = 1.0


def shake(values: np.ndarray) -> np.ndarray:
    return values + np.random.default_rng(3).uniform(-9e6, 9e6, len(values))


def skipping(values: np.ndarray) -> np.ndarray:
    extra = np.where(np.random.default_rng(4).random(len(values)) < 0.3, 40_000_000, 0)
    return values + np.cumsum(extra)


def spiked(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values[20::37, 1] += 3.0
    return values


def lost(values: np.ndarray) -> np.ndarray:
    values = values.copy()
    values[30:33] = np.nan
    return values


def held(values: np.ndarray) -> np.ndarray:
    return values[(np.arange(len(values)) // 2) * 2]


def tilted(case: Case) -> Case:
    c, s = np.cos(0.6), np.sin(0.6)
    turn = np.array([[c, 0.0, -s], [0.0, 1.0, 0.0], [s, 0.0, c]])
    return signals(lambda v: v @ turn.T, "gyro", "gravity")(case)


FAULTS: tuple[Fault, ...] = (
    *ROBOT_FAULTS,
    # units
    Fault(
        name="gyro in degrees a second", on="sway", words=(r"gyro .*degrees",), inject=signal("gyro", times(DEGREES))
    ),
    Fault(name="joint angles in degrees", on="reach", words=(r"degrees",), inject=signals(times(DEGREES), *BOTH)),
    Fault(
        name="joint velocities in degrees a second",
        on="hand",
        words=(r"joint_vel .*degrees",),
        inject=signal("joint_vel", times(DEGREES)),
    ),
    Fault(
        name="joint velocities in turns a minute",
        on="sway",
        words=(r"joint_vel .*turns a minute",),
        inject=signal("joint_vel", times(60 / (2 * np.pi))),
    ),
    Fault(name="positions in mm", on="hover", words=(r"thousandths",), inject=signal("base_pos", times(1000.0))),
    Fault(
        name="cart's position in cm",
        on="cart",
        words=(r"joint 1|hundredths|cm|slider",),
        inject=one_joint("joint_pos", 0, lambda v: v * 100.0),
    ),
    Fault(
        name="rotor speeds in turns a minute",
        on="hover",
        words=(r"times as far|turns a minute",),
        inject=executed(times(60 / (2 * np.pi))),
    ),
    Fault(
        name="command in mm",
        on="reach",
        words=(r"command.target .*thousandths|command.target",),
        inject=signal("command.target", times(1000.0)),
    ),
    # IMU and frames
    Fault(
        name="gravity points up",
        on="sway",
        words=(r"sign is turned round|180 degrees|sign of",),
        inject=signal("gravity", lambda v: -v),
    ),
    Fault(
        name="accelerometer in place of gravity's direction",
        on="sway",
        words=(r"9\.81",),
        inject=signal("gravity", times(9.81)),
    ),
    Fault(
        name="IMU turned by 90 degrees about z",
        on="sway",
        words=(r"IMU sits turned by 90 degrees about z",),
        inject=signals(lambda v: v @ QUARTER.T, "gyro", "gravity"),
    ),
    Fault(
        name="IMU upside down",
        on="sway",
        words=(r"180 degrees|turned",),
        inject=signals(lambda v: v * np.array([1.0, -1.0, -1.0]), "gyro", "gravity"),
    ),
    Fault(name="gravity of another body", on="sway", words=(r"IMU sits turned|turned by",), inject=tilted),
    Fault(
        name="gyro axes exchanged",
        on="sway",
        words=(r"gyro: its axes",),
        inject=signal("gyro", lambda v: v[:, [1, 0, 2]]),
    ),
    Fault(
        name="gyro axis turned round",
        on="sway",
        words=(r"gyro: the sign of x",),
        inject=signal("gyro", lambda v: v * np.array([-1.0, 1.0, 1.0])),
    ),
    Fault(
        name="gyro with a large bias",
        on="sway",
        words=(r"bias",),
        inject=signal("gyro", lambda v: v + np.array([0.0, 0.8, 0.0])),
    ),
    Fault(
        name="quaternion as xyzw",
        on="hover",
        words=(r"xyzw",),
        inject=signal("base_quat", lambda v: v[:, [1, 2, 3, 0]]),
    ),
    Fault(
        name="quaternion of world to body",
        on="hover",
        words=(r"inverse|world -> body",),
        inject=signal("base_quat", lambda v: v * np.array([1.0, -1.0, -1.0, -1.0])),
    ),
    Fault(name="velocity in the world's frame", on="hover", words=(r"base_lin_vel .*world",), inject=world_frame),
    Fault(
        name="rotors in another order",
        on="hover",
        words=(r"swapped|order|rotor",),
        inject=executed(lambda v: v[:, [1, 0, 2, 3]]),
    ),
    # histories, terms, networks
    Fault(
        name="history reversed in what the network was shown",
        on="hand",
        words=(r"history reversed",),
        inject=seen("joint_pos", lambda v: v[:, ::-1]),
    ),
    Fault(
        name="history reversed between contract and graph",
        on="hand",
        words=(r"history reversed",),
        inject=manifest(reversed_history),
    ),
    Fault(
        name="history by time instead of by term",
        on="hand",
        words=(r"by time instead of by term|another order",),
        inject=by_time,
    ),
    Fault(name="history left out", on="hand", words=(r"history or a term is missing",), inject=narrower),
    Fault(name="history filled with zeros", on="hand", words=(r"start|fill",), inject=manifest(zero_filled)),
    Fault(
        name="last action fed back after the limiter",
        on="sway",
        words=(r"last_action",),
        inject=seen("last_action", lambda v: np.clip(v, -0.1, 0.1)),
    ),
    Fault(
        name="phase one tick late",
        on="sway",
        words=(r"phase_sin.* one tick late",),
        inject=seen("phase_sin", lambda v: np.concatenate([v[:1], v[:-1]])),
    ),
    Fault(
        name="command multiplied by nothing",
        on="sway",
        words=(r"command.*scaled by 0",),
        inject=seen("command", lambda v: 0.0 * v),
    ),
    Fault(
        name="observation scale left out of the contract",
        on="sway",
        words=(r"gyro.*scaled",),
        inject=manifest(scaled_term),
    ),
    Fault(
        name="a signal that nobody provides", on="hover", words=(r"lacks base_lin_vel",), inject=without("base_lin_vel")
    ),
    Fault(
        name="default pose left out of the contract",
        on="sway",
        words=(r"default pose|default_pos",),
        inject=manifest(default_pose),
    ),
    # files
    Fault(
        name="weights in another file",
        on="reach",
        words=(r"damaged|not an ONNX",),
        inject=file(lambda data: data[: len(data) // 3]),
    ),
    Fault(
        name="an edited manifest",
        on="reach",
        words=(r"damaged or was edited",),
        inject=file(lambda data: data.replace(b'"kp": 17.8', b'"kp": 27.8')),
    ),
    Fault(name="a normaliser that was not exported", on="sway", words=(r"golden row",), inject=weights(times(1.3))),
    Fault(name="weights that are not finite", on="sway", words=(r"golden row",), inject=weights(lambda v: v * np.nan)),
    Fault(
        name="recurrent state not carried",
        on="hand",
        words=(r"graph inputs|state",),
        inject=manifest(lambda v: v.update(states=v["states"][:-1])),
    ),
    Fault(
        name="an older manifest's format",
        on="reach",
        words=(r"schema",),
        inject=manifest(lambda v: v.update(schema=99)),
    ),
    # time
    Fault(name="control rate halved", on="sway", words=(r"control rate is half",), inject=every(2, true_stamps=True)),
    Fault(name="control rate doubled", on="sway", words=(r"control rate is twice",), inject=between(true_stamps=True)),
    Fault(
        name="control rate halved, stamps made up",
        on="sway",
        words=(r"half the rate",),
        inject=every(2, true_stamps=False),
    ),
    Fault(
        name="control rate doubled, stamps made up",
        on="hand",
        words=(r"twice the rate",),
        inject=between(true_stamps=False),
    ),
    Fault(
        name="arm's control rate halved, stamps made up",
        on="reach",
        words=(r"half the rate",),
        inject=every(2, true_stamps=False),
    ),
    Fault(name="ticks come irregularly", on="sway", words=(r"irregular|jitter",), inject=stamps(shake)),
    Fault(name="a delay instead of a deadline", on="reach", words=(r"missed|rate",), inject=stamps(skipping)),
    Fault(
        name="two clocks mixed",
        on="reach",
        words=(r"clock",),
        inject=stamps(lambda v: np.where(np.arange(len(v)) % 2, v - 10**9, v)),
    ),
    Fault(name="joint readings 0.1 s old", on="reach", words=(r"old",), inject=late(5, *BOTH)),
    Fault(name="gyro 0.14 s old", on="sway", words=(r"gyro .*old",), inject=late(7, "gyro")),
    Fault(name="IMU at half the rate", on="sway", words=(r"anew only every",), inject=signals(held, "gyro", "gravity")),
    Fault(
        name="a dead encoder",
        on="reach",
        words=(r"joint 2 .*frozen",),
        inject=one_joint("joint_pos", 1, lambda v: 0 * v + v[0]),
    ),
    Fault(name="a frozen gyro", on="sway", words=(r"gyro is frozen",), inject=signal("gyro", lambda v: 0 * v + v[0])),
    Fault(name="readings that are not finite", on="sway", words=(r"not finite",), inject=signal("gyro", lost)),
    Fault(name="broken packets", on="sway", words=(r"spikes",), inject=signal("gyro", spiked)),
    Fault(
        name="cart's force with the wrong sign",
        on="cart",
        words=(r"sign|-1 times|wrong way",),
        inject=executed(times(-1.0)),
    ),
    Fault(
        name="pole's sign turned round",
        on="cart",
        words=(r"sign of joint 2",),
        inject=one_joint("joint_pos", 1, lambda v: -v, "joint_vel"),
    ),
    Fault(
        name="start far from training's",
        on="sway",
        words=(r"begins tilted|start",),
        inject=lambda c: c.read_as(
            gravity=np.vstack([np.tile([0.0, 0.8, -0.6], (3, 1)), c.log.signals["gravity"][3:]])
        ),
    ),
)
