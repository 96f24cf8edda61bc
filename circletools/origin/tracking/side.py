"""One of the two models as arrays: all subgraphs in one graph, operators and tensors by their row in the columns."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Vectors, grouped
from circletools.graph.build import model_graph
from circletools.graph.columns import Uses
from circletools.model.model import Model
from circletools.origin.tags import TAG, only_tags, tags_of

Indices = NDArray[np.int64]
NONE = -1


@dataclass(frozen=True, slots=True)
class Slots:
    """The used input (or output) slots of all operators: operator, position among its used slots, tensor."""

    operator: Indices
    position: Indices
    tensor: Indices


@dataclass(frozen=True, slots=True)
class Side:
    """A model. `producer` is the operator row that makes a tensor, or -1; `elements` is 0 where a size is unknown.

    `names` are those of tensors, by row; with `tags` those of BEFORE are in their place.
    """

    model: Model
    codes: list[str]
    inputs: Slots
    outputs: Slots
    producer: Indices
    elements: Indices
    is_constant: NDArray[np.bool_]
    operator_splits: Indices
    names: list[bytes]
    tags: Mapping[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of operators, of all subgraphs."""
        return len(self.codes)

    def is_any(self, codes: Container[str]) -> NDArray[np.bool_]:
        """Say which operators are of one of these codes."""
        return np.array([code in codes for code in self.codes], np.bool_)

    def shape(self, tensor: int) -> tuple[int, ...]:
        """Return the shape of a tensor."""
        return tuple(self.model.tensor_columns.shapes.row(tensor).tolist())

    def boundary(self, subgraph: int, direction: str) -> list[int]:
        """Return the tensor rows of a subgraph's `inputs` or `outputs`. Raises ModelFormatError."""
        rows = self.model.tensor_columns.rows_of(subgraph)
        tensors = self.model.subgraph_tables.vectors(direction).row(subgraph).tolist()
        if any(not 0 <= tensor < len(rows) for tensor in tensors):
            raise ModelFormatError("the tensor does not exist", location=f"subgraphs[{subgraph}].{direction}")
        return [rows[tensor] for tensor in tensors]


def read_side(model: Model) -> Side:
    """Return the arrays of a model. Raises ModelFormatError for an index that leads nowhere."""
    tensors, facts = model.tensor_columns, model_graph(model).graphs
    codes = [name for one in facts for name in one.operators.code_names]
    for one in facts:
        one.check_values()
    inputs = _slots(model, [one.uses for one in facts])
    outputs = _slots(model, [one.definitions for one in facts])
    producer = np.full(len(tensors.tables), NONE, np.int64)
    producer[outputs.tensor] = outputs.operator
    buffers = tensors.buffers.astype(np.int64)
    holds = np.concatenate([model.buffers.data.count > 0, [False]]) if len(model.buffers) else np.zeros(1, np.bool_)
    holds[:-1] |= model.buffers.external
    is_constant = holds[np.minimum(buffers, len(holds) - 1)] & (producer == NONE)
    return Side(
        model,
        codes,
        inputs,
        outputs,
        producer,
        _products(tensors.shapes),
        is_constant,
        model.operator_columns.splits,
        tensors.names,
    )


def tagged(before: Side, after: Side) -> tuple[Side, Side]:
    """Return both sides with tags for names, if tensors of AFTER have tags of BEFORE; else as they are."""
    if not any(TAG.search(name) for name in after.names):
        return before, after
    tags = tags_of(before.model)
    known = frozenset(tags.values())
    names = [only_tags(name, known) for name in after.names]
    if names == after.names and known.isdisjoint(names):
        return before, after
    before_names = [tags.get(row, name) for row, name in enumerate(before.names)]
    return replace(before, names=before_names, tags=tags), replace(after, names=names)


def _slots(model: Model, uses: Sequence[Uses]) -> Slots:
    """Return what the operators of all subgraphs use, with their rows and those of the tensors in the whole model."""
    none = np.empty(0, np.int64)
    firsts = zip(uses, model.operator_columns.splits.tolist(), model.tensor_columns.splits.tolist(), strict=False)
    rows = [(use.operators + operator, use.values + tensor) for use, operator, tensor in firsts]
    operator, tensor = (np.concatenate([none, *(row[at] for row in rows)]) for at in range(2))
    return Slots(operator, np.arange(len(operator)) - np.searchsorted(operator, operator), tensor)


def _products(shapes: Vectors) -> Indices:
    """Return the number of elements of each shape, 0 where a size is 0, negative or out of all proportion."""
    sizes = np.append(shapes.flat().astype(np.float64), 1.0)  # the 1 belongs to the last row, for reduceat
    starts = shapes.splits()[:-1]
    products = np.ones(len(starts))
    filled = shapes.count > 0
    if filled.any():
        with np.errstate(over="ignore", invalid="ignore"):
            products[filled] = np.multiply.reduceat(sizes, starts[filled])
    products[~((products > 0) & (products < 2**62))] = 0
    return products.astype(np.int64)


@dataclass(frozen=True, slots=True)
class View:
    """A side with some operators looked through: what they give is the value of what they take.

    `sources[operator]` has (producer, output position, value) for each input slot, `takers[value]` the
    (operator, slot) that use a value, `made[operator]` the values it makes. Hidden operators have none of these.
    `slots` has all of `sources` in four rows: operator, producer, output position, value. `made_counts[operator]` is
    how many values an operator makes.
    """

    value: Indices
    sources: list[list[tuple[int, int, int]]]
    takers: dict[int, list[tuple[int, int]]]
    made: list[list[int]]
    hidden: NDArray[np.bool_]
    slots: Indices
    made_counts: Indices


def view(side: Side, hidden: NDArray[np.bool_], near: View | None = None) -> View:
    """Return the side with the `hidden` operators looked through; each hands on its main input.

    Of a view that is `near`, with other operators hidden, what is the same is taken over.
    """
    value = _look_through(side, hidden)
    position = np.zeros(len(value), np.int64)
    position[side.outputs.tensor] = side.outputs.position
    shown = ~hidden[side.inputs.operator]
    operators, slots = side.inputs.operator[shown], side.inputs.position[shown]
    values = value[side.inputs.tensor[shown]]
    flat = np.stack([operators, side.producer[values], position[values], values])
    # Of many that write one tensor only the last makes its value: else each of them would stand for all its takers.
    makes = (side.producer[side.outputs.tensor] == side.outputs.operator) & ~hidden[side.outputs.operator]
    makes &= position[side.outputs.tensor] == side.outputs.position
    counts = np.bincount(side.outputs.operator[makes], minlength=len(side))
    if near is not None:
        other = (value != near.value)[side.inputs.tensor] | (hidden != near.hidden)[side.inputs.operator]
        return _changed(
            side, near, View(value, [], {}, [], hidden, flat, counts), slots, makes, side.inputs.operator[other]
        )
    sources = grouped(len(side), operators, list(zip(*flat[1:].tolist(), strict=True)))
    order = np.argsort(values, kind="stable")
    taken, first = np.unique(values[order], return_index=True)
    uses = list(zip(operators[order].tolist(), slots[order].tolist(), strict=True))
    bounds = [*first.tolist(), len(uses)]
    takers = {value: uses[start:end] for value, (start, end) in zip(taken.tolist(), pairwise(bounds), strict=True)}
    made = grouped(len(side), side.outputs.operator[makes], side.outputs.tensor[makes].tolist())
    return View(value, sources, takers, made, hidden, flat, counts)


def _changed(
    side: Side, near: View, bare: View, positions: Indices, makes: NDArray[np.bool_], operators: Indices
) -> View:
    """Return a view, of which `bare` has the arrays, with the lists of one near it where they are the same.

    `operators` are those that take other values; `positions` are those of the slots shown, `makes` says which slots
    of outputs have a value that is shown.
    """
    taker, _, _, values = bare.slots
    other = np.zeros(len(side), np.bool_)
    other[operators] = True
    sources, takers, made = near.sources.copy(), near.takers.copy(), near.made.copy()
    for row in np.flatnonzero(other).tolist():
        sources[row] = []
    own = bare.slots[:, other[taker]].tolist()
    for row, *source in zip(*own, strict=True):
        sources[row].append((source[0], source[1], source[2]))
    touched = np.zeros(len(bare.value), np.bool_)
    touched[own[3]] = True
    touched[near.slots[3, other[near.slots[0]]]] = True
    for value in np.flatnonzero(touched).tolist():
        takers.pop(value, None)
    at = touched[values]
    for value, row, position in zip(values[at].tolist(), taker[at].tolist(), positions[at].tolist(), strict=True):
        takers.setdefault(value, []).append((row, position))
    flipped = bare.hidden != near.hidden
    for row in np.flatnonzero(flipped).tolist():
        made[row] = []
    at = makes & flipped[side.outputs.operator]
    for row, value in zip(side.outputs.operator[at].tolist(), side.outputs.tensor[at].tolist(), strict=True):
        made[row].append(value)
    return replace(bare, sources=sources, takers=takers, made=made)


def _look_through(side: Side, hidden: NDArray[np.bool_]) -> Indices:
    """Return for each tensor the one whose value it has."""
    value = np.arange(len(side.producer))
    handed = main_inputs(side)
    through = hidden[side.outputs.operator] & (handed[side.outputs.operator] != NONE)
    value[side.outputs.tensor[through]] = handed[side.outputs.operator[through]]
    for _ in range(64):  # each step doubles the distance; only a cycle takes longer
        further = value[value]
        if (further == value).all():
            break
        value = further
    return value


def main_inputs(side: Side) -> Indices:
    """Return the tensor that each operator works on: its first input that is no constant, else its first, else -1."""
    main = np.full(len(side), NONE, np.int64)
    for constant in (True, False):  # the later assignment wins, of equal ones the last: so go backwards
        chosen = np.flatnonzero(side.is_constant[side.inputs.tensor] == constant)[::-1]
        main[side.inputs.operator[chosen]] = side.inputs.tensor[chosen]
    return main


def output_sizes(side: Side, resized: bool) -> Indices:
    """Return the number of elements of each operator's first output, 0 where it is not known.

    Of `resized` models it is the last dimension, which mostly stays when the batch or the resolution changes.
    """
    sizes = np.zeros(len(side), np.int64)
    first = side.outputs.position == 0
    of_tensor = side.elements
    if resized:
        shapes = side.model.tensor_columns.shapes
        ends, last = shapes.splits()[1:], np.zeros(len(of_tensor), np.int64)
        filled = (shapes.count > 0) & (of_tensor > 0)
        last[filled] = shapes.flat()[ends[filled] - 1]
        of_tensor = last
    sizes[side.outputs.operator[first]] = of_tensor[side.outputs.tensor[first]]
    return sizes
