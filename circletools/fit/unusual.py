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
"""By reason, the prefix of the names of the devices that refuse such operators."""
_RANGES = {"INT8": (-128, 127), "UINT8": (0, 255), "INT4": (-8, 7), "INT2": (-2, 1), "INT32": (0, 0)}
"""The least and greatest zero point that XNNPACK accepts, by type."""
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
    found: dict[Place, Refusal] = {}
    for one in findings:
        if place := re.fullmatch(r"subgraphs\[(\d+)\]\.operators\[(\d+)\]", one.location):
            found[int(place[1]), int(place[2])] = Refusal(one.message, measured=False)
    return found


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


def misfit_operators(facts: Graph) -> set[int]:
    """Return the operators with a tensor whose scale or zero point XNNPACK cannot represent.

    LiteRT refuses such an operator if XNNPACK takes it, which happens before XNNPACK reads these values
    (`GetXNNPackDatatype` in xnnpack_delegate.cc).
    """
    tables, rows = facts.values.quantization
    scales, zeros = tables.vectors("scale"), tables.vectors("zero_point")
    numbers, moves = scales.flat(), zeros.flat().astype(np.int32)  # LiteRT keeps 32 bits
    of_tensor = np.zeros(len(facts.values), np.bool_)
    several = np.repeat(zeros.count > 1, zeros.count)
    for kind, (least, most) in _RANGES.items():
        outside = (moves < least) | (moves > most) | (several & (moves != 0) & ((kind != "INT4") | (moves != 8)))
        wrong = np.zeros(len(rows), np.bool_)
        wrong[scales.rows_where(~(np.isfinite(numbers) & (numbers >= _LEAST)))] = True
        wrong[zeros.rows_where(outside)] = True
        of_tensor[rows[wrong & facts.values.is_type(kind)[rows]]] = True
    slots = (facts.uses, facts.definitions) if of_tensor.any() else ()
    return {row for one in slots for row in one.operators[of_tensor[one.values]].tolist()}


def _inner_loops(model: ModelGraph) -> Iterator[Place]:
    """Yield the loops in subgraphs that other operators call."""
    called = {index for some in model.callees.values() for index in some}
    for one in model.graphs if called else ():
        if one.index in called:  # an index may be out of range
            yield from ((one.index, row) for row, code in enumerate(one.operators.code_names) if code == "WHILE")
