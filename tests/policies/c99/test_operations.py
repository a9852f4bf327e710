"""Every operation that is compiled gives what onnxruntime gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from c_graphs import GraphMaker, one
from c_policies import CPolicy, OnnxPolicy, build, largest_error, needs_gcc

from isthmus.policies.c99.compiler import HANDLERS, compile_model

pytestmark = needs_gcc
RNG = np.random.default_rng(1)
F32, I64 = np.float32, np.int64


def drawn(*shape: int) -> np.ndarray:
    return RNG.normal(0.0, 1.0, shape).astype(F32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=I64)


def recurrent(op: str, gates: int, steps: int, seed: int, **attributes: Any) -> bytes:
    """A layer with memory whose state goes from tick to tick."""
    rng, maker, size, width = np.random.default_rng(seed), GraphMaker(), 5, 3
    x = maker.input([steps, 1, width])
    weights = [rng.normal(0, 0.5, s).astype(F32) for s in ((1, gates * size, width), (1, gates * size, size))]
    names = [maker.constant(w) for w in (*weights, rng.normal(0, 0.5, (1, 2 * gates * size)).astype(F32))]
    count = 2 if op == "LSTM" else 1
    states = [maker.input([1, 1, size], f"state.s{k}") for k in range(count)]
    maker.add(op, x, *names, "", *states, outputs=1 + count, hidden_size=size, **attributes)
    y, *following = maker.last_outputs()
    return maker.model({"y": y, **{f"next.s{k}": name for k, name in enumerate(following)}})


def compared(op: str) -> bytes:
    maker = GraphMaker()
    x, y = maker.input([1, 7]), maker.input([1, 7])
    truth = maker.add(op, x, y)
    other = maker.add("Not", maker.add("Less", x, maker.constant(F32(0.3))))
    results = [truth, *(maker.add(join, truth, other) for join in ("And", "Or", "Xor"))]
    return maker.model({f"y{k}": maker.add("Cast", r, to=1) for k, r in enumerate(results)})


def integers() -> bytes:
    """Counting: casts, arithmetic and remainders of int64, and rows of a table by number."""
    maker = GraphMaker()
    x = maker.input([1, 4])
    number = maker.add("Cast", x, to=7)
    halved = maker.add("Div", maker.add("Add", number, maker.constant(ints(5))), maker.constant(ints(2)))
    mod = maker.add("Mod", halved, maker.constant(ints(6)))
    rows = maker.add("Gather", maker.constant(drawn(6, 3)), mod, axis=0)
    columns = maker.add("Gather", maker.add("Transpose", rows, perm=[0, 2, 1]), maker.constant(ints(-1, 0)), axis=2)
    best = maker.add("ArgMax", x, axis=1, keepdims=0)
    row = maker.add("Gather", maker.constant(drawn(4, 2)), best, axis=0)
    small = maker.add("Cast", maker.add("Cast", x, to=6), to=1)
    bigger = maker.add("Cast", maker.add("Max", number, halved, mod), to=1)
    sign = maker.add("Cast", maker.add("Sign", maker.add("Neg", number)), to=1)
    least = maker.add("Cast", maker.add("ArgMin", x, axis=1), to=1)
    flag = maker.add("Cast", maker.add("Cast", maker.add("Cast", x, to=9), to=7), to=1)
    results = [columns, row, small, bigger, sign, least, flag, rows]
    return maker.model({f"y{k}": result for k, result in enumerate(results)})


def pieces() -> bytes:
    maker = GraphMaker()
    maker.add("Split", maker.input([2, 6]), maker.constant(ints(1, 3, 2)), outputs=3, axis=1)
    a, b, c = maker.last_outputs()
    return maker.model(
        {"y": maker.add("Concat", c, maker.add("Tanh", a), b, a, axis=1), "z": maker.add("Concat", a, c, axis=-1)}
    )


def gemm(alpha: float, trans_a: int, constant: bool) -> bytes:
    maker = GraphMaker()
    a = maker.input([4, 3] if trans_a else [3, 4])
    b = maker.constant(drawn(4, 5)) if constant else maker.input([4, 5])
    return maker.model({"y": maker.add("Gemm", a, b, maker.input([5]), alpha=alpha, beta=0.5, transA=trans_a)})


def left(*shape: int) -> bytes:
    """Weights on the left of a column, and a layer whose bias is added on the left, used twice."""
    maker = GraphMaker()
    x = maker.input([1, 6])
    column = maker.add("Reshape", x, maker.constant(ints(*shape)))
    product = maker.add("MatMul", maker.constant(drawn(5, 6)), column)
    layer = maker.add("Add", maker.constant(drawn(9)), maker.add("MatMul", x, maker.constant(drawn(6, 9))))
    shared = maker.add("MatMul", x, maker.constant(drawn(6, 4)))
    both = maker.add("Mul", maker.add("Add", shared, maker.constant(drawn(4))), shared)
    return maker.model({"y0": product, "y1": maker.add("Elu", layer), "y2": layer, "y3": both})


UNARY = [
    *(
        "Abs",
        "Neg",
        "Exp",
        "Tanh",
        "Sigmoid",
        "Relu",
        "Softplus",
        "Softsign",
        "Mish",
        "HardSwish",
        "Erf",
        "Sign",
        "Round",
    ),
    *("Floor", "Ceil", "Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Reciprocal", "HardSigmoid", "Gelu"),
    *("Elu", "Selu", "Celu", "LeakyRelu", "ThresholdedRelu", "Softmax", "LogSoftmax", "Identity", "Flatten"),
]
POSITIVE = ["Log", "Sqrt", "Acosh"]
WITHIN_ONE = ["Asin", "Acos", "Atanh"]
CASES: dict[str, bytes] = {
    **{op: one(op, [[3, 5]]) for op in UNARY},
    **{f"{op} positive": one(op, [[3, 5]]) for op in POSITIVE},
    **{f"{op} within one": one(op, [[3, 5]]) for op in WITHIN_ONE},
    **{
        f"{op} broadcast": one(op, [[2, 1, 4], [3, 1]])
        for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean")
    },
    **{f"{op} three": one(op, [[1, 4], [1, 4], [1]]) for op in ("Max", "Min", "Sum", "Mean")},
    **{f"{op} constant": one(op, [[1, 4]], drawn(3, 1)) for op in ("Max", "Min", "Sub", "Div")},
    **{f"Pow {e}": one("Pow", [[1, 6]], np.array(e, dtype=F32)) for e in (2.0, 3.0, -1.0)},
    "Pow positive": one("Pow", [[1, 6]], drawn(6)),
    "Pow half positive": one("Pow", [[1, 6]], np.array(0.5, dtype=F32)),
    "Pow int": one("Pow", [[1, 6]], ints(4)),
    "Elu alpha": one("Elu", [[1, 6]], alpha=0.3),
    "Celu alpha": one("Celu", [[1, 6]], alpha=0.7),
    "LeakyRelu alpha": one("LeakyRelu", [[1, 6]], alpha=0.2),
    "Gelu tanh": one("Gelu", [[1, 6]], approximate="tanh"),
    "PRelu": one("PRelu", [[2, 4]], drawn(4)),
    "Clip both": one("Clip", [[1, 9]], np.array(-0.5, F32), np.array(0.4, F32)),
    "Clip lower": one("Clip", [[1, 9]], np.array(-0.5, F32)),
    "Clip upper": one("Clip", [[1, 9]], None, np.array(0.4, F32)),
    "Mod positive": one("Mod", [[1, 5]], np.array(0.7, F32), fmod=1),
    "IsNaN": one("IsNaN", [[1, 5]], cast=True),
    "IsInf": one("IsInf", [[1, 5]], cast=True),
    **{op: compared(op) for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    "Where": one("Where", [], RNG.random((1, 6)) < 0.5, drawn(1, 6), drawn(6)),
    "integers": integers(),
    **{
        f"{op} {axes}": one(op, [[2, 3, 4]], ints(*axes), keepdims=len(axes) % 2)
        for op in (
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceMean",
            "ReduceProd",
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
        )
        for axes in ((1,), (-1, 0))
    },
    "ReduceSum all": one("ReduceSum", [[2, 3]], keepdims=0),
    "ReduceSum none": one("ReduceSum", [[2, 3]], np.zeros(0, I64), noop_with_empty_axes=1),
    "Softmax axis 0": one("Softmax", [[3, 4]], axis=0),
    "LayerNormalization": one("LayerNormalization", [[2, 8]], drawn(8), drawn(8)),
    "LayerNormalization plain": one("LayerNormalization", [[2, 3, 4]], drawn(3, 4), axis=1, epsilon=1e-3),
    "RMSNormalization": one("RMSNormalization", [[2, 8]], drawn(8), opset=23),
    "Swish": one("Swish", [[1, 6]], alpha=1.3, opset=24),
    "CastLike": one("CastLike", [[1, 6]], np.array([True]), cast=True),
    "BatchNormalization": one("BatchNormalization", [[1, 4]], drawn(4), drawn(4), drawn(4), drawn(4) ** 2),
    "Reshape": one("Reshape", [[2, 6]], ints(3, -1)),
    "Squeeze": one("Squeeze", [[1, 3, 1]], ints(0)),
    "Unsqueeze": one("Unsqueeze", [[3, 2]], ints(1)),
    "Transpose": one("Transpose", [[2, 3, 4]], perm=[2, 0, 1]),
    "Transpose back": one("Transpose", [[2, 3, 4]]),
    "Expand": one("Expand", [[3, 1]], ints(2, 3, 4)),
    "Tile": one("Tile", [[2, 3]], ints(2, 3)),
    "Slice": one("Slice", [[5, 7]], ints(1, -2), ints(4, -100), ints(0, 1), ints(2, -2)),
    "Slice ends": one("Slice", [[5, 7]], ints(-2), ints(2**40), ints(1)),
    "Slice far": one("Slice", [[5, 7]], ints(1, -(2**50)), ints(2**50, -100), ints(0, 1), ints(2, -2)),
    "Gather": one("Gather", [[4, 5]], ints(3, 0, -1), axis=1),
    "Gather scalar": one("Gather", [[4, 5]], np.array(2, I64), axis=0),
    "GatherElements": one("GatherElements", [[2, 3]], np.array([[0, 1, -1], [1, 0, 0]], I64), axis=0),
    "GatherElements of a part": one("GatherElements", [[3, 4]], np.array([[3, -1, 0]], I64), axis=-1),
    "GatherND": one("GatherND", [[2, 3, 4]], np.array([[0, 1], [1, -1]], I64)),
    "ScatterND": one("ScatterND", [[6]], np.array([[4], [1]], I64), drawn(2)),
    "ScatterElements": one("ScatterElements", [[1, 6]], np.array([[4, 1]], I64), drawn(1, 2), axis=1),
    "Split, Concat": pieces(),
    "Dropout": one("Dropout", [[1, 4]]),
    "MatMul vector": one("MatMul", [[1, 9]], drawn(9, 13)),
    "MatMul flat": one("MatMul", [[9]], drawn(9, 13)),
    "MatMul to one": one("MatMul", [[1, 9]], drawn(9)),
    "MatMul members": one("MatMul", [[1, 6]], drawn(3, 6, 5)),
    "MatMul rows": one("MatMul", [[3, 6]], drawn(6, 5)),
    "MatMul left": left(6, 1),
    "MatMul left flat": left(6),
    "MatMul two": one("MatMul", [[2, 1, 3, 4], [5, 4, 2]]),
    "MatMul flat two": one("MatMul", [[4], [3, 4, 2]]),
    "Gemm both": gemm(1.0, 0, False),
    "Gemm turned": gemm(0.7, 1, False),
    "Gemm rows": gemm(2.0, 1, True),
    "Gemm vector": one("Gemm", [[1, 7]], drawn(17, 7), drawn(17), transB=1, alpha=0.5, beta=2.0),
    "Conv": one("Conv", [[1, 4, 11]], drawn(6, 4, 3), drawn(6)),
    "Conv wide": one("Conv", [[1, 4, 11]], drawn(6, 2, 3), group=2, pads=[2, 1], strides=[2], dilations=[2]),
    "Conv of pictures": one("Conv", [[1, 2, 5, 6]], drawn(3, 2, 2, 3), drawn(3), pads=[1, 0, 0, 2], strides=[2, 1]),
    "Conv each": one("Conv", [[1, 3, 5]], drawn(3, 1, 5), group=3),
    "GlobalAveragePool": one("GlobalAveragePool", [[1, 3, 4, 2]]),
    "GRU before": recurrent("GRU", 3, 1, 2, linear_before_reset=1),
    "GRU after": recurrent("GRU", 3, 1, 3),
    "GRU sequence": recurrent("GRU", 3, 4, 4, linear_before_reset=1),
    "LSTM": recurrent("LSTM", 4, 1, 5),
    "LSTM sequence": recurrent("LSTM", 4, 3, 6),
}


def outputs_of(data: bytes) -> list[str]:
    import onnx

    names = [value.name for value in onnx.load_model_from_string(data).graph.output]
    return [name for name in names if not name.startswith("next.")]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, CPolicy]:
    folder: Path = tmp_path_factory.mktemp("operations")
    sources = [compile_model(data, name=f"case {k}") for k, data in enumerate(CASES.values())]
    return dict(zip(CASES, build(sources, folder), strict=True))


def rows(case: str, shapes: dict[str, tuple[int, ...]]) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(7)
    scales = [0.1, 1.0, 3.0, 10.0]
    drawn = [{n: rng.normal(0.0, scales[k % 4], s).astype(F32) for n, s in shapes.items()} for k in range(24)]
    if "positive" in case:
        return [{n: np.abs(v) + F32(1.0) for n, v in row.items()} for row in drawn]
    if "within one" in case:
        return [{n: np.tanh(v) * F32(0.99) for n, v in row.items()} for row in drawn]
    return drawn


@pytest.mark.parametrize("case", CASES)
def test_an_operation_gives_what_onnxruntime_gives(case: str, compiled: dict[str, CPolicy]) -> None:
    ours, theirs = compiled[case], OnnxPolicy(CASES[case], outputs_of(CASES[case]))
    for row in rows(case, {n: s for n, s in theirs.inputs.items() if not n.startswith("state.")}):
        code, found = ours.step(row)
        assert code == 0
        for name, expected in theirs.step(row).items():
            assert largest_error(found[name], expected) < 1e-5, (name, found[name], expected)


def test_every_operation_that_is_compiled_is_tried() -> None:
    import onnx

    tried = {node.op_type for data in CASES.values() for node in onnx.load_model_from_string(data).graph.node}
    assert set(HANDLERS) <= tried


@pytest.mark.parametrize("case", ["Clip both", "Clip lower", "Max broadcast", "Min broadcast", "Max constant", "Relu", "Elu", "Tanh",
                                  "Sigmoid", "Softplus", "Softmax", "MatMul vector", "GRU before", "ReduceMax (1,)"])  # fmt: skip
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_told_and_infinity_may_be_bounded_as_onnxruntime_does(
    case: str, bad: float, compiled: dict[str, CPolicy]
) -> None:
    ours, theirs = compiled[case], OnnxPolicy(CASES[case], outputs_of(CASES[case]))
    ours.reset()
    shapes = {n: s for n, s in theirs.inputs.items() if not n.startswith("state.")}
    row = rows(case, shapes)[1]
    next(iter(row.values())).flat[0] = bad
    code, found = ours.step(row)
    finite = all(np.isfinite(value).all() for value in found.values())
    assert code == (0 if finite else 1)
    assert code == 1 or not np.isnan(bad)
    for name, expected in theirs.step(row).items() if code == 0 else ():
        assert largest_error(found[name], expected) < 1e-5


def test_a_step_that_fails_leaves_the_state_as_it_was(compiled: dict[str, CPolicy]) -> None:
    policy = compiled["GRU before"]
    first, second = rows("", {name: (1, 1, 3) for name in policy.inputs})[:2]
    policy.reset()
    policy.step(first)
    expected = policy.step(second)[1]["y"]
    policy.reset()
    policy.step(first)
    assert policy.step({name: np.full(3, np.nan) for name in policy.inputs})[0] == 1
    np.testing.assert_array_equal(policy.step(second)[1]["y"], expected)
