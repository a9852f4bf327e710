"""What an ONNX file is made of, read before anything runs it: versions, operators, where its weights are.

A reader of protocol buffers' wire format, a few fields of it, so that a robot needs no package `onnx` and a bad file is refused before
onnxruntime sees it. Field numbers are those of onnx.proto.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from isthmus.hardware.errors import IsthmusError

LATEST_IR, LATEST_OPSET = 10, 21  # what the oldest onnxruntime that isthmus installs with can load
OWN_DOMAINS = ("", "ai.onnx")
DEEPEST = 16  # graphs within graphs

# Fields of ModelProto, GraphProto, NodeProto, AttributeProto, TensorProto, OperatorSetIdProto and FunctionProto.
_IR, _GRAPH, _OPSETS, _FUNCTIONS = 1, 7, 8, 25
_NODES, _INITIALIZERS = 1, 5
_OP_TYPE, _ATTRIBUTES, _NODE_DOMAIN = 4, 5, 7
_TENSOR, _SUBGRAPH, _TENSORS, _SUBGRAPHS = 5, 6, 10, 11
_EXTERNAL, _LOCATION = 13, 14
_DOMAIN, _VERSION = 1, 2
_FUNCTION_NODES = 7


class HeaderError(IsthmusError, ValueError):
    """A file is no ONNX model, or one that must not be loaded."""


@dataclass(frozen=True, kw_only=True)
class OnnxHeader:
    """What a model asks of whoever loads it."""

    ir_version: int
    opset: int  # of ONNX's own operators
    operators: frozenset[tuple[str, str]]  # (domain, operator)
    external: bool  # whether weights lie in other files


def _no_model(why: str) -> HeaderError:
    return HeaderError(f"not an ONNX model, or cut short: {why}; give the whole .onnx file")


def read_header(data: bytes) -> OnnxHeader:
    """Read a model's header; raises HeaderError for bytes that are no model."""
    version, opset, operators, external = 0, 0, set[tuple[str, str]](), False
    graphs: list[tuple[memoryview, int]] = []
    for number, value in _fields(memoryview(data)):
        if number == _IR and isinstance(value, int):
            version = value
        elif number == _OPSETS and isinstance(value, memoryview):
            domain, own = _opset(value)
            opset = max(opset, own) if domain in OWN_DOMAINS else opset
        elif number == _GRAPH and isinstance(value, memoryview):
            graphs.append((value, _NODES))
        elif number == _FUNCTIONS and isinstance(value, memoryview):
            graphs.append((value, _FUNCTION_NODES))
    if not graphs or version == 0:
        raise _no_model("it has no graph or no IR version")
    for graph, nodes in graphs:
        external |= _walk(graph, nodes, operators, 0)
    return OnnxHeader(ir_version=version, opset=opset, operators=frozenset(operators), external=external)


def check_header(data: bytes) -> None:
    """Refuse a model that needs other files, operators that are not ONNX's own, or a newer onnxruntime.

    Raises:
        HeaderError: says which.
    """
    header = read_header(data)
    if header.external:
        raise HeaderError(
            "its weights lie in another file (external data); a bundle is one file: export with all weights inside"
        )
    if foreign := sorted(f"{domain}.{name}" for domain, name in header.operators if domain not in OWN_DOMAINS):
        raise HeaderError(
            f"it has operators {foreign}, which are not ONNX's own; a bundle runs everywhere: export without them"
        )
    if header.ir_version > LATEST_IR or header.opset > LATEST_OPSET:
        raise HeaderError(
            f"IR version {header.ir_version} and opset {header.opset}; this isthmus loads up to {LATEST_IR} and {LATEST_OPSET}:"
            " export with an older opset, 18 for example"
        )


def _walk(graph: memoryview, nodes: int, operators: set[tuple[str, str]], depth: int) -> bool:
    """Collect operators of a graph and those within; returns whether any weight is external."""
    if depth > DEEPEST:
        raise _no_model(f"graphs lie more than {DEEPEST} deep in each other")
    external = False
    for number, value in _fields(graph):
        if not isinstance(value, memoryview):
            continue
        if number == nodes:
            external |= _node(value, operators, depth)
        elif number == _INITIALIZERS and nodes == _NODES:
            external |= _is_external(value)
    return external


def _node(node: memoryview, operators: set[tuple[str, str]], depth: int) -> bool:
    name, domain, external = "", "", False
    for number, value in _fields(node):
        if not isinstance(value, memoryview):
            continue
        if number == _OP_TYPE:
            name = _text(value)
        elif number == _NODE_DOMAIN:
            domain = _text(value)
        elif number == _ATTRIBUTES:
            for kind, part in _fields(value):
                if kind in (_SUBGRAPH, _SUBGRAPHS) and isinstance(part, memoryview):
                    external |= _walk(part, _NODES, operators, depth + 1)
                elif kind in (_TENSOR, _TENSORS) and isinstance(part, memoryview):
                    external |= _is_external(part)
    operators.add((domain, name))
    return external


def _is_external(tensor: memoryview) -> bool:
    return any(n == _EXTERNAL or (n == _LOCATION and value == 1) for n, value in _fields(tensor))


def _opset(message: memoryview) -> tuple[str, int]:
    domain, version = "", 0
    for number, value in _fields(message):
        if number == _DOMAIN and isinstance(value, memoryview):
            domain = _text(value)
        elif number == _VERSION and isinstance(value, int):
            version = value
    return domain, version


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(field number, value) of a message: a number for varints, bytes for the rest."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _varint(message, place)
            yield number, value
            continue
        if kind == 2:
            size, place = _varint(message, place)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _no_model(f"field {number} has wire type {kind}")
        if place + size > len(message):
            raise _no_model("a field is longer than what is left")
        yield number, message[place : place + size]
        place += size


def _varint(message: memoryview, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(message):
            raise _no_model("it ends within a number")
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
    raise _no_model("a number is longer than 64 bits")


def _text(value: memoryview) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        raise _no_model("a name is no text") from None
