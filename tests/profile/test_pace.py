"""Operators of recordings that a machine took at different paces."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from circletools.profile.compare import Row, Samples, compare_times
from circletools.profile.compare_profiles import compare_profiles
from circletools.profile.pace import at_one_pace
from circletools.render.comparison import comparison_json, comparison_text
from tests.kit.presence import Lazy
from tests.kit.profile_support import traced

stats = Lazy("scipy.stats")
TIMES_NS = 1000 * np.array([4, 15, 20, 45, 90, 130, 170, 800])
Times = npt.NDArray[np.float64]
FIRST_OF_MEMORY = 5  # what comes after waits for memory, which others use as well


def side(draw: np.random.Generator, factor: float = 1.0, slower: int = 0) -> list[list[Samples]]:
    """Return six recordings by operator; in a third of them the machine is 1.5 times slower."""
    found = []
    for _ in range(6):
        spell = np.where(draw.random() < 1 / 3, 1.5, 1.0) * np.exp(draw.normal(0, 0.03))
        times = TIMES_NS * spell * np.exp(draw.normal(0, 0.05, (40, len(TIMES_NS))))
        times[:, slower] *= factor
        times[:, FIRST_OF_MEMORY:] *= np.exp(draw.normal(0, 0.1))
        times[draw.random(times.shape) < 0.01] += 2e6  # a preemption
        found.append(list(1000 * np.round(times.T / 1000)))
    return found


def verdicts(before: list[list[Samples]], after: list[list[Samples]]) -> list[str]:
    rows = [Row([one[at] for one in before], [one[at] for one in after]) for at in range(len(TIMES_NS))]
    alike, _ = at_one_pace(rows, 1000)
    return [one.verdict for one in compare_times(alike, limit=0.1, tick_ns=1000)]


@pytest.mark.parametrize("slower", [3, 6])
def test_a_slower_operator_is_found_through_spells_of_the_machine(slower: int) -> None:
    draw = np.random.default_rng(41)
    tries = 60
    found = [verdicts(side(draw), side(draw, 1.2, slower)) for _ in range(tries)]
    assert sum(some[slower] == "slower" for some in found) >= 0.95 * tries
    wrong = sum("slower" in some[:slower] + some[slower + 1 :] for some in found)
    assert wrong <= stats.binom.ppf(0.999, tries, 0.05)


def test_identical_models_seldom_alarm() -> None:
    draw = np.random.default_rng(42)
    tries = 100
    alarms = sum(bool({"slower", "faster"} & set(verdicts(side(draw), side(draw)))) for _ in range(tries))
    assert alarms <= stats.binom.ppf(0.999, tries, 0.05)


SPELLS = np.array([1.0, 1.5, 1.2, 1.0, 1.3, 1.5])  # three recordings a side
USUAL_NS = 1000.0 * np.array([100, 200, 300, 400, 500])


def rows_of(times: Times) -> list[Row]:
    """Return rows of recordings with one execution, from times by operator and recording, half of them a side."""
    half = times.shape[1] // 2
    return [Row([row[[at]] for at in range(half)], [row[[half + at]] for at in range(half)]) for row in times]


def paced(times: Times, tick_ns: float = 1000) -> tuple[Times, Times | None]:
    """Return the times at one pace, and the paces."""
    rows, paces = at_one_pace(rows_of(times), tick_ns)
    return np.array([np.concatenate([*row.before, *row.after]) for row in rows]), paces


def test_the_pace_is_what_operators_have_in_common() -> None:
    times = np.outer(USUAL_NS, SPELLS)
    times[2, 3:] *= 1.2
    found, paces = paced(times)
    assert paces is not None
    assert paces / paces[0] == pytest.approx(SPELLS, rel=1e-3)
    assert np.log(paces[:3]).mean() == pytest.approx(-np.log(paces[3:]).mean(), rel=1e-3)
    for row, ratio in zip(found, (1, 1, 1.2, 1, 1), strict=True):
        assert row / row[0] == pytest.approx([1, 1, 1, ratio, ratio, ratio], rel=1e-3)


def test_each_operator_follows_to_a_degree_of_its_own() -> None:
    degrees = np.array([1, 3, 0, -1, 0.5])
    found, _ = paced(USUAL_NS[:, None] * SPELLS ** degrees[:, None])
    for row in found:
        assert row == pytest.approx(row[0], rel=1e-3)


def test_what_waits_for_memory_has_a_second_pace() -> None:
    spells, busy = np.tile(SPELLS, 2), np.array([1, 1, 2, 1, 1.5, 1, 1, 2, 1, 1.5, 1, 1.2])
    usual = np.tile(USUAL_NS, 2)
    waits = np.arange(10)[:, None] >= 5
    found, _ = paced(usual[:, None] * spells * np.where(waits, busy, 1))
    for row in found:
        assert row == pytest.approx(row[0], rel=1e-3)


def test_a_pace_costs_certainty() -> None:
    (row, *_), _ = at_one_pace(rows_of(np.outer(USUAL_NS, SPELLS)), 1000)
    assert row.spent == pytest.approx(1)
    noisy = np.outer(USUAL_NS, SPELLS) * np.exp(np.random.default_rng(1).normal(0, 0.01, (5, 6)))
    (row, *_), _ = at_one_pace(rows_of(noisy), 1000)
    assert 0 < row.doubt < 1e-3


def spells_within(executions: list[int]) -> list[list[Samples]]:
    """Return recordings by operator whose pace changes after every ten executions; operators follow it to degrees."""
    draw, degrees = np.random.default_rng(5), np.array([1, 3, 0, -1, 0.5])
    found = []
    for count in executions:
        spells = np.repeat(np.where(draw.random(count // 10 + 1) < 0.5, 1.5, 1), 10)[:count]
        found.append(list(USUAL_NS[:, None] * spells ** degrees[:, None]))
    return found


@pytest.mark.parametrize("executions", [[40] * 6, [40, 60, 50, 70, 40, 50], [43, 61, 42, 40, 54, 72]])
def test_the_pace_changes_within_a_recording(executions: list[int]) -> None:
    recordings = spells_within(executions)
    rows = [Row([one[at] for one in recordings[:3]], [one[at] for one in recordings[3:]]) for at in range(5)]
    found, _ = at_one_pace(rows, 1000)
    for row in found:
        times = np.concatenate([*row.before, *row.after])
        assert times == pytest.approx(times[0], rel=1e-3)
        assert 0 < row.spent < 0.6  # a part of what differs does so within recordings


@pytest.mark.parametrize(
    ("times", "tick_ns"),
    [
        (np.outer(USUAL_NS, SPELLS[:2]), 1000),  # nothing tells how recordings differ
        (np.outer(USUAL_NS, SPELLS[:4]), 1000),
        (np.outer(USUAL_NS[:3], SPELLS), 1000),  # two others may differ by chance
        (np.outer(USUAL_NS[:4], SPELLS), 20_001),  # one of the four is below five ticks
        (np.outer(USUAL_NS, [1, 1.01, 1.02, 1.5, 1.51, 1.52]), 1000),  # that is sure
    ],
)
def test_times_stay_where_the_pace_is_not_known(times: Times, tick_ns: float) -> None:
    found, paces = paced(times, tick_ns)
    assert paces is None
    assert found.tolist() == times.tolist()


@pytest.mark.parametrize("tick_ns", [20_000, 1])
def test_operators_of_five_ticks_tell_the_pace(tick_ns: int) -> None:
    assert paced(np.outer(USUAL_NS[:4], SPELLS), tick_ns)[1] is not None


def test_short_operators_follow_the_pace_of_long_ones() -> None:
    found, _ = paced(np.outer([*USUAL_NS, 3000], SPELLS))
    assert found[-1] == pytest.approx(found[-1][0], rel=1e-3)


def test_of_many_operators_the_longest_tell_the_pace() -> None:
    times = np.outer(np.linspace(1e5, 2e5, 300), SPELLS)
    times[:40] = 1e5  # of another machine
    found, paces = paced(times)
    assert paces is not None
    assert paces / paces[0] == pytest.approx(SPELLS, rel=1e-3)
    assert found[0] == pytest.approx(found[0][0], rel=1e-3)


def test_what_is_new_or_of_no_time_tells_nothing() -> None:
    assert at_one_pace([], 1) == ([], None)
    new = np.array([0, 0, 0, 7e4, 8e4, 7e4])
    found, paces = paced(np.vstack([np.outer(USUAL_NS, SPELLS), new]))
    assert paces is not None
    assert found[-1].tolist() == new.tolist()


def test_recordings_without_operators_are_told() -> None:
    found = compare_profiles([traced({}), traced({})], [traced({})])
    assert [len(side) for side in (found.before, found.after)] == [2, 1]
    assert [(row.name, row.time.verdict) for row in found.rows] == [("all operators", "same")]


def test_profiles_are_compared_at_one_pace() -> None:
    usual = {at: 100_000 * (at + 1) for at in range(4)}
    slow, later = {at: time * 3 // 2 for at, time in usual.items()}, {**usual, 2: 360_000}
    slow_later = {at: time * 3 // 2 for at, time in later.items()}
    found = compare_profiles([traced(usual), traced(slow)] * 2, [traced(later), traced(slow_later)] * 2)
    whole, *operators = found.rows
    assert whole.time.verdict == "cannot tell"
    assert [row.time.verdict for row in operators] == ["same", "same", "slower", "same"]
    assert operators[2].time.ratio == pytest.approx(1.2, rel=1e-3)
    document = comparison_json(found)
    assert document["before"][1]["pace"] / document["before"][0]["pace"] == pytest.approx(1.5, rel=1e-3)
    assert sum("pace 1.22" in line for line in comparison_text(found)) == 4
    assert not any(
        "pace" in line for line in comparison_text(compare_profiles([traced(usual)] * 2, [traced(later)] * 2))
    )
