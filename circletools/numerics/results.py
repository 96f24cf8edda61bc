"""Differences between arrays, and comparison results: a row for each operator, with a cell for each program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from math import inf, log10
from operator import ne
from typing import Any, Literal

import numpy as np

from circletools.findings import Finding
from circletools.runtimes.protocol import Array
from circletools.wording import Attributes, Tabular

_LARGEST = float(np.finfo(np.float32).max)
_PIECE = 1 << 18  # the maximum number of values that are compared at the same time


@dataclass(frozen=True, slots=True)
class Form:
    """The type of a tensor, and its scale if stored numbers represent `(stored - zero) * scale`, or else 0."""

    type: str
    scale: float = 0.0
    zero: int = 0

    def real(self, stored: Array) -> Array:
        """Return, as doubles, the real numbers that stored numbers represent; strings are unchanged."""
        if stored.dtype.kind in "OS":
            return stored
        if self.type == "BFLOAT16" and stored.dtype == np.uint16:
            stored = (stored.astype(np.uint32) << 16).view(np.float32)
        with np.errstate(invalid="ignore"):  # a signaling NaN
            wide = stored.astype(np.complex128 if stored.dtype.kind == "c" else np.float64)
        real: Array = (wide - self.zero) * self.scale if self.scale else wide
        return real

    def stored(self, real: Array) -> Array:
        """Return real numbers as they are stored: rounded to nearest, and clamped to the range of the type."""
        dtype = np.dtype({"STRING": "O", "BFLOAT16": "u2"}.get(self.type, self.type.lower()))
        if self.type == "BFLOAT16":
            return (real.astype(np.float32).view(np.uint32) + 0x8000 >> 16).astype(dtype)
        if real.dtype.kind in "OS" or dtype.kind not in "iu":
            return real.astype(dtype)
        limits = np.iinfo(dtype)
        with np.errstate(invalid="ignore"):
            number = np.rint(real / self.scale) + self.zero if self.scale else np.rint(real)
        stored: Array = np.clip(np.nan_to_num(number), limits.min, limits.max).astype(dtype)
        return stored


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between actual and expected values.

    `unequal` of `size` values differ, by at most `max_abs`, and by `rms` in the root mean square. `max_steps` is
    `max_abs` in quantization steps, or None without quantization. `snr_db` is the ratio of signal to difference in
    decibels, or None if nothing differs or there is no signal; `cosine` is the cosine of the angle between actual and
    expected values. If values differ and at least one is not finite, the pair counts only in `non_finite`; the
    largest FLOAT32 number counts as infinite.
    """

    size: int
    unequal: int
    max_abs: float
    rms: float
    max_steps: float | None
    snr_db: float | None
    cosine: float | None
    non_finite: int


@dataclass(frozen=True, slots=True)
class Reals:
    """The real numbers that the values of several runs represent, in pieces, since doubles take more memory."""

    form: Form
    arrays: Sequence[Array]

    @property
    def is_text(self) -> bool:
        """Whether the values are strings."""
        return any(array.dtype.kind in "OS" for array in self.arrays)

    def __iter__(self) -> Iterator[Array]:
        """Yield the pieces, as `Form.real` returns them; no piece has values of two runs."""
        for array in self.arrays:
            row = array.ravel()
            for start in range(0, row.size, _PIECE):
                yield self.form.real(row[start : start + _PIECE])


def difference(expected: Iterable[Array], found: Iterable[Array], step: float = 0.0) -> Difference:
    """Compare real numbers, given in pieces of equal sizes; for strings that differ, `max_abs` is 1."""
    size = numbers = unequal = non_finite = 0
    largest, sums = 0.0, np.zeros(4)
    for old, new in zip(expected, found, strict=True):
        wanted, got = _unclamped(old), _unclamped(new)
        if old.dtype.kind in "OS":
            got = np.array([*map(ne, old.tolist(), new.tolist())], np.float64)
            wanted = np.zeros_like(got)
        changed = int(changes_kind(wanted, got).sum())
        finite = np.isfinite(wanted) & np.isfinite(got)
        one, two = wanted[finite], got[finite]
        error = np.abs(two - one)
        sums += [*(np.square(np.abs(of)).sum() for of in (one, error, two)), (one.conj() * two).real.sum()]
        size, numbers, non_finite = size + old.size, numbers + one.size, non_finite + changed
        unequal += int(np.count_nonzero(error)) + changed
        largest = max(largest, float(error.max(initial=0.0)))
    signal, noise, power, product = sums.tolist()
    return Difference(
        size,
        unequal,
        largest,
        (noise / max(1, numbers)) ** 0.5,
        largest / step if step else None,
        10 * log10(signal / noise) if signal and noise and signal / noise < inf else None,
        product / (signal * power) ** 0.5 if signal * power else None,
        non_finite,
    )


def changes_kind(expected: Array, found: Array) -> Array:
    """Return a mask of the pairs of numbers in which one is not finite and the other differs from it."""
    both_finite, both_nan = np.isfinite(expected) & np.isfinite(found), np.isnan(expected) & np.isnan(found)
    changed: Array = ~(both_finite | both_nan | (expected == found))
    return changed


def _unclamped(real: Array) -> Array:
    """Return numbers with the largest FLOAT32 number, to which LiteRT clamps infinity, replaced by infinity."""
    if real.dtype.kind != "f":
        return real
    return np.where(np.abs(real) >= _LARGEST, np.copysign(inf, real), real)


Verdict = Literal["ok", "fault", "not_run", "skipped"]


@dataclass(frozen=True, slots=True)
class Cell(Attributes):
    """The comparison of an operator in one program.

    `own` is the operator's difference from the reference when it is cut out and fed the reference's values;
    `inherited` is the difference of the same outputs when the whole model runs. `allowed` is the largest part of
    `own` that rounding explains. `words` holds the reason why a value is missing, or the program's output.
    """

    verdict: Verdict
    own: Difference | None = None
    inherited: Difference | None = None
    allowed: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class OperatorCells(Attributes):
    """An operator, in execution order, with its origin; `cells` are in the order of the columns.

    `partner` is the corresponding operator of the other model, or None if both models are the same.
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

    `failure` is the reason why it does not run the whole model. `exposing_changes` describes how its outputs change
    when tensors inside the model become outputs too; empty if they do not change. `outputs` holds the largest
    difference of each output of the model from the reference, or None if sizes differ or only one value is finite.
    """

    program: str
    version: str
    failure: str
    exposing_changes: str
    outputs: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Group(Attributes):
    """Operators that a delegate runs as a unit, and the difference between their results and the reference's."""

    program: str
    device: str
    operators: tuple[int, ...]
    own: Difference | None
    words: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """Programs compared with a reference; `other` is the name of the second model, or empty if there is only one.

    `runs` is the number of times that each model ran, with different inputs each time.
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
        """Return the first operator at fault in a program: given correct inputs, its outputs are wrong.

        Wrong values take precedence over a different shape, which may be intended in a rewritten model.
        """
        wrong = [row for row in self.operators if row.cells[column].verdict == "fault"]
        return next((row for row in wrong if row.cells[column].own), wrong[0] if wrong else None)

    def first_not_run(self, column: int = 0) -> OperatorCells | None:
        """Return the first operator that a program does not run, or crashes on, when given only that operator."""
        return next((row for row in self.operators if row.cells[column].verdict == "not_run"), None)

    @property
    def failed(self) -> bool:
        """Whether nothing was compared, or a program did not run the whole model or one of its operators."""
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
                **{"operator_index" if name == "operator" else name: getattr(row, name) for name in _OF_OPERATOR},
                "sources": list(row.sources),
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
_OF_OPERATOR = tuple(field.name for field in fields(OperatorCells) if field.name != "cells")


def _columns(what: str, found: Difference | None) -> dict[str, Any]:
    return {f"{what}_{name}": getattr(found, name, None) for name in _FIELDS}
