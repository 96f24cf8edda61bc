"""Taking turns: the numbers of operators do not matter where it is said which device begins."""

from __future__ import annotations

from circletools.affinity.partition.epochs import turns
from tests.kit.partition_support import dag_of, seeded


def test_operators_in_another_order_take_the_same_turns() -> None:
    for seed in range(300):
        random = seeded(seed)
        count = random.randrange(1, 15)
        edges = [(random.randrange(to), to) for to in range(1, count) for _ in range(random.randrange(3))]
        devices = [random.randrange(2) for _ in range(count)]
        number = random.sample(range(count), count)
        moved = dag_of(count, [(number[one], number[other]) for one, other in edges])
        own = dag_of(count, edges)
        begins = devices[0]
        found = turns(own, devices, begins)
        assert found == turns(own, devices)  # the lowest operator is ready
        others = turns(moved, [devices[number.index(at)] for at in range(count)], begins)
        assert [{number[operator] for operator in group} for group in found] == list(map(set, others))
        assert sorted(operator for group in found for operator in group) == list(range(count))


def test_a_device_without_a_ready_operator_does_not_begin() -> None:
    graph = dag_of(3, [(0, 1), (1, 2)])
    assert turns(graph, [0, 1, 0], 1) == [(0,), (1,), (2,)]
    assert turns(dag_of(2, []), [0, 1], 1) == [(1,), (0,)]
    assert turns(dag_of(0, []), []) == []
