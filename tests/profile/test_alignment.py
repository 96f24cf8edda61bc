"""The better reading of a delegate's rows, and the order of rows that a trace does not distinguish."""

from __future__ import annotations

import pytest

from circletools.profile.delegates import ExpectedRows, align
from circletools.profile.joining import Time
from circletools.render.executions import ranks


def becomes(does: str, after: str = "", *, many: bool = False, elided: bool = False) -> ExpectedRows:
    """Return what an operator becomes; kinds are single letters."""
    return ExpectedRows(frozenset(), frozenset(does), frozenset(after), many, elided)


@pytest.mark.parametrize(
    ("near", "far", "rows", "operators"),
    [
        pytest.param(becomes("Z"), becomes("A"), "A", 20, id="a row of a kind that the operator does not become"),
        pytest.param(becomes("A", after="C"), becomes("C"), "AC", 2, id="a row behind the work instead of it"),
        pytest.param(
            becomes("A", after="C"), becomes("C", elided=True), "AC", 2, id="the same, instead of the elided"
        ),
        pytest.param(becomes("A"), becomes("A", many=True), "AAAA", 20, id="three rows again of one operator"),
    ],
)
@pytest.mark.parametrize("more", [-1, 0, 1], ids=["fewer", "as many", "more"])
def test_what_weighs_as_much_as_operators_without_a_row(
    near: ExpectedRows, far: ExpectedRows, rows: str, operators: int, more: int
) -> None:
    """The last of the rows is read as the operator's nearby, or as the far one's with so many more without a row."""
    last = becomes("B", many=True)
    without_near = [one for one in (far, last) if not one.elided]
    without_far = [near] if len(rows) == 1 else []
    between = operators + more + len(without_near) - len(without_far)
    found = align([near, *[becomes("B")] * between, far, last], rows + "B" * between)[len(rows) - 1]
    assert (0 in found, between + 1 in found) == (more >= 0, more <= 0)


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
def test_times_that_a_trace_distinguishes(times: tuple[int, ...], tick_ns: int, expected: list[int]) -> None:
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
