"""The numbers that comparisons read, as columns; each has one property of an input or output for many operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.comparison import TensorTerm, is_several
from circletools.flatbuf.columns import Vectors, row_numbers
from circletools.graph.columns import Slots
from circletools.graph.graph import Graph
from circletools.model.arrays import DTYPES

Column = NDArray[np.float64]


class Measures:
    """The properties of the tensors of one subgraph. If a tensor lacks a property, its value is NaN."""

    def __init__(self, facts: Callable[[], Graph | None]) -> None:
        """Read a subgraph through a weak reference; its operators must refer to existing tensors."""
        self._reference = facts
        self._values: dict[tuple[int, str], NDArray[Any]] = {}

    @property
    def _facts(self) -> Graph:
        facts = self._reference()
        assert facts is not None
        return facts

    def of(self, term: TensorTerm, rows: NDArray[np.int64]) -> Column:
        """Return the values of a term for these operators."""
        slots = self._facts.operands if term.side == "input" else self._facts.results
        if term.place is None:
            return self._extremes(term, slots)[rows]
        if term.what == "axis":
            return self._axes(term, slots, rows)
        places = slots.splits[rows] + term.place
        there = places < slots.splits[rows + 1]
        tensors = np.full(len(rows), -1, np.int64)
        tensors[there] = slots.values[places[there]]
        return self._of_tensors(term, tensors)

    def _axes(self, term: TensorTerm, slots: Slots, rows: NDArray[np.int64]) -> Column:
        """Return the axes in a constant, counted from the end of the first input's shape (-1 is the last)."""
        values = self.of(term._replace(what="value"), rows)
        ranks = self.of(TensorTerm("input", 0, "rank", None), rows)
        several = self.of(term._replace(what="value", extreme="least"), rows) >= 0
        mixed = several != (self.of(term._replace(what="value", extreme="most"), rows) >= 0)
        return np.where(mixed, np.nan, np.where(values >= 0, values - ranks, values))

    def _extremes(self, term: TensorTerm, slots: Slots) -> Column:
        """Return the minimum or maximum over all inputs, or all outputs, of each operator."""
        unused = np.inf if term.extreme == "least" else -np.inf
        # Unlike fmin and fmax, these keep NaN, so that every comparison is false if a tensor has no scale.
        combine = np.minimum if term.extreme == "least" else np.maximum
        values = np.where(slots.values >= 0, self._of_tensors(term, slots.values), unused)
        found = _reduced(combine, values, slots.counts, unused)
        found[found == unused] = np.nan
        return found

    def _of_tensors(self, term: TensorTerm, tensors: NDArray[np.int64]) -> Column:
        if term.what == "value":
            unique, which = np.unique(tensors, return_inverse=True)
            return np.array([self._value(term, int(tensor)) for tensor in unique], np.float64)[which]
        if term.what == "external":
            every = self._facts.values.model_buffers.external[self._facts.values.buffers].astype(np.float64)
        elif term.what in ("dim", "span"):
            every = self._shapes.element(term.element or 0) - (term.what == "span")
        else:
            every = {
                "scale": self._scales,
                "zero_point": self._zero_points,
                "rank": self._ranks,
                "size": self._sizes,
                "shape": self._shape_numbers,
            }[term.what]
        return np.append(every, np.nan)[tensors]

    @cached_property
    def _shapes(self) -> Vectors:
        return self._facts.values.shapes

    @cached_property
    def _ranks(self) -> Column:
        return self._shapes.count.astype(np.float64)

    @cached_property
    def _sizes(self) -> Column:
        with np.errstate(over="ignore", invalid="ignore"):  # every comparison with an unknown size is false
            return _reduced(np.multiply, self._shapes.flat().astype(np.float64), self._shapes.count, 1)

    @cached_property
    def _shape_numbers(self) -> Column:
        """Return a number for each shape; equal shapes have equal numbers."""
        return row_numbers(self._shapes.flat(), self._shapes.count).astype(np.float64)

    @cached_property
    def _scales(self) -> Column:
        return self._quantized("scale")

    @cached_property
    def _zero_points(self) -> Column:
        found = self._quantized("zero_point")
        found[np.isnan(found) & ~np.isnan(self._scales)] = 0
        return found

    def _quantized(self, name: str) -> Column:
        """Return the scale or zero point of each tensor that has a single scale."""
        tables, rows = self._facts.values.tables.child("quantization", self._facts.values.schema)
        found = np.full(len(self._facts.values), np.nan)
        if len(rows):
            one = tables.vectors("scale").count == 1
            found[rows[one]] = tables.vectors(name).element(0)[one]
        return found

    def _value(self, term: TensorTerm, tensor: int) -> float:
        if tensor < 0 or not self._facts.values.is_constant[tensor]:
            return np.nan
        values = self._constant(tensor)
        if is_several(term._replace(place=0)) and values.size:
            return float(values.min() if term.extreme == "least" else values.max())
        element = term.element or 0
        return float(values[element]) if -values.size <= element < values.size else np.nan

    def _constant(self, tensor: int) -> NDArray[Any]:
        values = self._facts.values
        name = values.schema.enums["TensorType"].get(int(values.type_numbers[tensor]), "")
        key = int(values.buffers[tensor]), name
        if key not in self._values:
            data = values.model_buffers.data.row(key[0])
            dtype = np.dtype(DTYPES.get(name, "c8"))  # complex numbers have no order
            size = data.size // dtype.itemsize * dtype.itemsize if dtype.kind != "c" else 0
            self._values[key] = data[:size].view(dtype)
        return self._values[key]


def _reduced(combine: np.ufunc, values: Column, counts: NDArray[np.int64], empty: float) -> Column:
    """Reduce each row of values to one; an empty row gives `empty`."""
    found = np.full(len(counts), float(empty))
    filled = np.flatnonzero(counts)
    if filled.size:
        starts = (np.cumsum(counts) - counts)[filled]
        found[filled] = combine.reduceat(values, starts)
    return found
