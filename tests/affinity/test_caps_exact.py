"""How memory is kept to: what each step tries, how often, and that a price goes as low as it can."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, product
from math import inf

import numpy as np
import pytest

from circletools.affinity.costs import caps, fitting
from circletools.affinity.costs.caps import Fitted, least_time_within
from circletools.affinity.costs.evaluate import evaluate
from circletools.affinity.costs.fitting import Table, everything
from circletools.affinity.costs.memory import Contents
from circletools.affinity.costs.problem import Indices
from circletools.affinity.partition.partitions import make_partitions
from tests.affinity.test_costs_fitting import chance
from tests.kit.costs_support import Case, random_case

ZERO = [[0.0] * 2] * 2


def contents(sizes: list[float]) -> Contents:
    """Return operators with a constant each, whose results take no room."""
    own, none = np.arange(len(sizes)), np.array([], np.int64)
    return Contents((own, own), np.array(sizes), np.zeros(len(sizes)), own, none, none, none)


class Watched(caps._Search):
    """A search that notes what it looks at; with `nothing_fits`, a byte is always too much on the first device."""

    looked: list[list[int]]
    nothing_fits = False

    def _look(self, devices: Indices) -> Fitted:
        self.looked.append(devices.tolist())
        found = super()._look(devices) if not self.nothing_fits else Fitted(devices, dict.fromkeys(self._caps, 1))
        self._best = self._best or found
        return found


def search_of(case: Case, sizes: list[float], limits: dict[int, int]) -> Watched:
    problem, graph = case.problem()
    search = Watched(problem, graph, contents(sizes), limits, lambda row: make_partitions(graph, row.tolist()))
    search.looked = []
    return search


def test_a_price_tells_what_saves_most_for_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """6 us for 5 bytes, twice, is better than 10 us for 10 bytes, which stand first and last."""
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    case = Case([[0.0, 10.0], [0.0, 6.0], [0.0, 6.0], [0.0, 10.0]], [], ZERO, ZERO, [0.0, 0.0])
    problem, graph = case.problem()
    what = contents([10.0, 5.0, 5.0, 10.0])
    found = least_time_within(problem, graph, what, {0: 10}, lambda row: make_partitions(graph, row.tolist()))
    assert (found.fits, found.devices.tolist()) == (True, [1, 0, 0, 1])


@pytest.mark.parametrize("seed", range(20))
def test_a_prohibitive_price_is_more_than_all_that_can_be_paid(seed: int) -> None:
    case = random_case(seed, 5, 2 + seed % 2, launch=True)
    problem, _ = case.problem()
    dearest = max(evaluate(problem, devices, devices).total_us for devices in case.every())
    search = search_of(case, [1.0] * len(case.times), {})
    assert search._prohibitive() > dearest


@pytest.mark.parametrize(("devices", "once", "rate"), [(2, 1e6, 0.0), (3, 1e6, 0.0), (2, 0.0, 1e3), (3, 0.0, 1e3)])
def test_it_is_more_than_all_copies(devices: int, once: float, rate: float) -> None:
    """Six tensors in a row, and one that is read on all devices."""
    tensors = [(at, 9.0, [at + 1]) for at in range(6)] + [(0, 9.0, list(range(1, devices)))]
    overhead, per_byte = (
        [[number * (a != b) for b in range(devices)] for a in range(devices)] for number in (once, rate)
    )
    case = Case([[1.0] * devices] * 7, tensors, overhead, per_byte, [0.0] * devices)
    dearest = max(case.cost(found) for found in case.every())
    assert search_of(case, [1.0] * 7, {})._prohibitive() > dearest


def test_sixteen_halvings_leave_a_twentieth_of_a_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the range of prices, whose lowest is a thousand million millionth of the highest."""
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    search = search_of(Case([[0.0, 10.0], [0.0, 6.0]], [], ZERO, ZERO, [0.0, 0.0]), [10.0, 5.0], {0: 5})
    prices: list[float] = []
    solve = search._solve

    def noted(per_byte: Mapping[int, float]) -> Indices:
        prices.append(per_byte[0])
        return solve(per_byte)

    monkeypatch.setattr(search, "_solve", noted)
    search.run()
    tried = sorted(prices[1:])
    assert (prices[0], tried[-1], len(tried)) == (0.0, search._prohibitive(), 17)
    nearest = min(after / before for before, after in pairwise(tried))
    assert nearest == pytest.approx(1e15 ** (1 / (1 << 16)))
    assert nearest < 1.00053


def test_what_saves_most_is_moved_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """9 us of 10 rather than 1 us of 20."""
    monkeypatch.setattr(caps, "_TRIES", 0)
    monkeypatch.setattr(caps, "_LEAST_TRIES", 1)
    search = search_of(Case([[19.0, 20.0], [1.0, 10.0], [5.0, 5.0]], [], ZERO, ZERO, [0.0] * 2), [1.0] * 3, {0: 9})
    search._best = Fitted(np.ones(3, np.int64), {0: 0})
    search._take_back()
    assert search.looked == [[1, 0, 1]]


@pytest.mark.parametrize("seed", [68, 132, 169])
def test_devices_are_filled_in_their_order_where_no_price_leads_to_what_fits(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    given, limits = chance(seed)
    assert given.fits(limits)
    monkeypatch.setattr(caps, "fillings", lambda *_: iter(()))
    assert not given.fits(limits)


@pytest.mark.parametrize(
    ("devices", "operators", "orders"), [(2, 9, 2), (3, 2_000, 6), (3, 2_001, 3), (4, 9, 4), (4, 2_001, 4)]
)
def test_few_devices_are_filled_in_all_orders(devices: int, operators: int, orders: int) -> None:
    none = [[0.0] * devices] * devices
    problem, graph = Case([[1.0] * devices] * operators, [], none, none, [0.0] * devices).problem()
    assert len(list(fitting.fillings(problem, graph, lambda _: {}))) == orders


def test_a_device_takes_all_that_fits_and_nothing_else() -> None:
    problem, graph = Case([[1.0] * 2] * 5, [], ZERO, ZERO, [0.0] * 2).problem()
    none = [[0.0] * 3] * 3
    wide, _ = Case([[1.0] * 3] * 5, [], none, none, [0.0] * 3).problem()
    for most in range(6):

        def excess(devices: Indices, most: int = most) -> dict[int, int]:
            return {0: max(0, int((devices == 0).sum()) - most)}

        first = next(iter(fitting.fillings(problem, graph, excess)))
        assert first.tolist() == [0] * most + [1] * (5 - most)
        second = next(iter(fitting.fillings(wide, graph, excess)))  # the second device has no limit
        assert second.tolist() == first.tolist()


def test_nothing_else_is_tried_where_all_assignments_were(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    class Counted(caps._Search):
        def run(self) -> Fitted:
            tried.append(int(np.isfinite(self._problem.times_us).any(axis=0).sum()))
            return super().run()

    monkeypatch.setattr(caps, "_Search", Counted)
    problem, graph = Case([[1.0, 2.0]] * 2, [], ZERO, ZERO, [0.0, 0.0]).problem()
    what, limits = contents([10.0, 10.0]), {0: 9, 1: 9}
    found = least_time_within(problem, graph, what, limits, lambda row: make_partitions(graph, row.tolist()))
    assert (found.fits, tried) == (False, [2])


def test_only_what_was_there_is_given_back() -> None:
    """On the device before, and not now: of 0 to 5 those are 1, 3 and 4."""
    case = Case([[1.0, 2.0, 3.0]] * 6, [], [[0.0] * 3] * 3, [[0.0] * 3] * 3, [0.0] * 3)
    search = search_of(case, [1.0] * 6, {0: 2})
    over, under = (np.array(row) for row in ([0, 0, 1, 0, 0, 2], [0, 1, 1, 2, 1, 0]))
    found = search._given_back(Fitted(over, {0: 9}), Fitted(under, {0: 0}), 0)
    tried = np.array(search.looked)
    assert len(tried) > 1
    assert (tried[:, [0, 2, 5]] == under[[0, 2, 5]]).all()
    assert ((tried == 0) | (tried == under)).all()
    assert (found.devices == under).all()  # two are there already
    search = search_of(case, [1.0] * 6, {0: 9})
    roomy = search._given_back(Fitted(over, {0: 9}), Fitted(under, {0: 0}), 0)
    assert (np.array(search.looked)[:, [0, 2, 5]] == under[[0, 2, 5]]).all()
    assert roomy.devices.tolist() == [0, 1, 1, 0, 0, 0]


@pytest.mark.parametrize("limited", [1, 2, 3, 4])
def test_the_price_of_each_device_is_raised_twice_at_most(limited: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "_FEW_OPERATORS", 0)
    none = [[0.0] * limited] * limited
    search = search_of(
        Case([[1.0] * limited], [], none, none, [0.0] * limited), [1.0], dict.fromkeys(range(limited), 0)
    )
    search.nothing_fits = True
    raised: list[int] = []

    def raise_price(per_byte: dict[int, float], device: int, over: Fitted) -> Fitted:
        raised.append(device)
        return over

    monkeypatch.setattr(search, "_raise", raise_price)
    search.run()
    assert len(raised) == 2 * limited


def test_single_operators_are_moved_as_long_as_two_hundred_thousand_are_partitioned() -> None:
    """Of 489 operators 408 times: once more would be 200,001; of few each."""
    for count, moved in ((489, 408), (447, 447), (10, 10), (30_000, 10)):
        search = search_of(Case([[1.0, 2.0]] * count, [], ZERO, ZERO, [0.0, 0.0]), [1.0] * count, {0: 0})
        search.nothing_fits = True
        search._best = Fitted(np.ones(count, np.int64), {0: 1})
        search._take_back()
        assert len(search.looked) == moved


def test_five_thousand_assignments_are_looked_at_and_a_thousand_where_something_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search = search_of(Case([[1.0, 2.0]], [], ZERO, ZERO, [0.0, 0.0]), [1.0], {0: 0})
    table = Table(np.zeros((5_001, 1), np.int8), np.arange(5_001.0))
    monkeypatch.setattr(caps, "everything", lambda *_: table)
    search.nothing_fits = True
    search._best, search._least = Fitted(np.zeros(1, np.int64), {0: 1}), (1.0, 1e9)
    assert not search._try_everything()
    assert len(search.looked) == 5_000
    search.looked.clear()
    search._best = Fitted(np.zeros(1, np.int64), {0: 0})
    assert search._try_everything()
    assert len(search.looked) == 1_000
    search.looked.clear()
    search._least = (0.0, 7.0)  # what comes later takes as long or longer
    assert search._try_everything()
    assert len(search.looked) == 7


def test_nothing_to_place_fits() -> None:
    problem, graph = Case([], [], ZERO, ZERO, [0.0, 0.0]).problem()
    found = least_time_within(problem, graph, contents([]), {0: 0}, lambda _: ())
    assert (found.fits, found.devices.tolist()) == (True, [])


def test_three_to_the_twelfth_assignments_are_all_looked_at() -> None:
    """12 operators of three devices and 19 of two are; 20 of two, and what is 21 operators, are not."""
    for devices, count, rows in ((3, 12, 3**12), (2, 19, 2**19), (2, 20, 0), (1, 20, 1), (1, 21, 0)):
        none = [[0.0] * devices] * devices
        problem, _ = Case([[1.0] * devices] * count, [], none, none, [0.0] * devices).problem()
        found = everything(problem, contents([0.0] * count), {})
        assert (0 if found is None else len(found.least_us)) == rows


@pytest.mark.parametrize("large", ["constant", "result"])
def test_what_is_large_is_placed_first(large: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the others have few rows to begin with: eight of three that may be anywhere, and not sixteen."""
    monkeypatch.setattr(fitting, "_ROWS", 8)
    problem, _ = Case([[1.0] * 2] * 4, [], ZERO, ZERO, [0.0] * 2).problem()
    own, none = np.arange(4), np.array([], np.int64)
    sizes = [np.array([0.0, 0.0, 9.0, 0.0]), np.zeros(4)]
    constants, results = sizes if large == "constant" else sizes[::-1]
    found = everything(problem, Contents((own, own), constants, results, own, none, none, none), {0: 8})
    assert found is not None
    assert (len(found.devices), found.devices[:, 2].tolist()) == (8, [1] * 8)


@pytest.mark.parametrize("seed", range(6))
def test_everything_that_may_fit_is_there_with_what_it_takes(seed: int) -> None:
    """By trying every assignment: constants alone rule out what does not fit."""
    case = random_case(100 + seed, 5, 2)
    problem, _ = case.problem()
    sizes = [float(3 + 2 * at) for at in range(len(case.times))]
    limit = int(sum(sizes)) // 2
    found = everything(problem, contents(sizes), {1: limit})
    assert found is not None
    shown = dict(zip(map(tuple, found.devices.tolist()), found.least_us.tolist(), strict=True))
    fitting_ones = {
        devices: case.cost(devices)
        for devices in product(range(2), repeat=len(sizes))
        if all(case.times[at][device] < inf for at, device in enumerate(devices))
        and sum(size for size, device in zip(sizes, devices, strict=True) if device == 1) <= limit
    }
    assert shown == pytest.approx(fitting_ones)
    assert found.least_us.tolist() == sorted(found.least_us.tolist())
