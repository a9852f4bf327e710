"""How data/efferent was made: by efferent's own Runner, over a backend that plays rows back.

efferent 0.5.0 from PyPI (python 3.11): `python -P efferent.py ../data/efferent`, after `python -P efferent.py networks
../data/efferent` with torch 2.13.0. Networks and numbers are made up here. "walk" is packed by efferent's `pack`, with a
normaliser beside the network; "gru" has its manifest embedded in the ONNX.
"""

import sys
from pathlib import Path

import numpy as np

ROBOT = ["hip_l", "hip_r", "knee_l", "knee_r", "neck"]  # in the robot's order
POLICY = ["hip_l", "knee_l", "hip_r", "knee_r"]
DEFAULT = [0.1, -0.6, -0.1, 0.6]
ROWS = 130
MANIFESTS = {
    "walk": {
        "name": "walk",
        "policy": {"file": "policy.onnx", "input": "obs", "output": "actions"},
        "control": {
            "rate_hz": 50.0,
            "action_type": "joint_position_delta",
            "action_scale": [0.5, 0.25, 0.5, 0.25],
            "clip_actions": [-0.9, 1.1],
            "gains": {"kp": {"hip_l": 40.0, "hip_r": 41.0, "knee_l": 60.0, "knee_r": 61.0}, "kd": [1.0, 1.5, 1.0, 1.5]},
            "max_action_rate": 0.08,
        },
        "observation": [
            {"term": "base_ang_vel", "scale": 0.25},
            {"term": "projected_gravity"},
            {"term": "command", "scale": [2.0, 2.0, 0.25], "names": ["vel_x", "vel_y", "yaw_rate"]},
            {"term": "joint_pos_rel", "history": 3},
            {"term": "joint_vel", "scale": 0.05, "history": 3},
            {"term": "last_action"},
            {"term": "phase", "params": {"freq": 1.5}},
        ],
        "normalization": {"file": "obs_norm.npz", "clip_obs": 1.5},
    },
    "gru": {
        "name": "gru",
        "policy": {
            "input": "obs",
            "output": "actions",
            "state_input": ["h_in"],
            "state_output": ["h_out"],
            "state_init": [[1, 1, 16]],
        },
        "control": {"rate_hz": 100.0, "action_type": "joint_position", "action_scale": 0.8},
        "observation": [
            {"term": "base_lin_vel"},
            {"term": "base_quat"},
            {"term": "joint_pos"},
            {"term": "joint_vel", "scale": 0.1},
            {"term": "command", "names": ["height", "pitch"], "dim": 2},
            {"term": "time", "scale": 0.5},
            {"term": "last_action", "history": 2},
        ],
    },
}
WIDTHS = {"walk": 3 + 3 + 3 + 12 + 12 + 4 + 2, "gru": 3 + 4 + 4 + 4 + 2 + 1 + 8}
LIMITS = (-1.0, 1.0)


def write_networks(folder: Path) -> None:
    import torch

    class Recurrent(torch.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.memory, self.out = torch.nn.GRU(width, 16), torch.nn.Linear(16, len(POLICY))

        def forward(self, obs: torch.Tensor, h_in: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            seen, h_out = self.memory(obs.unsqueeze(0), h_in)
            return 2.0 * self.out(seen.squeeze(0)), h_out

    torch.manual_seed(6)
    folder.mkdir(parents=True, exist_ok=True)
    mlp = torch.nn.Sequential(torch.nn.Linear(WIDTHS["walk"], 32), torch.nn.ELU(), torch.nn.Linear(32, len(POLICY)))
    with torch.no_grad():
        mlp[2].weight *= 4.0
    torch.onnx.export(
        mlp.eval(),
        (torch.zeros(1, WIDTHS["walk"]),),
        str(folder / "policy.onnx"),
        input_names=["obs"],
        output_names=["actions"],
        dynamo=False,
    )
    args = (torch.zeros(1, WIDTHS["gru"]), torch.zeros(1, 1, 16))
    names = {"input_names": ["obs", "h_in"], "output_names": ["actions", "h_out"]}
    torch.onnx.export(Recurrent(WIDTHS["gru"]).eval(), args, str(folder / "gru.onnx"), dynamo=False, **names)


def signals(rng: np.random.Generator, commands: int) -> dict[str, np.ndarray]:
    time = np.arange(ROWS)[:, None] * 0.02

    def waves(n: int, size: float) -> np.ndarray:
        sines = np.sin(time * rng.uniform(1, 9, n) + rng.uniform(0, 6, n))
        return np.float32(np.round(256 * size * sines) / 256)

    quat = np.concatenate([1 + waves(1, 0.1), waves(3, 0.3)], axis=1)
    return {
        "joint_pos": waves(len(ROBOT), 0.6),
        "joint_vel": waves(len(ROBOT), 8.0),
        "gyro": waves(3, 3.0),
        "base_lin_vel": waves(3, 1.0),
        "base_quat": (quat / np.linalg.norm(quat, axis=1, keepdims=True)).astype(np.float32),
        "command": waves(commands, 0.8),
    }


def written(name: str, folder: Path, rng: np.random.Generator) -> Path:
    """The policy as efferent packs it, or with its manifest embedded."""
    from efferent.package import embed_manifest, pack
    from efferent.spec.manifest import PolicyManifest

    joints = [{"name": joint, "default": default} for joint, default in zip(POLICY, DEFAULT, strict=True)]
    manifest = PolicyManifest.model_validate({**MANIFESTS[name], "joints": joints})
    if name == "gru":
        return embed_manifest(folder / "gru.onnx", manifest)
    width = WIDTHS[name]
    mean, std = np.float32(rng.uniform(-0.2, 0.2, width)), np.float32(rng.uniform(0.4, 1.5, width))
    np.savez(folder / "obs_norm.npz", mean=mean, std=std)
    path = pack(manifest, folder / "policy.onnx", folder / "walk.app", [folder / "obs_norm.npz"])
    for loose in ("policy.onnx", "obs_norm.npz"):
        (folder / loose).unlink()
    return path


class Played:
    """A backend that plays rows back."""

    advances_time = True

    def __init__(self, rows: dict[str, np.ndarray]) -> None:
        self.rows, self.row = rows, 0

    def connect(self, _: object) -> None: ...
    def close(self) -> None: ...

    def estop(self) -> None:
        raise AssertionError

    def read(self) -> object:
        from efferent.types import RobotState

        now = {key: values[min(self.row, ROWS - 1)] for key, values in self.rows.items()}
        base = {"quat": now["base_quat"], "gyro": now["gyro"], "lin_vel": now["base_lin_vel"]}
        return RobotState(now["joint_pos"], now["joint_vel"], **base)

    def write(self, _: object) -> None:
        self.row += 1


def record(name: str, folder: Path, rng: np.random.Generator) -> None:
    from efferent.package import load_policy
    from efferent.runtime.loop import Runner
    from efferent.runtime.obs import quat_rotate_inverse
    from efferent.runtime.policy import PolicySession
    from efferent.spec.binding import Binding
    from efferent.spec.descriptor import RobotDescriptor
    from efferent.types import Command

    manifest, onnx_path, workdir = load_policy(written(name, folder, rng))
    names = next(term.names for term in manifest.observation if term.term == "command")
    rows = signals(rng, len(names))
    limits = [{"name": joint, "pos_limit": LIMITS, "torque_limit": 1e6} for joint in ROBOT]
    descriptor = RobotDescriptor.model_validate({"robot": "walker", "backend": {"id": "played"}, "joints": limits})
    backend = Played(rows)

    def source(_: float) -> Command:
        return Command(names=names, values=rows["command"][backend.row])

    session = PolicySession(manifest, onnx_path, workdir)
    runner = Runner(Binding(manifest, descriptor), session, backend, source, keep_history=True)
    result = runner.run(ROWS / manifest.control.rate_hz + 1e-6, soft_start=False)
    assert not result.estopped and result.steps == ROWS, result.estop_reason
    steps = result.history
    rows["command.velocity" if name == "walk" else "command.efferent"] = rows.pop("command")
    rows["gravity"] = np.stack([quat_rotate_inverse(quat, np.array([0.0, 0.0, -1.0])) for quat in rows["base_quat"]])
    found = {
        "observation": [s.obs for s in steps],
        "action": [s.action for s in steps],
        "target": [s.cmd.q_des for s in steps],
    }
    arrays = {key: np.asarray(value, np.float32) for key, value in {**found, **rows}.items()}
    np.savez_compressed(folder / f"{name}.npz", joint_names=np.array(ROBOT), **arrays)


def main(folder: Path) -> None:
    rng = np.random.default_rng(6)
    for name in MANIFESTS:
        record(name, folder, rng)


if __name__ == "__main__":
    write_networks(Path(sys.argv[2])) if sys.argv[1] == "networks" else main(Path(sys.argv[1]))
