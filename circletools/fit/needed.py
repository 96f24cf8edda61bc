"""Find the subgraphs that a target must run, and those that belong to an operator that the target refuses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from circletools.affinity.capability.table import Capability, Refusal
from circletools.fit.naming import COMPOSITE
from circletools.graph.graph import ModelGraph

Refusals = Sequence[Sequence[Refusal | None]]


def needed_subgraphs(model: ModelGraph, refused: Refusals, table: Capability) -> list[int]:
    """Return the subgraphs that run, in ascending order; `refused` holds the refused operators, by subgraph.

    Subgraphs called only by supported composites, or only from omitted subgraphs, are omitted, unless the table
    supports composites of any name: such a device runs their subgraphs.
    """
    facts = model.graphs
    has_kernels = all("name" in form.options for form in table.forms(COMPOSITE))
    if not has_kernels or not any(code.name == COMPOSITE for code in model.operator_codes):
        return list(range(len(facts)))
    callers: dict[int, list[tuple[int, int]]] = defaultdict(list)  # the callers of each subgraph
    calls = ((called, (one.index, at)) for one in facts for at in one.callees for called in one.called([at]))
    for called, place in calls:
        callers[called].append(place)

    def is_inside(place: tuple[int, int]) -> bool:
        index, at = place
        return index in inside or (refused[index][at] is None and facts[index].operators.code_names[at] == COMPOSITE)

    inside: set[int] = set()
    while more := [called for called in callers.keys() - inside if all(map(is_inside, callers[called]))]:
        inside.update(more)
    return [subgraph for subgraph in range(len(facts)) if subgraph not in inside]


def refused_bodies(model: ModelGraph, refused: Refusals) -> frozenset[int]:
    """Return the comparators and reductions that only refused operators call, so that they change with their callers.

    The body of a composite is not included: without the composite, its operators remain.
    """
    bodies = model.patterns if len(model) > 1 else frozenset[int]()
    kept: set[int] = set()
    for one in model.graphs if bodies else ():
        for operator in one.callees:
            refusal, code = refused[one.index][operator], one.operators.code_names[operator]
            if refusal is None or not refusal.measured or code == COMPOSITE:
                kept |= one.called([operator])
    return bodies - kept
