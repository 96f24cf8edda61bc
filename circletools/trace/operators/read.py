"""Operator-level traces: how long each operator ran, one vocabulary for what three runtimes write.

    onert            trace.chrome.json, Chrome's trace event format          `operators_onert`
    LiteRT           atrace marks NAME@<operator index>/<subgraph index>     `operators_litert`
    benchmark_model  the operator tables of its report, CSV or text          `operators_benchmark`

The first two tell every run of an operator, the third only averages.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, Literal, NamedTuple

from circletools.errors import CircleToolsError, InvalidInputError, UsageError
from circletools.storage.files import open_source

__all__ = ["OperatorRun", "OperatorTrace", "read_operator_trace", "without_first"]

Runtime = Literal["onert", "litert", "benchmark_model"]

UNKNOWN_SUBGRAPH = -1
"""The subgraph of a run where the trace does not tell."""

_HEAD_BYTES = 4096
_MEMORY_NAME = "<bytes>"  # what is in memory is called


class OperatorRun(NamedTuple):
    """One run of an operator; of an averaged trace, all its runs together.

    `operator` is its index, `name` the runtime's word for it, `backend` what ran it (empty where the trace does not
    say). `execution` counts the inferences from 0. `lane` is a thread or session: runs of one lane can lie within
    each other, since an operator that calls a subgraph runs for as long as the subgraph's operators. `of_delegate`:
    the run is of a delegate's own operator, and `operator` counts the delegate's.
    """

    subgraph: int
    operator: int
    name: str
    backend: str
    start_ns: int
    duration_ns: int
    execution: int
    lane: int = 0
    calls: int = 1
    of_delegate: bool = False


@dataclass(frozen=True, slots=True)
class OperatorTrace:
    """The operators' runs in `executions` inferences.

    `averaged`: only averages are known, so there is one `OperatorRun` for each operator, with the time of all its
    `calls` in all executions. `inside` are the parts that a delegate reports of its own run: their time is in the
    run of the delegate already. `incomplete` counts begins without an end and ends without a begin.
    """

    runtime: Runtime
    runs: tuple[OperatorRun, ...]
    executions: int
    averaged: bool = False
    inside: tuple[OperatorRun, ...] = ()
    incomplete: int = 0


def read_operator_trace(source: str | os.PathLike[str] | bytes | BinaryIO) -> OperatorTrace:
    """Read an operator-level trace of any kind: a path (`-` is standard input), bytes, or a binary file.

    The kind is told by the contents. Raises InvalidInputError when it cannot be read or tells no operator times.
    """
    opened = open_source(source)
    memory = opened.memory
    opened.close()  # the mapping stays for as long as something refers to it
    try:
        return _read(memory)
    except CircleToolsError as error:
        place = (error.location or "").removeprefix(_MEMORY_NAME).removeprefix(":")
        error.location = f"{opened.name}:{place}" if place else opened.name
        raise


def without_first(trace: OperatorTrace, count: int) -> OperatorTrace:
    """Return a trace without its first `count` executions, which often do what the later ones need not do again.

    Raises UsageError where that cannot be done.
    """
    if not count:
        return trace
    if trace.averaged:
        raise UsageError("no execution can be left out: the trace has only averages over all of them")
    if count >= trace.executions:
        raise UsageError(f"{count} executions cannot be left out: the trace has {trace.executions}")
    runs, inside = (
        tuple(run._replace(execution=run.execution - count) for run in rows if run.execution >= count)
        for rows in (trace.runs, trace.inside)
    )
    return replace(trace, runs=runs, inside=inside, executions=trace.executions - count)


def _read(memory: memoryview) -> OperatorTrace:
    from circletools.trace.operators import benchmark_model as operators_benchmark  # noqa: PLC0415
    from circletools.trace.operators import litert as operators_litert
    from circletools.trace.operators import onert as operators_onert
    from circletools.trace.sources import events, open_trace  # noqa: PLC0415

    head = bytes(memory[:_HEAD_BYTES]).lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] in (b"{", b"["):
        return operators_onert.parse(bytes(memory))
    if operators_onert.is_table(head):
        raise InvalidInputError(operators_onert.TABLE_REASON, hint=operators_onert.OTHER_FILE)
    if operators_benchmark.is_report(memory):
        return operators_benchmark.parse(bytes(memory))
    return operators_litert.collect(events(open_trace(memory)))


def nothing_found(what: str) -> InvalidInputError:
    """Return the error for a trace that can be read but has no operators."""
    return InvalidInputError(f"no operator times: {what}", hint="docs/trace.md says how to record them")


def self_times(runs: Sequence[OperatorRun]) -> list[int]:
    """Return for each run the nanoseconds in which it ran and no run within it did; none is negative.

    A run lies within another of its lane when it does so in time and belongs to another subgraph: operators of
    one subgraph do not call each other, though side by side on several threads they may well overlap. Without
    such overlap, the self times of an operator and of all that it called add up to its duration.
    """
    own = [run.duration_ns for run in runs]
    covered = [run.start_ns for run in runs]
    stack: list[tuple[int, int, int | None]] = []  # the end, the run, and what it lies within
    lane = None
    for at in sorted(range(len(runs)), key=lambda at: _by_begin(runs[at])):
        run = runs[at]
        end = run.start_ns + run.duration_ns
        if run.lane != lane:
            lane, stack = run.lane, []
        while stack and (stack[-1][0] <= run.start_ns or stack[-1][0] < end):
            stack.pop()
        parent = None
        if stack:
            _, above, beyond = stack[-1]
            parent = above if runs[above].subgraph != run.subgraph else beyond
        if parent is not None and end > covered[parent]:
            own[parent] -= end - max(run.start_ns, covered[parent])
            covered[parent] = end
        stack.append((end, at, parent))
    return own


def _by_begin(run: OperatorRun) -> tuple[int, int, int, int]:
    return run.lane, run.start_ns, -run.duration_ns, run.subgraph
