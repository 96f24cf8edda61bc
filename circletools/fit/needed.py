"""Find the subgraphs that a target has to run: not the body of a composite that it takes as one operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from circletools.affinity.capability.table import Refusal
from circletools.graph.graph import ModelGraph

_COMPOSITE = "STABLEHLO_COMPOSITE"
Refusals = Sequence[Sequence[Refusal | None]]


def needed_subgraphs(model: ModelGraph, refused: Refusals) -> list[int]:
    """Return the subgraphs that run, ascending, where `refused` has by subgraph what is not taken.

    Left out are those that are called by composites which are taken, or from a subgraph that is left out, and by
    nothing else.
    """
    facts = model.graphs
    if not any(code.name == _COMPOSITE for code in model.operator_codes):
        return list(range(len(facts)))
    callers: dict[int, list[tuple[int, int]]] = defaultdict(list)  # by subgraph those who call it
    for one in facts:
        for operator in one.callees:
            for called in one.called([operator]):
                callers[called].append((one.index, operator))

    def is_inside(place: tuple[int, int]) -> bool:
        subgraph, operator = place
        taken = refused[subgraph][operator] is None and facts[subgraph].operators.code_names[operator] == _COMPOSITE
        return taken or subgraph in inside

    inside: set[int] = set()
    while more := [called for called in callers.keys() - inside if all(map(is_inside, callers[called]))]:
        inside.update(more)
    return [subgraph for subgraph in range(len(facts)) if subgraph not in inside]
