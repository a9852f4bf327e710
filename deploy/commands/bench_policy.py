"""`isthmus bench policy`."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from isthmus.hardware.structure import write_json

from .bench_sim import Machine, this_machine

if TYPE_CHECKING:
    from isthmus.policies.contract import Contract

CONTENDERS = ("isthmus", "builder and network", "network alone")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One contender at one rate."""

    contender: str
    rate_hz: float  # 0: without pause
    median_us: float
    p90_us: float
    ticks: int


@dataclass(frozen=True, kw_only=True)
class PolicyTable:
    """The whole bench."""

    machine: Machine
    timings: tuple[Timing, ...]
    load_ms: float  # reading a bundle: digest, graph, contract, golden replay
    nodes: int  # of our graph
    network_nodes: int


@dataclass(frozen=True, kw_only=True)
class BenchPolicy:
    """Measure a policy's tick: our graph from raw signals to targets, a numpy builder around the same network, the network alone.

    The three are called in turn at each tick, paced, so that whatever else the machine does meets all of them.
    """

    out: Path = Path("runs/bench-policy")
    """Directory for policy.json."""
    hidden: tuple[int, ...] = (128, 128, 128)
    """Layers of the network (ELU)."""
    frames: int = 5
    """Samples of each observation term."""
    rates: tuple[float, ...] = (50.0, 500.0)
    """Ticks per second."""
    seconds: float = 20.0
    """At each rate."""

    def run(self) -> int:
        """Build the three, check that they agree, time them, print."""
        from rich.console import Console

        from .checks import check_folder, check_range

        check_range("--frames", self.frames, 1)
        check_range("--seconds", self.seconds, 0.1)
        for rate in self.rates:
            check_range("--rates", rate, 1.0)
        check_folder("--out", self.out)
        console, trio = Console(), Trio.make(self.hidden, self.frames, self.out)
        console.print(
            f"the three agree to {trio.disagreement():.2g}; {trio.nodes} nodes, {trio.network_nodes} of them the network's"
        )
        timings = [timing for rate in self.rates for timing in self._timed(trio, rate)]
        table = PolicyTable(
            machine=this_machine(),
            timings=tuple(timings),
            load_ms=trio.load_ms(),
            nodes=trio.nodes,
            network_nodes=trio.network_nodes,
        )
        write_json(self.out / "policy.json", table)
        _print_table(table, console)
        console.print(f"wrote {self.out / 'policy.json'}")
        return 0

    def _timed(self, trio: "Trio", rate: float) -> list[Timing]:
        """Paced; who comes first at a tick, and so finds colder caches, changes from tick to tick."""
        ticks, period = round(self.seconds * rate), 1e9 / rate
        taken = np.zeros((3, ticks))
        begin = time.monotonic_ns()
        for tick in range(ticks):
            time.sleep(max(0.0, (begin + tick * period - time.monotonic_ns()) * 1e-9))
            for place in range(3):
                who = (tick + place) % 3
                trio.fill(tick % trio.rows)  # as a driver does when it reads; it is the same for all
                start = time.perf_counter_ns()
                trio.calls[who](tick % trio.rows)
                taken[who, tick] = 1e-3 * (time.perf_counter_ns() - start)
        # Who came first woke up from the pause; it is the tick of a real loop, so only those count.
        first = [taken[who, who::3] for who in range(3)]
        return [
            Timing(
                contender=name,
                rate_hz=rate,
                median_us=float(np.median(values)),
                p90_us=float(np.quantile(values, 0.9)),
                ticks=len(values),
            )
            for name, values in zip(CONTENDERS, first, strict=True)
        ]


class Trio:
    """One policy three times: as a bundle, as peers run it, and its network alone."""

    rows = 256

    def __init__(
        self,
        calls: tuple[Callable[[int], np.ndarray], ...],
        fill: Callable[[int], None],
        path: Path,
        nodes: int,
        network_nodes: int,
    ) -> None:
        self.calls, self.fill, self.path, self.nodes, self.network_nodes = calls, fill, path, nodes, network_nodes

    @classmethod
    def make(cls, hidden: tuple[int, ...], frames: int, folder: Path) -> "Trio":
        """A robot of twelve joints that walks, with random weights."""
        import onnx
        import onnxruntime as ort

        from isthmus.policies.bundle import load_bundle
        from isthmus.policies.bundle_writer import write_bundle
        from isthmus.policies.onnx_graph import policy_model

        contract = _contract(frames)
        network = _network(contract, hidden)
        model, signals = policy_model(contract, network), _signals(contract, cls.rows)
        path = folder / "policy.onnx"
        write_bundle(path, model, _manifest(contract), _golden(model, contract, signals))
        policy = load_bundle(path).policy()
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        session = ort.InferenceSession(network.SerializeToString(), options, providers=["CPUExecutionProvider"])
        builder = Builder(contract, session)

        rows = [{name: values[row] for name, values in signals.items()} for row in range(cls.rows)]

        def fill(row: int) -> None:
            for name, value in rows[row].items():
                policy.inputs[name][:] = value

        def ours(row: int) -> np.ndarray:
            return policy.step(policy.inputs)

        def theirs(row: int) -> np.ndarray:
            return builder.act(rows[row])

        nodes = [sum(node.op_type != "Identity" for node in m.graph.node) for m in (model, network)]
        onnx.checker.check_model(model)
        return cls((ours, theirs, _bare(session)), fill, path, *nodes)

    def disagreement(self) -> float:
        """Largest difference between the first two over all rows, from rest, rad."""
        largest = 0.0
        for row in range(self.rows):
            self.fill(row)
            largest = max(largest, float(np.abs(self.calls[0](row) - self.calls[1](row)).max()))
        return largest

    def load_ms(self) -> float:
        """Median time to load the bundle, ms."""
        from isthmus.policies.bundle import load_bundle

        taken = []
        for _ in range(9):
            start = time.perf_counter()
            load_bundle(self.path)
            taken.append(1e3 * (time.perf_counter() - start))
        return float(np.median(taken))


class Builder:
    """What deployment code does: terms by name, scaled, a history of each, one vector, the network, targets. Plain numpy, written well."""

    def __init__(self, contract: "Contract", session) -> None:  # noqa: ANN001
        self.contract, self.session = contract, session
        self.default = np.array([joint.default_pos for joint in contract.joints], dtype=np.float32)
        self.lower, self.upper = (
            np.array([getattr(j, end) for j in contract.joints], dtype=np.float32) for end in ("lower", "upper")
        )
        self.scale, self.clip = (
            np.asarray(number, dtype=np.float32) for number in (contract.action.scale, contract.action.clip)
        )
        self.last_action = np.zeros(len(contract.joints), dtype=np.float32)
        self.histories: dict[str, np.ndarray] = {}

    def act(self, signals: dict[str, np.ndarray]) -> np.ndarray:
        """Targets (n,) rad for signals (width,)."""
        raw = {
            "gyro": signals["gyro"],
            "gravity": signals["gravity"],
            "command": signals["command.velocity"],
            "joint_pos": signals["joint_pos"] - self.default,
            "joint_vel": signals["joint_vel"],
            "last_action": self.last_action,
        }
        blocks = []
        for term in self.contract.observation:
            value = np.asarray(raw[term.name], dtype=np.float32) * np.asarray(term.scale, dtype=np.float32)
            kept = self.histories.get(term.name)
            if kept is None:
                kept = self.histories[term.name] = np.tile(value, (len(term.lags), 1))
            else:
                kept[:-1] = kept[1:]
                kept[-1] = value
            blocks.append(kept.reshape(-1))
        observation = np.concatenate(blocks)[None]
        action = self.session.run(None, {"observation": observation})[0][0]
        self.last_action = np.clip(action, -self.clip, self.clip)
        return np.clip(self.default + self.scale * self.last_action, self.lower, self.upper)


def _bare(session) -> Callable[[int], np.ndarray]:  # noqa: ANN001
    """The network on memory that stays where it is: the least that a tick can take."""
    shapes = [value.shape for value in (session.get_inputs()[0], session.get_outputs()[0])]
    given, gives = (np.zeros(shape, dtype=np.float32) for shape in shapes)
    binding = session.io_binding()
    binding.bind_input("observation", "cpu", 0, np.float32, given.shape, given.ctypes.data)
    binding.bind_output("action", "cpu", 0, np.float32, gives.shape, gives.ctypes.data)

    def call(row: int) -> np.ndarray:
        session.run_with_iobinding(binding)
        return gives

    return call


def _contract(frames: int) -> "Contract":
    from dataclasses import replace

    from isthmus.policies.contract import history
    from isthmus.policies.contracts import get_contract

    contract = get_contract("go2-velocity")
    return replace(contract, observation=tuple(replace(term, lags=history(frames)) for term in contract.observation))


def _network(contract: "Contract", hidden: tuple[int, ...]):  # noqa: ANN202
    from isthmus.policies.contract import observation_width
    from isthmus.policies.onnx_nodes import OPSET, NodeList, tensor

    rng, nodes, value = np.random.default_rng(0), NodeList("network"), "observation"
    sizes = [observation_width(contract), *hidden, len(contract.action.joints)]
    for index, (inputs, outputs) in enumerate(pairwise(sizes)):
        weight, last = rng.normal(0, inputs**-0.5, (inputs, outputs)), index == len(hidden)
        value = nodes.add(
            "Gemm", value, nodes.constant(weight), nodes.row(np.zeros(outputs)), name="action" if last else None
        )
        value = value if last else nodes.add("Elu", value)
    return nodes.model("network", [tensor("observation", sizes[0])], [tensor("action", sizes[-1])], OPSET)


def _signals(contract: "Contract", rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {name: rng.normal(0, 0.3, (rows, contract.signal_width(name))) for name in contract.signals}


def _golden(model, contract: "Contract", signals: dict[str, np.ndarray]) -> dict[str, np.ndarray]:  # noqa: ANN001
    """Rows by onnxruntime itself: what is timed is the replay, not what it proves."""
    import onnxruntime as ort

    from isthmus.policies.bundle import target_output

    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    state = {v.name: np.zeros(v.shape, np.float32) for v in session.get_inputs() if v.name.startswith("state.")}
    rows: dict[str, list[np.ndarray]] = {name: [] for name in (target_output(contract), "base_action")}
    count = 64
    for row in range(count):
        given = {name: values[row : row + 1].astype(np.float32) for name, values in signals.items()}
        named = dict(zip(names, session.run(None, given | state), strict=True))
        state = {name: named["next." + name.removeprefix("state.")] for name in state}
        for name, kept in rows.items():
            kept.append(np.asarray(named[name])[0])
    return {name: values[:count] for name, values in signals.items()} | {n: np.stack(v) for n, v in rows.items()}


def _manifest(contract: "Contract"):  # noqa: ANN202
    import importlib.metadata

    from isthmus.policies.manifest import SCHEMA, Manifest, Provenance, StateSpec
    from isthmus.policies.plan import state_widths

    made = Provenance(
        created="1970-01-01T00:00:00+00:00",
        isthmus=importlib.metadata.version("isthmus"),
        trainer="none: random weights",
        seed=0,
        environment_steps=0,
        simulated_success=None,
    )
    states = tuple(StateSpec(name=name, width=width) for name, width in state_widths(contract).items())
    return Manifest(
        schema=SCHEMA,
        name="bench",
        contract=contract,
        states=states,
        residual=None,
        provenance=made,
        distribution=None,
        envelope=None,
        sources=(),
    )


def _print_table(table: PolicyTable, console) -> None:  # noqa: ANN001
    from rich.table import Table

    shown = Table("rate, Hz", "contender", "median, us", "p90, us", "isthmus takes", title="one tick of a policy")
    for rate in dict.fromkeys(timing.rate_hz for timing in table.timings):
        own = [timing for timing in table.timings if timing.rate_hz == rate]
        for timing in own:
            ratio = "" if timing is own[0] else f"{own[0].median_us / timing.median_us:.2f} of that"
            shown.add_row(f"{rate:g}", timing.contender, f"{timing.median_us:.1f}", f"{timing.p90_us:.1f}", ratio)
    console.print(shown)
    console.print(f"loading a bundle, golden rows replayed: {table.load_ms:.0f} ms")
