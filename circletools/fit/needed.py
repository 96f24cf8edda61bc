"""Which subgraphs a target has to run: not the inside of a composite that it takes as one operator."""

from __future__ import annotations

from collections.abc import Sequence

from circletools.affinity.capability.table import Refusal
from circletools.model.calls import Calls
from circletools.model.model import Model
from circletools.model.operator_facts import OperatorFacts

_COMPOSITE = "STABLEHLO_COMPOSITE"
Refusals = Sequence[Sequence[Refusal | None]]


def needed_subgraphs(model: Model, facts: Sequence[OperatorFacts], refused: Refusals) -> list[int]:
    """Return the subgraphs that run, ascending, where `refused` has by subgraph what is not taken.

    Left out are those that are called by composites which are taken, or from a subgraph that is left out, and by
    nothing else.
    """
    if not any(code.name == _COMPOSITE for code in model.operator_codes):
        return list(range(len(facts)))
    callers = _callers(model, facts)

    def is_inside(place: tuple[int, int]) -> bool:
        subgraph, operator = place
        taken = refused[subgraph][operator] is None and facts[subgraph].code_names[operator] == _COMPOSITE
        return taken or subgraph in inside

    inside: set[int] = set()
    while more := [called for called in callers.keys() - inside if all(map(is_inside, callers[called]))]:
        inside.update(more)
    return [subgraph for subgraph in range(len(facts)) if subgraph not in inside]


def _callers(model: Model, facts: Sequence[OperatorFacts]) -> dict[int, list[tuple[int, int]]]:
    """Return by subgraph the operators that call it, as subgraph and index."""
    calls, callers = Calls(model), dict[int, list[tuple[int, int]]]()
    for subgraph in facts:
        for row in calls.by_row.keys() & range(subgraph.rows.start, subgraph.rows.stop):
            for called in calls.named(row):
                callers.setdefault(called, []).append((subgraph.subgraph, row - subgraph.rows.start))
    return callers
