"""What tables mean for a model that they may not be made for: which subgraph they describe, whether they still do."""

from __future__ import annotations

import pytest

from circletools.metadata.stamp import Freshness
from circletools.model.model import open_model
from circletools.origin.read import check_freshness, encode_exact, read_origins
from circletools.origin.tables import encode_op_table, encode_source_table
from tests.kit.build import Build
from tests.kit.origin_support import EXACT, OP, SOURCE, entries, freshness_of, origins_of
from tests.kit.support import bytes_of, edited
from tests.kit.tracking_support import chain

ROW = chain("TANH", "NEG", "RELU", "EXP", names=lambda number: f"t{number}")
LOOP = bytes_of("circle/while_loop")  # subgraphs of 1, 1 and 3 operators


def tabled(data: bytes, sources: dict[int, str], operators: dict[int, set[int]], exact: bytes | None = None) -> bytes:
    """Return a model with tables as another tool writes them, without a stamp."""

    def write(edit: object) -> None:
        edit.set_metadata(SOURCE, encode_source_table(sources))  # type: ignore[attr-defined]
        edit.set_metadata(OP, encode_op_table(operators))  # type: ignore[attr-defined]
        if exact is not None:
            edit.set_metadata(EXACT, exact)  # type: ignore[attr-defined]

    return edited(data, write)


BY_DEFAULT: list[tuple[tuple[str, ...], tuple[int, ...], tuple[int, str] | None]] = [
    (("t0", "t1", "t2", "t3"), (0, 1, 2, 3), None),
    (("t0", "t1", "x", "y"), (0, 1, 2, 3), (2, "operator 2 outputs 't2', not 'x'")),
    (("t0", "x", "y", "z"), (0, 1, 2, 3), None),  # most names are somebody's own
    (("t1", "t0", "y", "z"), (0, 1, 2, 3), (0, "operator 0 outputs 't0', not 't1'")),
    (("x", "t1", "t2", "t3"), (1, 2, 3), None),  # what the table does not say is not looked at
    (("x", "t1", "t3", "y"), (1, 2), (2, "operator 2 outputs 't2', not 't3'")),
    (("x", "y", "t2", "y"), (1, 2), (1, "operator 1 outputs 't1', not 'y'")),
]


def test_tables_by_default_are_known_by_their_names() -> None:
    """Operator i comes from source i, named after its output; half of the names must be there."""
    for names, operators, expected in BY_DEFAULT:
        found = freshness_of(tabled(ROW, dict(enumerate(names)), {operator: {operator} for operator in operators}))
        assert found == (Freshness("unstamped") if expected is None else Freshness("stale", 0, *expected))


def test_tables_of_their_own_are_not_compared_by_names() -> None:
    names = {0: "t1", 1: "t0"}
    for table in ({0: {1}, 1: {1}}, {0: {0}, 1: {0, 1}}):
        assert freshness_of(tabled(ROW, names, table)) == Freshness("unstamped")
    assert freshness_of(tabled(ROW, {}, {})) == Freshness("unstamped")


def test_one_table_for_all_subgraphs_reaches_as_far_as_the_largest() -> None:
    found = origins_of(tabled(LOOP, {0: "a"}, {0: {0}, 2: {0}, 7: {0}}))
    assert (found.scope, found.operators) == ("shared", entries({0: {0}}, {0: {0}}, {0: {0}, 2: {0}, 7: {0}}))
    assert freshness_of(tabled(LOOP, {0: "a"}, {2: {0}})) == Freshness("unstamped")
    assert freshness_of(tabled(LOOP, {0: "a"}, {3: {0}})) == Freshness(
        "stale", 2, 3, "the op table lists operator 3, but the count is 3"
    )


def test_a_table_for_each_subgraph_reaches_as_far_as_that() -> None:
    def exact(*operators: dict[int, set[int]]) -> bytes:
        united: dict[int, set[int]] = {}
        for one in operators:
            for operator, sources in one.items():
                united[operator] = united.get(operator, set()) | sources
        return tabled(LOOP, {0: "a"}, united, encode_exact(entries(*operators)))

    assert origins_of(exact({0: {0}}, {}, {2: {0}})).scope == "exact"
    assert freshness_of(exact({0: {0}}, {}, {2: {0}})) == Freshness("unstamped")
    assert freshness_of(exact({}, {1: {0}}, {2: {0}})) == Freshness(
        "stale", 1, 1, "the op table lists operator 1, but the count is 1"
    )
    assert origins_of(exact({0: {0}}, {}, {}, {2: {0}})).scope == "shared"


@pytest.mark.parametrize("stamp", [True, False])
def test_tables_of_a_model_without_subgraphs(stamp: bool) -> None:
    build = Build()
    data = tabled(build.to_bytes("circle"), {3: "a"}, {0: {3}})
    if stamp:
        data = edited(data, lambda edit: edit.set_metadata("CIRCLETOOLS_stamp", bytes([1, 0, 0, 0, 0, 0, 0, 0])))
    with open_model(data) as model:
        found = read_origins(model)
        assert found is not None
        assert (found.sources, found.operators, found.scope) == ({3: "a"}, (), "main")
        assert check_freshness(model, found).state == ("fresh" if stamp else "unstamped")
