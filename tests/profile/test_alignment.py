"""Which of two readings of a delegate's rows is the better one."""

from __future__ import annotations

import pytest

from circletools.profile.delegates import ExpectedRows, align


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
