"""Rows aligned with operators: which of two readings is the better one, and what lists of any length keep."""

from __future__ import annotations

import pytest

from circletools.profile.alignment import Becomes, align

NONE: frozenset[str] = frozenset()


def becomes(does: str, after: str = "", *, many: bool = False) -> Becomes:
    """Return what an operator becomes; kinds are single letters."""
    return Becomes(NONE, frozenset(does), frozenset(after), many, elided=False)


@pytest.mark.parametrize(
    ("near", "far", "rows", "operators"),
    [
        pytest.param([becomes("Z")], becomes("A"), "A", 20, id="a row of a kind that the operator does not become"),
        pytest.param([becomes("A", after="C")], becomes("C"), "AC", 2, id="a row behind the work instead of it"),
        pytest.param([becomes("A")], becomes("A", many=True), "AAAA", 20, id="three rows again of one operator"),
    ],
)
@pytest.mark.parametrize("more", [-1, 0, 1], ids=["fewer", "as many", "more"])
def test_what_weighs_as_much_as_operators_without_a_row(
    near: list[Becomes], far: Becomes, rows: str, operators: int, more: int
) -> None:
    """The last row is of the operator nearby, or of the far one, behind so many operators that then have no row."""
    # Read nearby, the far one and the last have no row; so has the one nearby where all of its rows are read far.
    between = operators + more + (2 if len(rows) > 1 else 1)
    model = [*near, *[becomes("B")] * between, far, becomes("B", many=True)]
    place = align(model, rows + "B" * between)[len(rows) - 1]
    assert (0 in place, between + 1 in place) == (more >= 0, more <= 0)
