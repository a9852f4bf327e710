"""TorchScript code to ONNX: each statement of `forward` becomes nodes, and what is not known here is refused.

Buffers that `forward` writes to (the memory of recurrent exporters) become states: inputs and outputs of the network.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from .common import ImportFailed
from .torchscript import ScriptModule, read_torchscript
from .torchscript_ops import FUNCTIONS, Emit, Tensor, known_module

OPSET, IR_VERSION = 18, 8
MAX_STEPS = 100_000
_FUNCTIONAL = "__torch__.torch.nn.functional"


def torchscript_network(path: Path, observations: int) -> tuple[onnx.ModelProto, dict[str, int]]:
    """The archive's network and the width of each state it keeps.

    It goes from `observation` to `action`, and from `state.<buffer>` to `next.<buffer>` where it has memory; all of shape (1, width).

    Raises:
        ImportFailed: see `read_torchscript`; or its code does what is not known here.
    """
    module, constants = read_torchscript(path)
    emit = Emit(str(path))
    translator = _Translator(str(path), emit, constants)
    try:
        action = translator.call(module, "forward", [Tensor("observation")])
    except ImportFailed:
        raise
    except (RecursionError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
        raise ImportFailed(
            f"{path}: the network's code cannot be followed: {error}; export it to ONNX instead"
        ) from None
    if not isinstance(action, Tensor):
        raise ImportFailed(f"{path}: forward gives {type(action).__name__}, expected the action alone")
    emit.node("Identity", [action], name="action")
    return _model(emit, translator.buffers, observations), {b.name: b.initial.size for b in translator.buffers}


def _model(emit: Emit, buffers: "list[_Buffer]", observations: int) -> onnx.ModelProto:
    inputs = [helper.make_tensor_value_info("observation", TensorProto.FLOAT, [1, observations])]
    outputs = [helper.make_tensor_value_info("action", TensorProto.FLOAT, None)]
    for buffer in buffers:
        flat = [1, buffer.initial.size]
        inputs.append(helper.make_tensor_value_info(f"state.{buffer.name}", TensorProto.FLOAT, flat))
        outputs.append(helper.make_tensor_value_info(f"next.{buffer.name}", TensorProto.FLOAT, flat))
        value = (
            emit.node("Sub", [buffer.value, emit.constant(buffer.initial)]) if buffer.initial.any() else buffer.value
        )
        emit.node("Reshape", [value, emit.axes(*flat)], name=f"next.{buffer.name}")
    graph = helper.make_graph(emit.nodes, "policy", inputs, outputs, emit.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    try:
        del model.graph.output[0].type.tensor_type.shape.dim[:]
        model.graph.output[0].type.tensor_type.ClearField("shape")
        model = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ImportFailed(
            f"{emit.source}: the network does not take an observation of {observations} values: {error}"
        ) from None
    return model


@dataclass(eq=False)
class _Buffer:
    """A tensor of a module that `forward` may write to; the state is its difference from its initial value."""

    name: str
    initial: np.ndarray
    value: Tensor


class _Translator:
    def __init__(self, source: str, emit: Emit, constants: Mapping[str, object]) -> None:
        self._source, self._emit, self._constants, self._steps = source, emit, constants, 0
        self._buffers: dict[tuple[int, str], _Buffer] = {}
        self._written: dict[tuple[int, str], bool] = {}

    @property
    def buffers(self) -> list[_Buffer]:
        """Those that were written to."""
        return list(self._buffers.values())

    def call(self, module: ScriptModule, method: str, arguments: Sequence[object]) -> object:
        """Nodes of one call; of torch's own modules by what they are, of others by their code."""
        known = known_module(module) if method.startswith("forward") else None
        if known is not None:
            return known(self._emit, module, *arguments)
        function = module.method(method, self._source)
        names = [argument.arg for argument in function.args.args]
        if len(names) != len(arguments) + 1:
            raise self._refuse(f"{module.kind}.{method} takes {len(names) - 1} values, got {len(arguments)}")
        return _Frame(self, dict(zip(names, [module, *arguments], strict=True))).run(function.body)[1]

    def attribute(self, module: ScriptModule, name: str) -> object:
        """An attribute's value: a weight as a constant, a buffer that is written to as what it is by now."""
        if name not in module.attributes:
            constant = module.constant(name)
            if constant is None:
                raise self._refuse(f"{module.kind} has no attribute {name!r}")
            return constant
        value = module.attributes[name]
        return View(module, name, value) if isinstance(value, np.ndarray) else value

    def constant(self, name: str) -> object:
        """One of the code's constants."""
        if name not in self._constants:
            raise self._refuse(f"uses the constant {name!r}")
        value = self._constants[name]
        return self._emit.constant(value) if isinstance(value, np.ndarray) else value

    def read(self, value: object) -> object:
        """A view's tensor; anything else as it is."""
        if not isinstance(value, View):
            return value
        buffer = self._buffers.get((id(value.module), value.name))
        return self._emit.constant(value.array) if buffer is None else buffer.value

    def write(self, view: "View", value: Tensor) -> Tensor:
        """torch.copy_: the buffer is a state from the start of `forward` on."""
        key = (id(view.module), view.name)
        if key not in self._buffers:
            raise self._refuse(f"{view.module.kind}.{view.name} is written to before its state is known")
        self._buffers[key].value = value
        return value

    def declare(self, view: "View") -> None:
        """Make a buffer a state."""
        key = (id(view.module), view.name)
        if key not in self._buffers:
            state = self._emit.node("Reshape", [Tensor(f"state.{view.name}"), self._emit.axes(*view.array.shape)])
            start = self._emit.node("Add", [state, self._emit.constant(view.array)]) if view.array.any() else state
            self._buffers[key] = _Buffer(view.name, view.array, start)

    def step(self) -> None:
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise self._refuse(f"more than {MAX_STEPS} statements")

    def function(self, name: str, arguments: Sequence[object]) -> object:
        """Nodes of one of torch's functions."""
        if name not in FUNCTIONS:
            raise self._refuse(f"uses torch.{name}")
        return FUNCTIONS[name](self._emit, *[self.read(argument) for argument in arguments])

    def refuse(self, what: str) -> ImportFailed:
        return self._refuse(what)

    def _refuse(self, what: str) -> ImportFailed:
        return ImportFailed(
            f"{self._source}: the network's code {what}, which is not translated. Export the policy to ONNX with its own tool"
        )


@dataclass(frozen=True)
class _Function:
    """One of torch.nn.functional, under another name."""

    name: str


@dataclass(frozen=True, eq=False)
class View:
    """A module's tensor by its place, so that a write to it can be followed."""

    module: ScriptModule
    name: str
    array: np.ndarray


class _Frame:
    """The names of one call."""

    def __init__(self, translator: _Translator, names: dict[str, object]) -> None:
        self._translator, self._names = translator, names

    def run(self, body: Sequence[ast.stmt]) -> tuple[bool, object]:
        """Whether it returned, and what."""
        self._declare_written(body)
        for statement in body:
            self._translator.step()
            if isinstance(statement, ast.Return):
                return True, None if statement.value is None else self._read(self._value(statement.value))
            if isinstance(statement, ast.If):
                returned, value = self.run(self._branch(statement))
                if returned:
                    return True, value
            elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                self._assign(statement.targets[0], self._value(statement.value))
            elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                self._assign(statement.target, self._value(statement.value))
            elif isinstance(statement, ast.Expr):
                self._value(statement.value)
            elif not isinstance(statement, ast.Pass):
                raise self._translator.refuse(f"has a {type(statement).__name__}")
        return False, None

    def _declare_written(self, body: Sequence[ast.stmt]) -> None:
        """Buffers that are written to further down are states from the start, for they may be read before."""
        views: dict[str, View] = {}

        def view_of(node: ast.expr) -> View | None:
            if isinstance(node, ast.Name):
                return views.get(node.id)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = self._names.get(node.value.id)
                array = module.attributes.get(node.attr) if isinstance(module, ScriptModule) else None
                if isinstance(module, ScriptModule) and isinstance(array, np.ndarray):
                    return View(module, node.attr, array)
            whole = isinstance(node, ast.Call) and _called(node.func) == "slice" and len(node.args) == 1
            return view_of(node.args[0]) if isinstance(node, ast.Call) and whole else None

        for statement in body:
            for node in ast.walk(statement):
                if isinstance(node, ast.Call) and _called(node.func) == "copy_" and node.args:
                    written = view_of(node.args[0])
                    if written is not None:
                        self._translator.declare(written)
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                view = view_of(statement.value)
                if view is not None:
                    views[statement.targets[0].id] = view

    def _branch(self, statement: ast.If) -> Sequence[ast.stmt]:
        test = self._value(statement.test)
        if not isinstance(test, bool):
            raise self._translator.refuse("decides by what it computes")
        return statement.body if test else statement.orelse

    def _assign(self, target: ast.expr, value: object) -> None:
        if isinstance(target, ast.Name):
            self._names[target.id] = value
        elif isinstance(target, ast.Tuple) and isinstance(value, (tuple, list)) and len(target.elts) == len(value):
            for part, item in zip(target.elts, value, strict=True):
                self._assign(part, item)
        else:
            raise self._translator.refuse("assigns to something else than names")

    def _read(self, value: object) -> object:
        if isinstance(value, (tuple, list)):
            return type(value)(self._read(part) for part in value)
        return self._translator.read(value)

    def _value(self, node: ast.expr) -> object:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in self._names:
                raise self._translator.refuse(f"uses {node.id!r}")
            return self._names[node.id]
        if isinstance(node, (ast.Tuple, ast.List)):
            items = [self._value(part) for part in node.elts]
            return items if isinstance(node, ast.List) else tuple(items)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            number = self._value(node.operand)
            if isinstance(number, (int, float)):
                return -number
        if isinstance(node, ast.Attribute):
            if ast.unparse(node.value) == _FUNCTIONAL:
                return _Function(node.attr)
            if ast.unparse(node.value) == "CONSTANTS":
                return self._translator.constant(node.attr)
            owner = self._value(node.value)
            if isinstance(owner, ScriptModule):
                return self._translator.attribute(owner, node.attr)
        if isinstance(node, ast.Call):
            return self._call(node)
        raise self._translator.refuse(f"has {ast.unparse(node)[:60]!r}")

    def _call(self, node: ast.Call) -> object:
        name = _called(node.func)
        if isinstance(node.func, ast.Name) and name in ("annotate", "unchecked_cast") and len(node.args) == 2:
            return self._value(node.args[1])
        if isinstance(node.func, ast.Name) and name == "getattr" and len(node.args) == 2:
            owner, key = self._value(node.args[0]), self._value(node.args[1])
            if isinstance(owner, ScriptModule):
                return self._translator.attribute(owner, str(key))
        arguments = [self._value(argument) for argument in node.args]
        if isinstance(node.func, ast.Name) and name == "bool" and isinstance(arguments[0], bool):
            return arguments[0]
        if isinstance(node.func, ast.Name):
            function = self._names.get(name)
            if isinstance(function, _Function):
                return self._translator.function(function.name, [self._read(argument) for argument in arguments])
            raise self._translator.refuse(f"calls {name!r}")
        assert isinstance(node.func, ast.Attribute)
        path = ast.unparse(node.func.value)
        if path == "torch" and name == "slice" and len(arguments) == 1:
            return arguments[0]
        if path == "torch" and name == "copy_" and isinstance(arguments[0], View):
            value = self._read(arguments[1])
            if isinstance(value, Tensor):
                return self._translator.write(arguments[0], value)
        if path in ("torch", _FUNCTIONAL):
            return self._translator.function(name, [self._read(argument) for argument in arguments])
        owner = self._value(node.func.value)
        if isinstance(owner, ScriptModule):
            return self._translator.call(owner, name, [self._read(argument) for argument in arguments])
        raise self._translator.refuse(f"calls {ast.unparse(node.func)[:60]!r}")


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
