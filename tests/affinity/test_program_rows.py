"""The rows of the integer program, apart from any solver: they allow what the words about its variables say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest

from circletools.affinity.costs import program
from circletools.affinity.costs.joins import Forest
from circletools.affinity.costs.problem import Floats
from tests.kit.costs_support import Case
from tests.kit.partition_support import seeded

FREE = [[0.0, 0.0], [0.0, 0.0]]
COSTLY = [[0.0, 3.0], [5.0, 0.0]]

Name = tuple[object, ...]


def built(case: Case, *, regions: bool = True) -> program._Program:
    problem, graph = case.problem()
    return program._Program(problem, graph, regions=regions)


class Rows:
    """The rows as they stand, and whether numbers keep to them."""

    def __init__(self, its: program._Program) -> None:
        rows = its._rows
        self.matrix = np.zeros((rows.count, its.width))
        np.add.at(self.matrix, (np.concatenate(rows.row), np.concatenate(rows.column)), np.concatenate(rows.value))
        self.low, self.high = np.concatenate(rows.low), np.concatenate(rows.high)
        self.most = its._most

    def allow(self, numbers: Floats) -> bool:
        found = self.matrix @ numbers
        inside = (found >= self.low).all() and (found <= self.high).all()
        return bool(inside and (numbers >= 0).all() and (numbers <= self.most).all())


class Words:
    """What the head of the module says of the variables, one by one; of regions, with a launch on each device."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.count, self.devices = len(case.times), len(case.launch)
        self.edges = sorted({(maker, reader) for maker, _, readers in case.tensors for reader in readers})
        self.names: list[Name] = [
            *product("x", range(self.count), range(self.devices)),
            *product("u", range(len(case.tensors)), range(self.devices)),
            *product("w", range(len(case.tensors)), range(self.devices), range(self.devices)),
            *product("f", self.edges, range(self.devices)),
            *product("p", self.edges, range(self.devices)),
            *product(["any"], range(self.devices)),
        ]

    def allow(self, found: Mapping[Name, float]) -> bool:
        return all(self._said(found))

    def _said(self, v: Mapping[Name, float]) -> Iterator[bool]:
        devices, tensors = range(self.devices), self.case.tensors
        for operator in range(self.count):
            yield sum(v["x", operator, d] for d in devices) == 1
            yield all(v["x", operator, d] == 0 for d in devices if self.case.times[operator][d] == inf)
        for tensor, (maker, _, readers) in enumerate(tensors):
            for d in devices:
                reads = [v["x", reader, d] for reader in readers]
                u = v["u", tensor, d]
                yield u == reads[0] if len(reads) == 1 else u >= max(reads)
                yield sum(v["w", tensor, a, d] for a in devices) == u
                if len(readers) == 1:
                    yield sum(v["w", tensor, d, b] for b in devices) == v["x", maker, d]
                else:
                    yield all(v["w", tensor, d, b] <= v["x", maker, d] for b in devices)
        for edge, d in product(self.edges, devices):
            yield v["f", edge, d] <= min(v["x", end, d] for end in edge)
            yield v["p", edge, d] <= v["f", edge, d]
        for operator, d in product(range(self.count), devices):
            into = sum(v["p", edge, d] for edge in self.edges if edge[1] == operator)
            out = sum(v["f", edge, d] - v["p", edge, d] for edge in self.edges if edge[0] == operator)
            yield into + out <= v["x", operator, d]
        for d in devices:
            placed = [v["x", operator, d] for operator in range(self.count)]
            yield v["any", d] >= max(placed)
            yield sum(v["f", edge, d] for edge in self.edges) + v["any", d] <= sum(placed)


CHAIN = Case([[1.0, 2.0], [1.0, inf], [3.0, 1.0]], [(0, 1.0, [1]), (1, 2.0, [2])], COSTLY, FREE, [2.0, 1.0])
FORK = Case([[1.0, 2.0], [1.0, 4.0], [inf, 1.0]], [(0, 1.0, [1, 2])], COSTLY, FREE, [2.0, 1.0])


@pytest.mark.parametrize("case", [CHAIN, FORK], ids=["chain", "fork"])
def test_rows_allow_what_the_words_allow(case: Case) -> None:
    """What a placement makes of each variable, and that with a variable or two changed."""
    rows, words = Rows(built(case)), Words(case)
    assert len(words.names) == rows.matrix.shape[1]
    generator, told = seeded(1), {True: 0, False: 0}
    for placement in product(range(2), repeat=3):
        sound = dict.fromkeys(words.names, 0.0)
        for operator, device in enumerate(placement):
            sound["x", operator, device] = sound["any", device] = 1.0
        for tensor, (maker, _, readers) in enumerate(case.tensors):
            for device in {placement[reader] for reader in readers}:
                sound["u", tensor, device] = sound["w", tensor, placement[maker], device] = 1.0
        for edge in words.edges:
            if placement[edge[0]] == placement[edge[1]]:
                sound["f", edge, placement[edge[0]]] = sound["p", edge, placement[edge[0]]] = 1.0
        changes = [(), *((name,) for name in words.names)]
        changes += [tuple(generator.sample(words.names, 2)) for _ in range(150)]
        for names in changes:
            found = sound | {name: 1.0 - sound[name] for name in names}
            allowed = words.allow(found)
            told[allowed] += 1
            assert rows.allow(np.array([found[name] for name in words.names])) == allowed, (placement, names)
    assert min(told.values()) > 4


def test_an_edge_is_not_joined_where_a_launch_takes_nothing() -> None:
    its = built(CHAIN._replace(launch=[0.0, 1.0]))
    assert its._most[its._f : its._p].tolist() == [0, 1] * 2
    assert its._most[its._p :].tolist() == [1] * (2 * 2 + 2)
    assert built(CHAIN._replace(launch=[0.0, 0.0])).width == 3 * 2 + 2 * 2 + 2 * 4 + 2


def test_what_costs_something() -> None:
    """Operators with their launch, a copy from each device to each, and an edge saves a launch."""
    its = built(CHAIN)
    ends = (0, its._u, its._w, its._f, its._p, its.width)
    parts = [its._costs[start:end].tolist() for start, end in pairwise(ends)]
    assert parts == [
        [3.0, 3.0, 3.0, 1.0, 5.0, 2.0], [0.0] * 4, [0.0, 3.0, 5.0, 0.0] * 2, [-2.0, -1.0] * 2, [0.0] * 6
    ]  # fmt: skip
    assert its._whole.tolist() == [1.0] * 6 + [0.0] * 12 + [1.0] * 4 + [0.0] * 6


# --- cycles -------------------------------------------------------------------------------------------------


def ring(length: int) -> Case:
    """Return operators in a row and an edge from the first to the last."""
    rows = [(at, 0.0, [at + 1] if at else [1, length - 1]) for at in range(length - 1)]
    return Case([[1.0, 1.0]] * length, rows, FREE, FREE, [1.0, 1.0])


@pytest.mark.parametrize(("length", "written"), [(3, 3), (12, 12), (24, 12), (100, 13), (101, 0)])
def test_cycles_of_a_hundred_operators_have_up_to_twelve_rows_beforehand(length: int, written: int) -> None:
    """Each leaves another operator out, at even distances; and of each side a row for what lies on the other."""
    its = built(ring(length))
    before, forest = its._rows.count, Forest(its._edges, np.arange(len(its._edges)), length)
    (cycle,) = forest.cycles
    assert sorted(cycle) == list(range(length))
    its._add_cycle(cycle)
    assert its._rows.count - before == 2 * written


def rows_since(its: program._Program, before: int) -> list[tuple[dict[int, float], float]]:
    """Return the rows from one on: the value of each column, and the most that they may be."""
    rows = Rows(its)
    assert (rows.low[before:] == -inf).all()
    return [
        ({int(at): float(row[at]) for at in np.flatnonzero(row)}, float(high))
        for row, high in zip(rows.matrix[before:], rows.high[before:], strict=True)
    ]


def test_a_cycle_joins_no_more_than_its_operators_less_one() -> None:
    """f01 + f02 + f12 of a device is at most how many of two of the operators are there, whichever two."""
    its = built(ring(3))
    before = its._rows.count
    its._add_cycle([0, 1, 2])
    assert rows_since(its, before) == [
        (
            {its._f + device: 1, its._f + 2 + device: 1, its._f + 4 + device: 1}
            | {2 * at + device: -1 for at in two},
            0,
        )
        for device in range(2)
        for two in ((1, 2), (0, 2), (0, 1))
    ]


def test_a_side_joins_its_ends_only_with_the_other_side() -> None:
    """0 1 3 beside 0 2 3: f01 + f13 is at most x1 + x2, and f02 + f23, too; of a single edge it is each alone."""
    its = built(Case([[1.0, 1.0]] * 4, [(0, 0.0, [1, 2]), (1, 0.0, [3]), (2, 0.0, [3])], FREE, FREE, [1.0, 1.0]))
    written, f = its._rows.count, [its._f + 2 * edge for edge in range(4)]
    its._add_sides([0, 1, 2, 3])
    assert its._edges.tolist() == [[0, 1], [0, 2], [1, 3], [2, 3]]
    sides = [((0, 2), device) for device in range(2)] + [((1, 3), device) for device in range(2)]
    assert rows_since(its, written) == [
        ({f[one] + device: 1, f[two] + device: 1, 2 + device: -1, 4 + device: -1}, 0) for (one, two), device in sides
    ]
    its = built(ring(4))
    written, edge = its._rows.count, its._f + 2 * its._edges.tolist().index([0, 3])
    its._add_sides(range(4))
    assert rows_since(its, written) == [
        ({edge + device: 1, 2 * at + device: -1}, 0) for device in range(2) for at in (1, 2)
    ]


def test_four_hundred_cycles_are_added_in_a_round() -> None:
    """Of 401 triangles that a solution joins whole, and of 401 ways around that it joins over another device."""
    count = 401
    rows = [(3 * at, 0.0, [3 * at + 1, 3 * at + 2]) for at in range(count)]
    rows += [(3 * at + 1, 0.0, [3 * at + 2]) for at in range(count)]
    its = built(Case([[1.0]] * (3 * count), rows, [[0.0]], [[0.0]], [1.0]))
    before = its._rows.count
    assert its.add_what_is_wrong(np.ones(its.width))
    assert its._rows.count - before == 3 * 400
