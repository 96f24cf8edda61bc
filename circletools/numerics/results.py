"""The results of a comparison: a row for each operator, with a cell for each program."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

from circletools.findings import Finding
from circletools.numerics.values import Difference
from circletools.wording import Attributes, Tabular

Verdict = Literal["ok", "fault", "not_run", "skipped"]


@dataclass(frozen=True, slots=True)
class Cell(Attributes):
    """The comparison of an operator in one program.

    `own` is the operator's difference from the reference when it is cut out and fed the reference's values,
    `inherited` the difference of the same values when the whole model runs. `allowed` is the largest part of `own`
    that rounding explains. `words` are the reason for a missing value, or the program's output.
    """

    verdict: Verdict
    own: Difference | None = None
    inherited: Difference | None = None
    allowed: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class OperatorCells(Attributes):
    """An operator, in execution order, with its origin; `cells` are in the order of the columns.

    `partner` is the operator of the other model, None if that is the same model.
    """

    subgraph: int
    operator: int
    code: str
    output: str
    sources: tuple[str, ...]
    module: str
    file: str
    line: int
    partner: int | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Column(Attributes):
    """A program in the comparison.

    `failure` is why it does not run the whole model. `exposing_changes` is how its outputs change when tensors inside
    the model become outputs too; empty if they do not change.
    """

    program: str
    version: str
    failure: str
    exposing_changes: str


@dataclass(frozen=True, slots=True)
class Group(Attributes):
    """Operators that a delegate runs together, and their common difference from the reference."""

    program: str
    device: str
    operators: tuple[int, ...]
    own: Difference | None
    words: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """Programs compared with a reference; `other` is the name of the second model, empty for one model.

    `runs` is how often each model ran, with other inputs each time.
    """

    file: str
    other: str
    reference: Column
    runs: int
    columns: tuple[Column, ...]
    operators: tuple[OperatorCells, ...]
    groups: tuple[Group, ...]
    notes: tuple[Finding, ...]

    def first_own(self, column: int = 0) -> OperatorCells | None:
        """Return the first operator that is at fault in a program: its inputs are correct, its outputs wrong."""
        return next((row for row in self.operators if row.cells[column].verdict == "fault"), None)

    def first_not_run(self, column: int = 0) -> OperatorCells | None:
        """Return the first operator that a program does not run, or crashes on, when it is cut out."""
        return next((row for row in self.operators if row.cells[column].verdict == "not_run"), None)

    @property
    def failed(self) -> bool:
        """Whether nothing was compared, or a program does not run the whole model or one of its operators."""
        cells = [cell for row in self.operators for cell in row.cells]
        failures = any(column.failure for column in (self.reference, *self.columns))
        return failures or not cells or any(cell.verdict == "not_run" for cell in cells)

    @property
    def has_faults(self) -> bool:
        """Whether any operator is at fault in any program."""
        return any(cell.verdict == "fault" for row in self.operators for cell in row.cells)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each operator in each program."""
        return [
            {
                "program": column.program,
                "subgraph": row.subgraph,
                "operator_index": row.operator,
                "code": row.code,
                "output": row.output,
                "sources": list(row.sources),
                "module": row.module,
                "file": row.file,
                "line": row.line,
                "partner": row.partner,
                "verdict": cell.verdict,
                **_columns("own", cell.own),
                **_columns("inherited", cell.inherited),
                "allowed_max_abs": cell.allowed,
                "words": cell.words,
            }
            for row in self.operators
            for column, cell in zip(self.columns, row.cells, strict=True)
        ]


_FIELDS = tuple(field.name for field in fields(Difference))


def _columns(what: str, found: Difference | None) -> dict[str, Any]:
    return {f"{what}_{name}": getattr(found, name, None) for name in _FIELDS}
