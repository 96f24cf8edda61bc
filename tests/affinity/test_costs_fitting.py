"""Memory: what fits is found, more room never hurts, and devices are filled in their order."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np
import pytest

from circletools.affinity.costs import caps as caps_module
from circletools.affinity.costs import fitting
from circletools.affinity.costs.caps import Fitted, least_time_within
from circletools.affinity.costs.fitting import everything, fillings
from circletools.affinity.costs.memory import Contents, footprints
from circletools.affinity.costs.problem import Indices, Links, Problem
from circletools.affinity.partition.partitions import Partition, make_partitions
from circletools.graph.dag import Dag
from tests.kit.partition_support import dag_of, seeded


class Given:
    """Operators in a row, with constants of their own, and what each device can run."""

    def __init__(self, sizes: list[int], times: list[list[float]], extra: list[tuple[int, int]] = ()) -> None:  # type: ignore[assignment]
        count = len(sizes)
        edges = sorted({*((at, at + 1) for at in range(count - 1)), *extra})
        self.graph: Dag = dag_of(count, edges)
        own = np.arange(count)
        read, readers = (np.array(side, np.int64) for side in zip(*edges, strict=True))
        self.what = Contents((own, own), np.array(sizes, float), np.ones(count), own, read, readers, own[-1:])
        devices = len(times[0])
        links = Links(np.zeros((devices, devices)), np.zeros((devices, devices)), np.zeros(devices))
        tensors, number = np.unique(read, return_inverse=True)
        self.problem = Problem(np.array(times), tensors, np.ones(len(tensors)), number, readers, links)

    def partitions(self, devices: Indices) -> tuple[Partition, ...]:
        return make_partitions(self.graph, devices.tolist())

    def excess(self, devices: Indices, caps: Mapping[int, int]) -> dict[int, int]:
        used = footprints(self.what, self.graph, self.partitions(devices), self.problem.times_us.shape[1])
        return {device: max(0, used[device].total_bytes - cap) for device, cap in caps.items()}

    def fits(self, caps: Mapping[int, int]) -> bool:
        found = least_time_within(self.problem, self.graph, self.what, caps, self.partitions)
        assert found.fits == (not any(self.excess(found.devices, caps).values()))
        assert np.isfinite(self.problem.times_us[np.arange(len(self.graph)), found.devices]).all()
        return found.fits

    def fits_at_all(self, caps: Mapping[int, int]) -> bool:
        able = [np.flatnonzero(np.isfinite(row)).tolist() for row in self.problem.times_us]
        return any(not any(self.excess(np.array(devices), caps).values()) for devices in product(*able))


def chance(seed: int) -> tuple[Given, dict[int, int]]:
    generator = seeded(seed)
    count, devices = generator.randint(2, 5), generator.randint(2, 3)
    times = [[generator.choice((1.0, 2.0, 9.0, np.inf)) for _ in range(devices)] for _ in range(count)]
    for row in times:
        row[generator.randrange(devices)] = 3.0
    sizes = [generator.randint(1, 30) for _ in range(count)]
    pairs = [(a, b) for b in range(count) for a in range(b) if generator.random() < 0.2]
    room = sum(sizes)
    caps = {device: generator.randint(room // 5, room) for device in range(devices) if generator.random() < 0.9}
    return Given(sizes, times, pairs), caps


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_what_fits_is_found(first: int) -> None:
    told = set()
    for seed in range(first, first + 10):
        given, caps = chance(seed)
        fits = given.fits(caps)
        told.add(fits)
        assert fits == given.fits_at_all(caps), seed
    assert told == {True, False}


def test_eight_operators_fit_wherever_there_is_a_device_without_a_limit() -> None:
    given = Given([100] * 8, [[1.0, 2.0, 4.0]] * 8)
    assert all(given.fits({0: npu, 1: gpu}) for npu, gpu in product((50, 450), repeat=2))


def test_more_room_never_makes_it_worse() -> None:
    for seed in range(3):
        given, caps = chance(seed)
        if given.fits(caps):
            assert all(given.fits(caps | {device: caps[device] + more}) for device in caps for more in (1, 40))
            times = np.column_stack([given.problem.times_us, np.full(len(given.graph), 5.0)])
            wider = Given([int(size) for size in given.what.buffer_bytes], times.tolist(), edges_of(given))
            assert wider.fits({**caps, times.shape[1] - 1: 3})


def edges_of(given: Given) -> list[tuple[int, int]]:
    return [(a, b) for a, row in enumerate(given.graph.successors) for b in row]


def test_devices_are_filled_in_their_order() -> None:
    given = Given([10] * 8, [[0.0] * 3] * 8)
    caps = {0: 35, 1: 24}
    first = next(iter(fillings(given.problem, given.graph, lambda devices: given.excess(devices, caps))))
    assert first.tolist() == [0, 0, 0, 1, 1, 2, 2, 2]
    only = Given([10] * 4, [[0.0, np.inf], [np.inf, 0.0], [0.0, 0.0], [0.0, 0.0]])
    first = next(iter(fillings(only.problem, only.graph, lambda devices: only.excess(devices, {0: 21}))))
    assert first.tolist() == [0, 1, 1, 1]


def test_of_many_operators_not_everything_is_tried() -> None:
    few = Given([1] * 3, [[0.0, 0.0]] * 3)
    everywhere, elsewhere = (everything(few.problem, few.what, caps) for caps in ({}, {0: 0}))
    assert everywhere is not None
    assert elsewhere is not None
    assert (len(everywhere.least_us), elsewhere.devices.tolist()) == (8, [[1, 1, 1]])
    tight = everything(few.problem, few.what, {0: 1})  # the constant fits, and not what the operator makes
    assert tight is not None
    assert tight.devices.tolist() == [[1, 1, 1]]
    roomy = everything(few.problem, few.what, {0: 2})  # the others read a byte, too
    assert roomy is not None
    assert roomy.devices.tolist() == [[0, 1, 1], [1, 1, 1]]
    many = Given([1] * 21, [[0.0, 0.0]] * 21)
    assert everything(many.problem, many.what, {}) is None


def test_forty_operators_fill_three_devices() -> None:
    given = Given([10] * 40, [[1.0, 1.0, 1.0]] * 40)
    assert given.fits({0: 145, 1: 145, 2: 145})
    assert not given.fits({0: 105, 1: 105, 2: 105})


@pytest.mark.parametrize(
    ("devices", "tried"), [(3, [3, 2, 2, 2, 1, 1, 1]), (4, [4] + [3] * 4 + [2] * 6 + [1] * 4), (5, [5])]
)
def test_fewer_devices_are_tried_where_nothing_fits_on_up_to_four(
    devices: int, tried: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is told is what is too much on all devices; one more, that takes nothing, changes nothing."""
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    counts: list[int] = []

    class Counted(caps_module._Search):
        def run(self) -> Fitted:
            counts.append(int(np.isfinite(self._problem.times_us).any(axis=0).sum()))
            return super().run()

    monkeypatch.setattr(caps_module, "_Search", Counted)
    monkeypatch.setattr(caps_module, "_HALVINGS", 0)
    given = Given([10] * 2, [[1.0] * devices + [np.inf]] * 2)
    found = least_time_within(
        given.problem, given.graph, given.what, dict.fromkeys(range(devices), 3), given.partitions
    )
    assert counts == tried
    assert found.excess_bytes == given.excess(found.devices, dict.fromkeys(range(devices), 3))
    counts.clear()
    assert given.fits({0: 22})
    assert counts == [devices]


def test_what_only_some_devices_take_is_not_tried_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the first takes operator 0, only the second operator 1: both are always there."""
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    times = [[1.0, np.inf, np.inf], [np.inf, 1.0, np.inf], [1.0, 1.0, 1.0]]
    given = Given([10] * 3, times)
    found = least_time_within(given.problem, given.graph, given.what, {0: 3, 1: 3, 2: 3}, given.partitions)
    assert not found.fits
    assert found.devices.tolist()[:2] == [0, 1]
