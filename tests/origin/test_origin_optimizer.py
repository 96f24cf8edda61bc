"""Origins through TICO's optimizer, which moves changes of layout."""

from __future__ import annotations

import circletools as ct
from circletools.origin.exporters.tico import through_the_optimizer
from tests.kit.build import row
from tests.kit.origin_support import entries, origins


def test_layout_changes_that_the_optimizer_moves() -> None:
    before = row(
        ("RELU", "r"), ("TRANSPOSE", "p"), ("TANH", "t"), ("TRANSPOSE", "q"), ("TRANSPOSE", "own"), ("ABS", "a")
    ).to_bytes()
    known = origins({0: "relu", 1: "conv", 2: "permute", 3: "abs"}, {0: {0}, 1: {1}, 2: {1}, 3: {1}, 4: {2}, 5: {3}})
    after = row(("RELU", "p"), ("TANH", "q"), ("TRANSPOSE", "own"), ("ABS", "a")).to_bytes()
    with ct.open(before) as first, ct.open(after) as second:
        found = through_the_optimizer(first, known, second)
    assert (found.sources, found.operators) == (known.sources, entries({0: {0}, 1: {1}, 2: {2}, 3: {3}}))
    after = row(("RELU", "r"), ("TRANSPOSE", "p"), ("TANH", "own"), ("ABS", "a")).to_bytes()
    with ct.open(before) as first, ct.open(after) as second:
        found = through_the_optimizer(first, known, second)
    assert found.operators == entries({0: {0}, 1: {1}, 2: {1, 2}, 3: {3}})


def test_a_computation_that_the_optimizer_moves_in_front_of_a_change_of_layout() -> None:
    """The names stay where they were; the RESHAPE makes the value of NEG, so it is of that call."""
    before = row(("ABS", "a"), ("TRANSPOSE", "p"), ("TANH", "t"), ("NEG", "n"), ("EXP", "e")).to_bytes()
    known = origins({0: "abs", 1: "tanh", 2: "neg", 3: "exp"}, {0: {0}, 1: {0}, 2: {1}, 3: {2}, 4: {3}})
    after = row(("ABS", "a"), ("TANH", "p"), ("NEG", "t"), ("RESHAPE", "n"), ("EXP", "e")).to_bytes()
    with ct.open(before) as first, ct.open(after) as second:
        found = through_the_optimizer(first, known, second)
    assert found.operators == entries({0: {0}, 1: {1}, 2: {2}, 3: {2}, 4: {3}})
