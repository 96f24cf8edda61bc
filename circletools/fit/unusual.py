"""Find operators with properties that capability tables do not describe, and that programs may refuse.

For such properties, each program was asked about operators of many kinds: a device either refused all of them, or its
answer depends on other contents of the model and is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from circletools.affinity.capability.table import Refusal
from circletools.affinity.capability.traits import QUANTIZABLE
from circletools.findings import Finding
from circletools.graph.columns import Uses
from circletools.graph.graph import Graph, ModelGraph
from circletools.soundness.windows import large_windows

Place = tuple[int, int]
LARGE_WINDOW = "the window is larger than the input, whose shape may be dynamic"
ODD_SCALE = "a scale is 0, negative, denormal or not finite"
FLAT_SCALE = "the scale of the first output is 0 or denormal"
INFINITE_SCALE = "a scale is not finite"
INNER_LOOP = "a loop in another loop"

_QUANTIZE = "quantize the model again: each scale must be a positive number"
_REMEDIES = {
    LARGE_WINDOW: "give the model an input shape into which the window fits",
    INNER_LOOP: "unroll the inner loop",
}
_REFUSED = {FLAT_SCALE: "ethos-u", INFINITE_SCALE: "ethos-u", INNER_LOOP: "openvino"}
"""For each reason, the prefix of the names of devices that refuse such operators."""
_LEAST = float(np.finfo(np.float32).tiny)


def unusual_operators(model: ModelGraph, devices: Iterable[str]) -> dict[str, dict[Place, Refusal]]:
    """Return, by device, the operators that it refuses or may refuse, whatever its table says.

    Raises ModelFormatError if an operator's tensor does not exist.
    """
    found: list[tuple[Place, str]] = []
    for one in model.graphs:
        found += [((one.index, row), LARGE_WINDOW) for row in large_windows(one)[0].tolist()]
        found += [((one.index, row), reason) for row, reason in _with_odd_scales(one)]
    found += [(place, INNER_LOOP) for place in _inner_loops(model)]
    return {device: dict(_refusals(found, device)) for device in devices}


def doubted_operators(findings: Iterable[Finding]) -> dict[Place, Refusal]:
    """Return the operators that findings are about, as refusals that were not measured."""
    places = ((operator_at(one.location), one.message) for one in findings)
    return {place: Refusal(message, measured=False) for place, message in places if place}


def operator_at(location: str) -> Place | None:
    """Return the subgraph and the index of an operator, given its path, or None for other paths."""
    found = re.fullmatch(r"subgraphs\[(\d+)\]\.operators\[(\d+)\]", location)
    return None if found is None else (int(found[1]), int(found[2]))


def _refusals(found: Iterable[tuple[Place, str]], device: str) -> Iterator[tuple[Place, Refusal]]:
    """Yield the refusals of a device; of several for one operator, the last is the most certain."""
    for place, reason in found:
        is_refused = device.startswith(_REFUSED.get(reason, "*"))
        if is_refused or reason in (LARGE_WINDOW, ODD_SCALE):
            yield place, Refusal(reason, measured=is_refused, remedy=_REMEDIES.get(reason, _QUANTIZE))


def _with_odd_scales(facts: Graph) -> Iterator[tuple[int, str]]:
    """Yield the operators that read or compute quantized tensors with odd scales, and what is odd."""
    tables, rows = facts.values.quantization
    if not len(rows):
        return
    scales = tables.vectors("scale")
    numbers = scales.flat()
    infinite, flat = ~np.isfinite(numbers), (numbers >= 0) & (numbers < _LEAST)
    odd = infinite | (numbers < _LEAST)
    if not odd.any():
        return
    quantized = facts.values.is_type(*QUANTIZABLE)
    results = facts.first_results
    made = Uses(np.flatnonzero(results >= 0), results[results >= 0])
    for reason, wrong, *slots in (
        (ODD_SCALE, odd, facts.uses, facts.definitions),
        (FLAT_SCALE, flat, made),
        (INFINITE_SCALE, infinite, facts.uses, facts.definitions),
    ):
        mask = np.zeros(len(quantized), np.bool_)
        mask[rows[scales.rows_where(wrong)]] = True
        mask &= quantized
        yield from ((row, reason) for one in slots for row in np.unique(one.operators[mask[one.values]]).tolist())


def cyclic_operators(model: ModelGraph) -> dict[Place, Refusal]:
    """Return an operator of each cycle; it is unknown what programs do with it. Raises ModelFormatError, as `dag`."""
    found: dict[Place, Refusal] = {}
    for one in model.graphs:
        if one.disorder:
            place = operator_at(str(one.disorder.location))
            if place is None:
                raise one.disorder
            found[place] = Refusal(one.disorder.message, measured=False, remedy="fix the exporter")
    return found


def _inner_loops(model: ModelGraph) -> Iterator[Place]:
    """Yield the loops in subgraphs that other operators call."""
    called = {index for some in model.callees.values() for index in some}
    for one in model.graphs if called else ():
        if one.index in called:  # an index may be out of range
            yield from ((one.index, row) for row, code in enumerate(one.operators.code_names) if code == "WHILE")
