"""What torch's functions and modules are in ONNX: as many as policies use."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from .common import ImportFailed
from .torchscript import ScriptModule


@dataclass(frozen=True)
class Tensor:
    """A value of the ONNX graph."""

    name: str


class Emit:
    """Nodes and weights as they come."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []

    def constant(self, value: np.ndarray) -> Tensor:
        """A weight."""
        kind = np.float32 if value.dtype.kind == "f" else value.dtype
        self.weights.append(numpy_helper.from_array(np.array(value, dtype=kind, order="C"), f"w{len(self.weights)}"))
        return Tensor(self.weights[-1].name)

    def number(self, value: object) -> Tensor:
        """A number, as a tensor without axes."""
        if isinstance(value, Tensor):
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(f"a {type(value).__name__} where a number is expected")
        return self.constant(np.array(value, dtype=np.float32))

    def node(
        self, kind: str, inputs: Sequence[object], name: str = "", outputs: int = 0, **attributes: float | list[int]
    ) -> Tensor:
        """A node's first output."""
        return self.many(kind, inputs, name, max(1, outputs), **attributes)[0]

    def many(
        self, kind: str, inputs: Sequence[object], name: str, outputs: int, **attributes: float | list[int]
    ) -> list[Tensor]:
        """A node's outputs."""
        names = [name or f"v{len(self.nodes)}", *(f"v{len(self.nodes)}.{i}" for i in range(1, outputs))]
        places = [item.name if isinstance(item, Tensor) else self._empty(item) for item in inputs]
        node = helper.make_node(kind, places, names)
        node.attribute.extend(helper.make_attribute(key, value) for key, value in attributes.items())
        self.nodes.append(node)
        return [Tensor(place) for place in names]

    def axes(self, *values: int) -> Tensor:
        """Whole numbers as a tensor."""
        return self.constant(np.array(values, dtype=np.int64))

    def refuse(self, what: str) -> ImportFailed:
        """The error that says what is not translated."""
        return ImportFailed(
            f"{self.source}: the network's code has {what}, which is not translated. Export it to ONNX with its own tool"
        )

    def _empty(self, item: object) -> str:
        if item is None:
            return ""
        raise self.refuse(f"a {type(item).__name__} where a tensor is expected")


def _linear(emit: Emit, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    product = emit.node("MatMul", [x, emit.node("Transpose", [weight], perm=[1, 0])])
    return product if bias is None else emit.node("Add", [product, bias])


def _addmm(emit: Emit, bias: Tensor, x: Tensor, weight: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    if beta != 1 or alpha != 1:
        raise emit.refuse("addmm with factors")
    return emit.node("Add", [emit.node("MatMul", [x, weight]), bias])


def _elu(emit: Emit, x: Tensor, alpha: float = 1.0, *scales: object) -> Tensor:
    if any(scale not in (1, 1.0, False) for scale in scales):
        raise emit.refuse("elu with scales")
    return emit.node("Elu", [x], alpha=float(alpha))


def _scaled(kind: str) -> Callable[..., Tensor]:
    """Add and sub: their third argument multiplies the second."""

    def function(emit: Emit, a: object, b: object, alpha: float = 1) -> Tensor:
        if alpha != 1:
            raise emit.refuse(f"{kind} with a factor")
        return emit.node(kind, [emit.number(a), emit.number(b)])

    return function


def _binary(kind: str) -> Callable[..., Tensor]:
    return lambda emit, a, b: emit.node(kind, [emit.number(a), emit.number(b)])


def _unary(kind: str, **attributes: float) -> Callable[..., Tensor]:
    return lambda emit, x, *inplace: emit.node(kind, [x], **attributes)


def _leaky_relu(emit: Emit, x: Tensor, slope: float = 0.01, *inplace: bool) -> Tensor:
    return emit.node("LeakyRelu", [x], alpha=float(slope))


def _silu(emit: Emit, x: Tensor, *inplace: bool) -> Tensor:
    return emit.node("Mul", [x, emit.node("Sigmoid", [x])])


def _clamp(emit: Emit, x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    return emit.node("Clip", [x, *(None if bound is None else emit.number(bound) for bound in (low, high))])


def _cat(emit: Emit, parts: list[Tensor], dim: int = 0) -> Tensor:
    return emit.node("Concat", parts, axis=dim)


def _slice(
    emit: Emit, x: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    last = 2**31 - 1
    return emit.node(
        "Slice", [x, *(emit.axes(n) for n in (start or 0, last if end is None else min(end, last), dim, step))]
    )


def _squeeze(emit: Emit, x: Tensor, dim: int) -> Tensor:
    return emit.node("Squeeze", [x, emit.axes(dim)])


def _unsqueeze(emit: Emit, x: Tensor, dim: int) -> Tensor:
    return emit.node("Unsqueeze", [x, emit.axes(dim)])


def _norm(emit: Emit, x: Tensor, order: float = 2.0, dim: list[int] | None = None, keepdim: bool = False) -> Tensor:
    if order != 2.0 or not dim:
        raise emit.refuse("a norm other than the length along given axes")
    return emit.node("ReduceL2", [x, emit.axes(*dim)], keepdims=int(keepdim))


def _normalize(
    emit: Emit, x: Tensor, order: float = 2.0, dim: int = 1, eps: float = 1e-12, out: object = None
) -> Tensor:
    if out is not None:
        raise emit.refuse("normalize into another tensor")
    return emit.node("Div", [x, emit.node("Max", [_norm(emit, x, order, [dim], True), emit.number(eps)])])


FUNCTIONS: dict[str, Callable[..., object]] = {
    "linear": _linear,
    "addmm": _addmm,
    "matmul": _binary("MatMul"),
    "t": lambda emit, x: emit.node("Transpose", [x], perm=[1, 0]),
    "elu": _elu,
    "elu_": _elu,
    "relu": _unary("Relu"),
    "relu_": _unary("Relu"),
    "tanh": _unary("Tanh"),
    "sigmoid": _unary("Sigmoid"),
    "selu": _unary("Selu"),
    "softsign": _unary("Softsign"),
    "leaky_relu": _leaky_relu,
    "silu": _silu,
    "sqrt": _unary("Sqrt"),
    "neg": _unary("Neg"),
    "add": _scaled("Add"),
    "sub": _scaled("Sub"),
    "mul": _binary("Mul"),
    "div": _binary("Div"),
    "clamp": _clamp,
    "cat": _cat,
    "slice": _slice,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "clamp_min": _binary("Max"),
    "expand_as": lambda emit, x, other: x,  # ONNX stretches sizes of 1 by itself
    "linalg_vector_norm": _norm,
    "norm": _norm,
    "normalize": _normalize,
    "detach": lambda emit, x: x,
}


def _array(emit: Emit, module: ScriptModule, name: str) -> np.ndarray:
    value = module.attributes.get(name)
    if not isinstance(value, np.ndarray):
        raise emit.refuse(f"{module.kind} without {name}")
    return value


def _linear_module(emit: Emit, module: ScriptModule, x: Tensor) -> Tensor:
    bias = emit.constant(_array(emit, module, "bias")) if module.attributes.get("bias") is not None else None
    return _linear(emit, x, emit.constant(_array(emit, module, "weight")), bias)


def _rnn(gates: int, order: tuple[int, ...], kind: str, **attributes: int) -> Callable[..., object]:
    """torch.nn.LSTM or GRU without batch_first, both ways or projections; torch's gates in ONNX's order."""

    def ordered(weight: np.ndarray) -> np.ndarray:
        return np.concatenate([np.split(weight, gates)[i] for i in order])

    def module_nodes(emit: Emit, module: ScriptModule, x: Tensor, state: Tensor | Sequence[Tensor]) -> object:
        for flag in ("batch_first", "bidirectional"):
            if module.constant(flag) is not False:
                raise emit.refuse(f"{module.kind} with {flag} {module.constant(flag)}")
        states = [state] if isinstance(state, Tensor) else list(state)
        layers = sum(name.startswith("weight_ih_l") for name in module.attributes)
        last: list[list[Tensor]] = [[] for _ in states]
        for layer in range(layers):
            weights = [ordered(_array(emit, module, f"weight_{part}_l{layer}"))[None] for part in ("ih", "hh")]
            bias = np.concatenate([ordered(_array(emit, module, f"bias_{part}_l{layer}")) for part in ("ih", "hh")])[
                None
            ]
            before = [_slice(emit, part, 0, layer, layer + 1) for part in states]
            inputs = [x, *(emit.constant(part) for part in (*weights, bias)), None, *before]
            out, *after = emit.many(kind, inputs, "", 1 + len(states), hidden_size=weights[1].shape[2], **attributes)
            x = _squeeze(emit, out, 1)
            for parts, part in zip(last, after, strict=True):
                parts.append(part)
        following = tuple(_cat(emit, parts, 0) for parts in last)
        return x, following[0] if isinstance(state, Tensor) else following

    return module_nodes


def _activation(function: str, *constants: str) -> Callable[..., Tensor]:
    """A module that is one function; its numbers lie in its class."""

    def module_nodes(emit: Emit, module: ScriptModule, x: Tensor) -> Tensor:
        numbers = [module.constant(name) for name in constants]
        return FUNCTIONS[function](emit, x, *numbers)  # pyright: ignore[reportReturnType]

    return module_nodes


_CONSTANTS = {"ELU": "alpha", "LeakyReLU": "negative_slope"}  # which traced modules have in their code alone
MODULES: dict[str, Callable[..., object]] = {
    "torch.nn.modules.linear.Linear": _linear_module,
    "torch.nn.modules.linear.Identity": lambda emit, module, x: x,
    "torch.nn.modules.activation.ELU": _activation("elu", _CONSTANTS["ELU"]),
    "torch.nn.modules.activation.ReLU": _activation("relu"),
    "torch.nn.modules.activation.Tanh": _activation("tanh"),
    "torch.nn.modules.activation.Sigmoid": _activation("sigmoid"),
    "torch.nn.modules.activation.SELU": _activation("selu"),
    "torch.nn.modules.activation.LeakyReLU": _activation("leaky_relu", _CONSTANTS["LeakyReLU"]),
    "torch.nn.modules.activation.SiLU": _activation("silu"),
    "torch.nn.modules.rnn.LSTM": _rnn(4, (0, 3, 1, 2), "LSTM"),
    "torch.nn.modules.rnn.GRU": _rnn(3, (1, 0, 2), "GRU", linear_before_reset=1),
}


def known_module(module: ScriptModule) -> Callable[..., object] | None:
    """What a module of torch's own is in ONNX; None where its code has to say it."""
    constant = _CONSTANTS.get(module.kind.rpartition(".")[2])
    if constant is not None and module.constant(constant) is None:
        return None
    return MODULES.get(module.kind)
