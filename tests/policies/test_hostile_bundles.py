"""Files that must not be run are refused before onnxruntime sees them: other files, other code, too new, too large, cut short."""

import base64
import io
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from isthmus.policies.bundle import GOLDEN_KEY, BundleError, load_bundle, seal
from isthmus.policies.onnx_header import HeaderError, check_header, read_header


@pytest.fixture(scope="module")
def good():
    return onnx.load(str(Path(__file__).parent / "data" / "schema1_so101_reach.onnx"))


def sealed(tmp_path, good, edit):
    """A bundle, edited and sealed again, as anybody can."""
    model = onnx.ModelProto()
    model.CopyFrom(good)
    edit(model)
    path = tmp_path / "hostile.onnx"
    path.write_bytes(seal(model.SerializeToString()))
    return path


def far_weight(model):
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.ClearField("float_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "../../etc/passwd"


def far_weight_in_a_branch(model):
    tensor = helper.make_tensor("far", TensorProto.FLOAT, [1], [0.0])
    tensor.ClearField("float_data")
    tensor.data_location = TensorProto.EXTERNAL
    body = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "body", [], [])
    model.graph.node.append(helper.make_node("If", ["x"], ["y"], then_branch=body, else_branch=body))


def foreign_operator(model):
    model.graph.node.append(helper.make_node("ReadFile", [], ["contents"], domain="com.evil"))


def foreign_operator_in_a_function(model):
    node = helper.make_node("ReadFile", [], ["contents"], domain="com.evil")
    model.functions.append(helper.make_function("", "Helper", [], ["contents"], [node], [helper.make_opsetid("", 18)]))


def too_new(model):
    model.opset_import[0].version = 99


def newer_format(model):
    model.ir_version = 99


def any_batch(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"


def one_more_input(model):
    model.graph.input.append(helper.make_tensor_value_info("spy", TensorProto.FLOAT, [1, 3]))


def golden_bomb(model):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("joint_pos.npy", b"\0" * 64 * 1024 * 1024)
    replace_golden(model, packed.getvalue())


def pickled_golden(model):
    packed = io.BytesIO()
    np.savez(packed, joint_pos=np.array([{"not": "numbers"}], dtype=object))
    replace_golden(model, packed.getvalue())


def replace_golden(model, data):
    for prop in model.metadata_props:
        if prop.key == GOLDEN_KEY:
            prop.value = base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (far_weight, "weights lie in another file"),
        (far_weight_in_a_branch, "weights lie in another file"),
        (foreign_operator, r"operators \['com.evil.ReadFile'\]"),
        (foreign_operator_in_a_function, r"operators \['com.evil.ReadFile'\]"),
        (too_new, "opset 99"),
        (newer_format, "IR version 99"),
        (any_batch, "graph inputs .*batch"),
        (one_more_input, "graph inputs .*spy"),
        (golden_bomb, "golden rows cannot be read: they unpack to"),
        (pickled_golden, "golden rows cannot be read: .*allow_pickle"),
    ],
)
def test_a_hostile_bundle_is_refused_and_says_why(tmp_path, good, edit, words):
    with pytest.raises(BundleError, match=words):
        load_bundle(sealed(tmp_path, good, edit))


def test_the_header_says_what_onnx_itself_says(good):
    header = read_header(good.SerializeToString())
    assert header.ir_version == good.ir_version and header.opset == good.opset_import[0].version
    assert header.operators == {(node.domain, node.op_type) for node in good.graph.node} and not header.external


def test_a_graph_in_a_graph_in_a_graph_has_an_end():
    graph = helper.make_graph([], "inner", [], [])
    for _ in range(20):
        graph = helper.make_graph([helper.make_node("Loop", [], [], body=graph)], "outer", [], [])
    with pytest.raises(HeaderError, match="deep in each other"):
        check_header(helper.make_model(graph).SerializeToString())


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data())
def test_whatever_the_bytes_the_header_reads_or_refuses(good, data):
    whole = good.SerializeToString()
    cut = data.draw(st.integers(0, len(whole)))
    noise = data.draw(st.binary(max_size=40))
    place = data.draw(st.integers(0, cut))
    for content in (whole[:cut], whole[:place] + noise + whole[place + len(noise) :], noise):
        try:
            read_header(content)
        except HeaderError as error:
            assert "not an ONNX model" in str(error)
