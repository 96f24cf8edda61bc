"""Algorithms on directed graphs, against their definitions, on graphs of every shape."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.graph.algorithms import (
    Indices,
    UnionFind,
    components,
    distinct_edges,
    reachable,
    renumbered,
    rows_by_key,
    strong_components,
    topological_order,
)

Edges = list[tuple[int, int]]
Case = tuple[int, Edges]


@st.composite
def cases(draw: st.DrawFn, *, most: int = 8) -> Case:
    """A number of nodes, and edges between them: any, also several and to itself."""
    size = draw(st.integers(1, most))
    numbers = st.integers(0, size - 1)
    return size, draw(st.lists(st.tuples(numbers, numbers), max_size=3 * size))


def rows(case: Case) -> list[list[int]]:
    return [sorted({b for a, b in case[1] if a == number}) for number in range(case[0])]


def ways(case: Case) -> set[tuple[int, int]]:
    """Which reaches which, by some edges or none: Warshall's closure."""
    found = {(number, number) for number in range(case[0])} | set(case[1])
    for middle, a, b in product(range(case[0]), repeat=3):
        if (a, middle) in found and (middle, b) in found:
            found.add((a, b))
    return found


def arrays(edges: Edges) -> tuple[Indices, Indices]:
    table = np.array(edges, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(cases())
def test_distinct_edges_are_the_set_of_edges_in_order(case: Case) -> None:
    sources, targets = distinct_edges(case[0], *arrays(case[1]))
    assert list(zip(sources.tolist(), targets.tolist(), strict=True)) == sorted(set(case[1]))
    assert distinct_edges(0, *arrays([]))[0].tolist() == []


@given(cases())
def test_rows_by_key_keep_the_order_of_numbers(case: Case) -> None:
    assert rows_by_key(case[0], *arrays(case[1])) == [[b for a, b in case[1] if a == n] for n in range(case[0])]


@given(cases())
def test_a_topological_order_has_each_before_its_successors_and_no_cycle(case: Case) -> None:
    order, reaches = topological_order(rows(case)), ways(case)
    looping = {a for a, b in case[1] if (b, a) in reaches}
    assert sorted(order) == [n for n in range(case[0]) if all((a, n) not in reaches for a in looping)]
    place = {number: at for at, number in enumerate(order)}
    assert all(place[a] < place[b] for a, b in case[1] if b in place)


def test_the_first_ready_operator_comes_first() -> None:
    assert topological_order([[3], [], [0], [], [0, 2]]) == [1, 4, 2, 0, 3]


@given(cases(), st.sets(st.integers(0, 7), max_size=3))
def test_what_is_reachable(case: Case, start: set[int]) -> None:
    start = {number for number in start if number < case[0]}
    expected = {b for a, b in ways(case) if a in start}
    assert reachable(start, rows(case)) == expected
    assert reachable(start, {number: row for number, row in enumerate(rows(case)) if row}) == expected


@given(cases())
def test_components_are_what_edges_connect_either_way(case: Case) -> None:
    both = case[0], [*case[1], *((b, a) for a, b in case[1])]
    reaches = ways(both)
    lowest = [min(b for b in range(case[0]) if (number, b) in reaches) for number in range(case[0])]
    assert components(case[0], [a for a, _ in case[1]], [b for _, b in case[1]]) == renumbered(lowest)


@given(cases())
def test_union_find_knows_each_set_by_its_lowest_number(case: Case) -> None:
    sets, partition = UnionFind(case[0]), [{number} for number in range(case[0])]
    for a, b in case[1]:
        assert sets.join(a, b) == (partition[a] is not partition[b])
        joined = partition[a] | partition[b]
        for number in joined:
            partition[number] = joined
    assert sets.labels() == [min(own) for own in partition]
    assert all(sets.find(number) == min(own) for number, own in enumerate(partition))


def test_a_long_chain_of_sets_is_found_without_recursion() -> None:
    sets = UnionFind(100_000)
    for number in range(99_999, 0, -1):
        sets.join(number - 1, number)
    assert sets.find(99_999) == 0


@given(cases())
def test_strong_components_reach_each_other_and_come_after_what_they_lead_to(case: Case) -> None:
    found, reaches = strong_components(rows(case)), ways(case)
    assert sorted(number for row in found for number in row) == list(range(case[0]))
    home = {number: at for at, row in enumerate(found) for number in row}
    for a, b in product(range(case[0]), repeat=2):
        assert (home[a] == home[b]) == ((a, b) in reaches and (b, a) in reaches)
    assert all(home[b] <= home[a] for a, b in case[1])
    assert all(row == sorted(row) for row in found)


def test_a_long_path_is_no_recursion() -> None:
    assert len(strong_components([[n + 1] for n in range(99_999)] + [[]])) == 100_000


@pytest.mark.parametrize(("labels", "numbers"), [([], []), (["b", "a", "b"], [0, 1, 0]), ([7, 7, 3], [0, 0, 1])])
def test_labels_become_numbers_by_their_first_appearance(labels: list[object], numbers: list[int]) -> None:
    assert renumbered(labels) == numbers
