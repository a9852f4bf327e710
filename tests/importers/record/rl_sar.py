"""How data/rl_sar was made: rl_sar's rules, worked out again in numpy, for it is a C++ program that needs a robot or a simulator.

rl_sar of 2025-11-19 (github.com/fan-ziqi/rl_sar, e384912). Files and lines, below src/rl_sar/:

    library/core/rl_sdk/rl_sdk.cpp 225-254    config.yaml's values take the place of base.yaml's; the history begins with zeros
    library/core/rl_sdk/rl_sdk.cpp 64-183     the terms, in the order of `observations`; the scaled whole within +-clip_obs
    library/core/vector_math/vector_math.hpp 487-517   gravity: (0, 0, -1) in the base's frame
    library/core/observation_buffer/observation_buffer.cpp 79-180  index 0 is now; "time": all terms of an index; "term": all of a term
    src/rl_sim_mujoco.cpp 169-170, 182   policy joint i is joint_mapping[i] of the robot; base.yaml's joint_names are in its order
    src/rl_sim_mujoco.cpp 346, 401-404        actions within clip_actions_lower .. upper; these are what is seen as `actions` next
    library/core/rl_sdk/rl_sdk.cpp 256-268    target = default_dof_pos + action_scale * action

Run with python, numpy, torch and pyyaml: `python rl_sar.py ../data/rl_sar`. Networks and numbers are made up here; torch
2.13.0, numpy 2.4.6.
"""

import sys
from pathlib import Path

import numpy as np
import torch
import yaml

LEGS = ("fr", "fl", "rr", "rl")
JOINTS = [f"{leg}_{part}_joint" for leg in LEGS for part in ("hip", "thigh", "calf")]
ROWS = 120
COMMON = {
    "clip_actions_lower": [-1.5] * 12,
    "clip_actions_upper": [1.5] * 12,
    "rl_kp": [30.0 + i for i in range(12)],
    "rl_kd": [0.5 + 0.01 * i for i in range(12)],
    "fixed_kp": [80.0] * 12,
    "fixed_kd": [3.0] * 12,
    "num_of_dofs": 12,
    "action_scale": [0.125, 0.25, 0.25] * 4,
    "wheel_indices": [],
    "lin_vel_scale": 2.0,
    "ang_vel_scale": 0.25,
    "dof_pos_scale": 1.0,
    "dof_vel_scale": 0.05,
    "commands_scale": [2.0, 2.0, 0.25],
    "torque_limits": [33.5] * 12,
    "default_dof_pos": [0.1, 0.8, -1.5, -0.1, 0.8, -1.5, 0.1, 1.0, -1.5, -0.1, 1.0, -1.5],
}
BASE = {
    "dt": 0.005,
    "decimation": 4,
    "num_of_dofs": 12,
    "wheel_indices": [],
    "fixed_kp": [80.0] * 12,
    "fixed_kd": [3.0] * 12,
    "torque_limits": [23.5] * 12,
    "default_dof_pos": [0.0, 0.8, -1.5] * 4,
    "joint_names": JOINTS,
    "joint_controller_names": [name.replace("_joint", "_controller") for name in JOINTS],
    "joint_mapping": list(range(12)),
}
POLICIES = {
    "walk": {
        "model_name": "policy.pt",
        "num_observations": 45,
        "observations": ["commands", "ang_vel", "gravity_vec", "dof_pos", "dof_vel", "actions"],
        "observations_history": [0, 1, 3],
        "observations_history_priority": "time",
        "clip_obs": 3.0,
        **COMMON,
        "joint_mapping": [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8],
    },
    "trot": {
        "model_name": "policy.onnx",
        "num_observations": 48,
        "observations": ["lin_vel", "ang_vel", "gravity_vec", "commands", "dof_pos", "dof_vel", "actions"],
        "observations_history": [2, 1, 0],
        "observations_history_priority": "term",
        "clip_obs": 100.0,
        **COMMON,
        "joint_mapping": [3, 0, 9, 6, 4, 1, 10, 7, 5, 2, 11, 8],
    },
}


def quat_rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    w, axis = quat[0], quat[1:]
    return vector * (2 * w * w - 1) - np.cross(axis, vector) * w * 2 + axis * (axis @ vector) * 2


def signals(rng: np.random.Generator) -> dict[str, np.ndarray]:
    time = np.arange(ROWS)[:, None] * 0.02

    def waves(n: int, size: float) -> np.ndarray:
        sines = np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))
        return np.float32(np.round(256 * size * sines) / 256)

    quat = np.concatenate([1 + waves(1, 0.1), waves(3, 0.4)], axis=1)
    return {
        "joint_pos": waves(12, 0.6) + np.float32([0.0, 0.8, -1.5] * 4),
        "joint_vel": waves(12, 30.0),
        "gyro": waves(3, 6.0),
        "base_quat": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),
        "base_lin_vel": waves(3, 1.0),
        "command.velocity": waves(3, 1.0),
    }


def terms(config: dict, rows: dict[str, np.ndarray], row: int, action: np.ndarray) -> list[np.ndarray]:
    mapping = config["joint_mapping"]
    given = {
        "lin_vel": rows["base_lin_vel"][row] * config["lin_vel_scale"],
        "ang_vel": rows["gyro"][row] * config["ang_vel_scale"],
        "gravity_vec": quat_rotate_inverse(rows["base_quat"][row], np.float32([0, 0, -1])),
        "commands": rows["command.velocity"][row] * np.float32(config["commands_scale"]),
        "dof_pos": (rows["joint_pos"][row, mapping] - np.float32(config["default_dof_pos"])) * config["dof_pos_scale"],
        "dof_vel": rows["joint_vel"][row, mapping] * config["dof_vel_scale"],
        "actions": action,
    }
    return [
        np.clip(given[name], -config["clip_obs"], config["clip_obs"]).astype(np.float32)
        for name in config["observations"]
    ]


def record(name: str, config: dict, folder: Path, rng: np.random.Generator) -> None:
    samples, priority = config["observations_history"], config["observations_history_priority"]
    network = torch.nn.Sequential(
        torch.nn.Linear(config["num_observations"] * len(samples), 24),
        torch.nn.ELU(),
        torch.nn.Linear(24, 24),
        torch.nn.ELU(),
        torch.nn.Linear(24, 12),
    ).eval()
    with torch.no_grad():
        network[4].weight *= 3.0
    path = folder / config["model_name"]
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".pt":
        torch.jit.script(network).save(str(path))
    else:
        example = torch.zeros(1, network[0].in_features)
        torch.onnx.export(network, (example,), str(path), input_names=["obs"], output_names=["actions"], dynamo=False)
    (folder / "config.yaml").write_text(
        yaml.safe_dump({f"quad/{name}": config}, sort_keys=False, default_flow_style=None)
    )
    rows, action = signals(rng), np.zeros(12, np.float32)
    buffer = [[0 * term for term in terms(config, rows, 0, action)]] * (max(samples) + 1)
    out: dict[str, list[np.ndarray]] = {"observation": [], "action": [], "target": []}
    for row in range(ROWS):
        now = terms(config, rows, row, action)
        buffer = [now, *buffer[:-1]]
        if priority == "time":
            observation = np.concatenate([term for index in samples for term in buffer[index]])
        else:
            observation = np.concatenate([buffer[index][i] for i in range(len(now)) for index in samples])
        with torch.no_grad():
            raw = network(torch.from_numpy(observation)[None]).numpy()[0]
        action = np.clip(raw, np.float32(config["clip_actions_lower"]), np.float32(config["clip_actions_upper"]))
        target = np.zeros(12, np.float32)
        target[config["joint_mapping"]] = action * np.float32(config["action_scale"]) + np.float32(
            config["default_dof_pos"]
        )
        for key, value in (("observation", observation), ("action", raw), ("target", target)):
            out[key].append(value)
    rows["gravity"] = np.stack([quat_rotate_inverse(quat, np.float32([0, 0, -1])) for quat in rows["base_quat"]])
    arrays = {**rows, **{key: np.stack(value) for key, value in out.items()}}
    np.savez_compressed(
        folder / "rows.npz", joint_names=np.array(JOINTS), **{k: v.astype(np.float32) for k, v in arrays.items()}
    )


def main(folder: Path) -> None:
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.yaml").write_text(yaml.safe_dump({"quad": BASE}, sort_keys=False, default_flow_style=None))
    for name, config in POLICIES.items():
        record(name, config, folder / name, rng)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
