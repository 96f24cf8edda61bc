"""Where rules of the room begin and end: paths that part groups, what fits into memory, numbers of types."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from circletools.affinity.assign.rules import parse_setting
from circletools.affinity.capability.comparison import parse_comparison
from circletools.affinity.capability.file import _text_options
from circletools.affinity.capability.measures import _TYPES
from circletools.affinity.costs.fitting import everything, fillings
from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.problem import Links, Problem
from circletools.affinity.partition.detours import Detours
from circletools.affinity.partition.groups import GroupGraph
from circletools.affinity.tables import SubgraphAffinity
from circletools.flatbuf.schema import load_schema
from tests.kit.partition_support import dag_of, seeded

# --- detours --------------------------------------------------------------------------------------------------


def groups(devices: Sequence[int], edges: Sequence[tuple[int, int]]) -> Detours:
    graph = dag_of(len(devices), edges)
    return Detours(GroupGraph(graph.successors, graph.predecessors, list(devices)))


def chain(devices: Sequence[int]) -> Detours:
    return groups(devices, [(at, at + 1) for at in range(len(devices) - 1)])


def test_a_path_of_one_device_parts_nothing() -> None:
    """Also at the beginning and the end of the longest path."""
    assert not chain([0, 0, 0]).between(0, 2)
    assert not chain([1, 0, 0]).between(1, 2)
    assert not chain([0, 0, 1]).between(0, 1)
    assert not chain([1, 0, 0, 1]).between(1, 2)


def test_a_path_over_another_device_parts_two_groups() -> None:
    assert chain([0, 1, 0]).between(0, 2)
    assert chain([0, 0, 1, 0, 0]).between(0, 4)
    assert chain([0, 0, 1, 0, 0]).between(1, 3)
    assert not chain([0, 0, 1, 0, 0]).between(3, 1)
    assert chain([0, 0, 1, 1, 0]).between(0, 4)
    assert chain([0, 0, 1, 1, 0]).between(1, 4)


def test_one_group_on_the_path_is_enough() -> None:
    """Groups 4 and 5 are not on the path 0 1 2 3; one feeds 1, which feeds the other."""
    found = groups([0, 1, 0, 1, 0, 0], [(0, 1), (1, 2), (2, 3), (4, 1), (1, 5), (4, 5)])
    assert found.between(4, 5)
    assert not found.between(5, 4)


def test_a_joined_group_reaches_what_either_did() -> None:
    found = groups([0, 1, 0, 0], [(0, 1), (1, 2), (0, 3)])
    assert not found.between(0, 3)
    found.join(3, 2)
    assert found.between(0, 3)


# --- memory ---------------------------------------------------------------------------------------------------


def given(
    sizes: Sequence[int], readers: Sequence[tuple[int, int]], times: Sequence[Sequence[float]]
) -> tuple[Problem, Contents]:
    """Return operators in a row that make a byte each, and constants of these sizes: (operator, constant) reads."""
    count, devices = len(times), len(times[0])
    own = np.arange(count)
    edges = np.array([(at, at + 1) for at in range(count - 1)], np.int64).reshape(-1, 2)
    constants = np.array(readers, np.int64).reshape(-1, 2)
    reads = constants[:, 0], constants[:, 1]
    what = Contents(reads, np.array(sizes, float), np.ones(count), own, edges[:, 0], edges[:, 1], own[-1:])
    links = Links(np.zeros((devices, devices)), np.zeros((devices, devices)), np.zeros(devices))
    problem = Problem(np.array(times, float), edges[:, 0], np.ones(count - 1), own[: count - 1], edges[:, 1], links)
    return problem, what


@pytest.mark.parametrize("seed", range(12))
def test_everything_that_may_fit_is_tried_and_nothing_else(seed: int) -> None:
    """What may fit: constants, each once, and what one operator reads and makes, are no more than there is room."""
    generator = seeded(seed)
    count, devices = generator.randint(2, 5), generator.randint(2, 3)
    sizes = [generator.randint(1, 9) for _ in range(3)]
    readers = sorted({(generator.randrange(count), generator.randrange(3)) for _ in range(count + 1)})
    times = [[1.0] * devices for _ in range(count)]
    times[0][0] = np.inf
    problem, what = given(sizes, readers, times)
    caps = {device: generator.randint(1, 14) for device in range(generator.randint(1, devices))}
    needs = [1 + (at > 0) for at in range(count)]

    def may_fit(where: tuple[int, ...]) -> bool:
        for device, cap in caps.items():
            here = [at for at in range(count) if where[at] == device]
            held = {constant for operator, constant in readers if operator in here}
            if here and sum(sizes[one] for one in held) + max(needs[at] for at in here) > cap:
                return False
        return True

    every = {where for where in np.ndindex(*[devices] * count) if where[0] != 0 and may_fit(where)}
    table = everything(problem, what, caps)
    assert table is not None
    found = [tuple(row) for row in table.devices.tolist()]
    assert len(found) == len(set(found))
    assert set(found) == every


def test_a_device_without_a_limit_takes_all_when_it_comes_first() -> None:
    problem, _ = given([1], [], [[1.0, 1.0]] * 4)
    found = [one.tolist() for one in fillings(problem, dag_of(4, [(0, 1), (1, 2), (2, 3)]), lambda _: {})]
    assert found == [[0] * 4, [1] * 4]


# --- words and numbers ----------------------------------------------------------------------------------------


def test_types_are_read_in_their_width() -> None:
    for name, read in _TYPES.items():
        bits = "".join(filter(str.isdigit, name)) or "8"
        assert np.dtype(read).itemsize * 8 == int(bits), name
        assert np.dtype(read).kind == ("b" if name == "BOOL" else name[0].lower())


def test_only_nothing_cannot_be_divided_by() -> None:
    assert parse_comparison("input0.scale < 1^-1 * input1.scale") is not None
    assert parse_comparison("input0.scale < input1.scale / 1") is not None
    for words in ("input0.scale < 0^-1 * input1.scale", "input0.scale < input1.scale / 0"):
        with pytest.raises(ValueError, match="divides by nothing"):
            parse_comparison(words)


def test_options_of_text_are_text_everywhere() -> None:
    assert _text_options()
    tables = load_schema("tflite").tables
    for name in _text_options():
        kinds = {field.kind for table in tables.values() for field in table.fields if field.name == name}
        assert kinds == {"string"}, name


def test_a_rule_of_the_command_line_may_not_miss() -> None:
    assert not parse_setting("op:CONV_2D=npu").may_miss


def test_an_affinity_is_equal_to_none_but_its_like() -> None:
    one = SubgraphAffinity(np.zeros(2, np.uint32), np.zeros(2, np.uint32))
    assert one == SubgraphAffinity(np.zeros(2, np.uint32), np.zeros(2, np.uint32))
    assert one != SubgraphAffinity(np.ones(2, np.uint32), np.zeros(2, np.uint32))
    assert one != SubgraphAffinity(np.zeros(2, np.uint32), np.ones(2, np.uint32))
    assert one != "an affinity"
