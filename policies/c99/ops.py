"""Operations on single values as C expressions."""

from collections.abc import Callable

from .model import Node
from .names import number

FLOAT = "float"
# {0} is evaluated more than once in some: operands are names or literals, never calls.
UNARY = {
    "Abs": "fabsf({0})",
    "Acos": "acosf({0})",
    "Acosh": "acoshf({0})",
    "Asin": "asinf({0})",
    "Asinh": "asinhf({0})",
    "Atan": "atanf({0})",
    "Atanh": "atanhf({0})",
    "Ceil": "ceilf({0})",
    "Cos": "k_turn({0}, 1u)",
    "Cosh": "coshf({0})",
    "Erf": "erff({0})",
    "Exp": "k_exp({0})",
    "Floor": "floorf({0})",
    "HardSwish": "{0} * k_clip({0} / 6.0f + 0.5f, 0.0f, 1.0f)",
    "Log": "logf({0})",
    "Mish": "{0} * k_tanh(k_softplus({0}))",
    "Neg": "-{0}",
    "Reciprocal": "1.0f / {0}",
    "Relu": "({0} < 0.0f ? 0.0f : {0})",
    "Round": "rintf({0})",
    "Sigmoid": "k_sigmoid({0})",
    "Sign": "(float)(({0} > 0.0f) - ({0} < 0.0f))",
    "Sin": "k_turn({0}, 0u)",
    "Sinh": "sinhf({0})",
    "Softplus": "k_softplus({0})",
    "Softsign": "{0} / (1.0f + fabsf({0}))",
    "Sqrt": "sqrtf({0})",
    "Tan": "tanf({0})",
    "Tanh": "k_tanh({0})",
}
INTEGER_UNARY = {"Abs": "({0} < 0 ? -{0} : {0})", "Neg": "-{0}", "Sign": "({0} > 0) - ({0} < 0)"}
BINARY = {
    "Add": "{0} + {1}",
    "Div": "{0} / {1}",
    "Mul": "{0} * {1}",
    "PRelu": "({0} < 0.0f ? {0} * {1} : {0})",
    "Pow": "powf({0}, {1})",
    "Sub": "{0} - {1}",
}
INTEGER_BINARY = {"Add": "{0} + {1}", "Mul": "{0} * {1}", "Sub": "{0} - {1}"}
# A NaN on either side comes out: a guard against it must see it.
VARIADIC = {
    "Max": "(({0} >= {1} || {0} != {0}) ? {0} : {1})",
    "Min": "(({0} <= {1} || {0} != {0}) ? {0} : {1})",
    "Sum": "{0} + {1}",
    "Mean": "{0} + {1}",
}
COMPARISON = {
    "Equal": "{0} == {1}",
    "Greater": "{0} > {1}",
    "GreaterOrEqual": "{0} >= {1}",
    "Less": "{0} < {1}",
    "LessOrEqual": "{0} <= {1}",
}
LOGICAL = {"And": "({0} && {1})", "Or": "({0} || {1})", "Xor": "({0} != {1})", "Not": "!{0}"}


def _attribute(node: Node, name: str, default: float) -> float:
    value = node.attributes.get(name, default)
    assert isinstance(value, (int, float))
    return float(value)


def _elu(node: Node) -> str:
    alpha = _attribute(node, "alpha", 1.0)
    factor = "" if alpha == 1.0 else f"{number(alpha)} * "
    return f"({{0}} < 0.0f ? {factor}k_expm1_negative({{0}}) : {{0}})"


def _celu(node: Node) -> str:
    alpha = number(_attribute(node, "alpha", 1.0))
    return f"({{0}} < 0.0f ? {alpha} * k_expm1_negative({{0}} / {alpha}) : {{0}})"


def _selu(node: Node) -> str:
    alpha = _attribute(node, "alpha", 1.67326319217681884765625)
    gamma = _attribute(node, "gamma", 1.05070102214813232421875)
    return f"({{0}} < 0.0f ? {number(gamma * alpha)} * k_expm1_negative({{0}}) : {number(gamma)} * {{0}})"


def _leaky(node: Node) -> str:
    return f"({{0}} < 0.0f ? {number(_attribute(node, 'alpha', 0.01))} * {{0}} : {{0}})"


def _thresholded(node: Node) -> str:
    return f"({{0}} <= {number(_attribute(node, 'alpha', 1.0))} ? 0.0f : {{0}})"


def _hard_sigmoid(node: Node) -> str:
    alpha, beta = number(_attribute(node, "alpha", 0.2)), number(_attribute(node, "beta", 0.5))
    return f"k_clip({alpha} * {{0}} + {beta}, 0.0f, 1.0f)"


def _swish(node: Node) -> str:
    return f"{{0}} * k_sigmoid({number(_attribute(node, 'alpha', 1.0))} * {{0}})"


def _gelu(node: Node) -> str:
    if node.attributes.get("approximate", "none") == "tanh":
        inner = "0.7978845608f * ({0} + 0.044715f * {0} * {0} * {0})"
        return f"0.5f * {{0}} * (1.0f + k_tanh({inner}))"
    return "0.5f * {0} * (1.0f + erff({0} * 0.70710678118f))"


def _is_inf(node: Node) -> str:
    tests = [("detect_positive", "{0} > 3.4028234e38f"), ("detect_negative", "{0} < -3.4028234e38f")]
    return "(" + " || ".join(test for name, test in tests if _attribute(node, name, 1)) + ")"


# Whose expression depends on attributes. Those of the second table are of bool.
WITH_ATTRIBUTES: dict[str, Callable[[Node], str]] = {
    "Celu": _celu,
    "Elu": _elu,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "LeakyRelu": _leaky,
    "Selu": _selu,
    "Swish": _swish,
    "ThresholdedRelu": _thresholded,
}
TESTS: dict[str, Callable[[Node], str]] = {"IsInf": _is_inf, "IsNaN": lambda node: "{0} != {0}"}
