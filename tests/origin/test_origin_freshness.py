"""Whether tables still describe the operators of all subgraphs, how they follow an edit, and tables by others."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.edit.edit import ModelEdit
from circletools.edit.results import AddedOperator, IndexMap
from circletools.errors import TableFormatError
from circletools.metadata.stamp import Freshness
from circletools.model.model import open_model
from circletools.origin.embed import follow, remap, strip
from circletools.origin.read import merge, read_origins
from circletools.origin.source import Origin
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
    output_names,
    rebuilt,
    u32s,
    value_of,
)
from tests.kit.support import bytes_of, edited, unpacked

CIRCLE, LOOP = "circle/transformer_block", "circle/while_loop"  # 41 operators; subgraphs of 1, 1 and 3
# Two subgraphs of LOOP with origins, one of them at an index that both have.
TWO = origins({0: "a", 1: "b", 7: "gone"}, {0: {0}}, {}, {0: {1}, 1: {0, 1}})
UNITED = {0: {0, 1}, 1: {0, 1}}


# --- staleness ----------------------------------------------------------------------------------------------


def graph(model: Any, index: int = 0) -> Any:
    return model.subgraphs[index]


def swap(operators: list[Any], one: int, two: int) -> None:
    operators[one], operators[two] = operators[two], operators[one]


def rename_output(model: Any, operator: int, name: str, subgraph: int = 0) -> None:
    tensors = model.subgraphs[subgraph].tensors
    tensors[model.subgraphs[subgraph].operators[operator].outputs[0]].name = name


def other_code(model: Any, operator: int) -> None:
    chosen = graph(model).operators[operator]
    chosen.opcodeIndex = (chosen.opcodeIndex + 1) % len(model.operatorCodes)


# What a tool did, and from which (subgraph, operator) on the tables are wrong.
CHANGES: dict[str, tuple[str, Callable[[Any], object], tuple[int, int]]] = {
    "operators dropped": (CIRCLE, lambda model: graph(model).operators.__delitem__(slice(6, None)), (0, 6)),
    "one dropped": (CIRCLE, lambda model: graph(model).operators.pop(3), (0, 3)),
    "two swapped": (CIRCLE, lambda model: swap(graph(model).operators, 2, 9), (0, 2)),
    "output renamed": (CIRCLE, lambda model: rename_output(model, 4, "other"), (0, 4)),
}
STAMPED_CHANGES = CHANGES | {
    "operator added": (CIRCLE, lambda model: graph(model).operators.append(graph(model).operators[0]), (0, 41)),
    "other code": (CIRCLE, lambda model: other_code(model, 7), (0, 7)),
    "second subgraph renamed": (LOOP, lambda model: rename_output(model, 0, "other", 1), (1, 0)),
    "third subgraph swapped": (LOOP, lambda model: swap(graph(model, 2).operators, 0, 1), (2, 0)),
    "third subgraph renamed": (LOOP, lambda model: rename_output(model, 1, "other", 2), (2, 1)),
    "subgraph dropped": (LOOP, lambda model: model.subgraphs.pop(), (2, 0)),
}


def test_a_stamp_reveals_stale() -> None:
    for title in STAMPED_CHANGES:
        name, change, place = STAMPED_CHANGES[title]
        found = freshness_of(rebuilt(embedded(bytes_of(name)), change))
        assert (found.state, found.subgraph, found.operator) == ("stale", *place)


def test_a_stamp_counts_operators() -> None:
    after = rebuilt(embedded(bytes_of(CIRCLE)), CHANGES["operators dropped"][1])
    assert freshness_of(after).reason == "the number of operators was 41 and is now 6"


@pytest.mark.parametrize("title", CHANGES)
def test_default_tables_without_a_stamp_reveal_stale(title: str) -> None:
    name, change, place = CHANGES[title]
    found = freshness_of(rebuilt(embedded(bytes_of(name), stamp=False), change))
    if title in ("operators dropped", "one dropped"):  # an index past the end is found first
        place = (0, len(graph(unpacked(rebuilt(bytes_of(name), change))).operators))
    assert (found.state, found.subgraph, found.operator) == ("stale", *place)


def test_an_index_past_the_end_without_a_stamp() -> None:
    wanted = origins({9: "a"}, {0: {9}, 40: {9}})
    after = embedded(bytes_of(CIRCLE), wanted, stamp=False)
    assert freshness_of(after) == Freshness("unstamped")
    shorter = rebuilt(after, lambda model: graph(model).operators.pop())
    assert freshness_of(shorter) == Freshness("stale", 0, 40, "the op table lists operator 40, but the count is 40")


def test_fresh(own_model: Path) -> None:
    after = embedded(own_model.read_bytes())
    assert freshness_of(after) == Freshness("fresh")
    assert freshness_of(edited(after, lambda edit: edit.set_metadata("note", b"x"))) == Freshness("fresh")
    assert freshness_of(embedded(own_model.read_bytes(), stamp=False)) == Freshness("unstamped")


def test_a_tool_that_leaves_the_operators_alone() -> None:
    """Constants, options and descriptions are not the concern of the stamp."""

    def change(model: Any) -> None:
        model.description = "other"
        graph(model).tensors[graph(model).inputs[0]].name = "other"
        weights = next(buffer for buffer in model.buffers[1:] if buffer.data is not None)
        weights.data = ~weights.data

    assert freshness_of(rebuilt(embedded(bytes_of(CIRCLE)), change)) == Freshness("fresh")


def test_a_change_that_the_check_byte_misses_changes_the_fingerprint() -> None:
    """Each operator has one byte, so some renaming keeps it."""

    def check(name: str) -> int:
        return zlib.crc32(b"SOFTMAX\0" + name.encode() + b"\0") & 0xFF

    data = bytes_of("circle/mlp")
    old = output_names(data)[2]
    other = next(name for name in map(str, range(10000)) if check(name) == check(old))
    found = freshness_of(rebuilt(embedded(data), lambda model: rename_output(model, 2, other)))
    assert (found.state, found.subgraph, found.reason) == ("stale", 0, "the operators differ")


# --- follow -------------------------------------------------------------------------------------------------


def append_tanh(edit: ModelEdit, name: str, inherits: tuple[int, ...], subgraph: int = 0) -> int:
    """Append an operator as an edit does that knows nothing of origins."""
    of = edit.model.subgraphs[subgraph].operators[0].outputs[0]
    new = edit.add_tensor_like(subgraph, of, name)
    return edit.add_operator(subgraph, edit.add_operator_code("TANH"), [of], [new], inherits=inherits)


def test_an_appended_operator_inherits() -> None:
    before = embedded(bytes_of("circle/mlp"))
    after = edited(before, follow, lambda edit: append_tanh(edit, "new", (0, 2)))
    found = origins_of(after)
    assert found.operators == entries({0: {0}, 1: {1}, 2: {2}, 3: {0, 2}})
    assert found.sources == origins_of(before).sources
    assert freshness_of(after) == Freshness("fresh")
    assert output_names(after)[3] == "new"
    # Without `follow`, the tables become stale, and the stamp shows it.
    left = edited(before, lambda edit: append_tanh(edit, "new", (0, 2)))
    assert freshness_of(left) == Freshness("stale", 0, 3, "the number of operators was 3 and is now 4")


def test_a_chain_of_appended_operators_inherits() -> None:
    def change(edit: ModelEdit) -> None:
        first = append_tanh(edit, "one", (1,))
        append_tanh(edit, "two", (first, 0))
        append_tanh(edit, "three", ())

    after = edited(embedded(bytes_of("circle/mlp")), follow, change)
    assert origins_of(after).operators == entries({0: {0}, 1: {1}, 2: {2}, 3: {1}, 4: {0, 1}})
    assert freshness_of(after) == Freshness("fresh")


def test_an_operator_in_a_later_subgraph_inherits_there() -> None:
    after = edited(embedded(bytes_of(LOOP), TWO), follow, lambda edit: append_tanh(edit, "new", (0,), 2))
    found = origins_of(after)
    assert (found.operators[:2], found.scope) == (TWO.operators[:2], "exact")
    assert found.operators[2] == entries({0: {1}, 1: {0, 1}, 3: {1}})[0]
    assert decode_op_table(value_of(after, OP) or b"") == UNITED | {3: {1}}
    assert freshness_of(after) == Freshness("fresh")


def test_follow_without_tables_adds_none() -> None:
    after = edited(bytes_of("circle/mlp"), follow, lambda edit: append_tanh(edit, "new", (0,)))
    assert [value_of(after, name) for name in (SOURCE, OP, EXACT, STAMP)] == [None] * 4


def test_follow_without_added_operators_changes_nothing() -> None:
    before = embedded(bytes_of("circle/mlp"))
    assert edited(before, follow) == before


def test_follow_leaves_a_stale_stamp_stale() -> None:
    stale = rebuilt(embedded(bytes_of("circle/mlp")), lambda model: rename_output(model, 1, "other"))
    after = edited(stale, follow, lambda edit: append_tanh(edit, "new", (0,)))
    assert value_of(after, STAMP) == value_of(stale, STAMP)
    assert (freshness_of(after).state, freshness_of(after).operator) == ("stale", 1)
    assert origins_of(after).operators == entries({0: {0}, 1: {1}, 2: {2}, 3: {0}})


def test_follow_leaves_unstamped_tables_unstamped() -> None:
    before = embedded(bytes_of("circle/mlp"), origins({0: "a"}, {1: {0}}), stamp=False)
    after = edited(before, follow, lambda edit: append_tanh(edit, "new", (1,)))
    assert value_of(after, STAMP) is None
    assert origins_of(after).operators == entries({1: {0}, 3: {0}})


def test_remap_overrides_a_stale_entry_for_a_new_index() -> None:
    stale = origins({0: "a", 1: "b"}, {0: {0}, 3: {1}})
    heir = AddedOperator(0, 3, "TANH", (b"new",), (0,))
    orphan = AddedOperator(0, 3, "TANH", (b"new",), ())
    assert remap(stale, IndexMap((heir,))).operators == entries({0: {0}, 3: {0}})
    assert remap(stale, IndexMap((orphan,))).operators == entries({0: {0}})
    assert stale.operators == entries({0: {0}, 3: {1}})


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


def test_the_exact_table_counts_when_the_one_table_gives_the_same() -> None:
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


def test_without_a_stamp_the_table_applies_to_all_subgraphs() -> None:
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
    with pytest.raises(TableFormatError, match="refers to the missing source 1 at byte 12"):
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
