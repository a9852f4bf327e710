"""Recorded policies of mjlab, Isaac Lab, LEAPP and the unitree tools."""

import numpy as np
from parity import DATA, Recorded, by_name

from isthmus.policies.importers.common import AnchorJoint, CommandFacts, Facts, JointFacts

LIMITS = JointFacts(lower=-3.5, upper=3.5, velocity_limit=20.0, effort_limit=40.0)
COMMON = Facts(robot="made_up", task="walk", latency_s=(0.0, 0.02), defaults=LIMITS)
QUADRUPED_SDK = tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf"))
BIPED_SDK = tuple(f"{leg}_{part}_joint" for leg in ("FR", "FL") for part in ("hip", "calf"))
WAIST = (
    AnchorJoint(joint="waist_yaw_joint", axis="z", pos=(-0.004, 0.0, 0.044)),
    AnchorJoint(joint="waist_roll_joint", axis="x", pos=(0.0, 0.0, 0.035)),
    AnchorJoint(joint="waist_pitch_joint", axis="y", pos=(0.0, 0.01, 0.019)),
)

Rows = dict[str, np.ndarray]


def gravity_of(quat: np.ndarray) -> np.ndarray:
    """Direction of gravity in the body frame, (rows, 3), of attitudes wxyz (rows, 4)."""
    w, x, y, z = quat.astype(np.float64).T
    return np.stack([2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1], axis=1)


def unitree_signals(rows: Rows, names: tuple[str, ...]) -> Rows:
    return {
        "joint_pos": by_name(rows["joint_pos"], rows["sdk_joints"], names),
        "joint_vel": by_name(rows["joint_vel"], rows["sdk_joints"], names),
        "gyro": rows["gyro"],
        "gravity": gravity_of(rows["quat"]),
        "base_quat": rows["quat"],
        "command.velocity": rows["joystick"] * np.array([1, -1, -1]),
    }


def unitree(name: str, motors: tuple[str, ...], **facts: object) -> Recorded:
    return Recorded(
        importer="unitree",
        path=DATA / "unitree" / name,
        facts=Facts(**{**vars(COMMON), "sdk_joints": motors, **facts}),
        rows=DATA / "unitree" / name / "rows.npz",
        signals=unitree_signals,
        target=lambda rows, names: by_name(rows["target"], rows["sdk_joints"], names),
    )


def mjlab_signals(rows: Rows, names: tuple[str, ...]) -> Rows:
    same = {key: rows[key] for key in ("gyro", "gravity", "base_quat", "base_pos")}
    return {
        **same,
        "joint_pos": by_name(rows["joint_pos"], rows["joints"], names),
        "joint_vel": by_name(rows["joint_vel"], rows["joints"], names),
        "base_lin_vel": rows["lin_vel"],
        "command.velocity": rows["command"],
    }


def mjlab(name: str, **facts: object) -> Recorded:
    return Recorded(
        importer="mjlab",
        path=DATA / "mjlab" / f"{name}.onnx",
        facts=Facts(**{**vars(COMMON), "period_s": 0.02, "action_clip": float("inf"), **facts}),
        rows=DATA / "mjlab" / f"{name}.npz",
        signals=mjlab_signals,
        target=lambda rows, names: by_name(rows["target"], rows["joints"], names),
    )


def isaaclab_signals(rows: Rows, names: tuple[str, ...]) -> Rows:
    return {
        "gyro": rows["gyro"],
        "gravity": rows["gravity"],
        "joint_pos": by_name(rows["joint_pos"], rows["joints"], names),
        "joint_vel": by_name(rows["joint_vel"], rows["joints"], names),
        "base_lin_vel": rows["lin_vel"],
        "command.velocity": rows["command"],
    }


def isaaclab(name: str) -> Recorded:
    joints = tuple(f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR"))
    limits = JointFacts(lower=-3.5, upper=3.5)
    return Recorded(
        importer="isaaclab",
        path=DATA / "isaaclab" / name,
        facts=Facts(robot="go2", task="walk", latency_s=(0.0, 0.02), defaults=limits, joints=joints),
        rows=DATA / "isaaclab" / name / "rows.npz",
        signals=isaaclab_signals,
        target=lambda rows, names: by_name(rows["target"], rows["joints"], names),
    )


def leapp_signals(rows: Rows, names: tuple[str, ...]) -> Rows:
    return {
        "gyro": rows["root_ang_vel_b"],
        "base_quat": rows["root_quat_w"][:, [3, 0, 1, 2]],
        "joint_pos": by_name(rows["joint_pos"], rows["joints"], names),
        "joint_vel": by_name(rows["joint_vel"], rows["joints"], names),
        "command.velocity": rows["base_velocity"],
    }


LEAPP = Recorded(
    importer="leapp",
    path=DATA / "leapp",
    facts=Facts(
        **{
            **vars(COMMON),
            "defaults": JointFacts(lower=-3.5, upper=3.5, velocity_limit=20.0, effort_limit=40.0, default_pos=0.0),
            "command": CommandFacts(low=(-1.0, -1.0, -1.0), high=(1.0, 1.0, 1.0)),
        }
    ),
    rows=DATA / "leapp" / "rows.npz",
    signals=leapp_signals,
    target=lambda rows, names: by_name(rows["target"], rows["joints"], names),
)

BEYONDMIMIC = Recorded(
    importer="mjlab",
    path=DATA / "beyondmimic" / "policy.onnx",
    facts=Facts(**{**vars(COMMON), "period_s": 0.02, "action_clip": float("inf"), "anchor": WAIST}),
    rows=DATA / "beyondmimic" / "rows.npz",
    signals=lambda rows, names: {key: rows[key] for key in ("joint_pos", "joint_vel", "gyro", "base_quat")},
    target=lambda rows, names: by_name(rows["target"], rows["joints"], names),
)

ISAACLAB3 = Recorded(
    importer="isaaclab",
    path=DATA / "isaaclab" / "v3",
    facts=isaaclab("flat").facts,
    rows=DATA / "isaaclab" / "v3" / "rows.npz",
    signals=lambda rows, names: {**leapp_signals(rows, names), "gravity": rows["projected_gravity_b"]},
    target=lambda rows, names: by_name(rows["target"], rows["joints"], names),
)

RECORDED = (
    unitree("walk", QUADRUPED_SDK),
    unitree("history", BIPED_SDK),
    unitree("time_major", BIPED_SDK),
    unitree("mimic", (*BIPED_SDK, *(joint.joint for joint in WAIST)), anchor=WAIST),
    mjlab("velocity", command=CommandFacts(low=(-1.0, -0.5, -1.0), high=(1.0, 0.5, 1.0))),
    mjlab("tracking", anchor=WAIST),
    BEYONDMIMIC,
    isaaclab("flat"),
    isaaclab("history"),
    ISAACLAB3,
    LEAPP,
)
