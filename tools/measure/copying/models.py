"""The models: tensor -> operator -> tensor."""

import math
from functools import partial

import numpy as np

from tests.kit.build import Build, Code, Graph, Table, quantization
from tools.measure.copying.cases import VARIANTS, Case, Trial, format_of, version
from tools.measure.copying.values import packed, rounds

# LiteRT's Python interface has no arrays of these types. In that case, two other operators convert to the type before
# the operator and back after it; both are exact for every value.
GUISES = {"BFLOAT16": ("UINT16", "BITCAST", 1), "INT2": ("FLOAT32", "CAST", 8)}


def build(case: Case, trial: Trial, variant: str) -> bytes:
    """Return the model of a trial."""
    model = Build("a copy")
    graph = model.graph()
    guise = GUISES.get(case.type) if variant in VARIANTS["litert"] else None
    inputs, outputs = [], []

    def tensor(tensor_type: str = case.type, *, data: bytes | None = None, disguised: bool = False) -> int:
        scales = None if disguised else quantization_of(case, trial)
        name = f"t{len(graph.table.tensors)}"
        return graph.tensor(
            name, trial.shape, tensor_type, data=data, shape_signature=trial.signature, quantization=scales
        )

    if trial.constant:
        source = tensor(data=packed(case.type, next(rounds(case.type, math.prod(trial.shape)))))
    else:
        source = tensor()
        inputs = [source]
    if guise is not None and not trial.constant:
        inputs = [tensor(guise[0], disguised=True)]
        graph.operator(Code(guise[1], guise[2]), inputs, [source])
    number = case.version or version(case.form.partition("/")[0], case.type, case.rank)
    copy = partial(_add_copy, graph, case.form, trial, number)
    results = [copy(source, tensor())]
    if trial.fan_out:
        results += [copy(results[0], tensor()) for _ in range(2)]
    for result in results:
        outputs.append(result if guise is None else tensor(guise[0], disguised=True))
        if guise is not None:
            graph.operator(Code(guise[1], guise[2]), [result], outputs[-1:])
    graph.ends(inputs, outputs)
    return model.to_bytes(format_of(variant))


def _add_copy(graph: Graph, form: str, trial: Trial, number: int, source: int, target: int) -> int:
    operator, _, variant = form.partition("/")
    rank = len(trial.shape)
    open_shape = trial.shape if trial.signature is None else trial.signature
    if open_shape and min(open_shape) > 0:
        open_shape = (-1, *open_shape[1:])
    inputs = [source]
    if operator != "CONCATENATION" and variant != "option":
        values = range(rank) if operator == "TRANSPOSE" else open_shape
        name = f"t{len(graph.table.tensors)}"
        inputs.append(graph.tensor(name, (rank,), "INT32", data=np.array(values, "<i4").tobytes()))
    if variant:
        graph.operator(Code(operator, number), inputs, [target], table="ReshapeOptions", new_shape=[*open_shape])
    else:
        graph.operator(Code(operator, number), inputs, [target])
    return target


def quantization_of(case: Case, trial: Trial) -> Table | None:
    """Return the quantization of a case."""
    if case.quantization == "none":
        return None
    channels = case.quantization == "per_channel"
    count = trial.shape[trial.channel] if channels else 1
    offset = 3 if case.quantization == "per_tensor_offset" else 0
    scales = [0.25 * (1 + number) for number in range(count)]
    return quantization(scales, [offset] * count, trial.channel if channels else 0)
