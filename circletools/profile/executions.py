"""Finds the executions of one model in a trace that also has those of other models."""

from __future__ import annotations

from circletools.errors import InvalidInputError
from circletools.graph.graph import ModelGraph
from circletools.profile.joining import Join
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, only_executions

_MOST_KINDS = 64


def joined_executions(model: ModelGraph, trace: OperatorTrace) -> tuple[OperatorTrace, Join]:
    """Return the trace joined with a model, without the executions of other models.

    Raises InvalidInputError if none is of this model.
    """
    try:
        return trace, Join(model, trace, delegates=True)
    except InvalidInputError as refused:
        kept = [] if trace.averaged else _of_model(model, trace)
        if not kept:
            lanes = sorted({run.lane for run in trace.runs})
            if trace.runtime == "litert" and len(lanes) > 1:
                refused.hint = (
                    f"{refused.hint}; operators ran on threads {', '.join(map(str, lanes[:8]))}: try `thread=`"
                )
            raise
        some = only_executions(trace, {number: at for at, number in enumerate(kept)})
        return some, Join(model, some, delegates=True)


def _of_model(model: ModelGraph, trace: OperatorTrace) -> list[int]:
    """Return the executions of a model; empty if too many differ from each other."""
    runs: list[list[OperatorRun]] = [[] for _ in range(trace.executions)]
    for run in trace.runs:
        runs[run.execution].append(run)
    verdicts: dict[frozenset[tuple[int, int, str, bool]], bool] = {}
    kept = []
    for number, some in enumerate(runs):
        kind = frozenset((run.subgraph, run.operator, run.name, run.of_delegate) for run in some)
        if kind not in verdicts:
            if len(verdicts) == _MOST_KINDS:
                return []
            verdicts[kind] = bool(kind) and _agrees(model, trace, number)
        if verdicts[kind]:
            kept.append(number)
    return kept


def _agrees(model: ModelGraph, trace: OperatorTrace, number: int) -> bool:
    try:
        Join(model, only_executions(trace, {number: 0}))
    except InvalidInputError:
        return False
    return True
