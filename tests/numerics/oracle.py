"""Own errors without circletools: an operator alone, packed by the published object API and run by LiteRT."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType

RESOLVERS = {
    "litert:reference": OpResolverType.BUILTIN_REF,
    "litert:builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    "litert:xnnpack": OpResolverType.AUTO,
}


def alone(data: bytes, operator: int) -> tuple[bytes, list[int]] | None:
    """Return a model of one operator, and the tensors that it is fed; None for what a lone operator cannot be."""
    model: Any = tflite.ModelT.InitFromPackedBuf(data, 0)
    graph = model.subgraphs[0]
    one = graph.operators[operator]
    made = {int(tensor) for other in graph.operators for tensor in other.outputs} | {int(at) for at in graph.inputs}
    fed = [int(at) for at in dict.fromkeys(one.inputs) if at in made]
    if any(graph.tensors[at].type in (13, 14) for at in (*fed, *one.outputs)):
        return None
    graph.operators, graph.inputs, graph.outputs = [one], fed, list(one.outputs)
    model.signatureDefs, model.metadata = None, None
    builder = flatbuffers.Builder(len(data))
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output()), fed


def run(data: bytes, program: str, inputs: list[Any]) -> list[Any]:
    """Return the outputs of a model."""
    kind = RESOLVERS[program]
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=kind, num_threads=1)
    details = interpreter.get_input_details()
    for detail, value in zip(details, inputs, strict=True):
        if tuple(detail["shape"]) != value.shape:
            interpreter.resize_tensor_input(detail["index"], value.shape)
    interpreter.allocate_tensors()
    for detail, value in zip(details, inputs, strict=True):
        interpreter.set_tensor(detail["index"], value)
    interpreter.invoke()
    return [interpreter.get_tensor(detail["index"]) for detail in interpreter.get_output_details()]


def every_value(data: bytes, inputs: list[Any]) -> dict[int, Any]:
    """Return the values of all tensors that operators make, operator by operator, each fed what those before made."""
    graph: Any = tflite.ModelT.InitFromPackedBuf(data, 0).subgraphs[0]
    known = {int(at): value for at, value in zip(graph.inputs, inputs, strict=True)}
    for index, operator in enumerate(graph.operators):
        part = alone(data, index)
        assert part is not None
        found = run(part[0], "litert:reference", [known[at] for at in part[1]])
        known.update(zip(map(int, operator.outputs), found, strict=True))
    return known


def furthest(data: bytes, operator: int, program: str, known: dict[int, Any]) -> float | None:
    """Return how far an operator is from the reference in another program, in real numbers."""
    part = alone(data, operator)
    if part is None:
        return None
    graph: Any = tflite.ModelT.InitFromPackedBuf(data, 0).subgraphs[0]
    found = run(part[0], program, [known[at] for at in part[1]])
    worst = 0.0
    for tensor, value in zip(graph.operators[operator].outputs, found, strict=True):
        quantization = graph.tensors[tensor].quantization
        scales = [] if quantization is None or quantization.scale is None else list(quantization.scale)
        scale = scales[0] if len(scales) == 1 and value.dtype.kind in "iu" else 1.0
        error = np.abs(value.astype(np.float64) - known[int(tensor)].astype(np.float64)) * scale
        worst = max(worst, float(error.max(initial=0.0)))
    return worst
