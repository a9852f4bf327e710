"""Models that cannot become C are refused by name, and odd names and texts stay what they are."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from c_graphs import GraphMaker, mlp, one
from c_policies import OnnxPolicy, build, largest_error, needs_gcc, run
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from isthmus.deploy.cli import main
from isthmus.policies.bundle import load_bundle
from isthmus.policies.c99.compiler import compile_model
from isthmus.policies.c99.names import CExportError, comment, file_name, identifiers, number, string
from isthmus.policies.c99.notes import Notes, bundle_notes

HOSTILE = '*/ int evil; /* "); system("x"); // \\\n#include <evil>\n??/ %s {0} \x00 \u202e é'


def changed(data: bytes, change: Callable[[onnx.ModelProto], object]) -> bytes:
    model = onnx.load_model_from_string(data)
    change(model)
    return model.SerializeToString()


def with_input(**options: object) -> bytes:
    value = helper.make_tensor_value_info("x", **options)  # pyright: ignore[reportArgumentType]
    node = helper.make_node("Identity", ["x"], ["y"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [])
    graph = helper.make_graph([node], "g", [value], [result])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8).SerializeToString()


def external(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].data_location = TensorProto.EXTERNAL


def not_a_number(model: onnx.ModelProto) -> None:
    values = np.full(tuple(model.graph.initializer[1].dims), np.nan, np.float32)
    model.graph.initializer[1].raw_data = values.tobytes()


def branching() -> bytes:
    maker = GraphMaker()
    x = maker.input([1, 2])
    truth = maker.add("Cast", maker.add("ReduceMax", x, keepdims=0), to=TensorProto.BOOL)
    result = helper.make_tensor_value_info("n", TensorProto.FLOAT, [1, 2])
    inner = helper.make_graph([helper.make_node("Neg", [x], ["n"])], "b", [], [result])
    return maker.model({"y": maker.add("If", truth, then_branch=inner, else_branch=inner)})


def huge() -> bytes:
    maker = GraphMaker()
    x = maker.input([1, 1])
    shape = maker.constant(np.array([100_000, 100_000], dtype=np.int64))
    return maker.model({"y": maker.add("ReduceSum", maker.add("Expand", x, shape))})


def computed_shape() -> bytes:
    maker = GraphMaker()
    x = maker.input([1, 4])
    count = maker.add(
        "Cast", maker.add("ReduceSum", x, maker.constant(np.array([1])), keepdims=0), to=TensorProto.INT64
    )
    end = maker.add("Add", count, maker.constant(np.array([2])))
    return maker.model({"y": maker.add("ReduceSum", maker.add("Slice", x, maker.constant(np.array([0])), end))})


def double() -> bytes:
    maker = GraphMaker()
    wide = maker.add("Cast", maker.input([1, 2]), to=TensorProto.DOUBLE)
    return maker.model({"y": maker.add("Cast", maker.add("Neg", wide), to=TensorProto.FLOAT)})


def foreign(model: onnx.ModelProto) -> None:
    model.graph.node[0].domain = "com.example"
    model.opset_import.append(helper.make_opsetid("com.example", 1))


def training() -> bytes:
    """Batch normalisation that also gives its running mean."""
    maker = GraphMaker()
    names = [maker.constant(np.ones(3, np.float32)) for _ in range(4)]
    y = maker.add("BatchNormalization", maker.input([1, 3]), *names, outputs=3, training_mode=1)
    return maker.model({"y": maker.add("Add", y, maker.last_outputs()[1])})


def half_a_state() -> bytes:
    maker = GraphMaker()
    return maker.model({"y": maker.add("Neg", maker.input([1, 2], "state.memory"))})


REFUSED: dict[str, tuple[bytes, str]] = {
    "not a model": (b"\x99\x98garbage", "not an ONNX model"),
    "an operation that is not known": (one("CumSum", [[1, 5]], np.array(1)), r"CumSum.*compiled are Abs, "),
    "control flow": (branching(), r"If_\d.*control flow is not compiled"),
    "random numbers": (one("RandomNormalLike", [[1, 3]]), "draws random numbers"),
    "another domain": (changed(mlp((3, 2)), foreign), "com.example.*only operations of ONNX itself"),
    "a size that is open": (with_input(elem_type=1, shape=["batch", 3]), r"'x' has shape \['batch', 3\].*fixed number"),
    "no shape": (with_input(elem_type=1, shape=None), "shape.*missing"),
    "whole numbers as input": (with_input(elem_type=7, shape=[1, 3]), "'x' is of type INT64.*float32"),
    "a huge input": (with_input(elem_type=1, shape=[1, 1 << 40]), "1099511627776 values; at most"),
    "a huge value inside": (huge(), "10000000000 values; at most"),
    "a shape that is computed": (computed_shape(), "Slice.*must be constant"),
    "double precision": (double(), "float64; compiled are float32"),
    "weights in another file": (changed(mlp((3, 2)), external), "kept in another file"),
    "weights that are not numbers": (changed(mlp((3, 2)), not_a_number), "'action' are not finite"),
    "an old opset": (changed(mlp((3, 2)), lambda m: setattr(m.opset_import[0], "version", 11)), "opset 11"),
    "a state without a next one": (half_a_state(), r"states \['memory'\] but next states \[\]"),
    "what is only there in training": (training(), "BatchNormalization.*training mode"),
    "values dropped at random": (
        one("Dropout", [[1, 3]], np.array(0.5, np.float32), np.array(True)),
        "Dropout.*training mode",
    ),
    "a GRU backwards": (
        one(
            "GRU",
            [[2, 1, 3]],
            np.ones((1, 6, 3), np.float32),
            np.ones((1, 6, 2), np.float32),
            hidden_size=2,
            direction="reverse",
        ),
        "GRU.*'reverse'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_cannot_be_compiled_is_refused_and_the_reason_said(case: str) -> None:
    data, reason = REFUSED[case]
    with pytest.raises(CExportError, match=f"(?s){reason}"):
        compile_model(data, name="policy")


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_model_is_compiled_or_refused_and_nothing_else_happens() -> None:
    rng = np.random.default_rng(0)
    seeds = [
        mlp((3, 4, 2)),
        branching(),
        computed_shape(),
        half_a_state(),
        one("Slice", [[5, 7]], *np.array([[1], [4], [0], [2]])),
    ]
    refused = 0
    for _ in range(1500):
        data = bytearray(seeds[rng.integers(len(seeds))])
        for place in rng.integers(len(data), size=rng.integers(1, 4)):
            data[place] = rng.integers(256)
        try:
            compile_model(bytes(data), name="policy", precision="int8")
        except CExportError:
            refused += 1
    assert 0 < refused < 1500


def test_an_output_that_is_not_there_is_named() -> None:
    with pytest.raises(CExportError, match=r"no outputs \['gate'\]; it has \['action'\]"):
        compile_model(mlp((3, 2)), name="policy", outputs=("gate",))


NAMES = [
    *("a.b", "a_b", "A-B", "int", "2nd", "é", "while", "now", "work", "state", "in", "out", "x" * 300, "x" * 301),
    *("FLT_MAX", "linux", 'q"/*'),
]


@needs_gcc
def test_any_names_of_tensors_become_different_members(tmp_path: Path) -> None:
    maker = GraphMaker()
    inputs = [maker.input([1, 2], name) for name in NAMES]
    states = [maker.input([1, 2], f"state.{name}") for name in NAMES]
    total = maker.add("Sum", *inputs, *states)
    results = {f"{name}_": maker.add("Neg", total) for name in NAMES}
    following = {
        f"next.{name}": maker.add("Mul", total, maker.constant(np.float32(0.01 * k))) for k, name in enumerate(NAMES)
    }
    data = maker.model({**results, **following})
    (policy,) = build([compile_model(data, name=HOSTILE)], tmp_path)
    theirs = OnnxPolicy(data, list(results))
    for value in (1.0, 2.0, 3.0):
        row = {name: np.full(2, value + k, np.float32) for k, name in enumerate(inputs)}
        expected = theirs.step(row)
        assert all(largest_error(found, expected[name]) < 1e-5 for name, found in policy.step(row)[1].items())


@given(st.lists(st.text(), unique=True))
def test_identifiers_are_different_and_plain(names: list[str]) -> None:
    found = identifiers(names)
    assert len(set(found.values())) == len(names)
    assert all(name.isidentifier() and name.isascii() and "__" not in name for name in found.values())


@given(st.text())
def test_no_text_leaves_its_comment(text: str) -> None:
    line = comment(text)
    assert line.isascii() and line.isprintable() and not any(part in line for part in ("*/", "/*", "\\", "??"))


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_numbers_read_back_as_the_same_float32(value: float) -> None:
    text = number(value)
    assert np.float32(float(text.strip("()").removesuffix("f"))) == np.float32(value)
    assert any(mark in text for mark in ".e")


@pytest.mark.parametrize("name", ["math", "stdint", "Float", "string"])
def test_no_file_is_taken_for_a_header_of_c(name: str) -> None:
    assert file_name(name) not in ("math", "stdint", "float", "string")


@needs_gcc
@pytest.mark.parametrize("text", [HOSTILE, "*" * 50 + "/", "\\" * 9, '"', "/" * 1000, "a\nb*/", "%d%s%n"])
def test_hostile_texts_of_a_manifest_stay_comments_and_strings(text: str, tmp_path: Path) -> None:
    notes = Notes(title=(text, text), defines=(("TEXT", string(text)),), members={"obs": text, "action": text})
    policy = compile_model(mlp((3, 2)), name="policy", notes=notes)
    build([policy], tmp_path)
    (tmp_path / "say.c").write_text(
        '#include <stdio.h>\n#include "policy.h"\nint main(void) { fputs(POLICY_TEXT, stdout); return 0; }'
    )
    run(["gcc", "-std=c99", "-Wall", "-Wextra", "-Werror", str(tmp_path / "say.c"), "-o", str(tmp_path / "say")])
    assert run([str(tmp_path / "say")]) == text.split("\0")[0][:400].replace("\r", "\n")


def test_a_bundle_with_hostile_names_keeps_its_header_well_formed(bundles: dict[str, Path]) -> None:
    bundle = load_bundle(bundles["so101-reach"])
    joints = tuple(replace(joint, name=f"{HOSTILE}{k}") for k, joint in enumerate(bundle.manifest.contract.joints))
    action = replace(bundle.manifest.contract.action, joints=tuple(joint.name for joint in joints))
    contract = replace(bundle.manifest.contract, joints=joints, action=action, robot=HOSTILE)
    notes = bundle_notes(replace(bundle, manifest=replace(bundle.manifest, contract=contract, name=HOSTILE)))
    texts = [text for _, text in notes.defines]
    assert all(text.isascii() and "\n" not in text and "*/" not in text for text in texts)


@needs_gcc
def test_the_header_is_c_plus_plus_too(tmp_path: Path) -> None:
    compile_model(mlp((3, 2)), name="policy").write(tmp_path)
    (tmp_path / "use.cpp").write_text('#include "policy.h"\nint use(policy_state *s) { policy_reset(s); return 0; }')
    run(["gcc", "-x", "c++", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", str(tmp_path / "use.cpp")])


@needs_gcc
def test_flags_that_would_hide_nan_are_refused_by_the_source(tmp_path: Path) -> None:
    compile_model(mlp((3, 2)), name="policy").write(tmp_path)
    with pytest.raises(AssertionError, match="compile without -ffast-math"):
        run(
            [
                "gcc",
                "-std=c99",
                "-O2",
                "-ffast-math",
                "-c",
                str(tmp_path / "policy.c"),
                "-o",
                str(tmp_path / "policy.o"),
            ]
        )


def test_the_command_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"nothing")
    for path, reason in (("absent.onnx", "no such bundle"), ("broken.onnx", "not an ONNX model")):
        with pytest.raises(SystemExit) as end:
            main(["export", "c", str(tmp_path / path), "--out", str(tmp_path / "out")])
        assert end.value.code == 2
        said = capsys.readouterr().err
        assert reason in said and said.count("\n") == 1
