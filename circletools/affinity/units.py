"""The units of partitioning (operators, or sets of them that must stay together), and which units may be joined.

For example, a QUANTIZE and the DEQUANTIZE next to it, or operators that share a large tensor, may form a unit.
Operators on a path between two members also belong to the unit; otherwise it could not run without interruption.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Literal

import numpy as np

from circletools.affinity.solvers.groups import DeviceIndex, Partition, edges_of, gathered, group_successors
from circletools.errors import UsageError
from circletools.graph.algorithms import Dag, components, dag_from_edges, renumbered, strong_components
from circletools.graph.graph import Graph

Join = Literal["connected", "shared", "any"]
"""Which units may share a partition: connected units; also readers of the same constant or input; or any units."""

_CODES = {"QUANTIZE", "DEQUANTIZE"}


@dataclass(frozen=True, slots=True)
class Colocation:
    """The operators to keep together: with `pairs`, a QUANTIZE and the DEQUANTIZE next to it.

    With `least_bytes`, users of a tensor of at least this size; with `state`, users of a variable or hash table.
    """

    pairs: bool = False
    least_bytes: int | None = None
    state: bool = False

    def __bool__(self) -> bool:
        """Return whether any operators must stay together."""
        return self.pairs or self.state or self.least_bytes is not None


@dataclass(frozen=True, slots=True)
class Units:
    """Operators that must stay together: each operator's unit, each unit's operators, and the units' graph."""

    home: Sequence[int]
    members: Sequence[Sequence[int]]
    graph: Dag


def of_operators(members: Sequence[Sequence[int]], partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the partitions of operators that correspond to partitions of units, given the operators of each unit."""
    return tuple(
        Partition(DeviceIndex(its.device), tuple(sorted(chain(*(members[unit] for unit in its.operators)))))
        for its in partitions
    )


def parse_colocation(words: Sequence[str]) -> Colocation:
    """Parse the values of the option: `quantize`, `variables`, or numbers of bytes. Raises UsageError."""
    least = None
    for word in words:
        if word in ("quantize", "variables"):
            continue
        if word.isascii() and word.isdigit() and len(word) <= 18:
            least = min(int(word), int(word) if least is None else least)
        else:
            hint = "write quantize, variables or a number of bytes"
            raise UsageError(f"unknown value `keep_together={word}`", hint=hint)
    return Colocation("quantize" in words, least, "variables" in words)


def make_units(
    facts: Graph, join: Join = "connected", colocation: Colocation = Colocation(), users: Iterable[Sequence[int]] = ()
) -> Units:
    """Return the units of a subgraph; each item of `users` is a further set of operators that must stay together.

    Raises ModelFormatError for a missing tensor, and for a cycle.
    """
    graph = facts.dag
    if join != "connected":
        graph = replace(graph, beside=_beside(facts, join))
    count = len(graph)
    home = list(range(count))
    if colocation:
        pairs = [*zip(*_colocated(facts, colocation), strict=True), *chain(*map(pairwise, users))]
        home = _convex(graph, components(count, *zip(*pairs, strict=True))) if pairs else home
    if home == list(range(count)):
        return Units(home, [(operator,) for operator in home], graph)
    members = gathered(max(home) + 1, home, range(count))
    return Units(home, members, _graph_of(graph, home, len(members)))


def _beside(facts: Graph, join: Join) -> tuple[tuple[int, ...], ...]:
    """Return sets of operators that may be in one partition without being connected."""
    work = sorted(set(range(len(facts))) - set(facts.folded))
    if join == "any":
        return (tuple(work),)
    constant = np.isin(facts.producer, facts.folded)
    readers, read = facts.reads
    outside = (facts.producer[read] < 0) | constant[read]
    buffers = facts.values.buffers
    # Tensors that share a buffer are one constant.
    what = np.where(facts.values.is_constant, -1 - buffers, np.arange(len(facts.values)))
    rows: dict[int, set[int]] = {}
    for source, reader in zip(what[read[outside]].tolist(), readers[outside].tolist(), strict=True):
        rows.setdefault(source, set()).add(reader)
    return tuple(sorted({tuple(sorted(row)) for row in rows.values() if len(row) > 1}))


def _colocated(facts: Graph, colocation: Colocation) -> tuple[list[int], list[int]]:
    """Return pairs of operators that must stay together: each pair is the producer and a reader of a tensor."""
    readers, read = facts.reads
    makers = facts.producer[read]
    stays = np.zeros(len(read), np.bool_)
    if colocation.least_bytes is not None:
        stays |= facts.values.bytes[read] >= colocation.least_bytes
    if colocation.pairs:
        codes = np.array(facts.operators.code_names)
        several = np.array([name in _CODES for name in facts.operators.code_names], np.bool_)
        stays |= several[makers] & several[readers] & (codes[makers] != codes[readers])
    stays &= (makers >= 0) & ~np.isin(makers, facts.folded)
    return makers[stays].tolist(), readers[stays].tolist()


def _convex(graph: Dag, groups: Sequence[int]) -> list[int]:
    """Return the unit of each operator; groups that wait for each other are merged."""
    waiting = strong_components(group_successors(graph, groups, max(groups) + 1))
    component = {number: at for at, row in enumerate(waiting) for number in row}
    return renumbered(component[number] for number in groups)


def _graph_of(graph: Dag, home: Sequence[int], count: int) -> Dag:
    edges = np.array(home, np.int64)[edges_of(graph)]
    table = edges[edges[:, 0] != edges[:, 1]]
    constants = tuple(sorted({home[operator] for operator in graph.constants}))
    beside = (tuple(sorted({home[operator] for operator in row})) for row in graph.beside)
    made = dag_from_edges(count, table[:, 0], table[:, 1])
    rows = tuple(row for row in beside if len(row) > 1)
    return replace(made, constants=constants, beside=rows, share=graph.share)
