"""Operators of recordings that a machine took at different paces."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from circletools.profile.compare import Row, Samples, compare_times
from circletools.profile.compare_profiles import compare_profiles
from circletools.profile.pace import at_one_pace, pace_of
from circletools.render.comparison import comparison_json, comparison_text
from tests.kit.profile_support import traced

TIMES_NS = 1000 * np.array([4, 15, 20, 45, 90, 130, 170, 800])
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
    names = ["ADD" if at < FIRST_OF_MEMORY else "CONCATENATION" for at in range(len(rows))]
    paced, _ = at_one_pace(rows, names, 1000)
    return [one.verdict for one in compare_times(paced, limit=0.1, tick_ns=1000)]


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


STEADY = [[100, 100], [200, 200], [300, 300]]
SPELL = [[150, 100], [300, 200], [450, 300]]


def pace_between(before: list[list[int]], after: list[list[int]], tick_ns: int) -> list[float] | None:
    """Return the pace of recordings, from times in microseconds by operator and recording."""
    found = pace_of(1000.0 * np.hstack([before, after]), len(before[0]), tick_ns)
    return None if found is None else found.tolist()


def rows_of(before: list[list[int]], after: list[list[int]]) -> list[Row]:
    """Return rows of recordings with one execution, from times in microseconds by operator and recording."""
    return [
        Row([np.array([1000.0 * time]) for time in one], [np.array([1000.0 * time]) for time in other])
        for one, other in zip(before, after, strict=True)
    ]


def test_the_pace_is_what_operators_have_in_common() -> None:
    found = pace_between(STEADY, SPELL, 1000)
    assert found is not None
    assert found[0] == pytest.approx(found[1])
    assert found[2] / found[3] == pytest.approx(1.5)
    assert np.log(found[:2]).mean() == pytest.approx(-np.log(found[2:]).mean())
    slower = [*SPELL[:2], [540, 360]]
    assert pace_between(STEADY, slower, 1000) == pytest.approx(found)
    rows, paces = at_one_pace(rows_of(STEADY, slower), ["a", "b", "c"], 1000)
    assert paces is not None
    assert paces.tolist() == pytest.approx(found)
    assert np.concatenate(rows[2].after) / np.concatenate(rows[2].before) == pytest.approx([1.2, 1.2])


@pytest.mark.parametrize(
    ("before", "after", "tick_ns"),
    [
        ([one[:1] for one in STEADY], [one[:1] for one in SPELL], 1000),  # nothing tells how recordings differ
        ([one[:1] for one in STEADY], SPELL, 1000),
        (SPELL, [one[:1] for one in STEADY], 1000),
        (STEADY[:2], SPELL[:2], 1000),  # which of two operators is as before?
        (STEADY, SPELL, 10_001),  # one of the three is below ten ticks
        (STEADY, [SPELL[0], [450, 300], [900, 600]], 1000),  # two of three differ from the median
        (STEADY, [[150, 150], [300, 300], [450, 450]], 1000),  # that is sure
        ([[*one, one[0]] for one in SPELL], [[2 * one[0], 2 * one[1], 2 * one[0]] for one in SPELL], 1000),
    ],
)
def test_times_stay_where_the_pace_is_not_known(
    before: list[list[int]], after: list[list[int]], tick_ns: int
) -> None:
    assert pace_between(before, after, tick_ns) is None
    rows = rows_of(before, after)
    same, paces = at_one_pace(rows, ["ADD"] * len(rows), tick_ns)
    assert paces is None
    assert [np.concatenate(row.after).tolist() for row in same] == [
        np.concatenate(row.after).tolist() for row in rows
    ]


@pytest.mark.parametrize("tick_ns", [10_000, 1])
def test_operators_of_ten_ticks_tell_the_pace(tick_ns: int) -> None:
    assert pace_between(STEADY, SPELL, tick_ns) is not None


def test_operators_of_one_name_have_a_pace_of_their_own() -> None:
    memory = [[2 * time for time in one] for one in STEADY]
    rows = rows_of([*STEADY, *memory], [*STEADY, *([2 * one[0], one[1]] for one in memory)])
    names = ["CONV_2D"] * 3 + ["CONCATENATION"] * 3
    alike, _ = at_one_pace(rows, names, 1000)
    for row in alike:
        assert np.concatenate(row.after) == pytest.approx(np.concatenate(row.after)[0])


def test_what_is_new_or_of_no_time_tells_nothing() -> None:
    assert at_one_pace([], [], 1) == ([], None)
    rows, paces = at_one_pace(rows_of([*STEADY, [0, 0]], [*SPELL, [70, 70]]), ["ADD"] * 4, 1000)
    assert paces is not None
    assert paces[2] / paces[3] == pytest.approx(1.5)
    assert [times.tolist() for times in rows[3].before] == [[0.0], [0.0]]


def test_recordings_without_operators_are_told() -> None:
    found = compare_profiles([traced({}), traced({})], [traced({})])
    assert [len(side) for side in (found.before, found.after)] == [2, 1]
    assert [(row.name, row.time.verdict) for row in found.rows] == [("all operators", "same")]


def test_profiles_are_compared_at_one_pace() -> None:
    usual, slow = {0: 100_000, 1: 200_000, 2: 300_000}, {0: 150_000, 1: 300_000, 2: 450_000}
    later, slow_later = {**usual, 2: 360_000}, {**slow, 2: 540_000}
    found = compare_profiles([traced(usual), traced(slow)] * 2, [traced(later), traced(slow_later)] * 2)
    whole, *operators = found.rows
    assert whole.time.verdict == "cannot tell"
    assert [row.time.verdict for row in operators] == ["same", "same", "slower"]
    assert operators[2].time.ratio == pytest.approx(1.2)
    document = comparison_json(found)
    assert document["before"][1]["pace"] / document["before"][0]["pace"] == pytest.approx(1.5)
    assert sum("pace 1.22" in line for line in comparison_text(found)) == 4
    assert not any(
        "pace" in line for line in comparison_text(compare_profiles([traced(usual)] * 2, [traced(later)] * 2))
    )
