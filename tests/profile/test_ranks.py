"""What is ordered by its times, and what a trace cannot tell apart."""

from __future__ import annotations

import pytest

from circletools.profile.joining import Time
from circletools.render.executions import ranks


def medians(*times: int) -> list[Time]:
    return [Time(1, 1, time) for time in times]


@pytest.mark.parametrize(
    ("times", "tick_ns", "expected"),
    [
        ((), 1000, []),
        ((5,), 1000, [1]),
        ((10_000, 30_000, 20_000), 1000, [3, 1, 2]),
        ((9001, 10_000, 9000, 8101, 8100), 1, [1, 1, 3, 3, 5]),
        ((2000, 3000, 1000, 5000, 4000), 1000, [3, 3, 5, 1, 1]),
        ((1000, 905, 820, 815), 1, [1, 1, 3, 3]),
    ],
)
def test_times_that_a_trace_tells_apart(times: tuple[int, ...], tick_ns: int, expected: list[int]) -> None:
    assert [rank.shared for rank in ranks(medians(*times), tick_ns)] == expected


def test_totals_where_there_is_no_median() -> None:
    averages = [Time(1, total, None) for total in (5, 9, 5, 8)]
    assert ranks(averages, 1000) == [(3, 3), (1, 1), (4, 3), (2, 2)]
    rare = [Time(1, 7, 0), Time(1, 9, 0), Time(1, 2, 1)]
    assert ranks(rare, 1000) == [(3, 3), (2, 2), (1, 1)]


def test_the_order_of_what_shares_a_rank() -> None:
    times = medians(1000, 2100, 1001, 1002, 902)
    assert ranks(times, 1000) == [(2, 2), (1, 1), (3, 2), (4, 2), (5, 2)]
    assert ranks(times, 1000, [7, 0, 9, 7, 10]) == [(4, 2), (1, 1), (3, 2), (5, 2), (2, 2)]
