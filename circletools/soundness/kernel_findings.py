"""Check operators against what LiteRT's kernels need: inputs, options, types, ranks and scales.

Each rule was found by changing one thing in operators of public models that LiteRT 2.3 runs: removing options, an
input or a scale, or changing the type of the output. It stands here where LiteRT refused, or crashed, every time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.graph.algorithms import Indices
from circletools.model.model import Model
from circletools.model.places import findings_at
from circletools.soundness.whole import Whole, first_slots, is_rewritten

_OPTIONS = {
    "AVERAGE_POOL_2D": "Pool2DOptions", "CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions",
    "LSTM": "LSTMOptions", "MAX_POOL_2D": "Pool2DOptions", "MIRROR_PAD": "MirrorPadOptions",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions", "SPLIT": "SplitOptions", "TRANSPOSE_CONV": "TransposeConvOptions",
    "UNIDIRECTIONAL_SEQUENCE_LSTM": "UnidirectionalSequenceLSTMOptions", "UNPACK": "UnpackOptions",
}  # fmt: skip
_SAME_TYPE = (
    "AVERAGE_POOL_2D", "BROADCAST_TO", "CONCATENATION", "CONV_2D", "DEPTHWISE_CONV_2D", "LOGISTIC", "MAX_POOL_2D",
    "MIRROR_PAD", "PAD", "PADV2", "RELU6", "RSQRT", "SLICE", "SPACE_TO_DEPTH", "STRIDED_SLICE", "TILE", "TRANSPOSE",
    "UNPACK",
)  # fmt: skip
"""Their output has the type of the first input. Many others set the type of their output, whatever the file says."""
_RANKS = {
    "CONV_2D": (4, 4),
    "DEPTHWISE_CONV_2D": (4, 4),
    "AVERAGE_POOL_2D": (4,),
    "MAX_POOL_2D": (4,),
    "PAD": (-1, 2),
    "TRANSPOSE_CONV": (1, 4, 4),
}
"""By input, -1 for any; looked at where nothing computes the tensor."""
_OUTPUT = 3
_SCALES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "ADD": {"INT16": (1, _OUTPUT)},
    "SUB": {"INT8": (0, 1), "INT16": (0, 1)},
    "LOGISTIC": {"INT8": (_OUTPUT,)},
    "CONV_2D": {"INT8": (0, 1)},
    "DEPTHWISE_CONV_2D": {"INT8": (0, 1), "UINT8": (0, 1, _OUTPUT)},
    "FULLY_CONNECTED": {"INT8": (0, 1, _OUTPUT)},
}
"""By the type of the first input the slots that must have a scale."""
_REQUIRED = {"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 2, "PADV2": 2, "SPLIT": 2, "UNPACK": 1}
"""How many inputs may not be left out, where it is another number than the least: a bias may be missing only."""
_MOST_FIXED = 5  # operators with more inputs may leave out many of them


def kernel_findings(model: Model, whole: Whole, kernels: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings about the operators of a TFLite model; `kernels` has how many inputs each code takes."""
    numbers = {name: number for number, name in model.schema.enums["TensorType"].items()}
    scales = _scales(model)
    for code in model.operator_codes:
        rows = np.flatnonzero(whole.operators.code_indices == code.index)
        if not rows.size or code.name not in kernels:
            continue
        slots = first_slots(whole.graph, rows, _OUTPUT)
        yield from _left_out(whole, code.name, rows, (kernels[code.name]["inputs"] or (0,))[0])
        yield from _without_options(model, whole, code.name, rows)
        there = (slots[:, [0, _OUTPUT]] >= 0).all(axis=1)
        rows, slots = rows[there], slots[there]
        if code.name in _SAME_TYPE:
            yield from _other_type(whole, code.name, rows, slots)
        yield from _other_rank(whole, code.name, rows, slots)
        for kind, needed in _SCALES.get(code.name, {}).items():
            is_kind = whole.tensors.types[slots[:, 0]] == numbers[kind]
            bare = [(slots[:, slot] >= 0) & ~scales[slots[:, slot]] for slot in needed]
            lacking = is_kind & np.logical_or.reduce(bare)
            message = f"a tensor of {code.name} has no scale; LiteRT's kernel for {kind} needs one"
            yield from _at(whole, "INVALID_QUANTIZATION", rows[lacking], message)


def _at(whole: Whole, code: str, rows: Indices, message: str) -> Iterator[Finding]:
    return findings_at(code, rows, whole.operator, lambda _: message)


def _scales(model: Model) -> NDArray[np.bool_]:
    """Return whether each tensor has a scale."""
    tables, rows = model.tensor_columns.tables.child("quantization", model.schema)
    found = np.zeros(len(model.tensor_columns.tables), np.bool_)
    if len(tables):
        found[rows[tables.vectors("scale").count > 0]] = True
    return found


def _left_out(whole: Whole, name: str, rows: Indices, least: int) -> Iterator[Finding]:
    """Look for inputs that are left out, among those that an operator must have."""
    least = _REQUIRED.get(name, least)
    if least > _MOST_FIXED:
        return
    operands = whole.graph.operands
    slots = operands.splits[rows, None] + np.arange(least)
    there = slots < operands.splits[rows + 1, None]
    lacking = (there & (np.append(operands.values, 0)[np.where(there, slots, -1)] < 0)).any(axis=1)
    message = f"an input of {name} is left out; LiteRT's kernel needs it"
    yield from _at(whole, "OPERATOR_SLOTS", rows[lacking], message)


def _without_options(model: Model, whole: Whole, name: str, rows: Indices) -> Iterator[Finding]:
    if name in _OPTIONS:
        tables = whole.operators.tables.take(rows)
        members = model.schema.unions["BuiltinOptions"]
        wanted = [number for number, member in members.items() if member == _OPTIONS[name]]
        has = np.isin(tables.union_codes(tables.field("builtin_options")), wanted)
        has &= tables.targets("builtin_options") != 0
        message = f"{name} has no {_OPTIONS[name]}; LiteRT's kernel refuses the values that stand for none"
        yield from _at(whole, "UNKNOWN_OPTION", rows[~has], message)


def _other_type(whole: Whole, name: str, rows: Indices, slots: Indices) -> Iterator[Finding]:
    """Look for outputs of another type than the input, as far as the file's types are those that LiteRT sees."""
    types, source = whole.tensors.types, slots[:, 0]
    wrong = ~is_rewritten(whole, source) & (types[source] != types[slots[:, _OUTPUT]])
    message = f"the output of {name} has another type than the input; LiteRT's kernel refuses that"
    yield from _at(whole, "OPERATOR_TYPES", rows[wrong], message)


def _other_rank(whole: Whole, name: str, rows: Indices, slots: Indices) -> Iterator[Finding]:
    ranks = whole.tensors.shapes.count
    given = whole.is_input | whole.has_data
    for slot, rank in enumerate(_RANKS.get(name, ())):
        tensors = slots[:, slot]
        wrong = (rank >= 0) & (tensors >= 0) & given[tensors] & (ranks[tensors] != rank)
        message = f"input {slot} of {name} has not the rank {rank}; LiteRT's kernel refuses that"
        yield from _at(whole, "OPERATOR_SLOTS", rows[wrong], message)
