"""The lowest version of an operator code that supports an operator's form: its types and options (see forms.json).

A line of the file is `VERSION INPUT TYPES [> OUTPUT TYPES] [CONDITION...]`; `|` separates the types of a slot, and
commas separate slots; slots not listed may have any type. The first matching line applies. The conditions are:
`rank=N` and `rank<N` of input 0, `inputs=N`, `quantized` (input 0 has a scale), `channels`, `channels0` and
`channelsout` (a scale for each channel of input 1, input 0 or output 0), `tensor` and `tensor0` (a single scale of
input 1 or input 0), `ungrouped` (a convolution's filter has as many channels as the input), `rescaled` (the scales of
a product give a factor of at least 1), and `OPTION=VALUE` or `OPTION!=VALUE`. `tools/measure/lowering.py` added only
forms that the first runtime with the version runs and for which the newest runtime computes the same bits with either
version; version 0 marks forms that are not lowered. A form that matches no line or has sparse tensors is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from circletools.graph.graph import Graph
from circletools.storage.documents import packaged

_OPTION = re.compile(r"(\w+)(!?=)(\d+)")
Option = Callable[[str], int]
"""A function that returns an option as a number, or 0 if the model does not contain it."""


@dataclass(frozen=True, slots=True)
class Form:
    """A line of the table: a version, the types of the first slots, and conditions."""

    line: str
    version: int
    inputs: tuple[frozenset[str], ...]
    outputs: tuple[frozenset[str], ...]
    conditions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Operand:
    """The properties of a slot's value that the conditions of forms test; `scales` are its quantization scales."""

    type: str
    shape: tuple[int, ...]
    scales: tuple[float, ...]


Operands = Sequence[Operand | None]
"""The values in the slots of an operator; None for an omitted value."""


def lowest_version(graph: Graph, operator: int) -> int | None:
    """Return the lowest version that supports an operator's form, or None if the form is not known."""
    form = form_of(graph, operator)
    return form.version or None if form else None


def form_of(graph: Graph, operator: int) -> Form | None:
    """Return the first form that an operator matches among those of its code, or None if there is none."""
    inputs, outputs = (_operands(graph, slots.of(operator)) for slots in (graph.operands, graph.results))
    if not inputs or inputs[0] is None or not outputs:
        return None
    chosen = np.array([operator])

    def option(name: str) -> int:
        return int(graph.operators.option(name, chosen)[0])

    for form in forms().get(graph.operators.code_names[operator], ()):
        fits = _fit(form.inputs, inputs) and _fit(form.outputs, outputs)
        if fits and all(_holds(one, inputs, outputs, option) for one in form.conditions):
            return form
    return None


def _operands(graph: Graph, values: Sequence[int]) -> Operands:
    """Return the values in slots; a missing or sparse value gets a type that no form lists."""
    count = len(graph.values)
    known = [value if value < count else -2 for value in values]
    tables = graph.values.tables.take(np.array([value for value in known if value >= 0], np.int64))
    quantization, owners = tables.child("quantization", graph.values.model.schema)
    scales = quantization.vectors("scale")
    by_owner = {owner: tuple(scales.row(at).tolist()) for at, owner in enumerate(owners.tolist())}
    sparse = tables.has("sparsity").tolist()
    found = [None if value == -1 else Operand("", (), ()) for value in known]
    for place, at in enumerate([at for at, value in enumerate(known) if value >= 0]):
        shape = tuple(graph.values.shapes.row(known[at]).tolist())
        found[at] = Operand("" if sparse[place] else graph.values.types[known[at]], shape, by_owner.get(place, ()))
    return found


def _fit(wanted: Sequence[frozenset[str]], operands: Operands) -> bool:
    there = [None if one is None else one.type for one in operands]
    fits = (kind in kinds for kind, kinds in zip(there, wanted, strict=False))
    return "" not in there and len(there) >= len(wanted) and all(fits)


def _holds(condition: str, inputs: Operands, outputs: Operands, option: Option) -> bool:
    """Return whether a condition of a form holds; input 0 must exist."""
    first, second = inputs[0], inputs[1] if len(inputs) > 1 else None
    shape = () if first is None else first.shape
    if condition.startswith("rank"):
        rank, wanted = len(shape), int(condition[5:])
        return rank < wanted if condition[4] == "<" else rank == wanted
    scales, scales_of_1, scales_of_output = (one.scales if one else () for one in (first, second, outputs[0]))
    plain = {
        "quantized": len(scales) > 0,
        "channels0": len(scales) > 1,
        "tensor0": len(scales) == 1,
        "channels": len(scales_of_1) > 1,
        "tensor": len(scales_of_1) == 1,
        "channelsout": len(scales_of_output) > 1,
        "ungrouped": second is not None and shape[-1:] == second.shape[-1:],
        # The product of the factors' scales is at least the scale of their product.
        "rescaled": all((scales, scales_of_1, scales_of_output))
        and scales_of_output[0] > 0
        and scales[0] * scales_of_1[0] / scales_of_output[0] >= 1,
    }
    if condition in plain:
        return plain[condition]
    match = _OPTION.fullmatch(condition)
    assert match, condition
    name, relation, value = match.groups()
    number = sum(one is not None for one in inputs) if name == "inputs" else option(name)
    return (number == int(value)) == (relation == "=")


@cache
def forms() -> Mapping[str, tuple[Form, ...]]:
    """Return the forms of each operator code."""
    codes = packaged(__package__, "forms.json")["codes"]
    return {code: tuple(map(_form, lines)) for code, lines in codes.items()}


def _form(line: str) -> Form:
    version, inputs, *rest = line.split()
    outputs = rest[1] if rest[:1] == [">"] else ""
    return Form(line, int(version), _slots(inputs), _slots(outputs), tuple(rest[2:] if outputs else rest))


def _slots(words: str) -> tuple[frozenset[str], ...]:
    return tuple(frozenset(slot.split("|")) for slot in words.split(",")) if words else ()
