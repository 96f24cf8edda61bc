"""Find operators that LiteRT's XNNPACK delegate takes, but then cannot set up, so that LiteRT refuses the model.

The delegate first looks at each operator by itself (the `Visit…Node` functions in xnnpack_delegate.cc), and later
defines it in XNNPACK. What only the definition checks (src/subgraph/*.c in XNNPACK) is then an error. `xnnpack` in
schema/litert.json lists:

    max_rank                    XNN_MAX_TENSOR_DIMS, which `xnn_define_tensor_value` checks
    inputs, outputs             the operators whose input or output ranks the delegate checks
    alike                       those whose output must have the type, scale and zero point of the input, which the
                                delegate does not check (`xnn_subgraph_check_quantization_parameter_matches`)
    floats                      those whose types the delegate checks one by one, so FLOAT32 and FLOAT16 may mix
    biases                      those whose bias must have a scale for each channel if the filter has, which the
                                delegate does not check
    filters                     those whose filter the delegate checks (`CheckTensorFloat32OrQCInt8Type`)
    zero_points                 the least and greatest zero point, by type (`GetXNNPackDatatype`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.form import Bounds, Form, Places, TensorPattern
from circletools.affinity.capability.table import Capability, refusals
from circletools.flatbuf.schema import schema_document
from circletools.graph.graph import Graph
from circletools.soundness.whole import first_slots

_BIASES = {TensorPattern("INT32", f"per_{what}", "constant") for what in ("tensor", "channel")}
_FLOATS = ("FLOAT16", "FLOAT32")
_LEAST = float(np.finfo(np.float32).tiny)


def failing_operators(facts: Graph, table: Capability) -> set[int]:
    """Return the operators of a subgraph that XNNPACK takes but cannot set up; `table` is its capability table."""
    rules = schema_document("litert")["xnnpack"]
    is_code, large = facts.operators.is_code, facts.values.shapes.count > rules["max_rank"]
    tensors = _odd(facts, is_code(*rules["filters"]), rules["zero_points"])
    unpacking = is_code(*filter(table.unpacks, {*facts.operators.code_names}))
    unpacked = first_slots(facts, np.flatnonzero(unpacking), 1)[:, 0]
    tensors[unpacked[facts.values.is_constant[unpacked]]] = False  # the delegate reads these itself
    slots = facts.uses, facts.definitions
    odd = {row for one in slots for row in one.operators[tensors[one.values]].tolist()}
    sides = (facts.uses, rules["inputs"]), (facts.definitions, rules["outputs"])
    seen = [(one.operators[large[one.values]], is_code(*ranked)) for one, ranked in sides]
    unseen = {row for rows, _ in seen for row in rows.tolist()}
    unseen -= {row for rows, ranked in seen for row in rows[ranked[rows]].tolist()}
    alike = set(np.flatnonzero(is_code(*rules["alike"], *rules["biases"], *rules["floats"])).tolist()) - unseen
    refused = [one is not None for one in refusals(table, facts.model, facts.index)] if odd | alike | unseen else []
    found = {row for row in odd if not refused[row]}
    for rows, most in ((alike, 0.0), (unseen, inf)):
        if any(refused[row] for row in rows):
            forms = {
                code: tuple(_taken(some, most, code in rules["alike"], code in rules["floats"]))
                for code, some in table.operators.items()
            }
            later = refusals(replace(table, operators=forms), facts.model, facts.index)
            found |= {row for row in rows if refused[row] and later[row] is None}
    return found


def _taken(forms: tuple[Form, ...], most: float, alike: bool, floats: bool) -> Iterator[Form]:
    """Yield the forms without the conditions that the delegate does not check, for ranks up to `most`."""
    made = {pattern for form in forms if form.outputs for some in form.outputs.allowed for pattern in some}
    for form in forms:
        one = replace(form, rank=Bounds(form.rank.low, max(form.rank.high, most)))
        if form.inputs:
            read = tuple(some if _BIASES.isdisjoint(some) else (*some, *_BIASES) for some in form.inputs.allowed)
            one = replace(one, inputs=replace(form.inputs, allowed=read))
        if alike and form.outputs:
            outputs = Places(tuple(tuple(made) for _ in form.outputs.allowed), form.outputs.more)
            where = tuple(each for each in form.where if not re.search("(scale|zero_point) ==", each.text))
            one = replace(one, outputs=outputs, where=where)
        if floats and one.inputs and one.outputs:
            one = replace(one, inputs=_mixed(one.inputs), outputs=_mixed(one.outputs))
        yield one


def _mixed(places: Places) -> Places:
    """Return the places with both FLOAT32 and FLOAT16 where either is allowed."""
    allowed = (
        {*some, *(replace(one, type=kind) for one in some if one.type in _FLOATS for kind in _FLOATS)}
        for some in places.allowed
    )
    return replace(places, allowed=tuple(map(tuple, allowed)))


def _odd(facts: Graph, filtering: NDArray[np.bool_], ranges: Any) -> NDArray[np.bool_]:
    """Return a mask of the tensors with a scale or zero point that XNNPACK cannot represent.

    The delegate checks those of biases and filters, but only the first of several zero points.
    """
    tables, rows = facts.values.quantization
    scales, zeros = tables.vectors("scale"), tables.vectors("zero_point")
    numbers, moves = scales.flat(), zeros.flat().astype(np.int32)  # LiteRT keeps 32 bits
    several = np.repeat(zeros.count > 1, zeros.count)
    scaled, moved, later = np.zeros((3, len(facts.values)), np.bool_)
    scaled[rows[scales.rows_where(~(np.isfinite(numbers) & (numbers >= _LEAST)))]] = True
    for kind, (least, most) in ranges.items():
        outside = (moves < least) | (moves > most) | (several & (moves != 0) & ((kind != "INT4") | (moves != 8)))
        found = rows[zeros.rows_where(outside)]
        moved[found[facts.values.is_type(kind)[found]]] = True
    later[rows[zeros.rows_where(several & (moves != 0))]] = True
    later[rows[zeros.element(0) != 0]] = False
    filters = first_slots(facts, np.flatnonzero(filtering), 2)[:, 1]
    checked = facts.values.is_type("INT32")
    checked[filters[filters >= 0]] = True
    odd: NDArray[np.bool_] = np.where(checked, later & ~scaled, scaled | moved) & facts.values.is_type(*ranges)
    return odd
