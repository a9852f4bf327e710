"""How tests/importers/data/beyondmimic was made: whole_body_tracking (commit cd65172), isaaclab 2.3.2, torch 2.13.0, onnxruntime 1.31.1.

whole_body_tracking's own exporter, metadata and observation terms, Isaac Lab's observation manager and action term, on a CPU. The
simulator's packages are empty stand-ins, the robot is the signals that are recorded, and the motion lies where motion_tracking_controller
puts it (motion_stand_in.py). Its exporter was written for a torch whose `onnx.export` had no dynamo.

    pip install --no-deps isaaclab==2.3.2 prettytable warp-lang
    python -P tests/importers/record/beyondmimic.py <site-packages>/isaaclab/source <checkout>/source/whole_body_tracking
"""

import functools
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import torch

sys.path.append(str(Path(__file__).parent))  # last: files beside this one are named as packages

from stand_ins import Finder

sys.meta_path.insert(0, Finder())
for package in ("isaaclab", "isaaclab_contrib", "isaaclab_tasks", "isaaclab_assets", "isaaclab_rl"):
    sys.path.insert(0, f"{sys.argv[1]}/{package}")
sys.path.insert(0, sys.argv[2])

from isaaclab.envs.mdp import observations as mdp  # noqa: E402
from isaaclab.envs.mdp.actions import JointPositionActionCfg  # noqa: E402
from isaaclab.envs.mdp.actions.joint_actions import JointPositionAction  # noqa: E402
from isaaclab.managers import ObservationGroupCfg, ObservationManager  # noqa: E402
from isaaclab.managers import ObservationTermCfg as Term  # noqa: E402
from isaaclab.utils import configclass  # noqa: E402
from isaaclab.utils.string import resolve_matching_names  # noqa: E402
from motion_stand_in import HUMANOID, MotionStandIn, motion  # noqa: E402
from whole_body_tracking.tasks.tracking.mdp import observations as tracking  # noqa: E402
from whole_body_tracking.utils.exporter import attach_onnx_metadata, export_motion_policy_as_onnx  # noqa: E402

OUT = Path(__file__).parents[1] / "data" / "beyondmimic"
ROWS = 122
NAMES = HUMANOID[::2] + HUMANOID[1::2]  # an order of the simulator's own
BODIES = ["pelvis", "torso_link"]
MOTION = {"params": {"command_name": "motion"}}


class Data:
    """State as observation terms read it."""

    def __init__(self, now: dict[str, torch.Tensor], default: torch.Tensor) -> None:
        self._now, self.joint_names = now, NAMES
        self.default_joint_pos, self.default_joint_vel = default, torch.zeros_like(default)
        self.default_joint_pos_nominal = default[0]
        self.joint_stiffness = 20.0 + 1.237 * torch.arange(len(NAMES))[None]
        self.joint_damping = 0.5 + 0.0414 * torch.arange(len(NAMES))[None]

    joint_pos = property(lambda self: self._now["joint_pos"])
    joint_vel = property(lambda self: self._now["joint_vel"])
    root_ang_vel_b = property(lambda self: self._now["gyro"])


class Robot:
    """The part of an articulation that managers touch."""

    num_joints, joint_names = len(NAMES), NAMES

    def find_joints(self, patterns: object, preserve_order: bool = False) -> tuple[list[int], list[str]]:
        return resolve_matching_names(patterns, NAMES, preserve_order)


@configclass
class Policy(ObservationGroupCfg):
    """The task's observation without state estimation (config/g1/flat_env_cfg.py)."""

    command = Term(func=mdp.generated_commands, **MOTION)
    motion_anchor_ori_b = Term(func=tracking.motion_anchor_ori_b, **MOTION)
    base_ang_vel = Term(func=mdp.base_ang_vel)
    joint_pos = Term(func=mdp.joint_pos_rel, history_length=2)
    joint_vel = Term(func=mdp.joint_vel_rel)
    actions = Term(func=mdp.last_action)


@configclass
class Observations:
    """Groups."""

    policy: Policy = Policy()


def environment() -> SimpleNamespace:
    default = torch.tensor(np.linspace(-0.4, 0.5, len(NAMES)).round(3), dtype=torch.float32)[None]
    now = {key: torch.zeros(1, len(NAMES)) for key in ("joint_pos", "joint_vel")}
    now |= {"gyro": torch.zeros(1, 3), "base_pos": torch.zeros(1, 3), "base_quat": torch.tensor([[1.0, 0, 0, 0]])}
    robot = Robot()
    robot.data = Data(now, default)
    env = SimpleNamespace(num_envs=1, device="cpu", now=now, scene={"robot": robot})
    env.sim = SimpleNamespace(is_playing=lambda: True)
    command = MotionStandIn(env, motion(len(NAMES), len(BODIES)), BODIES.index("torso_link"), NAMES)
    command.cfg = SimpleNamespace(anchor_body_name="torso_link", body_names=BODIES)
    env.command_manager = SimpleNamespace(
        active_terms=["motion"], get_term=lambda _: command, get_command=lambda _: command.command
    )
    scale = {name: 0.25 + 0.025 * index for index, name in enumerate(NAMES)}
    term = JointPositionActionCfg(asset_name="robot", joint_names=[".*"], use_default_offset=True, scale=scale)
    env.action = JointPositionAction(term, env)
    env.action_manager = SimpleNamespace(action=torch.zeros(1, len(NAMES)), get_term=lambda _: env.action)
    env.observation_manager = ObservationManager(Observations(), env)
    return env


def signals() -> dict[str, np.ndarray]:
    random = np.random.default_rng(9)
    t = np.arange(ROWS)[:, None] * 0.02
    waves = random.uniform(0.5, 3.0, len(NAMES)) * t + random.uniform(0, 6, len(NAMES))
    quat = np.cumsum(random.normal(0.0, 0.03, (ROWS, 4)), axis=0) + np.array([0.8, 0.1, -0.1, 0.6])
    given = {
        "joint_pos": 0.5 * np.sin(waves),
        "joint_vel": 3.0 * np.cos(waves),
        "gyro": random.normal(0, 0.5, (ROWS, 3)),
        "base_quat": quat / np.linalg.norm(quat, axis=1, keepdims=True),
        "base_pos": np.zeros((ROWS, 3)),
    }
    return {key: value.astype(np.float32) for key, value in given.items()}


def main() -> None:
    torch.onnx.export = functools.partial(torch.onnx.export, dynamo=False)
    env, given = environment(), signals()
    width = env.observation_manager.group_obs_dim["policy"][0]
    torch.manual_seed(8)
    actor = torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.ELU(), torch.nn.Linear(16, len(NAMES)))
    policy = SimpleNamespace(is_recurrent=False, actor=actor)
    export_motion_policy_as_onnx(env, policy, path=str(OUT))
    attach_onnx_metadata(env, "local", path=str(OUT))
    session = ort.InferenceSession(OUT / "policy.onnx")
    found = {"observation": [], "action": [], "target": []}
    for row in range(ROWS):
        env.now.update({key: torch.tensor(value[row : row + 1]) for key, value in given.items()})
        env.command_manager.get_term("motion").start(row)
        observation = env.observation_manager.compute(update_history=True)["policy"].numpy()
        step = np.array([[row + 1.0]], dtype=np.float32)
        action = session.run(["actions"], {"obs": observation, "time_step": step})[0]
        env.action_manager.action = torch.tensor(action)
        env.action.process_actions(torch.tensor(action))
        for key, value in (("observation", observation), ("action", action), ("target", env.action.processed_actions)):
            found[key].append(np.array(value[0]))
    rows = {key: np.array(value) for key, value in found.items()}
    np.savez_compressed(OUT / "rows.npz", **given, **rows, joints=np.array(NAMES))


if __name__ == "__main__":
    main()
