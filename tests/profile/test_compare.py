"""When a time has surely become slower, and between which bounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from circletools.errors import UsageError
from circletools.profile import compare
from circletools.profile.compare import (
    ASSUMED_SPREAD,
    ComparedTime,
    Row,
    Samples,
    compare_times,
    location,
    quantile,
    sides_of,
    tail,
    tick_of,
)
from circletools.profile.comparisons import _speeds
from tests.kit.presence import Lazy

stats = Lazy("scipy.stats")


def side(*times: float) -> list[Samples]:
    """Return recordings of a single execution each."""
    return [np.array([time], np.float64) for time in times]


def one(
    before: list[Samples], after: list[Samples], limit: float = 0.1, tick_ns: float = 1, total_ns: float = 0
) -> ComparedTime:
    (found,) = compare_times([Row(before, after, total_ns)], limit=limit, tick_ns=tick_ns)
    return found


@pytest.mark.parametrize("freedom", [1, 2, 3, 10, 61, 1000, math.inf])
def test_the_tails_and_quantiles_of_student(freedom: float) -> None:
    oracle = stats.norm if math.isinf(freedom) else stats.t(freedom)
    for t in (-40.0, -3.0, -0.5, 0.0, 1e-9, 0.3, 1.0, 2.5, 8.0, 30.0):
        assert tail(t, freedom) == pytest.approx(oracle.sf(t), rel=1e-9, abs=1e-14)
    for probability in (0.6, 0.9, 0.975, 0.9999):
        assert quantile(probability, freedom) == pytest.approx(oracle.ppf(probability), rel=1e-8)
    assert (tail(math.inf, freedom), tail(-math.inf, freedom)) == pytest.approx((0, 1), abs=1e-14)


@pytest.mark.parametrize(("first", "second"), [(3, 3), (6, 6), (2, 5), (10, 1)])
def test_bounds_are_those_of_students_t(first: int, second: int) -> None:
    random = np.random.default_rng(first)
    before, after = 1e6 * random.normal(1, 0.02, first), 1.3e6 * random.normal(1, 0.02, second)
    found = one(side(*before), side(*after))
    variance = sum(len(some) * np.log(some).var() for some in (before, after)) / (first + second - 2)
    middle = math.log(after.mean() / before.mean())
    reach = stats.t.ppf(0.975, first + second - 2) * math.sqrt(variance * (1 / first + 1 / second))
    assert (math.log(found.low or 0), math.log(found.high or 0)) == pytest.approx(
        (middle - reach, middle + reach), rel=1e-9
    )
    assert found.verdict == "slower"


def test_a_single_recording_of_each_is_taken_to_differ() -> None:
    error = ASSUMED_SPREAD * math.sqrt(2) * stats.norm.ppf(0.975)
    found = one(side(1e9), side(1.2e9))
    assert (found.verdict, found.visible) == ("cannot tell", None)
    assert (found.low, found.high) == pytest.approx((1.2 * math.exp(-error), 1.2 * math.exp(error)))
    assert one(side(1e9), side(3e9)).verdict == "slower"
    assert one(side(3e9), side(1e9)).verdict == "faster"


def test_a_location_leaves_out_what_is_far_off() -> None:
    assert location(np.array([5.0, 8, 1, 3, 2, 7, 6, 4])) == 1
    assert location(np.array([100.0] * 9 + [1e9])) == 100
    assert location(np.array([6.0, 0, 6, 0, 0, 9])) == 3.5  # in half of the executions
    assert location(np.zeros(4)) == 0
    assert location(np.array([1.0, 2])) == 1.5
    assert location(np.array([7.0])) == 7


def test_the_tick_of_a_clock() -> None:
    assert tick_of([3000, 9000, 0, 4000]) == 1000
    assert tick_of([0, 0, 500_000]) == 1000
    assert tick_of([1500, 4250]) == 250


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ((100, 101, 99), (100, 99, 101), "same"),
        ((100, 101, 99), (109, 110, 111), "cannot tell"),  # no more than the limit, and perhaps more
        ((100, 101, 99), (140, 141, 139), "slower"),
        ((140, 141, 139), (100, 101, 99), "faster"),
        ((100, 101, 99), (100, 200, 300), "cannot tell"),
        ((3, 3, 3), (4, 4, 4), "cannot tell"),  # a tick
        ((3, 3, 3), (5, 5, 5), "slower"),
        ((4, 4, 4), (3, 3, 3), "cannot tell"),
        ((100, 101, 99), (92, 93, 91), "cannot tell"),  # surely no more than the limit, perhaps less by more
        ((0, 0, 0), (0, 0, 0), "same"),
        ((0, 0, 0), (60, 61, 59), "slower"),
        ((0, 0, 0), (40, 41, 39), "cannot tell"),  # of 500, less than the limit
        ((0, 0, 0), (1, 300, 2), "cannot tell"),
        ((60, 61, 59), (0, 0, 0), "faster"),
    ],
)
def test_verdicts(before: tuple[int, ...], after: tuple[int, ...], verdict: str) -> None:
    first, second = (side(*(1000.0 * time for time in times)) for times in (before, after))
    found = one(first, second, tick_ns=1000, total_ns=500_000)
    assert found.verdict == verdict
    assert found.regressed == (verdict == "slower")
    assert found.delta_ns == 1000 * (sum(after) - sum(before)) // 3
    assert (found.ratio is None) == (sum(before) == 0)
    assert (found.low is None) == (not all((sum(before), sum(after))))


def test_a_single_row_is_sure_where_its_bounds_leave_out_one() -> None:
    verdicts = set()
    for percent in np.arange(95, 105, 0.1):
        found = one(side(100e3, 101e3, 99e3), side(*(1e3 * percent + np.array([0, 1e3, -1e3]))), limit=0)
        low, high = found.low or 0, found.high or 0
        assert found.verdict == ("slower" if low > 1 else "faster" if high < 1 else "cannot tell")
        verdicts.add(found.verdict)
    assert verdicts == {"slower", "faster", "cannot tell"}


def test_the_clock_bounds_what_can_be_known() -> None:
    """Recordings that agree are still rounded to ticks, which has a variance of a twelfth of a tick's square."""
    found = one(side(5e3, 5e3, 5e3), side(8e3, 8e3, 8e3, 8e3), tick_ns=1000)
    variance = ((1 / 5) ** 2 + (1 / 8) ** 2) / 12 / 2 * (1 / 3 + 1 / 4)
    reach = stats.t(5).ppf(0.975) * math.sqrt(variance)
    assert (found.low, found.high) == pytest.approx((1.6 * math.exp(-reach), 1.6 * math.exp(reach)), rel=1e-8)


def test_many_rows_must_be_surer() -> None:
    slower = Row(side(100e3, 104e3, 96e3), side(130e3, 126e3, 134e3))
    equal = Row(side(100e3, 104e3, 96e3), side(100e3, 104e3, 96e3))
    verdicts = {
        count: compare_times([slower] + [equal] * count, limit=0.1, tick_ns=1)[0].verdict for count in (0, 200)
    }
    assert verdicts == {0: "slower", 200: "cannot tell"}
    assert compare._holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])


OPERATORS = 1000 * np.array([3, 8, 40, 200, 1200])


def recordings(draw: np.random.Generator, count: int, run: float, drift: float, factor: float) -> list[list[Samples]]:
    """Return recordings of 60 executions; `factor` is that of the last operator but one."""
    found = []
    for _ in range(count):
        speed = draw.normal(0, run) + np.cumsum(draw.normal(0, drift / math.sqrt(60), 60))
        times = OPERATORS * np.exp(speed[:, None] + draw.normal(0, 0.05, (60, len(OPERATORS))))
        times[:, 3] *= factor
        times[draw.random(times.shape) < 0.01] += 2e6  # a preemption
        found.append(list(1000 * np.round(times.T / 1000)))
    return found


def verdicts(
    draw: np.random.Generator, counts: tuple[int, int], run: float, drift: float, factor: float = 1.0
) -> list[str]:
    pairs = zip(counts, (1.0, factor), strict=True)
    before, after = (recordings(draw, count, run, drift, more) for count, more in pairs)
    sides = [[[one[at] for one in side] for side in (before, after, [])] for at in range(len(OPERATORS))]
    (_, *speeds), spread = _speeds([sides[0], *sides])
    rows = [Row(side[0], side[1], speeds=speed) for side, speed in zip(sides, speeds, strict=True)]
    return [one.verdict for one in compare_times(rows, limit=0.1, tick_ns=1000, spread=spread)]


@pytest.mark.parametrize("counts", [(1, 1), (3, 3), (6, 6), (10, 1)])
@pytest.mark.parametrize(("run", "drift"), [(0.0, 0.0), (0.1, 0.0), (0.0, 0.15), (0.1, 0.1)])
def test_identical_models_seldom_alarm(counts: tuple[int, int], run: float, drift: float) -> None:
    draw, tries = np.random.default_rng(counts), 60
    alarms = sum("slower" in verdicts(draw, counts, run, drift) for _ in range(tries))
    assert alarms <= stats.binom.ppf(0.999, tries, 0.05)


@pytest.mark.parametrize(("count", "run", "factor"), [(1, 0.1, 3), (3, 0.2, 2), (6, 0.3, 2)])
def test_a_slower_operator_is_found(count: int, run: float, factor: float) -> None:
    draw = np.random.default_rng(count)
    tries = 40
    found = [verdicts(draw, (count, count), run, 0.0, factor) for _ in range(tries)]
    assert sum(some[3] == "slower" for some in found) >= 0.95 * tries


@pytest.mark.parametrize(("count", "earlier"), [(3, 0), (6, 0), (1, 5), (3, 10)])
def test_what_is_visible_is_found_in_nine_of_ten(count: int, earlier: int) -> None:
    draw = np.random.default_rng([count, earlier])
    tries, found = 400, 0

    def recorded(number: int) -> list[Samples]:
        return side(*(1e6 * np.exp(draw.normal(0, 0.05, number))))

    for _ in range(tries):
        first, again = (
            [Row(recorded(count), recorded(count), history=recorded(earlier)) for _ in range(5)] for _ in range(2)
        )
        ratio = compare_times(first, limit=0.1, tick_ns=1)[0].visible
        assert ratio is not None
        slower = [times * ratio for times in again[0].after]
        found += compare_times([replace(again[0], after=slower), *again[1:]], limit=0.1, tick_ns=1)[0].regressed
    assert found >= stats.binom.ppf(0.001, tries, 0.9)


def test_a_history_shows_how_much_recordings_differ() -> None:
    known = side(*(1e6 * np.random.default_rng(0).normal(1, 0.01, 12)))
    (alone,), (with_history,) = (
        compare_times([Row(side(1e6), side(1.2e6), history=some)], limit=0.1, tick_ns=1) for some in ((), known)
    )
    assert (alone.verdict, with_history.verdict) == ("cannot tell", "slower")
    (same,) = compare_times([Row(side(1e6), side(1.01e6), history=known)], limit=0.1, tick_ns=1)
    assert same.verdict == "same"


def test_parts_of_a_recording_show_how_sure_its_time_is() -> None:
    spiky, drifting = (1e6 * np.repeat(parts, 10) for parts in ([1, 1, 1, 1, 1], [1, 4, 2, 8, 1]))
    spiky[np.arange(50) % 5 > 0] *= 9
    rows = [Row([one], [3 * one]) for one in (spiky, drifting)]
    assert [compare_times([row], limit=0.1, tick_ns=1)[0].verdict for row in rows] == ["slower", "cannot tell"]


def test_recordings_in_turns_are_compared_pair_by_pair() -> None:
    drift = np.linspace(1, 2, 6)
    before, after = side(*(1e6 * drift)), side(*(1.2e6 * drift + 1e3 * np.arange(6) % 2))
    (apart,), (in_turns,) = (
        compare_times([Row(before, after, paired=paired)], limit=0.1, tick_ns=1) for paired in (False, True)
    )
    assert (apart.verdict, in_turns.verdict) == ("cannot tell", "slower")
    assert in_turns.ratio == pytest.approx(1.2, rel=0.01)
    with pytest.raises(UsageError, match="2 before, 3 after"):
        sides_of(int, [1, 2], [1, 2, 3], (), paired=True)
