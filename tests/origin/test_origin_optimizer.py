"""Origins through TICO's optimizer, which moves changes of layout."""

from __future__ import annotations

import circletools as ct
from circletools.origin.exporters.tico import through_the_optimizer
from tests.kit.origin_support import entries, origins, sequence


def test_layout_changes_that_the_optimizer_moves() -> None:
    before = sequence(
        ("RELU", "r"), ("TRANSPOSE", "p"), ("TANH", "t"), ("TRANSPOSE", "q"), ("TRANSPOSE", "own"), ("ABS", "a")
    )
    known = origins({0: "relu", 1: "conv", 2: "permute", 3: "abs"}, {0: {0}, 1: {1}, 2: {1}, 3: {1}, 4: {2}, 5: {3}})
    after = sequence(("RELU", "p"), ("TANH", "q"), ("TRANSPOSE", "own"), ("ABS", "a"))
    with ct.open(before) as first, ct.open(after) as second:
        found = through_the_optimizer(first, known, second)
    assert (found.sources, found.operators) == (known.sources, entries({0: {0}, 1: {1}, 2: {2}, 3: {3}}))
    after = sequence(("RELU", "r"), ("TRANSPOSE", "p"), ("TANH", "own"), ("ABS", "a"))
    with ct.open(before) as first, ct.open(after) as second:
        found = through_the_optimizer(first, known, second)
    assert found.operators == entries({0: {0}, 1: {1}, 2: {1, 2}, 3: {3}})


def test_a_computation_that_the_optimizer_moves_in_front_of_a_change_of_layout() -> None:
    """The names stay where they were, so the last operators have each other's."""
    before = sequence(("ABS", "a"), ("TRANSPOSE", "p"), ("TANH", "t"), ("NEG", "n"))
    known = origins({0: "abs", 1: "tanh", 2: "neg"}, {0: {0}, 1: {0}, 2: {1}, 3: {2}})
    after = sequence(("ABS", "a"), ("TANH", "p"), ("RESHAPE", "t"), ("NEG", "n"))
    with ct.open(before) as first, ct.open(after) as second:
        found = through_the_optimizer(first, known, second)
    assert found.operators == entries({0: {0}, 1: {1}, 2: {0}, 3: {2}})
