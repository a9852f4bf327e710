"""How tests/importers/data/unitree was made: torch 2.13.0, rsl-rl-lib 5.5.1 (export), onnxruntime 1.31.1, numpy 2.4.6.

The deployment code of unitree_rl_lab (commit e72a072) and unitree_rl_mjlab (commit 5b7e396) is C++; what it computes is written here
once more, in numpy, rule by rule, with the place where it stands. The C++ headers were run beside this script on the same signals.

    python tests/importers/record/unitree.py

Policy and numbers are ours; file names, keys and their order are those that `export_deploy_cfg.py` writes.
"""

import os
from pathlib import Path

import numpy as np
import onnxruntime as ort
import torch
import yaml
from tensordict import TensorDict

OUT = Path(__file__).parents[1] / "data" / "unitree"
ROWS = 122
QUADRUPED = (  # motors in the SDK's order, joints in the simulator's: breadth first
    [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")],
    [f"{leg}_{part}_joint" for part in ("hip", "thigh", "calf") for leg in ("FL", "FR", "RL", "RR")],
)
BIPED = (
    [f"{leg}_{part}_joint" for leg in ("FR", "FL") for part in ("hip", "calf")],
    [f"{leg}_{part}_joint" for part in ("hip", "calf") for leg in ("FL", "FR")],
)
WAIST = [("waist_yaw_joint", 2), ("waist_roll_joint", 0), ("waist_pitch_joint", 1)]  # joint, axis
DANCER = [*BIPED[0], *(joint for joint, _ in WAIST)]  # motors and joints in one order, as of the G1
FRAMES = 80
HISTORY = 2


def digits(value: float) -> float:
    """export_deploy_cfg.py:10-12: three significant digits."""
    return float(f"{value:.3g}")


def config(robot: tuple[list[str], list[str]], term_history: int, by_time: bool) -> dict:
    """The mapping that export_deploy_cfg.py:20-99 builds."""
    sdk, policy = robot
    count = len(policy)
    ids = [sdk.index(name) for name in policy]
    pose = {"hip": 0.1, "thigh": 0.8123, "calf": -1.5}
    default = [
        digits(pose.get(n.split("_")[1], 0.0) * (-1 if n.startswith(("FR_hip", "RR_hip")) else 1)) for n in policy
    ]
    terms = {
        "base_ang_vel": (3, 0.2), "projected_gravity": (3, 1.0), "velocity_commands": (3, 1.0), "joint_pos_rel": (count, 1.0),
        "joint_vel_rel": (count, 0.05), "last_action": (count, 1.0),
    }  # fmt: skip
    observations = {
        name: {
            "params": {"command_name": "base_velocity"} if name == "velocity_commands" else {},
            "clip": [-0.6, 1.9] if name == "joint_pos_rel" else [-100, 100],
            "scale": [scale] * width,
            "history_length": term_history,
        }
        for name, (width, scale) in terms.items()
    }
    if by_time:
        first, *rest = observations.items()  # scale_first is of what comes after it
        observations = {"obs": {"use_gym_history": True, **dict([first]), "scale_first": True, **dict(rest)}}
    elif term_history == 1:
        observations["gait_phase"] = {"params": {"period": 0.8}, "clip": None, "scale": [1.0, 1.0], "history_length": 1}
    return {
        "joint_ids_map": ids,
        "step_dt": 0.02,
        "stiffness": [digits(25.0 + i / 3) for i in range(count)],  # SDK order
        "damping": [digits(0.5 + i / 30) for i in range(count)],
        "default_joint_pos": default,
        "commands": {
            "base_velocity": {
                "ranges": {
                    "lin_vel_x": [-0.5, 1.0],
                    "lin_vel_y": [-0.4, 0.4],
                    "ang_vel_z": [-1.0, 1.0],
                    "heading": None,
                }
            }
        },
        "actions": {
            "JointPositionAction": {
                "clip": [[value - 0.3, value + 0.35] for value in default] if by_time else None,
                "joint_names": [".*"],
                "scale": [digits(0.25 + 0.01234 * i) for i in range(count)],
                "offset": default,
                "joint_ids": None if by_time else slice(None),
            }
        },
        "observations": observations,
    }


def export(folder: Path, width: int, actions: int) -> None:
    """rsl-rl's own export; on this torch it splits the weights off into policy.onnx.data."""
    from rsl_rl.models import MLPModel

    torch.manual_seed(7)
    obs = TensorDict({"policy": torch.randn(4, width)}, batch_size=[4])
    model = MLPModel(obs, {"actor": ["policy"]}, "actor", actions, [16, 16], "elu", obs_normalization=True)
    model.train()
    for _ in range(20):  # the normaliser sees something
        model.update_normalization(TensorDict({"policy": torch.randn(64, width) * 0.7 + 0.1}, batch_size=[64]))
    net = model.as_onnx(verbose=False)
    net.eval()
    folder.mkdir(parents=True, exist_ok=True)
    torch.onnx.export(
        net, net.get_dummy_inputs(), str(folder / "policy.onnx"), export_params=True, opset_version=18, verbose=False,
        input_names=net.input_names, output_names=net.output_names, dynamic_axes={},
    )  # fmt: skip


def signals(seed: int, count: int) -> dict[str, np.ndarray]:
    """What `lowstate` and the joystick hold: joints in SDK order."""
    random = np.random.default_rng(seed)
    t = np.arange(ROWS)[:, None] * 0.02
    quat = np.cumsum(random.normal(0.0, 0.03, (ROWS, 4)), axis=0) + np.array([1.0, 0.0, 0.0, 0.0])
    waves = random.uniform(0.5, 3.0, count) * t + random.uniform(0, 6, count)
    return {
        "joint_pos": (np.linspace(0.3, -1.2, count) + 0.8 * np.sin(waves)).astype(np.float32),
        "joint_vel": (2.0 * np.cos(waves) + random.normal(0, 0.2, (ROWS, count))).astype(np.float32),
        "gyro": random.normal(0, 0.5, (ROWS, 3)).astype(np.float32),
        "quat": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),  # wxyz, body -> world
        "joystick": np.stack([np.sin(t[:, 0]), np.cos(2 * t[:, 0]), -np.sin(3 * t[:, 0])], axis=1).astype(
            np.float32
        ),  # ly, lx, rx
    }


def gravity(quat: np.ndarray) -> np.ndarray:
    """unitree_articulation.h:34-35: conjugate(q) * (0, 0, -1)."""
    w, x, y, z = quat
    return np.array([-2 * (x * z - w * y), -2 * (y * z + w * x), -(1 - 2 * (x * x + y * y))], dtype=np.float32)


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Quaternions wxyz: first b's rotation, then a's."""
    return np.array([a[0] * b[0] - a[1:] @ b[1:], *(a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:]))])


def heading(quat: np.ndarray) -> np.ndarray:
    """utils.h:12-17: rotation about the vertical alone."""
    w, x, y, z = quat
    half = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z)) / 2
    return np.array([np.cos(half), 0.0, 0.0, np.sin(half)])


def conjugate(quat: np.ndarray) -> np.ndarray:
    return quat * np.array([1, -1, -1, -1])


def torso(root: np.ndarray, joints: np.ndarray) -> np.ndarray:
    """State_Mimic.cpp:8-36: the root's attitude, turned by the three waist joints."""
    quat = root.astype(np.float64)
    for joint, axis in WAIST:
        half = float(joints[DANCER.index(joint)]) / 2
        turned = np.zeros(4)
        turned[0], turned[1 + axis] = np.cos(half), np.sin(half)
        quat = product(quat, turned)
    return quat


class Dance:
    """State_Mimic.h:41-127, State_Mimic.cpp:43-83 and 140-175: the motion, and how it lies for the robot."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as file:
            self.root, self.joint_pos, self.joint_vel = file["body_quat_w"][:, 0], file["joint_pos"], file["joint_vel"]

    def start(self, now: dict[str, np.ndarray]) -> None:
        robot = torso(now["quat"], now["joint_pos"])
        self.init = product(heading(robot), conjugate(heading(self.root[0])))  # the robot's torso, the motion's root

    def update(self, tick: int, step: float) -> None:
        """State_Mimic.h:101-107, in single precision, before the episode's length is counted up."""
        period, count = np.float32(1) / np.float32(50), np.float32(len(self.root))
        time = np.clip(np.float32(tick) * np.float32(step), np.float32(0), count * period)
        self.frame = min(int(np.floor(time / period)), len(self.root) - 1)

    def command(self) -> np.ndarray:
        return np.concatenate([self.joint_pos[self.frame], self.joint_vel[self.frame]])

    def anchor(self, now: dict[str, np.ndarray]) -> np.ndarray:
        wanted = product(self.init, torso(self.root[self.frame], self.joint_pos[self.frame]))
        w, x, y, z = product(conjugate(torso(now["quat"], now["joint_pos"])), wanted)
        rows = [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z)],
            [2 * (x * z - w * y), 2 * (y * z + w * x)],
        ]
        return np.array(rows, dtype=np.float32).reshape(-1)


class Deployment:
    """manager_based_rl_env.h: reset() and step(); observation_manager.h, manager_term_cfg.h, joint_actions.h."""

    def __init__(self, cfg: dict, network: Path, dance: Dance | None = None) -> None:
        self.dance = dance
        self.cfg, self.session = cfg, ort.InferenceSession(network)
        self.ids = cfg["joint_ids_map"]
        group = cfg["observations"]
        group = group if "params" in next(iter(group.values())) else group["obs"]  # observation_manager.h:98-107
        self.by_time, scale_first, self.terms, self.scale_first = False, False, {}, {}
        for key, value in group.items():  # observation_manager.h:114-124, in the file's order
            if key == "use_gym_history":
                self.by_time = value
            elif key == "scale_first":
                scale_first = value
            else:
                self.terms[key], self.scale_first[key] = value, scale_first

    def raw(self, name: str, now: dict[str, np.ndarray]) -> np.ndarray:
        """observations.h."""
        if name == "velocity_commands":  # observations.h:67-79: clamped, two of the sticks negated
            ranges = self.cfg["commands"]["base_velocity"]["ranges"]
            stick = now["joystick"] * np.array([1, -1, -1], dtype=np.float32)
            low, high = zip(*(ranges[key] for key in ("lin_vel_x", "lin_vel_y", "ang_vel_z")), strict=True)
            return np.clip(stick, np.float32(low), np.float32(high))
        if name == "gait_phase":  # observations.h:81-93: moved on, then used
            step = np.float32(self.cfg["step_dt"]) * (np.float32(1) / np.float32(self.terms[name]["params"]["period"]))
            self.phase = np.fmod(np.float32(self.phase + step), np.float32(1))
            return np.array([np.sin(self.phase * 2 * np.pi), np.cos(self.phase * 2 * np.pi)], dtype=np.float32)
        return {
            "base_ang_vel": lambda: now["gyro"],
            "projected_gravity": lambda: gravity(now["quat"]),
            "joint_pos_rel": lambda: now["joint_pos"][self.ids] - np.float32(self.cfg["default_joint_pos"]),
            "joint_vel_rel": lambda: now["joint_vel"][self.ids],
            "motion_command": lambda: self.dance.command(),
            "motion_anchor_ori_b": lambda: self.dance.anchor(now),
            "last_action": lambda: self.action,  # action_manager.h:79: raw
        }[name]()

    def sample(self, name: str, now: dict[str, np.ndarray]) -> np.ndarray:
        """manager_term_cfg.h:32-49: clip then scale, or the other way round."""
        term, value = self.terms[name], self.raw(name, now)
        scale = np.float32(term["scale"])
        value = value * scale if self.scale_first[name] else value
        value = value if term["clip"] is None else np.clip(value, *np.float32(term["clip"]))
        return value if self.scale_first[name] else value * scale

    def reset(self, now: dict[str, np.ndarray]) -> None:
        """manager_based_rl_env.h:47-54; manager_term_cfg.h:27-30: every slot holds the sample of the reset."""
        self.phase, self.action = np.float32(0), np.zeros(len(self.ids), dtype=np.float32)
        self.past = {name: [self.sample(name, now)] * term["history_length"] for name, term in self.terms.items()}

    def step(self, now: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Observation, action, and targets in SDK order (State_RLBase.cpp, run)."""
        for name, past in self.past.items():
            self.past[name] = [*past[1:], self.sample(name, now)]
        parts = list(self.past.values())
        if self.by_time:  # observation_manager.h:72-83
            parts = [[past[h] for past in parts] for h in range(len(parts[0]))]
        observation = np.concatenate([sample for part in parts for sample in part])
        action = self.session.run(None, {"obs": observation[None]})[0][0]
        rule = self.cfg["actions"]["JointPositionAction"]
        processed = action * np.float32(rule["scale"]) + np.float32(rule["offset"])  # joint_actions.h:35-45
        if rule["clip"] is not None:
            processed = np.clip(processed, *np.float32(rule["clip"]).T)
        self.action = action
        target = np.zeros(len(self.ids), dtype=np.float32)
        target[self.ids] = processed
        return observation, action, target


def mimic_config() -> dict:
    """params/deploy.yaml of a mimic policy: no command, the motion instead."""
    cfg = config((DANCER, DANCER), 1, by_time=False)
    gone = ("projected_gravity", "velocity_commands", "gait_phase")
    kept = {name: term for name, term in cfg["observations"].items() if name not in gone}
    moving = {"motion_command": 2 * len(DANCER), "motion_anchor_ori_b": 6}
    terms = {
        name: {"params": {"command_name": "motion"}, "clip": None, "scale": [1.0] * width, "history_length": 1}
        for name, width in moving.items()
    }
    rule = cfg["actions"]["JointPositionAction"]
    return {
        **cfg,
        "commands": {},
        "observations": {**terms, **kept},
        "actions": {"JointPositionAction": {**rule, "joint_ids": None}},
    }


def make_motion(path: Path) -> None:
    """A motion in the form of mjlab's csv_to_npz."""
    random = np.random.default_rng(12)
    quat = np.cumsum(random.normal(0.0, 0.03, (FRAMES, 2, 4)), axis=0) + np.array([0.3, 0.1, 0.1, 0.9])
    angles = np.cumsum(random.normal(0.0, 0.05, (FRAMES, len(DANCER))), axis=0)
    arrays = {
        "joint_pos": angles,
        "joint_vel": np.gradient(angles, 0.02, axis=0),
        "body_quat_w": quat / np.linalg.norm(quat, axis=2, keepdims=True),
        "body_pos_w": np.zeros((FRAMES, 2, 3)),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, **{name: array.astype(np.float32) for name, array in arrays.items()}, fps=np.array([50]))


def record(name: str, robot: tuple[list[str], list[str]], cfg: dict, seed: int, dance: bool = False) -> None:
    folder = OUT / name
    terms = cfg["observations"].get("obs", cfg["observations"])
    widths = [len(t["scale"]) * t["history_length"] for t in terms.values() if isinstance(t, dict)]
    export(folder / "exported", sum(widths), len(robot[1]))
    (folder / "params").mkdir(exist_ok=True)
    with open(folder / "params" / "deploy.yaml", "w") as file:
        yaml.dump(
            cfg, file, default_flow_style=None, sort_keys=False
        )  # export_deploy_cfg.py:107; slices become python tags
    motion = folder / "params" / "dance.npz"
    if dance:
        make_motion(motion)
    given = signals(seed, len(robot[0]))
    runner = Deployment(cfg, folder / "exported" / "policy.onnx", Dance(motion) if dance else None)
    rows = []
    for row in range(ROWS):
        now = {key: value[row] for key, value in given.items()}
        if runner.dance is not None:
            if row == 0:
                runner.dance.start(now)
            runner.dance.update(row, cfg["step_dt"])
        if row == 0:  # State_RLBase.h:57-63 reads the state, resets, and steps at once
            runner.reset(now)
        rows.append(runner.step(now))
    observation, action, target = (np.array(column) for column in zip(*rows, strict=True))
    np.savez_compressed(
        folder / "rows.npz",
        **given,
        observation=observation,
        action=action,
        target=target,
        sdk_joints=np.array(robot[0]),
    )


if __name__ == "__main__":
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    record("walk", QUADRUPED, config(QUADRUPED, 1, by_time=False), 1)
    record("history", BIPED, config(BIPED, HISTORY, by_time=False), 2)
    record("time_major", BIPED, config(BIPED, HISTORY, by_time=True), 3)
    record("mimic", (DANCER, DANCER), mimic_config(), 4, dance=True)
