"""How tests/importers/data/isaaclab was made: isaaclab 2.3.2 with its tasks, assets and exporter, torch 2.13.0, onnxruntime 1.31.1.

Isaac Lab's own task configuration (Unitree Go2 on flat ground), written by its own `dump_yaml`; its observation manager, action term and
exporter, on a CPU. The simulator's packages, which are not on PyPI, are empty stand-ins, and the robot is the signals that are recorded.

    pip install --no-deps isaaclab==2.3.2 prettytable warp-lang
    python -P tests/importers/record/isaaclab.py <site-packages>/isaaclab/source
"""

import re
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

from isaaclab.envs.mdp.actions.joint_actions import JointPositionAction  # noqa: E402
from isaaclab.managers import ObservationManager  # noqa: E402
from isaaclab.managers.scene_entity_cfg import SceneEntityCfg  # noqa: E402
from isaaclab.utils.io import dump_yaml  # noqa: E402
from isaaclab.utils.string import resolve_matching_names, resolve_matching_names_values  # noqa: E402
from isaaclab_rl.rsl_rl.exporter import export_policy_as_onnx  # noqa: E402
from isaaclab_tasks.manager_based.locomotion.velocity.config.go2.agents.rsl_rl_ppo_cfg import (  # noqa: E402
    UnitreeGo2FlatPPORunnerCfg,
)
from isaaclab_tasks.manager_based.locomotion.velocity.config.go2.flat_env_cfg import (  # noqa: E402
    UnitreeGo2FlatEnvCfg,
)

OUT = Path(__file__).parents[1] / "data" / "isaaclab"
ROWS = 120
NAMES = [
    f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")
]  # breadth first


class Data:
    """State as observation terms read it."""

    def __init__(self, now: dict[str, torch.Tensor], default: torch.Tensor) -> None:
        self._now, self.default_joint_pos, self.default_joint_vel = now, default, torch.zeros_like(default)

    joint_pos = property(lambda self: self._now["joint_pos"])
    joint_vel = property(lambda self: self._now["joint_vel"])
    root_lin_vel_b = property(lambda self: self._now["lin_vel"])
    root_ang_vel_b = property(lambda self: self._now["gyro"])
    projected_gravity_b = property(lambda self: self._now["gravity"])


class Robot:
    """The part of an articulation that managers touch."""

    num_joints, joint_names = len(NAMES), NAMES

    def __init__(self, now: dict[str, torch.Tensor], default: torch.Tensor) -> None:
        self.data = Data(now, default)

    def find_joints(self, patterns: object, preserve_order: bool = False) -> tuple[list[int], list[str]]:
        return resolve_matching_names(patterns, NAMES, preserve_order)


class Scene(dict):
    """Entities by name."""

    def keys(self) -> list[str]:
        return list(super().keys())


def environment(cfg: object) -> SimpleNamespace:
    pose = torch.zeros(1, len(NAMES))
    found, _, values = resolve_matching_names_values(cfg.scene.robot.init_state.joint_pos, NAMES)
    pose[0, found] = torch.tensor(values)
    zeros = {"joint_pos": torch.zeros(1, 12), "joint_vel": torch.zeros(1, 12)}
    now = {**zeros, **{key: torch.zeros(1, 3) for key in ("lin_vel", "gyro", "gravity", "command")}}
    env = SimpleNamespace(num_envs=1, device="cpu", now=now, scene=Scene(robot=Robot(now, pose)))
    env.sim = SimpleNamespace(is_playing=lambda: True)
    env.command_manager = SimpleNamespace(get_command=lambda _: now["command"])
    env.action_manager = SimpleNamespace(action=torch.zeros(1, 12))
    env.action = JointPositionAction(cfg.actions.joint_pos, env)
    return env


def signals(seed: int, pose: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    t = np.arange(ROWS)[:, None] * 0.02
    waves = random.uniform(0.5, 3.0, 12) * t + random.uniform(0, 6, 12)
    gravity = np.cumsum(random.normal(0.0, 0.05, (ROWS, 3)), axis=0) + np.array([0.0, 0.0, -1.0])
    given = {
        "joint_pos": pose + 0.5 * np.sin(waves),
        "joint_vel": 4.0 * np.cos(waves) + random.normal(0, 0.2, (ROWS, 12)),
        "gyro": random.normal(0, 0.5, (ROWS, 3)),
        "lin_vel": random.normal(0, 0.4, (ROWS, 3)),
        "gravity": gravity / np.linalg.norm(gravity, axis=1, keepdims=True),
        "command": np.concatenate([np.sin(t), np.cos(2 * t), -np.sin(3 * t)], axis=1),
    }
    return {key: value.astype(np.float32) for key, value in given.items()}


def record(name: str, cfg: object, agent: object, *, recurrent: bool, seed: int) -> None:
    folder = OUT / name
    dump_yaml(str(folder / "params" / "env.yaml"), cfg)
    dump_yaml(str(folder / "params" / "agent.yaml"), agent)
    env = environment(cfg)
    cfg.observations.policy.enable_corruption = False
    manager = ObservationManager(cfg.observations, env)
    width = manager.group_obs_dim["policy"][0]
    torch.manual_seed(seed)
    inner = 8 if recurrent else width
    actor = torch.nn.Sequential(torch.nn.Linear(inner, 16), torch.nn.ELU(), torch.nn.Linear(16, 12))
    policy = SimpleNamespace(is_recurrent=recurrent, actor=actor)
    if recurrent:
        policy.memory_a = SimpleNamespace(rnn=torch.nn.LSTM(width, 8, 1))
    export_policy_as_onnx(policy, str(folder / "exported"))
    given = signals(seed, env.scene["robot"].data.default_joint_pos.numpy()[0])
    session = ort.InferenceSession(folder / "exported" / "policy.onnx")
    state = {v.name: np.zeros(v.shape, np.float32) for v in session.get_inputs() if v.name != "obs"}
    found = {"observation": [], "action": [], "target": []}
    for row in range(ROWS):
        env.now.update({key: torch.tensor(value[row : row + 1]) for key, value in given.items()})
        observation = manager.compute(update_history=True)["policy"].numpy()
        action, *following = session.run(None, {"obs": observation, **state})
        state = dict(zip(state, following, strict=True))
        # vecenv_wrapper.py:153-154: the environment gets, and observes, the clipped action
        clipped = action if agent.clip_actions is None else np.clip(action, -agent.clip_actions, agent.clip_actions)
        env.action_manager.action = torch.tensor(clipped)
        env.action.process_actions(torch.tensor(clipped))
        target = given_pose(env)
        for key, value in (("observation", observation[0]), ("action", action[0]), ("target", target)):
            found[key].append(np.array(value))
    np.savez_compressed(
        folder / "rows.npz", **given, **{k: np.array(v) for k, v in found.items()}, joints=np.array(NAMES)
    )


def given_pose(env: SimpleNamespace) -> np.ndarray:
    """Targets of all joints: driven ones as processed, the others at their default, as the articulation starts."""
    target = env.scene["robot"].data.default_joint_pos.numpy()[0].copy()
    ids = env.action._joint_ids
    target[ids] = env.action.processed_actions.numpy()[0]
    return target


def flat() -> tuple[object, object]:
    cfg, agent = UnitreeGo2FlatEnvCfg(), UnitreeGo2FlatPPORunnerCfg()
    for part, names in ((cfg.scene, ("terrain", "sky_light", "contact_forces")), (cfg, ("rewards", "curriculum"))):
        for name in names:  # long, and of no meaning here
            setattr(part, name, None)
    return cfg, agent


def history() -> tuple[object, object]:
    """What the shipped task does not use: history, clips, patterns of scales, a subset of joints, a clip of actions."""
    cfg, agent = flat()
    cfg.rewards = cfg.events = cfg.terminations = cfg.curriculum = None
    policy = cfg.observations.policy
    policy.history_length = 2
    policy.base_lin_vel = None
    policy.base_ang_vel.scale = 0.25
    policy.velocity_commands.scale = (2.0, 2.0, 0.25)
    calves = SceneEntityCfg("robot", joint_names=[".*_calf_joint", "F.*_thigh_joint"], preserve_order=True)
    policy.joint_pos.params = {"asset_cfg": calves}
    policy.joint_vel.params = {"asset_cfg": SceneEntityCfg("robot", joint_names=[".*_hip_joint"])}
    policy.joint_vel.clip = (-3.0, 2.0)
    cfg.actions.joint_pos.joint_names = [".*_calf_joint", ".*_hip_joint", ".*_thigh_joint"]
    cfg.actions.joint_pos.preserve_order = True
    cfg.actions.joint_pos.scale = {".*_hip_joint": 0.125, ".*_(thigh|calf)_joint": 0.3}
    cfg.actions.joint_pos.clip = {".*_hip_joint": (-0.1, 0.12)}
    agent.clip_actions = 0.4
    return cfg, agent


if __name__ == "__main__":
    assert re.match("3.11", sys.version)
    record("flat", *flat(), recurrent=False, seed=1)
    record("history", *history(), recurrent=True, seed=2)
