"""Faults of the kinds that tools really make, planted into a model by the published object API."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tflite

_CODES = {value: name for name, value in vars(tflite.BuiltinOperator).items() if not name.startswith("_")}
_OTHERS = {"ADD": "SUB", "MUL": "ADD", "MAXIMUM": "MINIMUM", "MAX_POOL_2D": "AVERAGE_POOL_2D", "LOGISTIC": "TANH",
           "RELU": "RELU6", "HARD_SWISH": "LOGISTIC", "TANH": "LOGISTIC", "SUB": "MUL", "ABS": "NEG"}  # fmt: skip
_HAND_ON = ("MAX_POOL_2D", "RESHAPE", "PAD", "TRANSPOSE", "STRIDED_SLICE", "SLICE", "GATHER")
_WEIGHTED = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")


class Fault(NamedTuple):
    """A model with a fault, its kind, and the operator that has it."""

    kind: str
    operator: int
    model: bytes


class Planting:
    """A model to plant one fault into; `data` is read again for each."""

    def __init__(self, data: bytes, operator: int) -> None:
        self.model: Any = tflite.ModelT.InitFromPackedBuf(data, 0)
        self.graph = self.model.subgraphs[0]
        self.operator = self.graph.operators[operator]
        self.code = code_of(self.model, self.operator)

    def tensor(self, slot: int) -> Any:
        inputs = self.operator.inputs
        return self.graph.tensors[inputs[slot]] if len(inputs) > slot and inputs[slot] >= 0 else None

    def constant(self, slot: int, dtype: Any) -> Any:
        """Return a copy of a constant, None where the input is none, or of another size."""
        tensor = self.tensor(slot)
        data = None if tensor is None else self.model.buffers[tensor.buffer].data
        if data is None or not len(data) or len(data) != np.prod(tensor.shape) * np.dtype(dtype).itemsize:
            return None
        return np.frombuffer(bytes(data), dtype).reshape(tensor.shape).copy()

    def put(self, slot: int, values: Any) -> bool:
        """Give the operator a constant of its own; return whether that is another one."""
        tensor = self.tensor(slot)
        before = bytes(self.model.buffers[tensor.buffer].data)
        buffer = tflite.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        copy = _copied(tensor)
        copy.buffer, copy.shape = len(self.model.buffers) - 1, list(values.shape)
        self.graph.tensors.append(copy)
        self.operator.inputs = [*self.operator.inputs]
        self.operator.inputs[slot] = len(self.graph.tensors) - 1
        return bool(before != values.tobytes())


def _copied(tensor: Any) -> Any:
    copy = tflite.TensorT()
    vars(copy).update(vars(tensor))
    return copy


def code_of(model: Any, operator: Any) -> str:
    code = model.operatorCodes[operator.opcodeIndex]
    return str(_CODES.get(max(code.builtinCode, code.deprecatedBuiltinCode), ""))


def _scaled(quantization: Any, factor: float) -> Any:
    copy = tflite.QuantizationParametersT()
    vars(copy).update(vars(quantization))
    copy.scale = [float(np.float32(scale * factor)) for scale in quantization.scale]
    return copy


def _is_quantized(tensor: Any) -> bool:
    found = None if tensor is None else tensor.quantization
    return found is not None and found.scale is not None and len(found.scale) > 0


def scale(at: Planting) -> bool:
    """The scale of weights is 2 % too large."""
    weights = at.tensor(1)
    if at.code not in _WEIGHTED or not _is_quantized(weights) or at.constant(1, np.uint8) is None:
        return False
    at.put(1, at.constant(1, np.uint8))
    at.tensor(1).quantization = _scaled(weights.quantization, 1.02)
    return True


def zero_point(at: Planting) -> bool:
    """What an operator hands on as it is gets another zero point."""
    tensor = at.graph.tensors[at.operator.outputs[0]]
    if at.code not in _HAND_ON or not _is_quantized(tensor) or tensor.quantization.zeroPoint is None:
        return False
    tensor.quantization = _scaled(tensor.quantization, 1.0)
    zero = int(tensor.quantization.zeroPoint[0])
    tensor.quantization.zeroPoint = [zero + (5 if zero < 100 else -5)]
    return True


def clamp(at: Planting) -> bool:
    """The fused activation is lost."""
    options = at.operator.builtinOptions
    if not getattr(options, "fusedActivationFunction", 0):
        return False
    options.fusedActivationFunction = 0
    return True


def transposed(at: Planting) -> bool:
    """A constant is transposed: two axes of one size change places, or one runs backwards."""
    if at.code not in _WEIGHTED:
        return False
    found = at.constant(1, np.float32) if at.tensor(1) is not None and at.tensor(1).type == 0 else None
    values = at.constant(1, np.int8) if found is None else found
    if values is None or values.ndim < 2:
        return False
    pair = (0, 1) if values.ndim == 2 else (1, 2)
    same = values.shape[pair[0]] == values.shape[pair[1]] > 1
    return at.put(1, np.ascontiguousarray(np.swapaxes(values, *pair) if same else np.flip(values, pair)))


def bias(at: Planting) -> bool:
    """The bias is dropped."""
    values = at.constant(2, np.int32) if at.code in _WEIGHTED else None
    return values is not None and bool(at.put(2, np.zeros_like(values)))


def axis(at: Planting) -> bool:
    """An axis is off by one."""
    options = at.operator.builtinOptions
    if at.code in ("CONCATENATION", "PACK", "GATHER") and hasattr(options, "axis"):
        options.axis += 1 if options.axis < 1 else -1
        return True
    values = at.constant(1, np.int32) if at.code in ("MEAN", "SUM", "REDUCE_MAX", "ARG_MAX", "TRANSPOSE") else None
    if values is None or not values.size:
        return False
    rank = len(at.tensor(0).shape)
    if at.code == "TRANSPOSE":
        return at.put(1, np.roll(values, 1))
    return at.put(1, np.where(values < 0, values + rank, values) - 1 if values.max() == rank - 1 else values + 1)


def padding(at: Planting) -> bool:
    """Padding is on the other side, or is none."""
    if at.code == "PAD":
        values = at.constant(1, np.int32)
        return values is not None and at.put(1, np.ascontiguousarray(values[:, ::-1]))
    options = at.operator.builtinOptions
    if not hasattr(options, "padding") or options.padding != 0:
        return False
    options.padding = 1
    return True


def nibbles(at: Planting) -> bool:
    """The two int4 numbers in a byte change places."""
    tensor = at.tensor(1)
    if tensor is None or tensor.type != tflite.TensorType.INT4:
        return False
    data = np.frombuffer(bytes(at.model.buffers[tensor.buffer].data), np.uint8)
    buffer = tflite.BufferT()
    buffer.data = (data << 4) | (data >> 4)
    at.model.buffers.append(buffer)
    tensor.buffer = len(at.model.buffers) - 1
    return True


def kernel(at: Planting) -> bool:
    """The operator is another one."""
    other = _OTHERS.get(at.code)
    if other is None:
        return False
    code = tflite.OperatorCodeT()
    code.builtinCode = getattr(tflite.BuiltinOperator, other)
    code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 2 if other in ("ADD", "SUB", "MUL") else 1
    at.model.operatorCodes.append(code)
    at.operator.opcodeIndex = len(at.model.operatorCodes) - 1
    if other in ("ADD", "SUB", "MUL"):
        at.operator.builtinOptions = getattr(tflite, f"{other.title()}OptionsT")()
        at.operator.builtinOptionsType = getattr(tflite.BuiltinOptions, f"{other.title()}Options")
    return True


def saturation(at: Planting) -> bool:
    """The range of an output is a quarter of what it should be."""
    tensor = at.graph.tensors[at.operator.outputs[0]]
    if at.code not in (*_WEIGHTED, "ADD", "MUL") or not _is_quantized(tensor) or tensor.type == 2:
        return False
    tensor.quantization = _scaled(tensor.quantization, 0.25)
    return True


KINDS: tuple[Callable[[Planting], bool], ...] = (
    scale, zero_point, clamp, transposed, bias, axis, padding, nibbles, kernel, saturation
)  # fmt: skip


def plant(data: bytes, kind: Callable[[Planting], bool], operators: Iterable[int] = ()) -> Iterator[Fault]:
    """Yield the model with a fault of a kind, in each operator that can have it, of all or of these."""
    count = len(tflite.ModelT.InitFromPackedBuf(data, 0).subgraphs[0].operators)
    for operator in operators or range(count):
        at = Planting(data, operator)
        wired = all(ends is not None and len(ends) for ends in (at.operator.inputs, at.operator.outputs))
        if wired and kind(at):
            builder = flatbuffers.Builder(len(data))
            builder.Finish(at.model.Pack(builder), b"TFL3")
            yield Fault(kind.__name__, operator, bytes(builder.Output()))
