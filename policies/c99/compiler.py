"""A serialised ONNX model to C99."""

from collections.abc import Sequence
from typing import Literal

from .convolution import CONVOLUTIONS
from .dense import make_calls
from .elementwise import ELEMENTWISE
from .ir import Program
from .lowering import lower
from .model import Graph, read_model
from .movement import MOVEMENTS
from .names import CExportError, MemberNames, file_name, identifiers
from .notes import Notes
from .optimise import optimise
from .products import PRODUCTS
from .recurrent import RECURRENT
from .reductions import GATHERING
from .source import CSource, header_text, source_text

HANDLERS = {**ELEMENTWISE, **MOVEMENTS, **PRODUCTS, **RECURRENT, **GATHERING, **CONVOLUTIONS}
Precision = Literal["float32", "int8"]
NO_NOTES = Notes()


def compile_model(
    data: bytes,
    *,
    name: str,
    outputs: Sequence[str] | None = None,
    precision: Precision = "float32",
    notes: Notes = NO_NOTES,
) -> CSource:
    """Header and source of a model with static shapes and float32 inputs and outputs.

    Args:
        data: the model. Inputs `state.<x>` and outputs `next.<x>` become memory, all others members of structs.
        name: of the files, and the beginning of every name in them; made an identifier where it is none.
        outputs: those that are wanted; None: all.
        precision: of the weights of layers.
        notes: comments and definitions for the header.

    Raises:
        CExportError: names the node and operation that cannot be compiled.
    """
    graph = read_model(data, outputs)
    names = _member_names(graph)
    program = lower(graph, names, HANDLERS)
    _check_memory(program)
    optimise(program)
    int8_layers = make_calls(program, int8=precision == "int8")
    prefix = file_name(name)
    source, layout = source_text(prefix, program)
    return CSource(
        name=prefix,
        header=header_text(prefix, program, layout, notes, names),
        source=source,
        layout=layout,
        names=names,
        int8_layers=tuple(int8_layers),
    )


def _member_names(graph: Graph) -> MemberNames:
    """`state.<x>` and `next.<x>` are one member of memory."""
    states = [tensor.removeprefix("state.") for tensor in graph.inputs if tensor.startswith("state.")]
    following = [tensor.removeprefix("next.") for tensor in graph.outputs if tensor.startswith("next.")]
    if sorted(states) != sorted(following):
        raise CExportError(
            f"the model has states {sorted(states)} but next states {sorted(following)}; each needs the other"
        )
    memory = identifiers(states)
    given = identifiers(tensor for tensor in graph.inputs if not tensor.startswith("state."))
    results = identifiers(tensor for tensor in graph.outputs if not tensor.startswith("next."))
    return MemberNames(
        inputs={**given, **{f"state.{name}": text for name, text in memory.items()}},
        outputs={**results, **{f"next.{name}": text for name, text in memory.items()}},
    )


def _check_memory(program: Program) -> None:
    sizes = {buffer.name: buffer.size for buffer in program.memory}
    for buffer in program.following:
        if sizes[buffer.name] != buffer.size:
            raise CExportError(
                f"state {buffer.name!r} has {sizes[buffer.name]} values, the next one {buffer.size}; they must agree"
            )
