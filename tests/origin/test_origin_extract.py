"""The tables of origins taken out of a model as bytes, and origins through TICO's optimizer."""

from __future__ import annotations

import circletools as ct
from circletools.model.model import open_model
from circletools.origin.embed import extract
from circletools.origin.exporters.tico import through_the_optimizer
from circletools.origin.tables import EXECUTION_PLAN_TABLE
from tests.kit.build import row
from tests.kit.origin_support import OP, SOURCE, STAMP, embedded, entries, origins, value_of
from tests.kit.support import bytes_of, edited

MLP = bytes_of("circle/mlp")


def extracted(**entries: bytes) -> dict[str, bytes]:
    """Return what is taken out of a model that has these entries."""

    def write(edit: object) -> None:
        for name, value in entries.items():
            edit.set_metadata(name, value)  # type: ignore[attr-defined]

    with open_model(edited(MLP, write)) as model:
        return extract(model)


def test_the_tables_come_as_they_are() -> None:
    """Malformed ones too, in the order in which they are written, and nothing else."""
    every = {SOURCE: b"\1", OP: b"", STAMP: b"\2\3", EXECUTION_PLAN_TABLE: b"\4"}
    assert extracted(note=b"x", **dict(reversed(every.items()))) == every
    assert list(extracted(**dict(reversed(every.items())))) == list(every)
    data = embedded(MLP)
    with open_model(data) as model:
        assert extract(model) == {name: value_of(data, name) for name in (SOURCE, OP, STAMP)}


def test_one_table_is_enough_and_none_is_nothing() -> None:
    assert extracted(**{SOURCE: b"\1"}) == {SOURCE: b"\1"}
    assert extracted(**{OP: b"\1", STAMP: b"\2"}) == {OP: b"\1", STAMP: b"\2"}
    assert extracted(**{STAMP: b"\2", EXECUTION_PLAN_TABLE: b"\4"}) == {}
    assert extracted() == {}


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
