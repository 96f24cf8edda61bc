"""Mode min: the fewest there can be in small graphs, no graph refused, and no more than others make."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from benchmarks.architectures import ROWS, Row, by_chance_fed, decoder, densenet, diffusion, hrnet, nasnet
from benchmarks.graphs import by_chance, resnet
from circletools.affinity.partition import fewest
from circletools.affinity.partition.contraction import Contraction
from circletools.affinity.partition.groups import GroupGraph, graph_inside
from circletools.affinity.partition.partitions import make_partitions
from circletools.graph.dag import Dag
from tests.kit.partition_peers import fewest_by_trying, xla_clusters
from tests.kit.partition_support import check_partition, dag_of, random_case

SMALL = {
    "diffusion": lambda: diffusion(1),
    "decoder": lambda: decoder(3, 2),
    "hrnet": lambda: hrnet(2),
    "nasnet": lambda: nasnet(4),
    "densenet": lambda: densenet(5, 2),
    "random": lambda: by_chance_fed(300, 0, 1),
    "window": lambda: by_chance_fed(300, 20, 2),
}


@pytest.mark.parametrize("first", range(0, 600, 100))
def test_small_graphs_have_the_fewest_that_there_can_be(first: int) -> None:
    for seed in range(first, first + 100):
        count, edges, devices = random_case(seed, most=10)
        graph = dag_of(count, edges)
        assert len(make_partitions(graph, devices)) == fewest_by_trying(graph, devices), seed


ORDERS = {6: 21, 58: 14, 110: 34, 234: 6, 289: 17, 292: 15, 369: 17, 374: 5, 495: 22, 528: 21, 569: 13, 587: 18}
"""How few there are, by seed: from its starts alone merging makes more."""


@pytest.mark.parametrize("seed", ORDERS)
def test_some_graphs_take_other_orders(seed: int) -> None:
    count, edges, devices = random_case(seed, most=60)
    graph = dag_of(count, edges)
    found = make_partitions(graph, devices)
    check_partition(graph, devices, found, connected=True)
    assert len(found) <= ORDERS[seed]


def test_orders_by_chance_are_the_same_everywhere() -> None:
    """Of several that are as few the same are found on every machine."""
    count, edges, devices = random_case(374, most=60)
    assert sorted(map(sorted, fewest.fewest(dag_of(count, edges), devices))) == [
        [0], [1, 3, 5, 6, 8, 9, 10, 13, 14, 15, 18, 19, 20], [2, 12], [4, 11, 16, 21], [7, 17]
    ]  # fmt: skip


def orders_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Return for each component of a random graph how many edges it has, and in how many orders they are tried."""
    found: list[tuple[int, int]] = []

    def tried(whole: GroupGraph, home: list[int], pairs: list[tuple[int, int]], orders: int) -> list[int]:
        found.append((sum(map(len, whole.successors)) + len(pairs), orders))
        return home

    monkeypatch.setattr(fewest, "_by_chance", tried)
    count, edges, devices = random_case(seed, most=400)
    make_partitions(dag_of(count, edges), devices)
    return found


@pytest.mark.parametrize(("seed", "edges", "agree"), [(21, 2052, True), (51, 1392, False), (59, 1765, False)])
def test_forty_thousand_edges_are_tried_a_quarter_where_all_starts_agree(
    seed: int, edges: int, agree: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert orders_of(seed, monkeypatch) == [(edges, (10_000 if agree else 40_000) // edges)]


def test_each_component_is_tried_with_what_others_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """In 64 orders at most; of the sixth the starts agree."""
    *before, (edges, orders), last = orders_of(38, monkeypatch)
    assert {orders for _, orders in (*before, last)} == {64}
    left = 40_000 - sum(edges * orders for edges, orders in before)
    assert (len(before), orders) == (5, left // 4 // edges)


@pytest.mark.parametrize(("seed", "count"), [(23, 16), (29, 8), (60, 4), (362, 14), (2809, 16)])
def test_later_starts_are_tried(seed: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first makes one more; so does each of the pieces by level for the last two."""
    monkeypatch.setattr(fewest, "_EDGES", 0)
    operators, edges, devices = random_case(seed, most=30)
    assert len(make_partitions(dag_of(operators, edges), devices)) == count


@pytest.mark.parametrize("name", SMALL)
def test_whole_architectures_are_partitioned(name: str) -> None:
    shape = SMALL[name]()
    graph = shape.graph()
    for second in {row.second for row in ROWS if row.name.startswith("random" if name == "window" else name)}:
        devices = Row("", lambda: shape, second).devices(shape)
        found = make_partitions(graph, devices)
        check_partition(graph, devices, found, connected=True)
        assert len(found) <= xla_clusters(graph, devices)
        assert len(found) <= len(make_partitions(graph, devices, "safe"))


def test_a_long_chain_with_skips_over_the_other_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of its 20,001 operators no two are of one level and device; nothing can be merged, and one start is tried."""
    made = counted(monkeypatch)
    blocks = 10_000
    edges = [pair for at in range(0, 2 * blocks, 2) for pair in ((at, at + 1), (at + 1, at + 2), (at, at + 2))]
    found = make_partitions(dag_of(2 * blocks + 1, edges), [0, 1] * blocks + [0])
    assert [partition.operators for partition in found] == [(at,) for at in range(2 * blocks + 1)]
    assert made == [2 * blocks + 1]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note how many groups each start has from which is merged."""
    made: list[int] = []

    class Counted(Contraction):
        def __init__(self, graph: GroupGraph) -> None:
            made.append(len(graph))
            super().__init__(graph)

    monkeypatch.setattr(fewest, "Contraction", Counted)
    return made


def test_nothing_else_is_tried_where_a_path_shows_that_there_are_no_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path that comes back to a set of operators takes it apart: here on each of 60 cycles."""
    made = counted(monkeypatch)
    shape = resnet(3_000)
    assert len(make_partitions(shape.graph(), by_chance(shape))) == 565
    assert len(made) == 60


def test_what_is_one_piece_stays_one_piece() -> None:
    """A skip beside a chain that stays on the device takes nothing apart."""
    graph = dag_of(4, [(0, 1), (1, 2), (0, 2), (2, 3)])
    assert counts(graph, [0, 0, 0, 1]) == [3, 1]
    assert counts(graph, [0, 1, 0, 0]) == [1, 2, 1] or counts(graph, [0, 1, 0, 0]) == [1, 1, 2]


def counts(graph: Dag, devices: Sequence[int]) -> list[int]:
    return [len(partition.operators) for partition in make_partitions(graph, devices)]


def test_the_same_graph_has_the_same_partitions() -> None:
    shape = by_chance_fed(400, 30, 5)
    devices = [int(kind in "ABC") for kind in shape.kinds]
    assert make_partitions(shape.graph(), devices) == make_partitions(shape.graph(), devices)


def test_of_eight_before_it_an_operator_joins_the_first_that_it_can() -> None:
    """Ten of one device with others between them stay apart; one that nothing feeds may go to any."""
    edges = [(at, at + 1) for at in range(18)]
    devices = [*(at % 2 for at in range(19)), 0]
    whole = graph_inside(dag_of(20, edges), range(20), devices)
    rows = [[*range(0, 19, 2), 19]]
    for beside_first in (False, True):
        home = fewest._merged(whole, rows, beside_first=beside_first)
        assert [at for at in range(19) if home[at] == home[19]] == [4]
