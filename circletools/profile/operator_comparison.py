"""Two operator-level traces side by side: operator by operator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from circletools.profile.trace_comparison import FEWEST, comparison_json, has_regressed, ratio_bounds
from circletools.render.table import csv_text, number_columns, table_text
from circletools.render.traces import Document
from circletools.trace.operators.read import OperatorTrace, self_times
from circletools.wording import counted, microseconds

_COLUMNS = ["subgraph", "operator_index", "name", "before_ns", "after_ns", "delta_ns", "ratio", "low", "high"]
_HEAD = ["operator", "", "before", "after", "delta", "ratio", "low", "high", ""]
_Key = tuple[int, int, str]


def compare_operators(before: OperatorTrace, after: OperatorTrace, threshold_percent: float) -> Document:
    """Return the JSON document of `trace-compare --operators`.

    Times are own times per execution; the first row is of all operators together. `low`, `high` and `regressed` are
    those of `trace_comparison.compare_traces`; averages have no bounds. Operators are the same where subgraph, index
    and the runtime's name are.
    """
    traces, samples = (before, after), (_samples(before), _samples(after))
    bounded = min(trace.executions for trace in traces) >= FEWEST and not (before.averaged or after.averaged)
    keys: list[_Key | None] = [None, *sorted(samples[0].keys() | samples[1].keys())]
    rows: list[Document] = []
    for key in keys:
        first, second = (_series(sample, key, trace) for sample, trace in zip(samples, traces, strict=True))
        rows.append(_row(key, first, second, bounded))
    for row in rows:
        row["regressed"] = has_regressed(row, threshold_percent / 100, rows[0]["before_ns"])
    return comparison_json(_said(before), _said(after), threshold_percent, rows)


def _said(trace: OperatorTrace) -> Document:
    return {"runtime": trace.runtime, "executions": trace.executions, "averaged": trace.averaged}


def _samples(trace: OperatorTrace) -> dict[_Key, list[tuple[int, int]]]:
    """Return the executions that an operator ran in, and its own time there."""
    own = [run.duration_ns for run in trace.runs] if trace.averaged else self_times(trace.runs)
    found: dict[_Key, list[tuple[int, int]]] = {}
    for run, time in zip(trace.runs, own, strict=True):
        found.setdefault((run.subgraph, run.operator, run.name), []).append((run.execution, time))
    return found


def _series(
    samples: dict[_Key, list[tuple[int, int]]], key: _Key | None, trace: OperatorTrace
) -> npt.NDArray[np.float64]:
    """Return the time of an operator, or of all, in every execution."""
    keys = [key] if key is not None else list(samples)
    if trace.averaged and key is None:
        first = min(subgraph for subgraph, _, _ in samples)
        keys = [found for found in keys if found[0] == first]  # averages of a caller are of what it calls, too
    chosen = [pair for found in keys for pair in samples.get(found, ())]
    values = np.zeros(trace.executions)
    if trace.averaged:
        values += sum(time for _, time in chosen) / trace.executions
    else:
        np.add.at(values, [execution for execution, _ in chosen], [time for _, time in chosen])
    return values


def _row(
    key: _Key | None, first: npt.NDArray[np.float64], second: npt.NDArray[np.float64], bounded: bool
) -> Document:
    before, after = float(first.mean()), float(second.mean())
    bounds = ratio_bounds(first, second) if bounded else None
    values = (
        *((None, None, "all operators") if key is None else key),
        *(round(before), round(after), round(after) - round(before)),
        after / before if before else None,
        *(bounds or (None, None)),
    )
    return dict(zip(_COLUMNS, values, strict=True))


def operators_text(document: Document) -> Iterator[str]:
    """Yield the lines of the text form."""
    for which in ("before", "after"):
        averages = ", averages only" if document[which]["averaged"] else ""
        executions = counted(document[which]["executions"], "execution")
        yield f"{which}: {document[which]['runtime']}, {executions}{averages}"
    yield ""
    yield "own time per execution in us; low and high bound the ratio (95 %)"
    several = any(row["subgraph"] for row in document["rows"])
    rows = [_HEAD, *(_cells(row, several) for row in document["rows"])]
    yield from table_text(rows, right=number_columns(rows))


def _cells(row: Document, several: bool) -> list[str]:
    place = "" if row["subgraph"] is None else f"{row['subgraph']}/" * several + str(row["operator_index"])
    return [
        place,
        row["name"],
        *(microseconds(row[key]) for key in ("before_ns", "after_ns", "delta_ns")),
        *("-" if row[key] is None else f"{row[key]:.3f}" for key in ("ratio", "low", "high")),
        "slower" if row["regressed"] else "",
    ]


def operators_csv(document: Document) -> str:
    """Return the rows as CSV."""
    head = [*_COLUMNS, "regressed"]
    return csv_text(head, ([row[key] for key in head] for row in document["rows"]))
