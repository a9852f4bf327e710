"""A small reach problem with a known systematic error: the SO-101's kinematics, encoder offsets and a proportional base policy."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import torch

from isthmus.hardware.kinematics import KinematicChain, chain_from_mjcf, joint_frames, tip_jacobian, tip_position
from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import (
    SCHEMA,
    CommandSpec,
    Contract,
    JointIncrement,
    ObservationTerm,
    contract_joints,
    history,
)
from isthmus.policies.episode import Episode, Source, tick_dtype
from isthmus.policies.learning.export import to_onnx
from isthmus.policies.learning.graph import PolicyGraph
from isthmus.policies.learning.promote import EvaluationResults

PERIOD_NS = 20_000_000
TICKS = 200
TAKEOVER_TICK = 60
SUCCESS_M = 0.010
HELD_TICKS = 25  # 0.5 s
PARTS = ["joint_target_next", "base_action", "residual_action", "gate_prob", "gate"]


class JacobianTransposeNet(torch.nn.Module):
    """Action = gain * J(q)^T (target - tip(q)), from an observation that starts with joint_pos - default and ends with target."""

    default_pos: torch.Tensor

    def __init__(self, contract: Contract, gain: float) -> None:
        super().__init__()
        self.chain, self.gain, self.width = contract.reach_chain(), gain, len(contract.action.joints)
        defaults = {joint.name: joint.default_pos for joint in contract.joints}
        self.register_buffer("default_pos", torch.tensor([defaults[name] for name in contract.action.joints]))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        joint_pos = observation[:, : self.width] + self.default_pos
        rotations, origins, tip = joint_frames(self.chain, joint_pos, torch)
        error = observation[:, -3:] - tip
        columns = []
        for link, rotation, origin in zip(self.chain.links, rotations, origins, strict=True):
            axis = rotation @ torch.tensor(link.axis)
            columns.append((torch.linalg.cross(axis, tip - origin) * error).sum(dim=-1, keepdim=True))
        return self.gain * torch.cat(columns, dim=-1)


def so101_contract() -> Contract:
    robot = load_robot("so101")
    chain = chain_from_mjcf(robot.model_path, robot.reach_site())
    return Contract(
        schema=SCHEMA,
        task="so101-reach",
        robot="so101",
        joints=contract_joints(robot),
        period_ns=PERIOD_NS,
        observation=(
            ObservationTerm(name="joint_pos", scale=1.0),
            ObservationTerm(name="joint_vel", scale=0.1),
            ObservationTerm(name="joint_lead", scale=1.0, lags=history(2)),
            ObservationTerm(name="target", scale=1.0),
        ),
        action=JointIncrement(joints=chain.joint_names, scale=0.04, max_lead=0.25, clip=1.0),
        command=CommandSpec(signal="command.target", workspace=robot.workspace),
        chain=chain,
        latency_s=(0.0, 0.0),
    )


def export_base(contract: Contract, path: Path, gain: float = 40.0) -> Path:
    onnx.save_model(to_onnx(PolicyGraph(contract, JacobianTransposeNet(contract, gain)).eval()), str(path))
    return path


class GraphPolicy:
    """An ONNX policy with its states."""

    def __init__(self, model: Path | onnx.ModelProto) -> None:
        source = str(model) if isinstance(model, Path) else model.SerializeToString()
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        self.session = ort.InferenceSession(source, options)
        inputs = {value.name: value.shape for value in self.session.get_inputs()}
        self.signals = [name for name in inputs if not name.startswith("state.")]
        self.shapes = {name: shape for name, shape in inputs.items() if name.startswith("state.")}
        self.outputs = [*PARTS, *(f"next.{name.removeprefix('state.')}" for name in self.shapes)]
        self.reset()

    def reset(self) -> None:
        self.state = {name: np.zeros(shape, dtype=np.float32) for name, shape in self.shapes.items()}

    def act(self, **signals: np.ndarray) -> dict[str, np.ndarray]:
        named = {**signals, "command.target": signals["target"]}
        inputs = {name: named[name].astype(np.float32)[None] for name in self.signals}
        outputs = self.session.run(self.outputs, inputs | self.state)
        self.state = dict(zip(self.shapes, outputs[len(PARTS) :], strict=True))
        return {name: value[0] for name, value in zip(PARTS, map(np.asarray, outputs), strict=False)}


@dataclass(frozen=True, kw_only=True)
class ReachProblem:
    """An arm whose encoders are off by `offset`: measured = true + offset."""

    contract: Contract
    base_path: Path
    offset: np.ndarray  # (n,) rad

    @property
    def chain(self) -> KinematicChain:
        return self.contract.reach_chain()

    def targets(self, count: int, seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        default = np.array([joint.default_pos for joint in self.contract.joints])
        poses = default + rng.uniform(-0.5, 0.5, (count, len(default)))
        return tip_position(self.chain, poses[:, : len(self.chain.links)])

    def attempt(self, policy: GraphPolicy, target: np.ndarray, seed: int, operator: str = "") -> Episode:
        """One attempt; `operator` is "" (nobody), "careful" (a person who sees the tip) or "random" (who does not look)."""
        rng = np.random.default_rng(seed)
        n, m = len(self.contract.joints), len(self.chain.links)
        ticks = np.zeros(TICKS, dtype=tick_dtype(n, m))
        measured = np.array([joint.default_pos for joint in self.contract.joints])
        velocity, command, seen = np.zeros(n), measured.copy(), []
        policy.reset()
        for index in range(TICKS):
            if operator == "careful":
                error = target - tip_position(self.chain, (measured - self.offset)[:m])
                seen.append(error + rng.normal(0.0, 0.002, 3))
                if index == TAKEOVER_TICK and np.linalg.norm(error) < SUCCESS_M:
                    operator = ""  # nothing to correct
            reading = measured + rng.normal(0.0, 0.0008, n)
            out = policy.act(joint_pos=reading, joint_vel=velocity, joint_target=command, target=target)
            drives = operator != "" and index >= TAKEOVER_TICK
            human = command + self._hand(operator, reading, seen, rng) if drives else np.full(n, np.nan)
            executed = human if drives else out["joint_target_next"].astype(np.float64)
            row = ticks[index]
            row["tick"], row["monotonic_ns"], row["source"] = (
                index,
                index * PERIOD_NS,
                Source.HUMAN if drives else Source.POLICY,
            )
            row["intervention"], row["joint_pos"], row["joint_vel"], row["target"] = drives, reading, velocity, target
            row["joint_target"], row["human_target"], row["executed_target"] = command, human, executed
            row["policy_target"], row["base_action"] = out["joint_target_next"], out["base_action"]
            row["residual_action"], row["gate"], row["gate_prob"] = (
                out["residual_action"],
                out["gate"][0],
                out["gate_prob"][0],
            )
            velocity = 0.5 * (executed - measured) / (PERIOD_NS * 1e-9)
            measured, command = measured + 0.5 * (executed - measured), executed
        true = ticks["joint_pos"][-HELD_TICKS:, :m] - self.offset[:m]
        errors = np.linalg.norm(target - tip_position(self.chain, true), axis=1)
        return Episode(
            ticks=ticks,
            joint_names=self.contract.joint_names,
            period_ns=PERIOD_NS,
            success=bool((errors < SUCCESS_M).all()),
            policy_id="test",
            robot=self.contract.robot,
            operator=operator,
            info={"final_error_m": float(errors[-1])},
        )

    def _hand(self, operator: str, reading: np.ndarray, seen: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
        m = len(self.chain.links)
        step = np.zeros_like(reading)
        if operator == "random":
            step[:m] = rng.normal(0.0, 0.02, m)
            return step
        error = np.mean(seen[-18:-15], axis=0)  # 0.3 s of reaction time
        if np.linalg.norm(error) > 0.003:  # closer than that, a person holds
            jacobian = tip_jacobian(self.chain, reading[:m])
            step[:m] = 0.03 * jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-4 * np.eye(3), error)
        return step.clip(-0.03, 0.03)

    def corrected(self, policy: GraphPolicy, count: int, seed: int, operator: str = "careful") -> list[Episode]:
        targets = self.targets(count, seed)
        return [self.attempt(policy, target, 1000 * seed + i, operator) for i, target in enumerate(targets)]

    def evaluate(self, policy: GraphPolicy, count: int, seed: int, name: str) -> EvaluationResults:
        targets = self.targets(count, seed)
        episodes = [self.attempt(policy, target, 1000 * seed + i) for i, target in enumerate(targets)]
        return EvaluationResults(
            policy_id=name,
            targets=targets,
            success=np.array([episode.success for episode in episodes]),
            final_error_m=np.array([episode.info["final_error_m"] for episode in episodes]),
        )


@pytest.fixture(scope="session")
def contract() -> Contract:
    return so101_contract()


@pytest.fixture(scope="session")
def base_path(contract: Contract, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export_base(contract, tmp_path_factory.mktemp("base") / "base.onnx")


@pytest.fixture(scope="session")
def make_problem(contract: Contract, base_path: Path):
    """Problem with encoder offsets of 2 to 3 deg, sizes and signs drawn by a seed."""

    def make(seed: int) -> ReachProblem:
        rng = np.random.default_rng(seed)
        offset = np.deg2rad(rng.uniform(2.0, 3.0, len(contract.joints)) * rng.choice([-1, 1], len(contract.joints)))
        return ReachProblem(contract=contract, base_path=base_path, offset=offset)

    return make


@pytest.fixture(scope="session")
def graph_policy() -> type[GraphPolicy]:
    return GraphPolicy
