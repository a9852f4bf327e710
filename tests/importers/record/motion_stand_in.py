"""A reference motion as the observation terms of mjlab and BeyondMimic read it, lying where it lies for the robot.

What turns and moves it at the start is motion_tracking_controller's (commit 6beda6d, src/MotionCommand.cpp:36-64), which runs such files
on robots; it is written here once more.
"""

from types import SimpleNamespace

import numpy as np
import torch

FRAMES = 90
HUMANOID = [
    *(f"{side}_{part}_joint" for side in ("left", "right") for part in ("hip", "knee", "ankle")),
    *(f"waist_{part}_joint" for part in ("yaw", "roll", "pitch")),
]
WAIST = [  # joint, axis, place in the frame of the body before it
    ("waist_yaw_joint", 2, (-0.004, 0.0, 0.044)),
    ("waist_roll_joint", 0, (0.0, 0.0, 0.035)),
    ("waist_pitch_joint", 1, (0.0, 0.01, 0.019)),
]


def matrix(quat: np.ndarray) -> np.ndarray:
    w, x, y, z = quat
    return np.array([
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ])  # fmt: skip


def heading(quat: np.ndarray) -> np.ndarray:
    """MotionCommand.h:44-49: rotation about the vertical alone."""
    w, x, y, z = quat
    half = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)) / 2
    return np.array([np.cos(half), 0.0, 0.0, np.sin(half)])


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quaternions wxyz: first b's rotation, then a's."""
    vector = a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])
    return np.array([a[0] * b[0] - a[1:] @ b[1:], *vector])


class MotionStandIn:
    """What the observation terms read of a motion command: the robot's anchor, and the motion's as it lies for the robot."""

    def __init__(self, env: SimpleNamespace, motion: SimpleNamespace, anchor: int, joints: list[str]) -> None:
        self.env, self.motion, self.anchor, self.joints, self.frame = env, motion, anchor, joints, 0
        self.turn, self.shift = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)

    def robot(self) -> tuple[np.ndarray, np.ndarray]:
        quat, pos = (self.env.now[key][0].double().numpy() for key in ("base_quat", "base_pos"))
        for joint, axis, place in WAIST:
            pos = pos + matrix(quat) @ np.array(place)
            half = float(self.env.now["joint_pos"][0, self.joints.index(joint)]) / 2
            turned = np.zeros(4)
            turned[0], turned[1 + axis] = np.cos(half), np.sin(half)
            quat = product(quat, turned)
        return quat, pos

    def start(self, row: int) -> None:
        """MotionCommand.cpp:36-42, at the first row; the frame is that of the row (MotionOnnxPolicy.cpp:11-25)."""
        self.frame = min(row, FRAMES - 1)
        if row == 0:
            quat, pos = self.robot()
            first = self.motion.body_quat_w[0, self.anchor].double().numpy()
            self.turn = product(heading(quat), heading(first) * np.array([1, -1, -1, -1]))
            self.shift = pos - matrix(self.turn) @ self.motion.body_pos_w[0, self.anchor].double().numpy()

    @property
    def command(self) -> torch.Tensor:
        return torch.cat([self.motion.joint_pos[self.frame], self.motion.joint_vel[self.frame]])[None]

    @property
    def robot_anchor_quat_w(self) -> torch.Tensor:
        return torch.tensor(self.robot()[0], dtype=torch.float32)[None]

    @property
    def robot_anchor_pos_w(self) -> torch.Tensor:
        return torch.tensor(self.robot()[1], dtype=torch.float32)[None]

    @property
    def anchor_quat_w(self) -> torch.Tensor:
        wanted = self.motion.body_quat_w[self.frame, self.anchor].double().numpy()
        return torch.tensor(product(self.turn, wanted), dtype=torch.float32)[None]

    @property
    def anchor_pos_w(self) -> torch.Tensor:
        wanted = self.motion.body_pos_w[self.frame, self.anchor].double().numpy()
        return torch.tensor(matrix(self.turn) @ wanted + self.shift, dtype=torch.float32)[None]


def motion(joints: int, bodies: int) -> SimpleNamespace:
    random = np.random.default_rng(5)
    quat = np.cumsum(random.normal(0.0, 0.03, (FRAMES, bodies, 4)), axis=0) + np.array([0.3, 0.1, 0.1, 0.9])
    quat /= np.linalg.norm(quat, axis=2, keepdims=True)
    angles = np.cumsum(random.normal(0.0, 0.05, (FRAMES, joints)), axis=0)
    values = {
        "joint_pos": angles, "joint_vel": np.gradient(angles, 0.02, axis=0), "body_quat_w": quat,
        "body_pos_w": np.cumsum(random.normal(0, 0.01, (FRAMES, bodies, 3)), axis=0) + np.array([-3.0, 4.0, 0.8]),
        "body_lin_vel_w": np.zeros((FRAMES, bodies, 3)), "body_ang_vel_w": np.zeros((FRAMES, bodies, 3)),
    }  # fmt: skip
    return SimpleNamespace(**{key: torch.tensor(value, dtype=torch.float32) for key, value in values.items()})
