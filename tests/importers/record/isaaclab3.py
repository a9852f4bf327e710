"""How tests/importers/data/leapp and data/isaaclab/v3 were made: isaaclab 3.0.0, leapp 0.7.2, torch 2.13.0, onnxruntime 1.31.1.

Isaac Lab's own ExportPatcher around its observation manager, observation terms and action manager annotates a velocity task; LEAPP
traces, exports and runs it (its InferenceManager). Isaac Lab's own task configuration (Unitree Go2 on flat ground) is written by its
`dump_yaml` and computed by its managers, its network exported by its exporter. The simulator's packages are empty stand-ins, and the
robot is the signals that are recorded.

    pip install --no-deps leapp==0.7.2 safetensors fast-sugiyama prettytable warp-lang, and isaaclab==3.0.0 (of python 3.12) unpacked
    python -P tests/importers/record/isaaclab3.py <site-packages>
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import torch

sys.path.append(str(Path(__file__).parent))  # last: files beside this one are named as packages

import stand_ins
from stand_ins import Finder

stand_ins.ABSENT = (*stand_ins.ABSENT, "hydra", "omegaconf")
sys.meta_path.insert(0, Finder())
sys.path.insert(0, sys.argv[1])

import warp as wp  # noqa: E402
from isaaclab.actuators import IdealPDActuator  # noqa: E402
from isaaclab.assets.articulation.base_articulation import BaseArticulation  # noqa: E402
from isaaclab.assets.articulation.base_articulation_data import BaseArticulationData  # noqa: E402
from isaaclab.envs.mdp import observations as mdp  # noqa: E402
from isaaclab.envs.mdp.actions import JointPositionActionCfg  # noqa: E402
from isaaclab.managers import ActionManager, ObservationGroupCfg, ObservationManager  # noqa: E402
from isaaclab.managers import ObservationTermCfg as Term  # noqa: E402
from isaaclab.utils import configclass  # noqa: E402
from isaaclab.utils.io import dump_yaml  # noqa: E402
from isaaclab.utils.leapp.export_annotator import ExportPatcher  # noqa: E402
from isaaclab.utils.string import resolve_matching_names  # noqa: E402
from isaaclab.utils.warp import ProxyArray  # noqa: E402
from isaaclab_rl.rsl_rl.exporter import export_policy_as_onnx  # noqa: E402
from isaaclab_tasks.core.velocity.config.go2.agents.rsl_rl_ppo_cfg import UnitreeGo2FlatPPORunnerCfg  # noqa: E402
from isaaclab_tasks.core.velocity.config.go2.flat_env_cfg import UnitreeGo2FlatEnvCfg  # noqa: E402
from leapp import GraphConfigs, InferenceManager, compile_graph, start, stop  # noqa: E402

DATA = Path(__file__).parents[1] / "data"
OUT, V3 = DATA / "leapp", DATA / "isaaclab" / "v3"
ROWS, HISTORY = 125, 3
NAMES = [f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")]
TASK = "Isaac-Velocity-Flat-Go2"
ORDER = ("root_ang_vel_b", "root_quat_w", "base_velocity", "joint_pos", "joint_vel")
POSE = [0.1, -0.1, 0.1, -0.1, 0.8, 0.8, 1.0, 1.0, -1.5, -1.5, -1.5, -1.5]


def array(value: torch.Tensor) -> ProxyArray:
    return ProxyArray(wp.from_torch(value.contiguous()))


class Data(BaseArticulationData):
    """State as observation terms read it; the meaning of each property stands in the class above."""

    def __init__(self, now: dict[str, torch.Tensor]) -> None:
        self._now, self.joint_names = now, NAMES

    joint_pos = property(lambda self: array(self._now["joint_pos"]))
    joint_vel = property(lambda self: array(self._now["joint_vel"]))
    root_ang_vel_b = property(lambda self: array(self._now["root_ang_vel_b"]))
    root_quat_w = property(lambda self: array(self._now["root_quat_w"]))
    projected_gravity_b = property(lambda self: array(self._now["projected_gravity_b"]))
    default_joint_pos = property(lambda self: array(torch.tensor([POSE])))
    default_joint_vel = property(lambda self: array(torch.zeros(1, 12)))
    default_joint_stiffness = default_joint_damping = property(lambda self: array(torch.zeros(1, 12)))


class Robot(BaseArticulation):
    """The part of an articulation that managers and export touch."""

    num_joints, joint_names, data, actuators = len(NAMES), NAMES, None, None

    def __init__(self, now: dict[str, torch.Tensor]) -> None:
        self.data = Data(now)
        actuator = IdealPDActuator.__new__(IdealPDActuator)  # explicit: its gains are its own, the simulator's are 0
        each = torch.arange(12)[None]
        actuator.stiffness, actuator.damping = 25.0 + each / 2, 0.5 + each / 100
        actuator._joint_indices = slice(None)
        self.actuators = {"legs": actuator}

    def __del__(self) -> None:
        pass

    def find_joints(self, patterns: object, preserve_order: bool = False, as_proxy: bool = False) -> tuple:
        ids, names = resolve_matching_names(patterns, NAMES, preserve_order)
        return (array(torch.tensor(ids, dtype=torch.int32)) if as_proxy else ids), names

    def set_joint_position_target_index(
        self, *, target: object, joint_ids: object = None, env_ids: object = None
    ) -> None:
        pass


Data.__abstractmethods__ = Robot.__abstractmethods__ = frozenset()


class Scene:
    """Entities by name."""

    def __init__(self, robot: Robot) -> None:
        self.articulations, self.sensors = {"robot": robot}, {}

    def __getitem__(self, name: str) -> Robot:
        return self.articulations[name]

    def keys(self) -> list[str]:
        return list(self.articulations)


@configclass
class Policy(ObservationGroupCfg):
    """Isaac Lab's velocity observation, with a history, scales and a clip."""

    base_ang_vel = Term(func=mdp.base_ang_vel, scale=0.25, history_length=HISTORY)
    projected_gravity = Term(func=mdp.projected_gravity)
    velocity_commands = Term(func=mdp.generated_commands, params={"command_name": "base_velocity"})
    joint_pos = Term(func=mdp.joint_pos_rel, clip=(-0.5, 0.6))
    joint_vel = Term(func=mdp.joint_vel_rel, scale=0.05)
    actions = Term(func=mdp.last_action)


@configclass
class Observations:
    """Groups."""

    policy: Policy = Policy()


@configclass
class Actions:
    """Terms."""

    joint_pos = JointPositionActionCfg(asset_name="robot", joint_names=[".*"], scale=0.25, use_default_offset=True)


def environment(observations: object, actions: object) -> SimpleNamespace:
    zeros = {"joint_pos": torch.tensor([POSE]), "joint_vel": torch.zeros(1, 12), "root_ang_vel_b": torch.zeros(1, 3)}
    now = {
        **zeros,
        "projected_gravity_b": torch.tensor([[0.0, 0.0, -1.0]]),
        "root_quat_w": torch.tensor([[0.0, 0.0, 0.0, 1.0]]),
        "base_velocity": torch.zeros(1, 3),
    }
    env = SimpleNamespace(num_envs=1, device="cpu", scene=Scene(Robot(now)), spec=SimpleNamespace(id=TASK))
    env.sim = SimpleNamespace(is_playing=lambda: True)
    # what UniformVelocityCommand says of itself (velocity_command.py:96-97)
    said = SimpleNamespace(cmd_kind="command/body/velocity", element_names=["lin_vel_x", "lin_vel_y", "ang_vel_z"])
    env.command_manager = SimpleNamespace(
        get_command=lambda _: now["base_velocity"], get_term=lambda _: SimpleNamespace(cfg=said)
    )
    env.action_manager = ActionManager(actions, env)
    env.observation_manager = ObservationManager(observations, env)
    env.unwrapped, env.now = env, now
    return env


def export() -> None:
    env = environment(Observations(), Actions())
    torch.manual_seed(4)
    width = env.observation_manager.group_obs_dim["policy"][0]
    net = torch.nn.Sequential(torch.nn.Linear(width, 16), torch.nn.ELU(), torch.nn.Linear(16, 12)).requires_grad_(False)
    ExportPatcher("onnx", {"policy"}).setup(SimpleNamespace(env=env))
    start("go2", max_cached_io=2)
    for _ in range(2):  # export_rsl_rl.py: two steps at least, so that LEAPP sees the states change
        observation = env.observation_manager.compute(update_history=True)["policy"]
        env.action_manager.process_action(net(observation))
        env.action_manager.apply_action()
    stop()
    compile_graph(visualize=False, graph_configs=GraphConfigs(frequency=1.0 / (0.005 * 4)))


def signals() -> dict[str, np.ndarray]:
    random = np.random.default_rng(6)
    t = np.arange(ROWS)[:, None] * 0.02
    waves = random.uniform(0.5, 3.0, 12) * t + random.uniform(0, 6, 12)
    quat = np.cumsum(random.normal(0.0, 0.03, (ROWS, 4)), axis=0) + np.array([0.1, -0.1, 0.3, 0.9])
    given = {
        "root_ang_vel_b": random.normal(0, 0.5, (ROWS, 3)),
        "root_quat_w": quat / np.linalg.norm(quat, axis=1, keepdims=True),  # xyzw
        "joint_pos": np.array(POSE) + 0.7 * np.sin(waves),
        "joint_vel": 4.0 * np.cos(waves),
        "base_velocity": np.concatenate([np.sin(t), np.cos(2 * t), -np.sin(3 * t)], axis=1),
    }
    return {key: value.astype(np.float32) for key, value in given.items()}


def gravity(quat: np.ndarray) -> np.ndarray:
    """Direction of gravity in the body frame, of attitudes xyzw."""
    x, y, z, w = quat.astype(np.float64).T
    return np.stack([2 * (w * y - x * z), -2 * (y * z + w * x), 2 * (x * x + y * y) - 1], axis=1).astype(np.float32)


def history_by_time() -> None:
    """The shipped task with what came with 3.0: a history in the order of time, delays (off here), dictionaries of limits."""
    cfg, agent = UnitreeGo2FlatEnvCfg(), UnitreeGo2FlatPPORunnerCfg()
    for name in ("rewards", "curriculum", "events", "terminations"):  # long, and of no meaning here
        setattr(cfg, name, None)
    cfg.scene.terrain = cfg.scene.sky_light = cfg.scene.contact_forces = (
        cfg.commands.base_velocity.goal_vel_visualizer_cfg
    ) = None
    cfg.commands.base_velocity.current_vel_visualizer_cfg = None
    group = cfg.observations.policy
    group.base_lin_vel, group.history_length, group.history_order = None, 2, "time"
    group.joint_vel.scale = 0.05
    group.joint_vel.delay_max_lag = 1
    dump_yaml(str(V3 / "params" / "env.yaml"), cfg)
    dump_yaml(str(V3 / "params" / "agent.yaml"), agent)
    group.joint_vel.delay_max_lag, group.enable_corruption = 0, False
    env = environment(cfg.observations, cfg.actions)
    width = env.observation_manager.group_obs_dim["policy"][0]
    torch.manual_seed(5)
    actor = torch.nn.Sequential(torch.nn.Linear(width, 12), torch.nn.ELU(), torch.nn.Linear(12, 12))
    export_policy_as_onnx(SimpleNamespace(is_recurrent=False, actor=actor), str(V3 / "exported"))
    session = ort.InferenceSession(V3 / "exported" / "policy.onnx")
    given, found = signals(), {"observation": [], "action": [], "target": []}
    given["projected_gravity_b"] = gravity(given["root_quat_w"])
    for row in range(ROWS):
        env.now.update({key: torch.tensor(value[row : row + 1]) for key, value in given.items()})
        observation = env.observation_manager.compute(update_history=True)["policy"].numpy()
        action = session.run(None, {"obs": observation})[0]
        env.action_manager.process_action(torch.tensor(action))
        target = env.action_manager.get_term("joint_pos").processed_actions.numpy()
        for key, value in (("observation", observation), ("action", action), ("target", target)):
            found[key].append(np.array(value[0]))
    rows = {key: np.array(value) for key, value in found.items()}
    np.savez_compressed(V3 / "rows.npz", **given, **rows, joints=np.array(NAMES))


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    export()
    shutil.rmtree(OUT, ignore_errors=True)
    shutil.copytree("go2", OUT, ignore=shutil.ignore_patterns("*.log", "*.png", "*.txt"))
    manager = InferenceManager(str(next(OUT.glob("*.yaml"))))
    given, found = signals(), {}
    for row in range(ROWS):
        inputs = {
            f"{TASK}/{'' if key == 'base_velocity' else 'robot_'}{key}": torch.tensor(value[row : row + 1])
            for key, value in given.items()
        }
        for key, value in manager.run_policy(inputs).items():
            found.setdefault(key.split("/")[1], []).append(value.numpy()[0].copy())
    target = np.array(found["joint_pos"])
    inputs = np.concatenate(
        [given[key] for key in ORDER], axis=1
    )  # LEAPP has no single observation: what its graph takes
    gains = {key: np.array(found[f"joint_pos_{key}_gains"][0]) for key in ("kp", "kd")}
    np.savez_compressed(
        OUT / "rows.npz", **given, **gains, observation=inputs, action=target, target=target, joints=np.array(NAMES)
    )


if __name__ == "__main__":
    history_by_time()
    main()
