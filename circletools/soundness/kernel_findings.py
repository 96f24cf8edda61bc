"""Check operators against the requirements of LiteRT's kernels: inputs, options, types, ranks and scales.

Each rule was found by changing one property of operators in public models that LiteRT 2.3 runs: an options table, an
input or a scale was removed, or a type, a size or a scale was changed. LiteRT refused every model with such a change,
or crashed on it.

`needs` in schema/litert.json contains, for each kernel (slot -1 is the output; some fields depend on input 0's type):

    options                     the options table
    same_type, alike            the output has the type of input 0; pairs of inputs with equal types
    filters, biases, results    the types of the weights, the bias and the output, by type of input 0
    gates                       the types of the biases of recurrent cells
    slot_types                  the types of other slots
    scales, zeros               by type of input 0: slots with a scale, and slots with zero points of 0
    fixed, equal                the output's scale and zero point, by type; types with equal input and output scales
    required, least, optional   the number of inputs; how many must be present; which of them may be absent
    together                    pairs of inputs that must both be present or both be absent
    ranks, filled               the least and greatest rank of inputs; see `check_needs`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.flatbuf.columns import distinct
from circletools.graph.algorithms import Indices
from circletools.model.model import Model
from circletools.model.verify import findings_at
from circletools.shapes.call import RefusedError, UndelegatedError
from circletools.soundness.whole import Whole, first_slots, is_rewritten

_FEW, _INPUTS = 5, 16
"""The number of inputs that are checked, and that of recurrent cells (`gates`); the next column is the output."""
_PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")
_JOINING = ("CONCATENATION", "PACK")
_NARROW, _DELEGATED = ("INT8", "UINT8", "INT16"), ("FLOAT32", "INT8", "UINT8")
_REFUSED, _UNLESS_DELEGATED = RefusedError.effect, UndelegatedError.effect
_Wrong = tuple[str, NDArray[np.bool_], str]
"""The code of a finding, a mask of the operators that it is about, and its message."""
_UNCLIPPED = (4, 5)  # TANH and SIGN_BIT; LiteRT reads other numbers as NONE
_MOST_OFF = 0.02  # the tolerance for the scale of a bias in kernel_util.cc
_NEAR = 1e-3  # the tolerance for a scale in activations.cc
_LEAST = float(np.finfo(np.float32).tiny)  # the least scale that XNNPACK takes
_MOST_FIXED = 8  # an operator with more inputs may omit many of them
_BY_TYPE = {"filters": (1, "filter"), "biases": (2, "bias"), "gates": (13, "bias"), "results": (-1, "output")}


def kernel_findings(model: Model, whole: Whole, kernels: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield findings about the operators of a TFLite model; `kernels` holds the input counts of each code."""
    given = _quantization(model, whole)
    for code in model.operator_codes:
        rows = np.flatnonzero(whole.operators.code_indices == code.index)
        if not rows.size or code.name not in kernels:
            continue
        needs = kernels[code.name].get("needs", {})
        slots = first_slots(whole.graph, rows, _INPUTS if "gates" in needs else _FEW)
        required = needs.get("required", (kernels[code.name]["inputs"] or (0,))[0])
        if required <= _MOST_FIXED:
            fixed = np.array([slot for slot in range(required) if slot not in needs.get("optional", ())], np.int64)
            yield from _left_out(whole, code.name, rows, fixed, needs.get("least", 0))
        yield from _without_options(whole, code.name, rows, needs.get("options", ""))
        equal = needs.get("equal", ())
        yield from _not_joined(whole, code.name, rows, given, equal) if code.name in _JOINING else ()
        there = (slots[:, [0, -1]] >= 0).all(axis=1)
        rows, slots = rows[there], slots[there]
        computed = slots[:, [2, 1, 3, 0, -1]] if code.name == "TRANSPOSE_CONV" else slots  # input 0: a shape
        for kind, wrong, message in chain(
            _wrong_types(whole, code.name, slots, computed, needs),
            _wrong_products(whole, code.name, rows, slots, given) if code.name in _PRODUCTS else (),
            _wrong_scales(whole, code.name, computed, given, needs),
        ):
            yield from _at(whole, kind, rows[wrong], message)


def _at(whole: Whole, code: str, rows: Indices, message: str) -> Iterator[Finding]:
    return findings_at(code, rows, whole.operator, lambda _: message)


class _Quantization(NamedTuple):
    """By tensor: the first scale or NaN; the scale and zero point that kernels use (0 unless there is just one).

    `moved` is 1 if any of the zero points is not 0, and `several` if there is more than one scale. LiteRT ignores the
    scales of a tensor that is quantized in blocks (`ParseQuantization` in interpreter_builder.cc).
    """

    first: NDArray[np.float64]
    scale: NDArray[np.float64]
    zero: NDArray[np.float64]
    moved: NDArray[np.float64]
    several: NDArray[np.float64]

    def differ(self, some: Indices, others: Indices) -> NDArray[np.bool_]:
        """Return a mask of the tensors that differ from their counterparts in scale or zero point."""
        differ: NDArray[np.bool_] = (self.scale[some] != self.scale[others]) | (self.zero[some] != self.zero[others])
        return differ


def _quantization(model: Model, whole: Whole) -> _Quantization:
    tables, rows = whole.graph.values.quantization
    found = _Quantization(*np.zeros((5, len(model.tensor_columns.tables))))
    found.first[:] = np.nan
    if len(tables):
        codes = tables.union_codes(tables.field("details"))
        members = model.schema.unions["QuantizationDetails"].items()
        blockwise = np.isin(codes, [code for code, member in members if member == "BlockwiseQuantization"])
        tables, rows = (tables.take(~blockwise), rows[~blockwise]) if blockwise.any() else (tables, rows)
        scales, zeros = tables.vectors("scale"), tables.vectors("zero_point")
        one = (scales.count == 1) & (zeros.count == 1)
        found.first[rows] = first = scales.element(0)
        found.scale[rows[one]] = first[one]
        found.zero[rows[one]] = zeros.element(0)[one].astype(np.int64).astype(np.int32)  # LiteRT keeps 32 bits
        found.several[rows] = scales.count > 1
        found.moved[rows[zeros.rows_where(zeros.flat().astype(np.int32) != 0)]] = 1
    return found


def _left_out(whole: Whole, name: str, rows: Indices, required: Indices, least: int) -> Iterator[Finding]:
    """Find required inputs that are omitted."""
    there = required < whole.operators.inputs.count[rows, None]
    absent = there & (first_slots(whole.graph, rows, _MOST_FIXED)[:, required] < 0)
    lacking = (there.sum(axis=1) < least) | absent.any(axis=1)
    message = f"an input of {name} is omitted; LiteRT's kernel needs it"
    yield from _at(whole, "OPERATOR_SLOTS", rows[lacking], message)


def _without_options(whole: Whole, name: str, rows: Indices, options: str) -> Iterator[Finding]:
    if options:
        tables = whole.operators.tables.take(rows)
        field = "builtin_options_2" if options.lower().startswith("stablehlo") else "builtin_options"
        has = (tables.vectors("custom_options").count > 0) | (tables.scalars("large_custom_options_offset") > 1)
        if options != "custom options":
            members = whole.model.schema.unions[str(tables.field(field).target)]
            wanted = [number for number, member in members.items() if member == options]
            has = np.isin(tables.union_codes(tables.field(field)), wanted) & (tables.targets(field) != 0)
        message = f"{name} has no {options}; LiteRT's kernel refuses the default values"
        yield from _at(whole, "UNKNOWN_OPTION", rows[~has], message)


def _not_joined(
    whole: Whole, name: str, rows: Indices, given: _Quantization, equal: Sequence[str]
) -> Iterator[Finding]:
    """Find inputs of CONCATENATION or PACK that differ in type or scale (concatenation.cc, pack.cc)."""
    readers, read = whole.graph.uses
    mine = np.isin(readers, rows) & (first_slots(whole.graph, readers, 0)[:, 0] >= 0)
    readers, read = readers[mine], read[mine]
    first, made = first_slots(whole.graph, readers, 1).T
    types, kept = whole.tensors.types, ~is_rewritten(whole, np.stack([first, read]))
    wrong = kept.all(axis=0) & (types[first] != types[read])
    wrong |= _is(whole, first, equal) & given.differ(read, made)
    wrong |= _is(whole, first, ("INT16",)) & (given.zero[read] != 0)
    message = f"the inputs of {name} differ in type or scale; {_REFUSED}"
    yield from _at(whole, "OPERATOR_SLOTS", distinct(readers[wrong]), message)


def _wrong_types(
    whole: Whole, name: str, given: Indices, slots: Indices, needs: Mapping[str, Any]
) -> Iterator[_Wrong]:
    """Find outputs and constants of wrong types, if LiteRT keeps the types in the file.

    `slots` are the `given` ones, with the data first and the weights and bias next.
    """
    types, source = whole.tensors.types, slots[:, 0]
    kept = ~is_rewritten(whole, source)
    if needs.get("same_type"):
        wrong = kept & (types[source] != types[slots[:, -1]])
        yield "OPERATOR_TYPES", wrong, f"the output of {name} and its input have different types; {_REFUSED}"
    for one, other in needs.get("alike", ()):
        pair = slots[:, [one, other]]
        wrong = (pair >= 0).all(axis=1) & (types[pair[:, 0]] != types[pair[:, 1]])
        wrong &= ~is_rewritten(whole, pair).any(axis=1)
        yield "OPERATOR_TYPES", wrong, f"inputs {one} and {other} of {name} have different types; {_REFUSED}"
    for one, other in needs.get("together", ()):
        alone = (given[:, one] < 0) != (given[:, other] < 0)
        wrong = alone & (given[:, other + 1] >= 0)  # the basic LSTM has fewer inputs
        yield "OPERATOR_SLOTS", wrong, f"{name} has only one of inputs {one} and {other}; {_REFUSED}"
    for key, (slot, what) in _BY_TYPE.items():
        for kind, taken in needs.get(key, {}).items():
            one = slots[:, slot]
            stated = ~is_rewritten(whole, one, kept=True) | (slot < 0)  # XNNPACK unpacks constant weights itself
            wrong = kept & stated & (one >= 0) & _is(whole, source, (kind,)) & ~_is(whole, one, taken)
            yield "OPERATOR_TYPES", wrong, f"LiteRT's kernel for {kind} refuses the type of {name}'s {what}"
    for slot, kinds in needs.get("slot_types", {}).items():
        tensors, which = given[:, int(slot)], "the output" if slot == "-1" else f"input {slot}"
        wrong = (tensors >= 0) & ~_is(whole, tensors, kinds) & (~is_rewritten(whole, tensors) | (slot == "-1"))
        yield "OPERATOR_TYPES", wrong, f"{which} of {name} is not {' or '.join(kinds)}; {_REFUSED}"


def _wrong_products(whole: Whole, name: str, rows: Indices, slots: Indices, given: _Quantization) -> Iterator[_Wrong]:
    """Find options and weights that quantized convolutions or matrix products refuse (conv.cc, fully_connected.cc).

    With UINT8, the weights may not have a scale for each channel (`PopulateConvolutionQuantizationParams`).
    """
    option, types = whole.graph.operators.option, whole.tensors.types
    stated = option("quantized_bias_type", rows)
    wrong = _is(whole, slots[:, 0], ("INT16",)) & (slots[:, 2] >= 0) & (stated > 0) & (types[slots[:, 2]] != stated)
    yield "OPERATOR_TYPES", wrong, f"the bias of {name} does not have the type quantized_bias_type; {_REFUSED}"
    wrong = _is(whole, slots[:, 0], ("UINT8",)) & (slots[:, 1] >= 0) & (given.several[slots[:, 1]] > 0)
    yield "INVALID_QUANTIZATION", wrong, f"a UINT8 {name} has weights with a scale for each channel; {_REFUSED}"
    yield from _wrong_biases(whole, name, slots, given)
    if name == "FULLY_CONNECTED":
        refused = np.isin(option("fused_activation_function", rows), _UNCLIPPED)
        wrong = _is(whole, slots[:, 0], _NARROW) & _is(whole, slots[:, 1], _NARROW) & refused
        message = f"a quantized {name} can only clip its output; LiteRT's kernel refuses other activations"
        yield "UNKNOWN_OPTION", wrong, message


def _wrong_biases(whole: Whole, name: str, slots: Indices, given: _Quantization) -> Iterator[_Wrong]:
    """Find scales of biases that kernels refuse: each must be nearly the product of the other two scales.

    The source is `GetQuantizedConvolutionMultipler` in kernel_util.cc, which convolutions call only for UINT8.
    """
    source, weights, bias, made = slots[:, [0, 1, 2, -1]].T
    with np.errstate(all="ignore"):
        off = np.abs(given.scale[source] * given.scale[weights] - given.scale[bias]) / given.scale[made]
    wrong = (slots[:, 1:3] >= 0).all(axis=1) & _is(whole, weights, _NARROW) & (given.several[weights] == 0)
    wrong &= _is(whole, source, _NARROW if name == "FULLY_CONNECTED" else ("UINT8",)) & ~(off <= _MOST_OFF)
    delegated = _is(whole, source, _DELEGATED) & (given.first[slots[:, [0, 1, -1]]] >= _LEAST).all(axis=1)
    message = f"the scale of the bias of {name} is not the product of the scales of input and weights"
    yield "INVALID_QUANTIZATION", wrong & ~delegated, f"{message}; {_REFUSED}"
    yield "INVALID_QUANTIZATION", wrong & delegated, f"{message}; {_UNLESS_DELEGATED}"


def _wrong_scales(
    whole: Whole, name: str, slots: Indices, given: _Quantization, needs: Mapping[str, Any]
) -> Iterator[_Wrong]:
    """Find missing scales, scales that must be positive but are not, and wrong scales or zero points."""
    source, made = slots[:, 0], slots[:, -1]
    unscaled = np.isnan(given.first)
    packed = unscaled & ~whole.is_retyped[:-1]  # XNNPACK unpacks constant weights itself
    for kind, needed in needs.get("scales", {}).items():
        read = [(packed if slot == 1 else unscaled, slots[:, slot]) for slot in needed]
        bare = [(one >= 0) & no[one] & ~_is(whole, one, ("FLOAT32", "FLOAT16")) for no, one in read]
        lacking = _is(whole, source, (kind,)) & ~is_rewritten(whole, source) & np.logical_or.reduce(bare)
        lacking &= ~np.isnan(given.first[source]) | (name != "ADD")  # without this scale, it adds INT16 as integers
        message = f"a tensor of {name} has no scale; LiteRT's kernel for {kind} needs one"
        yield "INVALID_QUANTIZATION", lacking, message
    if name == "ADD":
        positive = (given.first[slots[:, [0, 1, -1]]] > 0).all(axis=1)
        wrong = _is(whole, slots[:, [0, 1]], ("INT8", "UINT8")).all(axis=1) & (slots[:, 1] >= 0) & ~positive
        wrong &= ~is_rewritten(whole, slots[:, [0, 1]]).any(axis=1)
        message = f"the scale of a tensor of {name} is not positive; LiteRT's kernel aborts the process"
        yield "INVALID_QUANTIZATION", wrong, message
    for kind, zeros in needs.get("zeros", {}).items():
        of_weights = given.moved if "biases" in needs else given.zero
        by_slot = [(of_weights if slot == 1 else given.zero, slots[:, slot]) for slot in zeros]
        moved = [(tensors >= 0) & (values[tensors] != 0) for values, tensors in by_slot]
        wrong = _is(whole, slots[:, [0, -1][: 1 + (-1 in zeros)]], (kind,)).all(axis=1) & np.logical_or.reduce(moved)
        message = f"a tensor of {name} has a zero point, which must be 0 for {kind}; {_REFUSED}"
        yield "INVALID_QUANTIZATION", wrong, message
    for kind, (scale, zero) in needs.get("fixed", {}).items():
        wrong = _is(whole, source, (kind,)) & _is(whole, made, (kind,))
        wrong &= ~np.isclose(given.scale[made], scale, rtol=_NEAR) | (given.zero[made] != zero)
        message = f"the output of {name} needs scale {scale} and zero point {zero} for {kind}; {_REFUSED}"
        yield "INVALID_QUANTIZATION", wrong, message
    wrong = _is(whole, source, needs.get("equal", ())) & given.differ(source, made) & (name not in _JOINING)
    yield "INVALID_QUANTIZATION", wrong, f"the input and output of {name} differ in scale or zero point; {_REFUSED}"


def _is(whole: Whole, tensors: Indices, kinds: Iterable[str]) -> NDArray[np.bool_]:
    """Return a mask of the tensors that have one of these types."""
    names = whole.model.schema.enums["TensorType"]
    return np.isin(whole.tensors.types[tensors], [number for number, name in names.items() if name in kinds])
