"""Comparisons of values as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from textwrap import shorten
from typing import Any, Literal

from circletools.numerics.results import Cell, Column, Comparison, OperatorCells
from circletools.reduction.reduce import Reduction
from circletools.render.table import table_text
from circletools.wording import SCHEMA_VERSION, counted, ranges

By = Literal["operator", "module"]
_HEAD = ("operator", "code", "own", "steps", "SNR dB", "inherited", "steps", "verdict", "source")


def numbers_json(found: Comparison) -> dict[str, Any]:
    """Return the JSON document."""
    return {
        "schema_version": SCHEMA_VERSION,
        "file": found.file,
        "other": found.other or None,
        "runs": found.runs,
        "reference": asdict(found.reference),
        "programs": [
            asdict(column)
            | {
                what: None if row is None else {"subgraph": row.subgraph, "operator_index": row.operator}
                for what, row in (("first_own", found.first_own(at)), ("first_not_run", found.first_not_run(at)))
            }
            for at, column in enumerate(found.columns)
        ],
        "groups": [asdict(group) | {"operators": list(group.operators)} for group in found.groups],
        "rows": found.to_rows(),
    }


def reduction_text(found: Reduction) -> Iterator[str]:
    """Yield the operators that remain in a model, and the number of trials."""
    yield (
        f"operators of subgraph {found.subgraph}: {ranges(found.operators)} of {found.operator_count:,}, "
        f"{', '.join(found.codes[:8])}"
    )
    left = counted(found.outputs, "output"), f"{counted(found.zeros, 'constant')} zeroed"
    yield ", ".join((*left, counted(found.trials, "trial")))
    if found.still_fails is not None:
        yield f"weights and names are replaced; the model {'still' if found.still_fails else 'no longer'} fails"


def numbers_text(found: Comparison, by: By = "operator") -> Iterator[str]:
    """Yield the first faulty operator in each program, and a table of the operators or modules."""
    runs = counted(found.runs, "run")
    yield f"reference: {found.file} on {_program(found.reference)}, {runs}"
    if found.reference.failure:
        yield f"  the reference fails: {found.reference.failure}"
    for at, column in enumerate(found.columns):
        yield ""
        yield f"{found.other or found.file} on {_program(column)}: {_outputs(column)}{_answer(found, at)}"
        if column.failure:
            yield f"  the whole model does not run: {column.failure}"
        if column.exposing_changes:
            yield f"  with inner tensors as outputs, the model computes different values: {column.exposing_changes}"
        for group in found.groups:
            if group.program == column.program:
                own = group.own
                words = f"off by {_number(own.max_abs)}, SNR {_number(own.snr_db)} dB" if own else group.words
                yield f"  {group.device} runs {ranges(group.operators)} together: {words}"
        if found.operators:
            some = groupby(found.operators, lambda row: row.module if by == "module" else row.operator)
            rows = [_cells(list(members), at) for _, members in some]
            yield from table_text([_HEAD, *rows], right=range(2, 7))


def _program(column: Column) -> str:
    return " ".join(filter(None, (column.program, column.version)))


def _outputs(column: Column) -> str:
    """Return the errors in the outputs of the whole model."""
    if not any(error != 0 for error in column.outputs):
        return "outputs equal; " if column.outputs else ""
    return f"largest error of each output: {', '.join(map(_number, column.outputs))}; "


def _answer(found: Comparison, at: int) -> str:
    """Return the verdict as text."""
    row, lost = found.first_own(at), found.first_not_run(at)
    if row is not None:
        wrong = "that is wrong" if row.cells[at].own else "with a different shape"
        line = f", {row.file}:{row.line}" if row.file else ""
        return f"operator {row.operator} {row.code} is the first {wrong}: {', '.join(row.sources)}{line}"
    if lost is not None:
        return f"operator {lost.operator} {lost.code} is the first that does not run: {lost.cells[at].words}"
    compared = [row.cells[at].verdict == "ok" for row in found.operators]
    skipped = f", {counted(compared.count(False), 'operator')} not compared" if not all(compared) else ""
    return f"no operator is wrong{skipped}" if any(compared) else "nothing was compared"


def _cells(rows: Sequence[OperatorCells], at: int) -> tuple[str, ...]:
    """Return the cells of a row; for several operators, those of the one with the largest error."""
    worst = max(rows, key=lambda row: _rank(row.cells[at]))
    cell, last = worst.cells[at], rows[-1].cells[at]
    own, inherited = cell.own, last.inherited
    source = ", ".join(worst.sources) + (f" ({worst.file}:{worst.line})" if worst.file else "")
    return (
        ranges(sorted(row.operator for row in rows)),
        worst.code,
        _number(own.max_abs if own else None),
        _number(own.max_steps if own else None),
        _number(own.snr_db if own else None),
        _number(inherited.max_abs if inherited else None),
        _number(inherited.max_steps if inherited else None),
        cell.verdict.replace("_", " ") + (f": {shorten(cell.words, 80, placeholder=' …')}" if cell.words else ""),
        source,
    )


def _rank(cell: Cell) -> tuple[bool, bool, float]:
    error = 0.0 if cell.own is None else cell.own.max_abs / (cell.allowed or 1)
    return cell.verdict == "fault", cell.verdict == "not_run", error


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
