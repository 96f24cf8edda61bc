"""Origins of several subgraphs, and tables that others wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import TableFormatError
from circletools.model.model import open_model
from circletools.origin.algebra import Origin
from circletools.origin.embed import strip
from circletools.origin.read import merge, read_origins
from circletools.origin.tables import decode_op_table, encode_op_table, encode_source_table
from tests.kit.origin_support import (
    EXACT,
    OP,
    SOURCE,
    STAMP,
    embedded,
    entries,
    freshness_of,
    origins,
    origins_of,
    rebuilt,
    u32s,
    value_of,
)
from tests.kit.support import bytes_of, edited, unpacked

CIRCLE, LOOP = "circle/transformer_block", "circle/while_loop"  # 41 operators; subgraphs of 1, 1 and 3
# Two subgraphs of LOOP with origins, one of them at an index that both have.
TWO = origins({0: "a", 1: "b", 7: "gone"}, {0: {0}}, {}, {0: {1}, 1: {0, 1}})
UNITED = {0: {0, 1}, 1: {0, 1}}


# --- several subgraphs --------------------------------------------------------------------------------------


def test_several_subgraphs_share_the_one_table() -> None:
    after = embedded(bytes_of(LOOP), TWO)
    assert decode_op_table(value_of(after, OP) or b"") == UNITED
    first, third = u32s(1, 0, 1, 0), u32s(2, 0, 1, 1, 1, 2, 0, 1)
    assert value_of(after, EXACT) == u32s(1, 2, 0, len(first)) + first + u32s(2, len(third)) + third
    found = origins_of(after)
    assert (found.operators, found.scope) == (TWO.operators, "exact")
    names = [entry.name.decode() for entry in unpacked(after).metadata]
    assert names[-4:] == [SOURCE, OP, EXACT, STAMP]
    assert edited(after, strip) == bytes_of(LOOP)


def test_the_exact_table_yields_to_a_changed_one_table() -> None:
    changed = edited(embedded(bytes_of(LOOP), TWO), lambda edit: edit.set_metadata(OP, encode_op_table({0: {1}})))
    found = origins_of(changed)
    assert (found.operators, found.scope) == (entries({0: {1}}) * 3, "shared")


def test_the_exact_table_counts_when_the_one_table_says_the_same() -> None:
    """A compiler that reads the tables and writes them again may order entries as it likes."""
    other = u32s(2, 1, 2, 1, 0, 0, 2, 0, 1)
    assert other != encode_op_table(UNITED)
    found = origins_of(edited(embedded(bytes_of(LOOP), TWO), lambda edit: edit.set_metadata(OP, other)))
    assert (found.operators, found.scope) == (TWO.operators, "exact")


def test_the_exact_table_yields_when_a_subgraph_is_gone() -> None:
    shorter = rebuilt(embedded(bytes_of(LOOP), TWO), lambda model: model.subgraphs.pop())
    assert origins_of(shorter).scope == "shared"


def test_replacing_several_subgraphs_by_one_removes_the_exact_table() -> None:
    after = embedded(embedded(bytes_of(LOOP), TWO), replace=True)
    assert value_of(after, EXACT) is None
    assert origins_of(after).operators == entries({0: {0}}, {}, {})


def test_without_our_stamp_the_table_stands_for_all_subgraphs() -> None:
    found = origins_of(embedded(bytes_of(LOOP), origins({0: "a"}, {0: {0}}), stamp=False))
    assert (found.operators, found.scope) == (entries({0: {0}}) * 3, "shared")


def test_origins_of_a_later_subgraph_only() -> None:
    found = origins_of(embedded(bytes_of(LOOP), origins({0: "a"}, {}, {}, {1: {0}})))
    assert found.operators == entries({}, {}, {1: {0}})


@given(st.lists(st.dictionaries(st.integers(0, 3), st.frozensets(st.integers(0, 5), min_size=1)), max_size=4))
def test_merge_is_the_union_over_subgraphs(subgraphs: list[dict[int, Origin]]) -> None:
    merged = merge(subgraphs)
    assert merged == merge(subgraphs[::-1])
    for index in range(4):
        wanted = {source for operators in subgraphs for source in operators.get(index, ())}
        assert merged.get(index, set()) == wanted


# --- reading what others wrote ------------------------------------------------------------------------------


def test_no_tables(own_model: Path) -> None:
    with open_model(own_model) as model:
        assert read_origins(model) is None


def test_one_table_alone() -> None:
    source_only = edited(
        bytes_of("circle/mlp"), lambda edit: edit.set_metadata(SOURCE, encode_source_table({4: "a"}))
    )
    assert (origins_of(source_only).sources, origins_of(source_only).operators) == ({4: "a"}, ({},))
    op_only = edited(bytes_of("circle/mlp"), lambda edit: edit.set_metadata(OP, encode_op_table({0: {1}})))
    with pytest.raises(TableFormatError, match="names source 1, which does not exist at byte 12"):
        origins_of(op_only)


def test_by_source() -> None:
    assert TWO.by_source() == {0: [(0, 0), (2, 1)], 1: [(2, 0), (2, 1)], 7: []}
    assert TWO.of(2, 1) == {0, 1}
    assert TWO.of(1, 0) == frozenset()


@pytest.mark.parametrize("name", [SOURCE, OP, EXACT, STAMP])
def test_a_malformed_table_is_refused(name: str) -> None:
    broken = edited(embedded(bytes_of(LOOP), TWO), lambda edit: edit.set_metadata(name, b"\1\0\0\0\xff"))
    with pytest.raises(TableFormatError, match=f"^{name}: "):
        freshness_of(broken)
