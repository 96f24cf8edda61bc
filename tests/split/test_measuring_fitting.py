"""What times say of launches, of moving tensors and of operators: numbers that are known are found again."""

from __future__ import annotations

import numpy as np
import pytest

from circletools.split.measuring.fitting import (
    Moving,
    Segment,
    fit_launch,
    fit_moving,
    fit_times,
    work_of,
)

INF = float("inf")


def test_moving_is_found_again() -> None:
    counts, sizes = [1, 2, 1, 3], [100, 5000, 20_000, 64]
    times = [2 * count + 0.01 * size for count, size in zip(counts, sizes, strict=True)]
    found = fit_moving(counts, sizes, times)
    assert [found.overhead_us, found.us_per_byte] == pytest.approx([2, 0.01])
    assert found.of(1000) == pytest.approx(12)


def test_what_took_no_time_or_moved_nothing_does_not_count() -> None:
    assert fit_moving([1, 0, 1], [0, 0, 9999], [3, 7, 0]).overhead_us == pytest.approx(3)


def test_nothing_is_negative() -> None:
    larger_is_faster = fit_moving([1, 1], [1000, 10], [1, 5])
    assert larger_is_faster.overhead_us == pytest.approx((1 + 1 / 5) / (1 + 1 / 25))
    assert larger_is_faster.us_per_byte == 0
    no_overhead = fit_moving([1, 1], [1000, 4000], [5, 21])
    assert no_overhead.overhead_us == 0
    assert no_overhead.us_per_byte == pytest.approx((200 + 4000 / 21) / (200**2 + (4000 / 21) ** 2))


def test_nothing_measured_is_nothing_known() -> None:
    assert fit_moving([], [], []) == Moving(0.0, 0.0)


@pytest.mark.parametrize(
    ("alone", "whole", "expected"),
    [
        ([15, 25, 35], 5 + 10 + 20 + 30, (5, 1)),  # they add up, with one launch
        ([15, 25, 35], 15, (15, 0)),  # at most what the fastest takes
        ([15, 25, 35], 30, (15, 0.5)),  # the rest is fusion
        ([15, 25, 35], 150, (0, 2)),  # together they take longer
        ([15, 25, INF], 35, (5, 1)),
        ([15, 25], None, (15, 1)),
        ([15], 40, (0, 40 / 15)),
        ([15], None, (0, 1)),
        ([10, 10], 10, (10, 1)),  # launches and nothing else
        ([], 40, (0, 1)),
        ([INF], 40, (0, 1)),
    ],
)
def test_a_launch_and_what_fusion_leaves(
    alone: list[float], whole: float | None, expected: tuple[float, float]
) -> None:
    assert fit_launch(alone, whole) == pytest.approx(expected)


def test_an_operator_takes_its_time_without_the_launch_and_never_nothing() -> None:
    assert work_of(30, 10, 0.5) == pytest.approx(10)
    assert work_of(10, 10, 1) == pytest.approx(0.1)
    assert work_of(10, 10, 2) == pytest.approx(0.2)


def test_times_are_scaled_to_what_segments_took() -> None:
    times = np.array([[10.0, 1], [30, 2], [5, 3]])
    found = fit_times(times, [4, 0], [Segment(0, (0, 1), 24)])
    assert found[:, 0].tolist() == pytest.approx([5, 15, 5])
    assert found[:, 1].tolist() == [1, 2, 3]
    assert times[0, 0] == 10


def test_segments_that_overlap_hold_all() -> None:
    segments = [Segment(0, (0, 1, 2), 60), Segment(0, (0, 1), 50), Segment(0, (1, 2), 30)]
    found = fit_times(np.full((3, 1), 7.0), [0], segments)
    assert [found[list(one.operators), 0].sum() for one in segments] == pytest.approx([60, 50, 30], rel=1e-3)


def test_of_segments_that_contradict_each_other_the_last_counts() -> None:
    found = fit_times(np.ones((2, 1)), [0], [Segment(0, (0, 1), 10), Segment(0, (0, 1), 20)])
    assert found.sum() == pytest.approx(20)


def test_a_segment_is_never_nothing_and_one_that_cannot_run_is_left_out() -> None:
    times = np.array([[10.0], [INF], [0]])
    segments = [Segment(0, (0,), 5), Segment(0, (0, 1), 7), Segment(0, (2,), 9)]
    assert fit_times(times, [8], segments)[:, 0].tolist() == pytest.approx([0.05, INF, 0])
