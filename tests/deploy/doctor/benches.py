"""Good bundles and good logs of five robots: policies without training that keep each robot up and move it, in randomised worlds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from isthmus.deploy.doctor.signal_log import SignalLog, SignalMetadata
from isthmus.hardware.kinematics import joint_frames
from isthmus.hardware.robot import RobotSpec
from isthmus.policies.bundle import Bundle, target_output
from isthmus.policies.contract import Contract, ObservationTerm, PhaseClock, history
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.export import export_bundle
from isthmus.policies.learning.graph import PolicyGraph
from isthmus.policies.manifest import Provenance
from isthmus.sim.engines import make_engine
from isthmus.sim.task import Task
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

PROVENANCE = Provenance(
    created="2026-01-01T00:00:00+00:00",
    isthmus="0.1.0",
    trainer="none",
    seed=0,
    environment_steps=0,
    simulated_success=None,
)
PHASES = (ObservationTerm(name="phase_sin", scale=1.0), ObservationTerm(name="phase_cos", scale=1.0))


class Legs(torch.nn.Module):
    """Sways a quadruped's trunk on its feet, or trots on the spot, by a clock's phase; a little of everything it sees is added."""

    def __init__(self, contract: Contract, width: int, seed: int, *, trot: bool) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)

        def numbers(*shape: int) -> torch.Tensor:
            return 2.0 * torch.rand(shape, generator=draw) - 1.0

        front, left = torch.tensor([1.0, 1.0, -1.0, -1.0]), torch.tensor([1.0, -1.0, 1.0, -1.0])
        squat, surge, hips = (torch.tensor(row) for row in ((0.0, 1.0, -2.0), (0.0, 1.0, 0.0), (1.0, 0.0, 0.0)))
        ones = torch.ones(4)
        modes = [
            torch.outer(ones, squat), torch.outer(front, squat), torch.outer(left, squat),
            torch.outer(ones, surge), torch.outer(ones, hips), torch.outer(front, hips),
        ]  # fmt: skip
        self.modes = torch.stack([mode.flatten() for mode in modes])  # (6, 12)
        size = torch.tensor([0.3, 0.25, 0.3, 0.3, 0.4, 0.4])
        self.weights = numbers(6, 6) * size[:, None] * 0.4  # of sin, cos of three harmonics
        self.lift = torch.outer(torch.tensor([1.0, -1.0, -1.0, 1.0]), torch.ones(3))
        self.trot, self.inner = trot, 0.1 * numbers(width, 12) / width**0.5

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        s, c = observation[:, -2:-1], observation[:, -1:]
        s2, c2 = 2 * s * c, c * c - s * s
        waves = torch.cat([s, c, s2, c2, s * c2 + c * s2, c * c2 - s * s2], dim=-1)
        action = waves @ (self.weights.T @ self.modes) + torch.tanh(observation @ self.inner)
        if not self.trot:
            return action
        up = torch.relu(s * self.lift[:, 0])  # (B, 4) of diagonal pairs
        swing = torch.stack([torch.zeros_like(up), 2.0 * up, -4.5 * up], dim=-1).flatten(1)
        return 0.3 * action + swing


class Fingers(torch.nn.Module):
    """Moves sixteen joints to and fro by a clock's phase."""

    def __init__(self, contract: Contract, width: int, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        joints = len(contract.action.joints)
        self.weights = 0.5 * (2.0 * torch.rand(4, joints, generator=draw) - 1.0)
        self.inner = 0.1 * (2.0 * torch.rand(width, joints, generator=draw) - 1.0) / width**0.5

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        s, c = observation[:, -2:-1], observation[:, -1:]
        waves = torch.cat([s, c, 2 * s * c, c * c - s * s], dim=-1)
        return waves @ self.weights + torch.tanh(observation @ self.inner)


class Hover(torch.nn.Module):
    """Position, velocity, attitude and rates by hand-set gains, mixed onto four rotors in an X."""

    def __init__(self, contract: Contract, width: int, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.gain = 1.0 + 0.2 * (2.0 * torch.rand(4, generator=draw) - 1.0)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        error, rotation = observation[:, :3], observation[:, 6:15].reshape(-1, 3, 3)
        velocity, rates = observation[:, 15:18] / 0.5, observation[:, 18:21] / 0.2
        g = self.gain
        want = 1.2 * g[0] * torch.einsum("bji,bj->bi", rotation, error) - 0.9 * g[1] * velocity  # body frame
        tilt = torch.stack([rotation[:, 2, 0], rotation[:, 2, 1], rotation[:, 1, 0]], dim=-1)
        lift = 0.5 * want[:, 2] + 0.05
        roll = -0.25 * want[:, 1] - 0.9 * g[2] * tilt[:, 1] - 0.12 * rates[:, 0]
        pitch = 0.25 * want[:, 0] + 0.9 * g[3] * tilt[:, 0] - 0.12 * rates[:, 1]
        yaw = -0.3 * tilt[:, 2] - 0.15 * rates[:, 2]
        x, y = torch.tensor([1.0, -1.0, -1.0, 1.0]), torch.tensor([-1.0, -1.0, 1.0, 1.0])
        spin = torch.tensor([1.0, -1.0, 1.0, -1.0])
        return lift[:, None] + roll[:, None] * y - pitch[:, None] * x - yaw[:, None] * spin


class Cart(torch.nn.Module):
    """Keeps the pole up by fixed gains."""

    def __init__(self, contract: Contract, width: int, seed: int) -> None:
        super().__init__()
        draw = torch.Generator().manual_seed(seed)
        self.gain = 1.0 + 0.1 * (2.0 * torch.rand(4, generator=draw) - 1.0)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        pos, pole, speed, spin, place = (observation[:, k : k + 1] for k in (0, 1, 2, 3, 4))
        gain = self.gain
        return 0.25 * gain[0] * (pos - place) + 3.5 * gain[1] * pole + 0.7 * gain[2] * speed + 1.6 * gain[3] * spin


class Reach(torch.nn.Module):
    """The tip goes towards its target by the transpose of the Jacobian."""

    def __init__(self, contract: Contract, width: int, seed: int) -> None:
        super().__init__()
        self.chain, self.width = contract.reach_chain(), len(contract.action.joints)
        defaults = {joint.name: joint.default_pos for joint in contract.joints}
        self.default = torch.tensor([defaults[name] for name in contract.action.joints])
        self.gain = 30.0 + 6.0 * (seed % 4)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        rotations, origins, tip = joint_frames(self.chain, observation[:, : self.width] + self.default, torch)
        error = observation[:, -3:] / 4.0 - tip
        columns = []
        for link, rotation, origin in zip(self.chain.links, rotations, origins, strict=True):
            axis = rotation @ torch.tensor(link.axis)
            columns.append((torch.linalg.cross(axis, tip - origin) * error).sum(dim=-1, keepdim=True))
        return self.gain * torch.cat(columns, dim=-1)


Maker = Callable[[Contract, int, int], torch.nn.Module]


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A task, a contract and a policy."""

    name: str
    contract: Contract
    network: Maker
    seconds: float
    new_command: int = 0  # ticks after which an arm is given another target


def clocked(task: str, frequency: float, **changes: object) -> Contract:
    contract = get_contract(task)
    clock = PhaseClock(frequency=frequency, start=(0.0,))
    return replace(contract, clock=clock, observation=(*contract.observation, *PHASES), **changes)  # pyright: ignore[reportArgumentType]


def with_history(contract: Contract, name: str, samples: int) -> Contract:
    terms = tuple(replace(t, lags=history(samples)) if t.name == name else t for t in contract.observation)
    return replace(contract, observation=terms)


def benches(seed: int) -> list[Bench]:
    """One of each kind; the seed changes networks and contracts."""
    go2 = clocked("go2-velocity", 0.6 + 0.15 * (seed % 4))
    go2 = with_history(go2, "gyro", 1 + seed % 4)
    trot = clocked("go2-velocity", 2.0 + 0.1 * (seed % 3))
    hand = clocked("hand-rotate", 0.5 + 0.1 * (seed % 3))
    reach = get_contract("so101-reach")

    def legs(c: Contract, w: int, s: int) -> torch.nn.Module:
        return Legs(c, w, s, trot=False)

    def trotting(c: Contract, w: int, s: int) -> torch.nn.Module:
        return Legs(c, w, s, trot=True)

    return [
        Bench(name="reach", contract=reach, network=Reach, seconds=9.0, new_command=100),
        Bench(name="sway", contract=go2, network=legs, seconds=7.0),
        Bench(name="hover", contract=get_contract("quadrotor-hover"), network=Hover, seconds=4.5, new_command=150),
        Bench(name="cart", contract=get_contract("cartpole-balance"), network=Cart, seconds=8.0, new_command=150),
        Bench(name="hand", contract=hand, network=Fingers, seconds=10.0),
        Bench(name="trot", contract=trot, network=trotting, seconds=7.0),
    ]


@dataclass(frozen=True, kw_only=True)
class Good:
    """A bundle and what robots recorded under it."""

    bench: Bench
    robot: RobotSpec
    bundle: Bundle
    logs: list[SignalLog]
    seed: int

    def elsewhere(
        self, *, task: Callable[[Task], Task] = lambda task: task, world: Callable[[World], None] = lambda world: None
    ) -> SignalLog:
        """What a robot records under this policy that differs from the one it was trained for."""
        own = task(get_task(self.bench.contract.task))
        with torch.no_grad():
            graph = PolicyGraph(self.bench.contract, torch.nn.Identity())
            network = self.bench.network(self.bench.contract, graph.observation_width, self.seed)
            place = World(own, make_engine("mujoco", own.scene(), 1, dt=own.physics_dt), seed=self.seed + 2000)
            world(place)
            return record(self.bench, PolicyGraph(self.bench.contract, network).eval(), place, self.bundle.sha256)[0]


def make_good(bench: Bench, folder: Path, *, seed: int, logs: int, met: int = 24) -> Good:
    """Export the policy with what it met, then record other worlds of the same task under it."""
    task = get_task(bench.contract.task)
    with torch.no_grad():
        graph = PolicyGraph(bench.contract, torch.nn.Identity())
        network = bench.network(bench.contract, graph.observation_width, seed)
        short = replace(task, episode_length=min(task.episode_length, 4.0))
        training = World(short, make_engine("mujoco", task.scene(), met, dt=task.physics_dt), seed=seed)
        path = folder / f"{bench.name}-{seed}.onnx"
        bundle = export_bundle(path, bench.contract, network, training, replace(PROVENANCE, seed=seed))
        world = World(task, make_engine("mujoco", task.scene(), logs, dt=task.physics_dt), seed=seed + 1000)
        recorded = record(bench, PolicyGraph(bench.contract, network).eval(), world, bundle.sha256)
    return Good(bench=bench, robot=world.robot, bundle=bundle, logs=recorded, seed=seed)


def record(bench: Bench, graph: PolicyGraph, world: World, policy_id: str) -> list[SignalLog]:
    """What each robot of the world records under a policy."""
    contract, count = bench.contract, world.num_envs
    target = target_output(contract)
    state = {name: torch.zeros(count, width) for name, width in graph.state_widths.items()}
    kept: dict[str, list[np.ndarray]] = {}
    begins = [np.ones(count, dtype=bool)]
    ticks = round(bench.seconds / world.task.period)
    for tick in range(ticks):
        if bench.new_command and tick and tick % bench.new_command == 0:
            world.command.reset(torch.arange(count))
        signals = world.read()
        outputs = graph(*(signals[name] for name in graph.signal_names), *state.values())
        named = dict(zip(graph.output_names, outputs, strict=True))
        state = {name: named[f"next.{name}"].clone() for name in state}
        for name, value in signals.items():
            kept.setdefault(name, []).append(value.numpy().copy())
        for name, key in (("executed", target), ("action", "base_action"), ("observation", "observation")):
            kept.setdefault(f"part.{name}", []).append(named[key].numpy().copy())
        world.write(named[target])
        world.step()
        begins.append(restart(world, state))
    whole = {name: np.stack(rows, axis=1).astype(np.float64) for name, rows in kept.items()}  # (N, T, w)
    return [_log(contract, world, whole, env, policy_id, np.stack(begins[:-1])[:, env]) for env in range(count)]


def restart(world: World, state: dict[str, torch.Tensor]) -> np.ndarray:
    """Robots that fell are put on their feet; which, (N,) bool."""
    fallen = torch.zeros(world.num_envs, dtype=torch.bool)
    if world.robot.floating:
        fallen = world.read()["gravity"][:, 2] > -0.5
    ids = fallen.nonzero().flatten()
    world.reset(ids)
    for values in state.values():
        values[ids] = 0.0
    return fallen.numpy().copy()


def _log(
    contract: Contract, world: World, whole: dict[str, np.ndarray], env: int, policy_id: str, begin: np.ndarray
) -> SignalLog:
    ticks = next(iter(whole.values())).shape[1]
    draw = np.random.default_rng(env)
    jitter = np.abs(draw.normal(0.0, 2e-4, ticks)) * 1e9
    parts = {name: whole[f"part.{name}"][env] for name in ("executed", "action", "observation")}
    return SignalLog(
        metadata=SignalMetadata(
            robot=contract.robot,
            joint_names=world.robot.joint_names,
            period_ns=contract.period_ns,
            target=contract.action.target,
            policy_id=policy_id,
            source="simulated world",
        ),
        stamps=(1_000_000_000 + np.arange(ticks) * round(world.task.period * 1e9) + jitter).astype(np.int64),
        begin=begin,
        signals={name: values[env] for name, values in whole.items() if not name.startswith("part.")},
        proposed=parts["executed"],
        **parts,
    )
