"""Networks as plain objects that rewrites can change; each operator has the sources that it computes."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.schema import load_schema
from tests.kit.build import Build, Code, options_of

Shape = tuple[int, ...]
Use = tuple["Operator", int]


@dataclass(eq=False)
class Value:
    """A tensor; it is a constant if it has `data`."""

    name: str
    shape: Shape
    dtype: str = "FLOAT32"
    data: NDArray[Any] | None = None


@dataclass(eq=False)
class Operator:
    """An operator; `group` names those that a tool can fuse into one."""

    code: str
    inputs: list[Value]
    outputs: list[Value]
    options: dict[str, Any] = field(default_factory=dict)
    sources: set[int] = field(default_factory=set)
    group: str = ""

    @property
    def activation(self) -> str:
        """The operator's fused activation function."""
        return str(self.options.get("fused_activation_function", "NONE"))

    @property
    def is_weighted(self) -> bool:
        """Whether the operator has weights and a bias."""
        return self.code in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


class Net:
    """A network under construction. `scope` is the prefix of names that are paths."""

    def __init__(self, seed: int, style: str) -> None:
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.operators: list[Operator] = []
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.style, self.scope, self.group, self._named = style, "net", "", 0

    def name(self, code: str) -> str:
        """Return a new name."""
        self._named += 1
        kinds = {"path": f"{self.scope}/{code.lower()}_{self._named}", "number": f"t{self._named}"}
        return kinds.get(self.style, f"{code.lower()}_{self._named}")

    def input(self, *shape: int) -> Value:
        """Add an input."""
        self.inputs.append(Value(f"x{len(self.inputs)}", shape))
        return self.inputs[-1]

    def constant(self, data: NDArray[Any], kind: str = "w") -> Value:
        """Return a constant."""
        return Value(self.name(kind), data.shape, data.dtype.name.upper(), data)

    def weights(self, *shape: int) -> Value:
        """Return random weights."""
        return self.constant((self.numbers.normal(size=shape) * 0.3).astype(np.float32))

    def integers(self, *values: int) -> Value:
        """Return a constant such as a shape."""
        return self.constant(np.array(values, np.int32), "c")

    def scalar(self, value: float) -> Value:
        """Return a constant without dimensions."""
        return self.constant(np.array(value, np.float32), "c")

    def add(self, code: str, inputs: list[Value], shape: Shape, **options: Any) -> Value:
        """Append an operator with one output, and return that."""
        made = Value(self.name(code), shape)
        self.operators.append(Operator(code, inputs, [made], options, group=self.group))
        return made

    # ------------------------------------------------------------------ layers

    def conv(self, x: Value, channels: int, kernel: int = 3, stride: int = 1) -> Value:
        """Append a convolution."""
        n, h, w, c = x.shape
        inputs = [x, self.weights(channels, kernel, kernel, c), self.weights(channels)]
        shape = (n, -(-h // stride), -(-w // stride), channels)
        return self.add("CONV_2D", inputs, shape, stride_w=stride, stride_h=stride)

    def depthwise(self, x: Value) -> Value:
        """Append a depthwise convolution."""
        inputs = [x, self.weights(1, 3, 3, x.shape[-1]), self.weights(x.shape[-1])]
        return self.add("DEPTHWISE_CONV_2D", inputs, x.shape, stride_w=1, stride_h=1, depth_multiplier=1)

    def dense(self, x: Value, width: int, weights: list[Value] | None = None) -> Value:
        """Append a fully connected layer; with `weights`, the layer is tied to another."""
        weights = weights or self.dense_weights(x.shape[-1], width)
        return self.add("FULLY_CONNECTED", [x, *weights], (*x.shape[:-1], width), keep_num_dims=len(x.shape) > 2)

    def dense_weights(self, inputs: int, width: int) -> list[Value]:
        """Return weights and bias."""
        return [self.weights(width, inputs), self.weights(width)]

    def act(self, x: Value, code: str) -> Value:
        """Append an operator with one input that preserves the shape."""
        return self.add(code, [x], x.shape)

    def any_act(self, x: Value) -> Value:
        """Append a random activation, or none."""
        code = self.random.choice(["RELU", "RELU6", "LOGISTIC", "HARD_SWISH", "TANH", "SWISH", "NONE"])
        if code == "SWISH":
            return self.add("MUL", [x, self.act(x, "LOGISTIC")], x.shape)
        return x if code == "NONE" else self.act(x, code)

    def batch_norm(self, x: Value) -> Value:
        """Append a multiplication and an addition by channel."""
        factor = (1 + 0.3 * self.numbers.normal(size=x.shape[-1])).astype(np.float32)
        x = self.add("MUL", [x, self.constant(factor, "c")], x.shape)
        return self.add("ADD", [x, self.weights(x.shape[-1])], x.shape)

    def layer_norm(self, x: Value) -> Value:
        """Append a layer normalization, decomposed."""
        self.group = f"LayerNorm#{self.name('g')}"
        narrow, axis = (*x.shape[:-1], 1), len(x.shape) - 1
        mean = self.add("MEAN", [x, self.integers(axis)], narrow, keep_dims=True)
        squares = self.add("SQUARED_DIFFERENCE", [x, mean], x.shape)
        variance = self.add("MEAN", [squares, self.integers(axis)], narrow, keep_dims=True)
        root = self.add("RSQRT", [self.add("ADD", [variance, self.scalar(1e-5)], narrow)], narrow)
        x = self.add("MUL", [self.add("SUB", [x, mean], x.shape), root], x.shape)
        x = self.add("MUL", [x, self.weights(x.shape[-1])], x.shape)
        x = self.add("ADD", [x, self.weights(x.shape[-1])], x.shape)
        self.group = ""
        return x

    def gelu(self, x: Value) -> Value:
        """Append a GELU, decomposed."""
        self.group = f"Gelu#{self.name('g')}"
        error = self.add("CUSTOM:Erf", [self.add("MUL", [x, self.scalar(0.70710677)], x.shape)], x.shape)
        error = self.add("ADD", [error, self.scalar(1)], x.shape)
        half = self.add("MUL", [x, self.scalar(0.5)], x.shape)
        x = self.add("MUL", [error, half], x.shape)
        self.group = ""
        return x

    # ------------------------------------------------------------------ asking and changing

    def users(self) -> dict[Value, list[Use]]:
        """Return the operators that read each value, with the slot."""
        users: dict[Value, list[Use]] = defaultdict(list)
        for operator in self.operators:
            for slot, value in enumerate(operator.inputs):
                users[value].append((operator, slot))
        return users

    def makers(self) -> dict[Value, Operator]:
        """Return the operator that produces each value."""
        return {value: operator for operator in self.operators for value in operator.outputs}

    def values(self) -> set[Value]:
        """Return the computed values and the inputs."""
        return {*self.inputs, *(value for operator in self.operators for value in operator.outputs)}

    def replace(self, old: Value, new: Value) -> None:
        """Make all readers of `old` read `new` instead."""
        for operator in self.operators:
            operator.inputs = [new if value is old else value for value in operator.inputs]
        self.outputs = [new if value is old else value for value in self.outputs]

    def put(self, old: Operator, new: list[Operator]) -> None:
        """Replace an operator by others."""
        at = self.operators.index(old)
        self.operators[at : at + 1] = new

    def prune(self) -> None:
        """Remove operators that no output needs."""
        makers, needed, waiting = self.makers(), set[Operator](), list(self.outputs)
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is not None and maker not in needed:
                needed.add(maker)
                waiting += maker.inputs
        self.operators = [operator for operator in self.operators if operator in needed]

    def sort(self, *, any_order: bool = False) -> None:
        """Put the operators in an executable order."""
        makers, done, left = self.makers(), set[Operator](), list(self.operators)
        self.operators = []
        while left:
            ready = [o for o in left if all(makers.get(value) is None or makers[value] in done for value in o.inputs)]
            chosen = self.random.choice(ready) if any_order else ready[0]
            left.remove(chosen)
            done.add(chosen)
            self.operators.append(chosen)

    def to_bytes(self) -> bytes:
        """Return the model."""
        build = Build()
        graph = build.graph()
        at: dict[Value, int] = {}

        def tensor(value: Value) -> int:
            if value not in at:
                data = None if value.data is None else value.data.tobytes()
                at[value] = graph.tensor(value.name, value.shape, value.dtype, data=data)
            return at[value]

        inputs = [tensor(value) for value in self.inputs]
        for operator in self.operators:
            code, _, custom = operator.code.partition(":")
            ends = [tensor(value) for value in operator.inputs], [tensor(value) for value in operator.outputs]
            known = load_schema("tflite").tables.get(options_of(code) or "")
            options = {name: value for name, value in operator.options.items() if known and name in known.by_name}
            graph.operator(Code(code, 1, custom or None), *ends, table=None if custom else "", **options)
        graph.ends(inputs, [tensor(value) for value in self.outputs])
        return build.to_bytes()
