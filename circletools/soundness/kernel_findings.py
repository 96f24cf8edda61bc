"""Check operators against the requirements of LiteRT's kernels: inputs, options, types, ranks and scales.

Each rule was found by changing one property of operators in public models that LiteRT 2.3 runs: removing options, an
input or a scale, or changing a type, a size or a scale. LiteRT refused, or crashed on, each of these changes every
time.

For each kernel, `needs` in schema/litert.json has its table of `options`; `same_type`, if its output has the type of
its first input; the `ranks` of inputs, -1 for any; by the type of the first input, the slots that need `scales`, -1
for the output; the number of `required` inputs, of which `least` must be present (a bias may be absent); the axis of
the weights with the size of the bias (`channels`); and the option that its outputs are `counted_by`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.graph.algorithms import Indices
from circletools.model.model import Model
from circletools.model.options import union_tables
from circletools.model.verify import findings_at
from circletools.soundness.whole import Whole, first_slots, is_rewritten

_INPUTS = 4
"""The number of inputs that are checked; the output is in the next column."""
_BIASES = {"FLOAT32": ("FLOAT32",), "INT8": ("INT32",), "UINT8": ("INT32",), "INT16": ("INT32", "INT64")}
"""The bias types of a convolution, by its input type (conv.cc, depthwise_conv.cc, transpose_conv.cc)."""
_CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV")
_PADS = ("PAD", "PADV2")
_RATIOS = ("ADD", "SUB")
_NARROW = ("INT8", "UINT8", "INT16")
_REFUSED = "LiteRT's kernel refuses that"
_Wrong = tuple[str, NDArray[np.bool_], str]
"""The code of a finding, a mask of its operators, and its message."""
_MOST_AXES = 8  # of SQUEEZE in LiteRT
_MASKS = ("new_axis", "shrink_axis", "ellipsis")
_MOST_FIXED = 5  # operators with more inputs may omit many of them


def kernel_findings(model: Model, whole: Whole, kernels: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings about the operators of a TFLite model; `kernels` has the input counts of each code."""
    scales = _scales(model)
    for code in model.operator_codes:
        rows = np.flatnonzero(whole.operators.code_indices == code.index)
        if not rows.size or code.name not in kernels:
            continue
        slots, needs = first_slots(whole.graph, rows, _INPUTS), kernels[code.name].get("needs", {})
        required = needs.get("required", (kernels[code.name]["inputs"] or (0,))[0])
        yield from _left_out(whole, code.name, rows, required, needs.get("least", 0))
        yield from _without_options(whole, code.name, rows, needs.get("options", ""))
        yield from _wrong_counts(whole, code.name, rows, needs.get("counted_by", ""))
        yield from _not_joined(whole, rows, scales) if code.name == "CONCATENATION" else ()
        there = (slots[:, [0, -1]] >= 0).all(axis=1)
        rows, slots = rows[there], slots[there]
        computed = slots[:, [2, 1, 3, 0, -1]] if code.name == "TRANSPOSE_CONV" else slots  # it begins with a shape
        for kind, wrong, message in chain(
            _wrong_types(whole, code.name, computed, needs.get("same_type", False)),
            _wrong_shapes(whole, code.name, slots, needs),
            _wrong_scales(whole, code.name, computed, scales, needs.get("scales", {})),
            _wrong_axes(whole, rows, slots) if code.name == "SQUEEZE" else (),
        ):
            yield from _at(whole, kind, rows[wrong], message)


def _at(whole: Whole, code: str, rows: Indices, message: str) -> Iterator[Finding]:
    return findings_at(code, rows, whole.operator, lambda _: message)


def _scales(model: Model) -> NDArray[np.float64]:
    """Return the first scale of each tensor, NaN if it has none."""
    tables, rows = model.tensor_columns.tables.child("quantization", model.schema)
    found = np.full(len(model.tensor_columns.tables), np.nan)
    if len(tables):
        found[rows] = tables.vectors("scale").element(0)
    return found


def _left_out(whole: Whole, name: str, rows: Indices, required: int, least: int) -> Iterator[Finding]:
    """Find omitted inputs among the required ones."""
    if required > _MOST_FIXED:
        return
    operands = whole.graph.operands
    slots = operands.splits[rows, None] + np.arange(required)
    there = slots < operands.splits[rows + 1, None]
    few = there.sum(axis=1) < least
    lacking = few | (there & (np.append(operands.values, 0)[np.where(there, slots, -1)] < 0)).any(axis=1)
    message = f"an input of {name} is omitted; LiteRT's kernel needs it"
    yield from _at(whole, "OPERATOR_SLOTS", rows[lacking], message)


def _without_options(whole: Whole, name: str, rows: Indices, options: str) -> Iterator[Finding]:
    if options:
        tables = whole.operators.tables.take(rows)
        members = whole.model.schema.unions["BuiltinOptions"]
        wanted = [number for number, member in members.items() if member == options]
        has = np.isin(tables.union_codes(tables.field("builtin_options")), wanted)
        has &= tables.targets("builtin_options") != 0
        message = f"{name} has no {options}; LiteRT's kernel refuses the default values"
        yield from _at(whole, "UNKNOWN_OPTION", rows[~has], message)


def _wrong_counts(whole: Whole, name: str, rows: Indices, option: str) -> Iterator[Finding]:
    if option:
        wanted = whole.graph.operators.option(option, rows) + (option == "weights_format")  # shuffled need two
        wrong = np.diff(whole.graph.results.splits)[rows] != wanted
        message = f"{name} does not have the number of outputs that its {option} states; {_REFUSED}"
        yield from _at(whole, "OPERATOR_SLOTS", rows[wrong], message)


def _known_ranks(whole: Whole) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return which ranks LiteRT does not compute anew, or computes from these and the masks of STRIDED_SLICE."""
    known, ranks = whole.is_input | whole.has_data, whole.tensors.shapes.count.astype(np.int64)
    codes = [code.index for code in whole.model.operator_codes if code.name == "STRIDED_SLICE"]
    rows = np.flatnonzero(np.isin(whole.operators.code_indices, codes))
    slots, option = first_slots(whole.graph, rows, 2), whole.graph.operators.option
    new, shrink, ellipsis = (option(f"{name}_mask", rows).astype(np.int64) for name in _MASKS)
    plain = (slots >= 0).all(axis=1) & known[slots].all(axis=1, where=[True, True, False])
    plain &= (new & shrink == 0) & (ellipsis == 0)
    source, begin, result = slots[plain].T
    bits = np.arange(_MOST_AXES) < whole.tensors.shapes.element(0)[begin, None]
    added = [((mask[plain, None] >> np.arange(_MOST_AXES) & 1) * bits).sum(axis=1) for mask in (new, shrink)]
    ranks[result], known[result] = ranks[source] + added[0] - added[1], True
    return known, ranks


def _not_joined(whole: Whole, rows: Indices, scales: NDArray[np.float64]) -> Iterator[Finding]:
    """Find inputs of CONCATENATION that differ, or lack its axis (concatenation.cc)."""
    readers, read = whole.graph.uses
    mine = np.isin(readers, rows)
    readers, read = readers[mine], read[mine]
    operands, types, (known, ranks) = whole.graph.operands, whole.tensors.types, _known_ranks(whole)
    first = operands.values[operands.splits[readers]]
    kept, given = ~is_rewritten(whole, np.stack([first, read])), known[[first, read]]
    wrong = (kept.all(axis=0) & (types[first] != types[read])) | (given.all(axis=0) & (ranks[first] != ranks[read]))
    axis, rank = whole.graph.operators.option("axis", readers), ranks[first]
    wrong |= given[0] & ((axis >= rank) | (axis < -rank))
    made = first_slots(whole.graph, readers, 0)[:, 0]
    wrong |= _is(whole, first, ("INT8",)) & (made >= 0) & (scales[read] != scales[made]) & ~np.isnan(scales[made])
    message = f"the inputs of CONCATENATION differ in type, rank or scale, or do not have its axis; {_REFUSED}"
    yield from _at(whole, "OPERATOR_SLOTS", np.unique(readers[wrong]), message)


def _wrong_types(whole: Whole, name: str, slots: Indices, same: bool) -> Iterator[_Wrong]:
    """Find outputs and constants whose type differs from the input's, if LiteRT keeps the types in the file."""
    types, source = whole.tensors.types, slots[:, 0]
    kept = ~is_rewritten(whole, source)
    if same:
        wrong = kept & (types[source] != types[slots[:, -1]])
        yield "OPERATOR_TYPES", wrong, f"the output of {name} and its input have different types; {_REFUSED}"
    has = kept & (slots[:, 2] >= 0)
    if name in _PADS:
        wrong = has & (types[slots[:, 2]] != types[source])
        yield "OPERATOR_TYPES", wrong, f"{name} and the value it fills with have different types; {_REFUSED}"
    if name in ("SELECT", "SELECT_V2"):
        wrong = has & ~is_rewritten(whole, slots[:, 1:3]).any(axis=1) & (types[slots[:, 1]] != types[slots[:, 2]])
        yield "OPERATOR_TYPES", wrong, f"{name} chooses between tensors of different types; {_REFUSED}"
    if name == "STRIDED_SLICE":
        others = (slots[:, 1:_INPUTS] >= 0) & ~_is(whole, slots[:, 1:_INPUTS], ("INT32",))
        wrong = np.logical_or.reduce(others, axis=1)
        yield "OPERATOR_TYPES", wrong, f"begin, end or strides of {name} are not INT32; {_REFUSED}"
    for kind, taken in _BIASES.items() if name in _CONVOLUTIONS else ():
        wrong = has & _is(whole, source, (kind,)) & ~_is(whole, slots[:, 2], taken)
        yield "OPERATOR_TYPES", wrong, f"the type of {name}'s bias is refused by LiteRT's kernel for {kind}"


def _wrong_shapes(whole: Whole, name: str, slots: Indices, needs: Mapping[str, Any]) -> Iterator[_Wrong]:
    """Find wrong ranks and sizes of constants and inputs."""
    ranks, length = (
        whole.tensors.shapes.count,
        np.where(whole.tensors.shapes.count, whole.tensors.shapes.element(0), 1),
    )
    given = (slots >= 0) & (whole.is_input | whole.has_data)[slots]
    for slot, rank in enumerate(needs.get("ranks", ())):
        wrong = (rank >= 0) & given[:, slot] & (ranks[slots[:, slot]] != rank)
        yield "OPERATOR_SLOTS", wrong, f"input {slot} of {name} does not have rank {rank}; {_REFUSED}"
    first, second, third = slots.T[:3]
    if "channels" in needs:
        channels = whole.tensors.shapes.element(needs["channels"])[second]
        wrong = given[:, 1] & given[:, 2] & (ranks[third] <= 1) & (length[third] != channels)
        yield "OPERATOR_SLOTS", wrong, f"the bias of {name} must have one value for each channel; {_REFUSED}"
    if name in ("SLICE", "STRIDED_SLICE"):
        wrong = given[:, 1] & given[:, 2] & (length[second] != length[third])
        yield "OPERATOR_SLOTS", wrong, f"inputs 1 and 2 of {name} have different sizes; {_REFUSED}"
    if name in (*_PADS, "MIRROR_PAD"):
        wrong = given[:, 0] & given[:, 1] & (length[second] != ranks[first])
        yield "OPERATOR_SLOTS", wrong, f"{name} does not have two numbers for each dimension of its input; {_REFUSED}"


def _wrong_axes(whole: Whole, rows: Indices, slots: Indices) -> Iterator[_Wrong]:
    """Find SQUEEZE operators that drop a dimension which their constant or input lacks (squeeze.cc)."""
    wrong = np.zeros(len(rows), np.bool_)
    given, ranks = (whole.is_input | whole.has_data)[slots[:, 0]], whole.tensors.shapes.count[slots[:, 0]]
    for chosen, options in union_tables(whole.operators.tables.take(rows), "builtin_options", whole.model.schema):
        if options.type.name != "SqueezeOptions":
            continue
        axes = options.vectors("squeeze_dims")
        for place in range(min(int(axes.count.max(initial=0)), _MOST_AXES)):
            axis = axes.element(place).astype(np.int64)
            outside = (axis >= ranks[chosen]) | (axis < -ranks[chosen])
            wrong[chosen] |= given[chosen] & (place < axes.count) & outside
    yield "UNKNOWN_OPTION", wrong, f"SQUEEZE drops a dimension that its input does not have; {_REFUSED}"


def _wrong_scales(
    whole: Whole, name: str, slots: Indices, scales: NDArray[np.float64], by_type: Mapping[str, Sequence[int]]
) -> Iterator[_Wrong]:
    """Find missing scales, and scales that must be positive but are not."""
    for kind, needed in by_type.items():
        bare = [(slots[:, slot] >= 0) & np.isnan(scales[slots[:, slot]]) for slot in needed]
        lacking = _is(whole, slots[:, 0], (kind,)) & np.logical_or.reduce(bare)
        message = f"a tensor of {name} has no scale; LiteRT's kernel for {kind} needs one"
        yield "INVALID_QUANTIZATION", lacking, message
    if name in _RATIOS:
        three = slots[:, [0, 1, -1]]
        wrong = _is(whole, slots[:, -1], _NARROW) & (slots[:, 1] >= 0) & ~(scales[three] > 0).all(axis=1)
        message = f"the scale of a tensor of {name} is not positive; LiteRT's kernel aborts the process"
        yield "INVALID_QUANTIZATION", wrong, message


def _is(whole: Whole, tensors: Indices, kinds: Iterable[str]) -> NDArray[np.bool_]:
    """Return which tensors have one of these types."""
    names = whole.model.schema.enums["TensorType"]
    return np.isin(whole.tensors.types[tensors], [number for number, name in names.items() if name in kinds])
