"""Where operators stand in the graph."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from circletools.html.graph import STRAIGHT, Edges, Layout, lay_out


@st.composite
def graphs(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Edges, np.ndarray[Any, Any]]:
    count = draw(st.integers(1, 30))
    numbers = st.integers(0, count - 1)
    pairs = sorted(draw(st.sets(st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]), max_size=60)))
    if draw(st.booleans()):  # in the order of execution, as nearly all files are
        pairs = sorted({(min(pair), max(pair)) for pair in pairs})
    groups = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), np.int64)
    groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
    source, target = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    fed = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    return groups, Edges(source, target, source.copy()), fed


def in_order(edges: Edges) -> bool:
    return bool((edges.source < edges.target).all())


@given(graphs())
def test_operators_do_not_lie_on_each_other(graph: tuple[Any, Edges, Any]) -> None:
    layout = lay_out(*graph)
    places = list(zip(layout.group.tolist(), layout.level.tolist(), layout.column.tolist(), strict=True))
    assert len(set(places)) == len(places)
    for group, level in {place[:2] for place in places}:
        columns = sorted(place[2] for place in places if place[:2] == (group, level))
        assert sum(columns) == 0  # the level is in the middle
        assert all(after - before == 2 for before, after in itertools.pairwise(columns))


@given(graphs())
def test_edges_lead_down(graph: tuple[Any, Edges, Any]) -> None:
    groups, edges, _ = graph
    layout = lay_out(*graph)
    if not in_order(edges):
        return
    inside = groups[edges.source] == groups[edges.target]
    assert (layout.level[edges.source] < layout.level[edges.target])[inside].all()
    quotient = {(a, b) for a, b in zip(groups[edges.source], groups[edges.target], strict=True) if a != b}
    if all(a < b for a, b in quotient):
        assert all(layout.row[a] < layout.row[b] for a, b in quotient)


@given(graphs())
def test_no_level_is_empty(graph: tuple[Any, Edges, Any]) -> None:
    layout = lay_out(*graph)
    for group in set(layout.group.tolist()):
        levels = set(layout.level[layout.group == group].tolist())
        assert levels == set(range(len(levels)))


def crossings(layout: Layout, edges: Edges, groups: Any) -> list[tuple[int, int]]:
    """Return the pairs of edges of different tensors that share a lane somewhere."""
    found = []
    inside = groups[edges.source] == groups[edges.target]
    level = np.where(inside, layout.level[edges.source], layout.row[groups[edges.source]])
    end = np.where(inside, layout.level[edges.target], layout.row[groups[edges.target]])
    scope = np.where(inside, groups[edges.source], -1)
    for a in range(len(level)):
        for b in range(a):
            same = layout.lane[a] == layout.lane[b] != STRAIGHT and scope[a] == scope[b]
            if same and edges.tensor[a] != edges.tensor[b] and level[a] < end[b] and level[b] < end[a]:
                found.append((a, b))
    return found


@given(graphs())
def test_lanes_are_for_one_tensor_at_a_time(graph: tuple[Any, Edges, Any]) -> None:
    groups, edges, _ = graph
    layout = lay_out(*graph)
    assert crossings(layout, edges, groups) == []
    inside = groups[edges.source] == groups[edges.target]
    spans = (layout.level[edges.target] - layout.level[edges.source])[inside]
    assert ((layout.lane[inside] != STRAIGHT) == (spans > 1)).all()


def test_lanes_are_taken_again_when_they_are_free() -> None:
    """A chain of 7; 0, 1, 2 and 4 are read further down, 0 twice."""
    pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5), (4, 6), (5, 6)]
    source, target = (np.array([pair[side] for pair in pairs]) for side in (0, 1))
    layout = lay_out(np.zeros(7, np.int64), Edges(source, target, source), np.arange(7) == 0)
    lanes = {pair: lane for pair, lane in zip(pairs, layout.lane.tolist(), strict=True) if lane != STRAIGHT}
    assert lanes == {(0, 2): 0, (0, 3): 0, (1, 4): 1, (2, 5): 2, (4, 6): 0}


def test_tensors_beyond_48_share_lanes() -> None:
    """Operators 0 to 49 are read by 51, two levels further down."""
    source, target = np.array([*range(50), 0, 50]), np.array([*[51] * 50, 50, 51])
    layout = lay_out(np.zeros(52, np.int64), Edges(source, target, source), np.arange(52) < 50)
    assert layout.lane.tolist() == [*range(48), 0, 1, STRAIGHT, STRAIGHT]


def test_a_picture_of_nothing() -> None:
    none = np.zeros(0, np.int64)
    layout = lay_out(none, Edges(none, none, none), none.astype(bool))
    assert [part.tolist() for part in (layout.level, layout.column, layout.lane, layout.row)] == [[], [], [], []]


def test_readers_of_constants_are_above_their_readers() -> None:
    """0 -> 1 -> 2 -> 3 from an input; 4 -> 5 -> 3 from constants."""
    source, target = np.array([0, 1, 2, 4, 5]), np.array([1, 2, 3, 5, 3])
    layout = lay_out(np.zeros(6, np.int64), Edges(source, target, source), np.arange(6) == 0)
    assert layout.level.tolist() == [0, 1, 2, 3, 1, 2]
