"""Random graphs: whatever operations are joined, views, fused loops and shared scratch memory change no result."""

import tempfile
from pathlib import Path

import numpy as np
from c_graphs import GraphMaker
from c_policies import OnnxPolicy, build, largest_error, needs_gcc
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from isthmus.policies.c99.compiler import compile_model

pytestmark = needs_gcc
GRAPHS, LARGEST = 12, 64  # in one library; values of a tensor
BOUNDED = [
    "Tanh",
    "Sigmoid",
    "Sin",
    "Cos",
    "Softsign",
    "Elu",
    "Relu",
    "Abs",
    "Neg",
    "LeakyRelu",
    "Softplus",
    "HardSigmoid",
    "Erf",
]
JOINING = ["Add", "Sub", "Mul", "Max", "Min"]
REDUCING = ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"]
Known = list[tuple[str, tuple[int, ...]]]


class Drawing:
    """A graph being drawn: names and shapes of what is there so far."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.maker = GraphMaker()
        self.known: Known = []
        for _ in range(draw(st.integers(1, 3))):
            shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
            self.known.append((self.maker.input(shape), shape))
        width = draw(st.integers(1, 6))
        self.known.append((self.maker.input((1, width), "state.kept"), (1, width)))
        self.width = width

    def constant(self, *shape: int) -> str:
        rng = np.random.default_rng(self.draw(st.integers(0, 1000)))
        return self.maker.constant(rng.normal(0.0, 1.0, shape).astype(np.float32))

    def numbers(self, *values: int) -> str:
        return self.maker.constant(np.array(values, dtype=np.int64))

    def pick(self) -> tuple[str, tuple[int, ...]]:
        return self.draw(st.sampled_from(self.known))

    def keep(self, name: str, shape: tuple[int, ...]) -> None:
        self.known.append((name, shape))

    def flat(self, name: str) -> str:
        return self.maker.add("Reshape", name, self.numbers(1, -1))

    def unary(self) -> None:
        x, shape = self.pick()
        self.keep(self.maker.add(self.draw(st.sampled_from(BOUNDED)), x), shape)

    def join(self) -> None:
        (x, shape), op = self.pick(), self.draw(st.sampled_from(JOINING))
        fitting = [
            (name, own) for name, own in self.known if own == shape or (np.prod(own) == 1 and len(own) <= len(shape))
        ]
        other = self.draw(st.sampled_from(fitting))[0] if self.draw(st.booleans()) else self.constant(*shape[1:])
        self.keep(self.maker.add(op, x, other), shape)

    def choose(self) -> None:
        x, shape = self.pick()
        truth = self.maker.add("Less", x, self.constant(*shape))
        self.keep(self.maker.add("Where", truth, self.maker.add("Neg", x), self.constant(1)), shape)

    def transpose(self) -> None:
        x, shape = self.pick()
        order = self.draw(st.permutations(range(len(shape))))
        self.keep(self.maker.add("Transpose", x, perm=list(order)), tuple(shape[k] for k in order))

    def reshape(self) -> None:
        x, shape = self.pick()
        size = int(np.prod(shape))
        rows = self.draw(st.sampled_from([k for k in range(1, size + 1) if size % k == 0]))
        self.keep(self.maker.add("Reshape", x, self.numbers(rows, size // rows)), (rows, size // rows))

    def slice(self) -> None:
        x, shape = self.pick()
        axis = self.draw(st.integers(0, len(shape) - 1))
        start = self.draw(st.integers(0, shape[axis] - 1))
        step = self.draw(st.sampled_from([1, 2, -1]))
        count = len(range(shape[axis])[slice(start, None, step)])
        end = -(2**31) if step < 0 else 2**31
        names = [self.numbers(value) for value in (start, end, axis, step)]
        self.keep(self.maker.add("Slice", x, *names), (*shape[:axis], count, *shape[axis + 1 :]))

    def gather(self) -> None:
        x, shape = self.pick()
        axis = self.draw(st.integers(0, len(shape) - 1))
        places = self.draw(st.lists(st.integers(-shape[axis], shape[axis] - 1), min_size=1, max_size=4))
        self.keep(
            self.maker.add("Gather", x, self.numbers(*places), axis=axis),
            (*shape[:axis], len(places), *shape[axis + 1 :]),
        )

    def concat(self) -> None:
        parts = [self.pick() for _ in range(self.draw(st.integers(2, 3)))]
        width = sum(int(np.prod(shape)) for _, shape in parts)
        if width <= LARGEST:
            self.keep(self.maker.add("Concat", *(self.flat(name) for name, _ in parts), axis=1), (1, width))

    def concat_inside(self) -> None:
        x, shape = self.pick()
        if 2 * np.prod(shape) <= LARGEST:
            y = self.maker.add("Tanh", x)
            self.keep(self.maker.add("Concat", x, y, axis=-1), (*shape[:-1], 2 * shape[-1]))

    def tile(self) -> None:
        x, shape = self.pick()
        if 2 * np.prod(shape) <= LARGEST:
            times = [2, *[1] * (len(shape) - 1)]
            self.keep(self.maker.add("Tile", x, self.numbers(*times)), (2 * shape[0], *shape[1:]))

    def reduce(self) -> None:
        x, shape = self.pick()
        axis, op = self.draw(st.integers(0, len(shape) - 1)), self.draw(st.sampled_from(REDUCING))
        self.keep(self.maker.add(op, x, self.numbers(axis), keepdims=1), (*shape[:axis], 1, *shape[axis + 1 :]))

    def normalise(self) -> None:
        x, shape = self.pick()
        axis = self.draw(st.integers(0, len(shape) - 1))
        self.keep(self.maker.add("Softmax", x, axis=axis), shape)

    def product(self) -> None:
        x, shape = self.pick()
        rows = self.draw(st.integers(1, 14))
        width = int(np.prod(shape))
        scaled = self.maker.add("Mul", self.flat(x), self.maker.constant(np.float32(1.0 / width)))
        self.keep(self.maker.add("MatMul", scaled, self.constant(width, rows)), (1, rows))

    def outer(self) -> None:
        (x, a), (y, b) = self.pick(), self.pick()
        if np.prod(a) * np.prod(b) <= LARGEST:
            left = self.maker.add("Reshape", self.maker.add("Tanh", x), self.numbers(-1, 1))
            self.keep(self.maker.add("MatMul", left, self.flat(y)), (int(np.prod(a)), int(np.prod(b))))

    def finish(self) -> bytes:
        y = self.maker.add("Concat", *(self.flat(name) for name, _ in self.known[-3:]), axis=1)
        kept = self.maker.add(
            "Expand", self.maker.add("Tanh", self.maker.add("ReduceMean", y)), self.numbers(1, self.width)
        )
        moved = self.maker.add("Add", kept, self.maker.add("Sin", "state.kept"))
        return self.maker.model({"y": y, "next.kept": moved})


STEPS = [
    *(Drawing.unary, Drawing.join, Drawing.join, Drawing.choose, Drawing.transpose, Drawing.reshape, Drawing.slice),
    *(Drawing.gather, Drawing.concat, Drawing.concat_inside, Drawing.tile, Drawing.reduce, Drawing.normalise),
    *(Drawing.product, Drawing.outer),
]


@st.composite
def graphs(draw: st.DrawFn) -> bytes:
    drawing = Drawing(draw)
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=12)):
        step(drawing)
    return drawing.finish()


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow, HealthCheck.large_base_example],
)
@given(st.lists(graphs(), min_size=GRAPHS, max_size=GRAPHS))
def test_random_graphs_with_memory_give_what_onnxruntime_gives(models: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sources = [compile_model(data, name=f"graph{k}") for k, data in enumerate(models)]
        rng = np.random.default_rng(0)
        for policy, data in zip(build(sources, Path(folder)), models, strict=True):
            theirs = OnnxPolicy(data, ["y"])
            for _ in range(6):
                row = {name: rng.normal(0.0, 1.0, theirs.inputs[name]) for name in policy.inputs}
                code, found = policy.step(row)
                expected = theirs.step(row)["y"]
                assert code == (0 if np.isfinite(expected).all() else 1)
                assert largest_error(found["y"], expected) < 1e-5
