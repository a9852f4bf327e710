"""Operations on each element: what of the tables of `ops.py` a node is, by its types and attributes."""

import numpy as np

from .ir import Ref, c_type
from .lowering import Handler, Lowering
from .model import Node
from .names import CExportError
from .ops import BINARY, COMPARISON, INTEGER_BINARY, INTEGER_UNARY, LOGICAL, TESTS, UNARY, VARIADIC, WITH_ATTRIBUTES

BOOL = "unsigned char"
CASTS = {
    ("float", BOOL): "{0} != 0.0f",
    ("float", "int64_t"): "k_to_int64({0})",
    ("float", "int32_t"): "(int32_t)k_to_int64({0})",
    ("int64_t", "int32_t"): "(int32_t){0}",
    ("int64_t", BOOL): "{0} != 0",
    ("int32_t", BOOL): "{0} != 0",
}
POWERS = {1.0: "{0}", 2.0: "{0} * {0}", 3.0: "{0} * {0} * {0}", 0.5: "sqrtf({0})", -1.0: "1.0f / {0}"}


def _unary(work: Lowering, node: Node) -> list[Ref]:
    (x,) = work.operands(node)
    integer = x.buffer.c_type.startswith("int") and node.op in INTEGER_UNARY
    if not integer:
        work.need_float(node, [x])
    template = INTEGER_UNARY[node.op] if integer else UNARY[node.op]
    return [work.elementwise(template, [x], work.shape(node), x.buffer.c_type)]


def _with_attributes(work: Lowering, node: Node) -> list[Ref]:
    x = work.operands(node)
    work.need_float(node, x)
    return [work.elementwise(WITH_ATTRIBUTES[node.op](node), x, work.shape(node))]


def _test(work: Lowering, node: Node) -> list[Ref]:
    x = work.operands(node)
    work.need_float(node, x)
    return [work.elementwise(TESTS[node.op](node), x, work.shape(node), BOOL)]


def _binary(work: Lowering, node: Node) -> list[Ref]:
    if node.op == "Add" and (biased := _as_bias(work, node)) is not None:
        return [biased]
    operands = work.operands(node)
    kind = operands[0].buffer.c_type
    if kind.startswith("int") and (node.op in INTEGER_BINARY or _divides(node, operands)):
        return [work.elementwise(BINARY[node.op], operands, work.shape(node), kind)]
    if node.op == "Pow":
        return [_power(work, node, operands)]
    work.need_float(node, operands)
    return [work.elementwise(BINARY[node.op], operands, work.shape(node))]


def _divides(node: Node, operands: list[Ref]) -> bool:
    """Whether it is a division of integers by a constant other than 0."""
    divisor = operands[1].constant
    return node.op == "Div" and divisor is not None and bool((divisor != 0).all())


def _as_bias(work: Lowering, node: Node) -> Ref | None:
    """A constant added to W x becomes its b."""
    for product, other in (node.inputs, node.inputs[::-1]):
        step, constant = work.unbiased.get(product), work.value(other).constant
        shape = work.shape(node)
        if step is not None and constant is not None and shape == work.value(product).shape:
            bias = np.broadcast_to(constant, shape).reshape(-1)
            if np.isfinite(bias).all():
                step.bias = bias.astype(np.float32)
                return work.ref(product)
    return None


def _power(work: Lowering, node: Node, operands: list[Ref]) -> Ref:
    base, exponent = operands
    work.need_float(node, [base])
    constant, uniform = exponent.constant, exponent.uniform()
    if uniform is not None and float(uniform) in POWERS:
        return work.elementwise(POWERS[float(uniform)], [base], work.shape(node))
    if constant is not None:
        exponent = work.constant(constant.astype(np.float32), node.inputs[1])
    work.need_float(node, [exponent])
    return work.elementwise(BINARY["Pow"], [base, exponent], work.shape(node))


def _variadic(work: Lowering, node: Node) -> list[Ref]:
    operands = work.operands(node)
    kind, shape = operands[0].buffer.c_type, work.shape(node)
    if not kind.startswith("int"):
        work.need_float(node, operands)
    result, simple = operands[0], {"Max": "({0} < {1} ? {1} : {0})", "Min": "({0} > {1} ? {1} : {0})"}
    for other in operands[1:]:
        cannot_be_nan = other.constant is not None or kind != "float"
        template = simple[node.op] if node.op in simple and cannot_be_nan else VARIADIC[node.op]
        result = work.elementwise(template, [result, other], shape, kind)
    if node.op == "Mean":
        result = work.elementwise(f"{{0}} / {len(operands)}.0f", [result], shape)
    return [result]


def _comparison(work: Lowering, node: Node) -> list[Ref]:
    return [work.elementwise(COMPARISON[node.op], work.operands(node), work.shape(node), BOOL)]


def _logical(work: Lowering, node: Node) -> list[Ref]:
    return [work.elementwise(LOGICAL[node.op], work.operands(node), work.shape(node), BOOL)]


def _where(work: Lowering, node: Node) -> list[Ref]:
    condition, yes, no = work.operands(node)
    return [work.elementwise("({0} ? {1} : {2})", [condition, yes, no], work.shape(node), yes.buffer.c_type)]


def _clip(work: Lowering, node: Node) -> list[Ref]:
    operands = work.operands(node)
    lower, upper = work.given(node, 1), work.given(node, 2)
    templates = {
        (False, False): "{0}",
        (True, False): "({0} < {1} ? {1} : {0})",
        (False, True): "({0} > {1} ? {1} : {0})",
        (True, True): "({0} < {1} ? {1} : ({0} > {2} ? {2} : {0}))",
    }
    return [work.elementwise(templates[lower, upper], operands, work.shape(node), operands[0].buffer.c_type)]


def _cast(work: Lowering, node: Node) -> list[Ref]:
    x = work.ref(node.inputs[0])
    kind = c_type(work.value(node.outputs[0]).dtype, f"the result of {node.label}")
    if kind == x.buffer.c_type:
        return [x]
    template = CASTS.get((x.buffer.c_type, kind), f"({kind}){{0}}")
    return [work.elementwise(template, [x], work.shape(node), kind)]


def _mod(work: Lowering, node: Node) -> list[Ref]:
    operands = work.operands(node)
    if work.whole_number(node, "fmod", 0):
        work.need_float(node, operands)
        return [work.elementwise("fmodf({0}, {1})", operands, work.shape(node))]
    if any(operand.buffer.c_type != "int64_t" for operand in operands):
        raise CExportError(f"{node.label} is compiled for int64, or for float32 with fmod = 1")
    return [work.elementwise("k_mod({0}, {1})", operands, work.shape(node), "int64_t")]


def _batch_norm(work: Lowering, node: Node) -> list[Ref]:
    if work.whole_number(node, "training_mode", 0):
        raise CExportError(f"{node.label} is in training mode; export the model for inference")
    scale, bias, mean, variance = (work.fixed(node, k).astype(np.float64) for k in range(1, 5))
    epsilon = node.attributes.get("epsilon", 1e-5)
    assert isinstance(epsilon, float)
    factor = scale / np.sqrt(variance + epsilon)
    x = work.ref(node.inputs[0])
    work.need_float(node, [x])
    spread = (1, -1, *[1] * (x.index.ndim - 2))
    parts = [
        work.constant(part.astype(np.float32).reshape(spread), f"weights of {node.label}")
        for part in (factor, bias - mean * factor)
    ]
    return [work.elementwise("{0} * {1} + {2}", [x, *parts], work.shape(node))]


ELEMENTWISE: dict[str, Handler] = {
    **dict.fromkeys(UNARY, _unary),
    **dict.fromkeys(WITH_ATTRIBUTES, _with_attributes),
    **dict.fromkeys(TESTS, _test),
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(VARIADIC, _variadic),
    **dict.fromkeys(COMPARISON, _comparison),
    **dict.fromkeys(LOGICAL, _logical),
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": _cast,
    "Clip": _clip,
    "Mod": _mod,
    "Where": _where,
}
