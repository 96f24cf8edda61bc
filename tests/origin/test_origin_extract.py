"""The tables of origins taken out of a model as bytes."""

from __future__ import annotations

from circletools.model.model import open_model
from circletools.origin.embed import extract
from circletools.origin.tables import EXECUTION_PLAN_TABLE
from tests.kit.origin_support import OP, SOURCE, STAMP, embedded, value_of
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
