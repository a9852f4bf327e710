"""How tests/importers/data/mjlab was made: mjlab 1.6.0 with rsl-rl-lib 5.4.2, torch 2.13.0, onnxruntime 1.31.1.

mjlab's own observation manager, action manager, observation terms, runners' export and metadata, on a CPU; the simulated robot alone is
replaced, by the signals that are recorded.

    pip install --no-deps mjlab==1.6.0 mujoco==3.11.0 mujoco-warp==3.11.0 warp-lang rsl-rl-lib==5.4.2 prettytable trimesh torchrunx
    python -P tests/importers/record/mjlab.py
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import onnxruntime as ort
import torch
from tensordict import TensorDict

sys.modules["wandb"] = ModuleType("wandb")
sys.path.append(str(Path(__file__).parent))  # last: files beside this one are named as packages

from mjlab.envs.mdp import observations as mdp  # noqa: E402
from mjlab.envs.mdp.actions import JointPositionActionCfg  # noqa: E402
from mjlab.managers.action_manager import ActionManager  # noqa: E402
from mjlab.managers.observation_manager import (  # noqa: E402
    ObservationGroupCfg,
    ObservationManager,
    ObservationTermCfg,
)
from mjlab.rl.exporter_utils import attach_metadata_to_onnx, get_base_metadata  # noqa: E402
from mjlab.rl.runner import MjlabOnPolicyRunner  # noqa: E402
from mjlab.sensor import BuiltinSensor  # noqa: E402
from mjlab.tasks.tracking.mdp import observations as tracking  # noqa: E402
from mjlab.tasks.tracking.rl.runner import MotionTrackingOnPolicyRunner  # noqa: E402
from motion_stand_in import HUMANOID, MotionStandIn, motion  # noqa: E402
from rsl_rl.models import MLPModel  # noqa: E402

OUT = Path(__file__).parents[1] / "data" / "mjlab"
ROWS = 122
LEGS = [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]


class Sensor(BuiltinSensor):
    """A sensor that reads what it is given."""

    def __init__(self, key: str, now: dict[str, torch.Tensor]) -> None:
        self._key, self._now = key, now

    @property
    def data(self) -> torch.Tensor:
        return self._now[self._key]


class RobotData:
    """State as observation terms read it."""

    def __init__(self, names: list[str], now: dict[str, torch.Tensor], default: torch.Tensor) -> None:
        self.default_joint_pos, self._now = default, now
        self.default_joint_vel = self.encoder_bias = torch.zeros(1, len(names))

    joint_pos = joint_pos_biased = property(lambda self: self._now["joint_pos"])
    joint_vel = property(lambda self: self._now["joint_vel"])
    projected_gravity_b = property(lambda self: self._now["gravity"])


class Robot:
    """The part of mjlab's Entity that managers and export touch."""

    def __init__(self, names: list[str], now: dict[str, torch.Tensor], default: torch.Tensor) -> None:
        self.joint_names = names
        shuffled = np.random.default_rng(3).permutation(len(names))  # actuators in an order of their own
        self.spec = SimpleNamespace(
            actuators=[SimpleNamespace(target=f"robot/{names[j]}", id=i) for i, j in enumerate(shuffled)]
        )
        self.order = shuffled
        self.data = RobotData(names, now, default)

    def find_joints_by_actuator_names(self, _: object) -> tuple[list[int], list[str]]:
        return list(range(len(self.joint_names))), self.joint_names

    def set_joint_position_target(self, target: torch.Tensor, joint_ids: torch.Tensor) -> None:
        self.target = target.clone()


def environment(names: list[str], terms: dict, scale: object, default: np.ndarray, command: object) -> SimpleNamespace:
    now: dict[str, torch.Tensor] = {
        **{key: torch.zeros(1, len(names)) for key in ("joint_pos", "joint_vel")},
        **{key: torch.zeros(1, 3) for key in ("gravity", "gyro", "lin_vel", "command", "base_pos")},
        "base_quat": torch.tensor([[1.0, 0.0, 0.0, 0.0]]),
    }
    robot = Robot(names, now, torch.tensor(default, dtype=torch.float32)[None])
    scene = {"robot": robot, "robot/imu_lin_vel": Sensor("lin_vel", now), "robot/imu_ang_vel": Sensor("gyro", now)}
    env = SimpleNamespace(num_envs=1, device="cpu", scene=scene, now=now)
    name, term = command(env)
    env.command_manager = SimpleNamespace(
        active_terms=[name], get_term=lambda _: term, get_command=lambda _: term.command
    )
    gains = np.zeros((len(names), 10))
    env.kp, env.kd = 20.0 + 1.237 * np.arange(len(names)), 0.5 + 0.0414 * np.arange(len(names))
    gains[:, 0] = env.kp[robot.order]
    bias = np.zeros_like(gains)
    bias[:, 2] = -env.kd[robot.order]
    env.sim = SimpleNamespace(mj_model=SimpleNamespace(actuator_gainprm=gains, actuator_biasprm=bias))
    env.action_manager = ActionManager(
        {"joint_pos": JointPositionActionCfg(entity_name="robot", actuator_names=(".*",), scale=scale)}, env
    )
    env.observation_manager = ObservationManager({"actor": ObservationGroupCfg(terms=terms)}, env)
    return env


def actor(width: int, actions: int) -> MLPModel:
    torch.manual_seed(11)
    sample = TensorDict({"actor": torch.randn(4, width)}, batch_size=[4])
    model = MLPModel(sample, {"actor": ["actor"]}, "actor", actions, [20, 20], "elu", obs_normalization=True)
    model.train()
    for _ in range(20):
        model.update_normalization(TensorDict({"actor": torch.randn(64, width) * 0.6 - 0.05}, batch_size=[64]))
    return model


def export(runner: type, env: SimpleNamespace, path: Path, extra: dict) -> None:
    width = env.observation_manager.group_obs_dim["actor"][0]
    model = actor(width, env.action_manager.total_action_dim)
    stand_in = SimpleNamespace(
        alg=SimpleNamespace(get_policy=lambda: model), env=SimpleNamespace(unwrapped=env), registry_name=None
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    runner.export_policy_to_onnx(stand_in, str(path.parent), path.name)
    attach_metadata_to_onnx(str(path), {**get_base_metadata(env, "local"), **extra})


def rows(env: SimpleNamespace, path: Path, given: dict[str, np.ndarray], start: object) -> None:
    """mjlab's order: the observation is computed, the network acts, the action is processed and applied."""
    session = ort.InferenceSession(path)
    feeds = [tensor.name for tensor in session.get_inputs()]
    found = {"observation": [], "action": [], "target": []}
    env.action_manager.reset()
    env.observation_manager.reset()
    for row in range(ROWS):
        env.now.update({key: torch.tensor(value[row : row + 1]) for key, value in given.items()})
        start(row)
        observation = env.observation_manager.compute(update_history=True)["actor"].numpy()
        inputs = {"obs": observation, "time_step": np.array([[row + 1.0]], dtype=np.float32)}
        action = session.run(["actions"], {name: inputs[name] for name in feeds})[0]
        env.action_manager.process_action(torch.tensor(action))
        env.action_manager.apply_action()
        for key, value in (("observation", observation), ("action", action), ("target", env.scene["robot"].target)):
            found[key].append(np.array(value[0]))
    np.savez_compressed(
        path.with_suffix(".npz"), **given, **{key: np.array(value) for key, value in found.items()},
        kp=env.kp, kd=env.kd, joints=np.array(env.scene["robot"].joint_names),
    )  # fmt: skip


def signals(seed: int, default: np.ndarray) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    t = np.arange(ROWS)[:, None] * 0.02
    waves = random.uniform(0.5, 3.0, len(default)) * t + random.uniform(0, 6, len(default))
    quat = np.cumsum(random.normal(0.0, 0.03, (ROWS, 4)), axis=0) + np.array([0.8, 0.1, -0.1, 0.6])
    quat /= np.linalg.norm(quat, axis=1, keepdims=True)
    w, x, y, z = quat.T
    given = {
        "joint_pos": default + 0.5 * np.sin(waves),
        "joint_vel": 3.0 * np.cos(waves) + random.normal(0, 0.2, (ROWS, len(default))),
        "gyro": random.normal(0, 0.5, (ROWS, 3)),
        "lin_vel": random.normal(0, 0.4, (ROWS, 3)),
        "gravity": -np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1),
        "base_quat": quat,
        "base_pos": np.cumsum(random.normal(0, 0.01, (ROWS, 3)), axis=0) + np.array([1.0, -2.0, 0.75]),
        "command": np.concatenate([np.sin(t), np.cos(2 * t), -np.sin(3 * t)], axis=1),
    }
    return {key: value.astype(np.float32) for key, value in given.items()}


def term(function: object, **options: object) -> ObservationTermCfg:
    return ObservationTermCfg(func=function, **options)


def sensor(name: str, **options: object) -> ObservationTermCfg:
    return term(mdp.builtin_sensor, params={"sensor_name": f"robot/{name}"}, **options)


def velocity() -> None:
    default = np.array([0.0, 0.9, -1.8, 0.0, 0.9, -1.8, 0.0, 0.85, -1.75, 0.0, 0.85, -1.75])
    terms = {
        "base_lin_vel": sensor("imu_lin_vel", clip=(-0.5, 0.7)),
        "base_ang_vel": sensor("imu_ang_vel", scale=0.25, history_length=3),
        "projected_gravity": term(mdp.projected_gravity),
        "joint_pos": term(mdp.joint_pos_rel, params={"biased": True}, history_length=2),
        "joint_vel": term(mdp.joint_vel_rel, scale=0.05, clip=(-2.0, 2.0)),
        "actions": term(mdp.last_action),
        "command": term(mdp.generated_commands, params={"command_name": "twist"}, scale=(2.0, 2.0, 0.25)),
    }

    class Twist:
        def __init__(self, env: SimpleNamespace) -> None:
            self.env = env

        @property
        def command(self) -> torch.Tensor:
            return self.env.now["command"]

    scale = {".*_hip_joint": 0.125, ".*_thigh_joint": 0.25, ".*_calf_joint": 0.375}
    env = environment(LEGS, terms, scale, default, lambda env: ("twist", Twist(env)))
    path = OUT / "velocity.onnx"
    export(MjlabOnPolicyRunner, env, path, {})
    rows(env, path, signals(1, default), lambda row: None)


def track() -> None:
    default = np.linspace(-0.4, 0.5, len(HUMANOID)).round(3)
    options = {"params": {"command_name": "motion"}}
    terms = {
        "command": term(mdp.generated_commands, **options),
        "motion_anchor_pos_b": term(tracking.motion_anchor_pos_b, **options),
        "motion_anchor_ori_b": term(tracking.motion_anchor_ori_b, **options),
        "base_lin_vel": sensor("imu_lin_vel"),
        "base_ang_vel": sensor("imu_ang_vel"),
        "joint_pos": term(mdp.joint_pos_rel, params={"biased": True}),
        "joint_vel": term(mdp.joint_vel_rel),
        "actions": term(mdp.last_action),
    }
    bodies = ["pelvis", "torso_link"]
    frames = motion(len(HUMANOID), len(bodies))
    stand_in = []

    def command(env: SimpleNamespace) -> tuple[str, MotionStandIn]:
        stand_in.append(MotionStandIn(env, frames, bodies.index("torso_link"), HUMANOID))
        return "motion", stand_in[0]

    env = environment(HUMANOID, terms, 0.5, default, command)
    path = OUT / "tracking.onnx"
    export(MotionTrackingOnPolicyRunner, env, path, {"anchor_body_name": "torso_link", "body_names": bodies})
    rows(env, path, signals(2, default), lambda row: stand_in[0].start(row))


if __name__ == "__main__":
    velocity()
    track()
