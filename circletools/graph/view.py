"""A graph seen otherwise: some operators hidden, some as one, or a part of it. Each view is a Graph with a map.

    hide       a -> [CAST] -> b      becomes   a -> b        what CAST gives stands for what it takes
    contract   a -> [b -> c] -> d    becomes   a -> bc -> d
    restrict   a -> [b -> c] -> d    becomes   b -> c

Nothing is copied from the file: columns are read from the rows of the operators and values that are left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from circletools.graph.algorithms import Indices, reachable
from circletools.graph.columns import Mask, Operators, Rows, Slots, Values
from circletools.graph.graph import Graph

_MOST_STEPS = 64  # each doubles how far is looked through; only a cycle takes longer


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A graph that is made of another, its parent.

    `operators` and `values` have the parent's number of each of the view's, of operators that are one the lowest.
    `of_operators` and `of_values` have the view's number of each of the parent's, -1 where there is none.
    """

    graph: Graph
    operators: Indices
    values: Indices
    of_operators: Indices
    of_values: Indices


def hide(graph: Graph, hidden: Mask) -> View:
    """Return the graph without the `hidden` operators: what each makes stands for what it takes.

    That is its main operand. Without one, its results are values without a producer. Values keep their numbers.
    Raises ModelFormatError for a tensor that does not exist.
    """
    value = _stands_for(graph, hidden)
    shown = np.flatnonzero(~hidden)
    of_operators = np.full(len(graph), -1, np.int64)
    of_operators[shown] = np.arange(len(shown))
    operands = _chosen(graph.operands, shown)
    read = operands.values
    operands = Slots(np.where(read < 0, read, value[read]), operands.splits)
    inputs, outputs = (np.where(ends < 0, ends, value[ends]) for ends in (graph.inputs, graph.outputs))
    made = replace(graph, operators=_operators(graph, shown), inputs=inputs, outputs=outputs)
    made = _with_slots(made, operands, _chosen(graph.results, shown), lambda: _callees(graph, of_operators))
    every = np.arange(len(graph.values))
    return View(made, shown, every, of_operators, value)


def main_operands(graph: Graph) -> Indices:
    """Return the value that each operator works on: its first operand that is no constant, else its first, else -1.

    Raises ModelFormatError for a tensor that does not exist.
    """
    operators, values = graph.uses
    computed = graph.producer[values] >= 0
    is_constant = graph.values.is_constant[values] & ~computed
    main = np.full(len(graph), -1, np.int64)
    for constant in (True, False):  # of several that are assigned the last counts: so go backwards
        chosen = np.flatnonzero(is_constant == constant)[::-1]
        main[operators[chosen]] = values[chosen]
    return main


def _stands_for(graph: Graph, hidden: Mask) -> Indices:
    """Return for each value the one that it stands for (pointer doubling)."""
    value = np.arange(len(graph.values))
    makers, made = graph.definitions
    handed = main_operands(graph)
    through = hidden[makers] & (handed[makers] >= 0) & (graph.producer[made] == makers)
    value[made[through]] = handed[makers[through]]
    for _ in range(_MOST_STEPS):
        further = value[value]
        if (further == value).all():
            break
        value = further
    return value


def contract(graph: Graph, labels: Sequence[int] | Indices) -> View:
    """Return the graph in which operators of one label, 0..k-1, are one operator.

    It takes what its members read and none of them makes, and makes what is not read by its members only, slots in
    the order of theirs, no value twice. Its code is that of its lowest member. Values keep their numbers. A set that
    is not convex gives a graph with a cycle. Raises ModelFormatError for a tensor that does not exist.
    """
    home: Indices = np.asarray(labels, np.int64)
    count = int(home.max(initial=-1)) + 1
    lowest = np.full(count, len(graph), np.int64)
    np.minimum.at(lowest, home, np.arange(len(graph)))
    (readers, read), (makers, made) = graph.uses, graph.definitions
    maker = graph.producer[read]
    outside = (maker < 0) | (home[maker] != home[readers])
    hidden = np.zeros(len(graph.values), np.bool_)
    hidden[read] = True
    hidden[read[outside]] = False
    ends = graph.outputs
    hidden[ends[(ends >= 0) & (ends < len(hidden))]] = False
    operands = _slots_once(count, home[readers[outside]], read[outside])
    results = _slots_once(count, home[makers[~hidden[made]]], made[~hidden[made]])
    made_of = replace(graph, operators=_operators(graph, lowest))
    made_of = _with_slots(made_of, operands, results, lambda: _callees(graph, home))
    effects = home[graph.effects]
    # What is known of members is not to be read of the one operator that stands for them.
    vars(made_of).update(effects=effects[np.diff(effects, prepend=-1) != 0], is_handle=graph.is_handle)
    every = np.arange(len(graph.values))
    return View(made_of, lowest, every, home, every)


def restrict(graph: Graph, operators: Iterable[int]) -> View:
    """Return the part of a graph that has these operators, and the values that they read or make.

    Its inputs are what they read and none of them makes; its outputs are what they make and others read, and outputs
    of the graph; both ascend. Raises ModelFormatError for a tensor that does not exist.
    """
    kept = np.unique(np.fromiter(operators, np.int64))
    inside = np.zeros(len(graph), np.bool_)
    inside[kept] = True
    (readers, read), (makers, made) = graph.uses, graph.definitions
    producer = graph.producer
    own, given = np.unique(made[inside[makers]]), np.unique(read[inside[readers]])
    ends = graph.outputs
    wanted = np.concatenate([read[~inside[readers]], ends[(ends >= 0) & (ends < len(graph.values))]])
    inputs = given[(producer[given] < 0) | ~inside[producer[given]]]
    return _part(graph, kept, inputs, np.intersect1d(own, wanted))


def slice_between(graph: Graph, inputs: Iterable[int], outputs: Iterable[int]) -> View:
    """Return the part of a graph that computes the values `outputs`, from the values `inputs` on.

    Operators are those that the outputs need; what makes the inputs is left out, with all that only it needs. Other
    values without a producer in the part are read from outside, too. Raises ModelFormatError.
    """
    ends, wanted = np.fromiter(inputs, np.int64), np.fromiter(outputs, np.int64)
    given = set(ends.tolist())
    makers, reads = graph.producer.tolist(), graph.operands.lists()
    before = {
        operator: [makers[value] for value in row if value >= 0 and value not in given and makers[value] >= 0]
        for operator, row in enumerate(reads)
    }
    first = [makers[value] for value in wanted.tolist() if value not in given and makers[value] >= 0]
    return _part(graph, np.array(sorted(reachable(first, before)), np.int64), ends, wanted)


def _part(graph: Graph, kept: Indices, inputs: Indices, outputs: Indices) -> View:
    """Return a part with these operators, whose ends are values of the graph; the values that it uses ascend."""
    operands, results = _chosen(graph.operands, kept), _chosen(graph.results, kept)
    used = np.concatenate([operands.values, results.values, inputs, outputs])
    values = np.unique(used[used >= 0])
    of_operators, of_values = np.full(len(graph), -1, np.int64), np.full(len(graph.values), -1, np.int64)
    of_operators[kept], of_values[values] = np.arange(len(kept)), np.arange(len(values))
    operands, results = (
        Slots(np.where(slots.values < 0, -1, of_values[slots.values]), slots.splits) for slots in (operands, results)
    )
    part = replace(
        graph,
        operators=_operators(graph, kept),
        values=_values(graph.values, values),
        inputs=of_values[inputs],
        outputs=of_values[outputs],
        share=graph.share * len(kept) / max(len(graph), 1),
    )
    part = _with_slots(part, operands, results, lambda: _callees(graph, of_operators))
    return View(part, kept, values, of_operators, of_values)


def _with_slots(
    graph: Graph, operands: Slots, results: Slots, callees: Callable[[], Mapping[int, Sequence[int]]]
) -> Graph:
    return replace(graph, read_operands=lambda: operands, read_results=lambda: results, read_callees=callees)


def _callees(graph: Graph, of_operators: Indices) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for operator in sorted(graph.callees):
        if of_operators[operator] >= 0:
            found.setdefault(int(of_operators[operator]), []).extend(graph.callees[operator])
    return found


def _chosen(slots: Slots, operators: Indices) -> Slots:
    """Return the slots of these operators."""
    counts = slots.counts[operators]
    splits = np.concatenate([[0], np.cumsum(counts)])
    places = np.arange(splits[-1]) + np.repeat(slots.splits[:-1][operators] - splits[:-1], counts)
    return Slots(slots.values[places], splits)


def _slots_once(count: int, operators: Indices, values: Indices) -> Slots:
    """Return slots with the values of each operator in the order given, no value twice."""
    order = np.argsort(operators, kind="stable")
    pairs = np.stack([operators[order], values[order]], axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    pairs = pairs[np.sort(first)]
    return Slots(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(count + 1)))


def _operators(graph: Graph, chosen: Indices) -> Operators:
    operators = graph.operators

    def names() -> list[str]:
        return [operators.code_names[operator] for operator in chosen.tolist()]

    def results() -> list[tuple[bytes, ...]]:
        return [operators.result_names[operator] for operator in chosen.tolist()]

    rows = _rows(operators.rows, chosen)
    return replace(operators, rows=rows, read_code_names=names, read_result_names=results)


def _values(values: Values, chosen: Indices) -> Values:
    return replace(values, rows=_rows(values.rows, chosen))


def _rows(rows: Rows, chosen: Indices) -> Indices:
    return chosen + rows.start if isinstance(rows, slice) else rows[chosen]
