"""Copies of what only a newer schema knows, which the walk does not look at: whole, or refused with the reason."""

from __future__ import annotations

from struct import pack

import pytest

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.inert import Inert
from circletools.flatbuf.newer import newer_schema
from circletools.flatbuf.schema import load_schema
from circletools.flatbuf.transplant import Altered, Keep, transplant
from circletools.flatbuf.verify import walk
from tests.kit.build import Raw
from tests.kit.newer_reader import CONTENT, MODEL, SCHEMA, content
from tests.kit.support import field_at, locate, put, target, u32

NEWER = newer_schema(load_schema("tflite"), SCHEMA).whole
NOTE, LEAF = NEWER.tables["NewNote"].by_name, NEWER.tables["NewLeaf"].by_name
NEW_NOTE, NEW_LEAF = NEWER.tables["Operator"].by_name["new_note"].slot, NEWER.tables["Model"].by_name["new_leaf"].slot


def copied(data: bytes) -> bytes:
    wire = Wire(data)
    keep = Keep(Inert(wire, NEWER, lambda: walk(wire, NEWER), 0), {}, 0)
    chunks = transplant(wire, NEWER, Altered(NEWER.tables["Model"], u32(data, 0), {}), keep)
    return b"".join(one if isinstance(one, bytes) else data[slice(*one)] for one in chunks)


def refused(data: bytes, words: str, error: type[Exception] = ModelFormatError) -> None:
    with pytest.raises(error, match=words):
        copied(data)


def test_a_copy_says_all_that_flatc_wrote() -> None:
    after = copied(MODEL)
    assert content(after) == CONTENT
    assert copied(after) == after


# --- vectors of unions --------------------------------------------------------------------------------------


def test_a_vector_of_unions_has_as_many_types_as_values() -> None:
    graph = locate(MODEL, "subgraphs", 0)
    slot = NEWER.tables["SubGraph"].by_name["new_eithers"].slot
    for types, values in ((1, 2), (3, 2), (2, 1)):
        data = MODEL
        for place, count in ((slot - 1, types), (slot, values)):
            at = target(data, field_at(data, graph, place))
            assert u32(data, at) == 2
            data = put(data, at, pack("<I", count))
        refused(data, r"SubGraph\.new_eithers has other counts of types and values")


def test_an_element_of_no_type_is_refused() -> None:
    graph = locate(MODEL, "subgraphs", 0)
    codes = target(MODEL, field_at(MODEL, graph, NEWER.tables["SubGraph"].by_name["new_eithers"].slot - 1))
    for place in (4, 5):
        refused(put(MODEL, codes + place, b"\0"), r"new_eithers has an element of no type", EditError)
    refused(put(MODEL, codes + 4, b"\7"), r"new_eithers has the unknown union code 7", EditError)


def test_values_without_types_are_refused() -> None:
    raw = Raw()
    leaf = raw.table({LEAF["any"].slot: raw.refs([raw.table()])})
    refused(raw.finish(raw.table({NEW_LEAF: leaf})), r"NewLeaf\.any has other counts of types and values")


# --- depth --------------------------------------------------------------------------------------------------


def nested(depth: int) -> bytes:
    """Return a file with a table in a table, and so on, below the root."""
    raw = Raw()
    note = raw.table()
    for _ in range(depth - 3):  # the others are a subgraph and an operator
        note = raw.table({NOTE["more"].slot: raw.refs([note])})
    graph = raw.table({3: raw.refs([raw.table({NEW_NOTE: note})])})
    return raw.finish(raw.table({2: raw.refs([graph, raw.table()])}))


def test_tables_are_nested_128_deep_at_most() -> None:
    assert len(copied(nested(128))) > 128 * 8
    refused(nested(129), "tables are nested more than 128 deep")


# --- tables that lie elsewhere ------------------------------------------------------------------------------


def with_leaf(start: int, words: bytes, vtable: int) -> bytes:
    """Return a file whose root leads to a leaf at `start`, in `words` that begin at 44; its vtable is at `vtable`.

    The reference stands at 40, behind the root; at 8 is a vtable of which both may be.
    """
    shared = pack("<HH", 4 + 2 * (NEW_LEAF + 1), 8) + bytes(2 * NEW_LEAF) + pack("<H", 4)
    data = pack("<I4s", 36, b"TFL3") + shared.ljust(28, b"\0") + pack("<iI", 28, start - 40) + words
    return put(data, start, pack("<i", start - vtable))


def test_a_table_and_its_vtable_lie_in_the_file() -> None:
    words = bytes(24)
    small = put(words, 20, pack("<HH", 4, 4))  # a vtable at the very end: of a table without fields
    assert 8 * 6 < len(copied(with_leaf(44, small, 64))) <= 8 * 8
    for vtable in (-5, -4, -1, 0, 7, 65, 66, 68, 1000):
        refused(with_leaf(44, words, vtable), "a NewLeaf or its vtable ends outside the file")
    long = put(words, 20, pack("<HH", 5, 4))
    refused(with_leaf(44, long, 64), "a NewLeaf or its vtable ends outside the file")


def test_a_table_is_aligned() -> None:
    fitting = bytes(8) + pack("<HH", 4, 4) + bytes(12)
    assert copied(with_leaf(48, fitting, 52))
    for start in (45, 46, 47):
        refused(with_leaf(start, fitting, 52), "a NewLeaf or its vtable ends outside the file")


@pytest.mark.parametrize("beyond", [-3, 0, 4, 1 << 20])
def test_an_element_leads_into_the_file(beyond: int) -> None:
    raw = Raw()
    note = raw.table({NOTE["more"].slot: raw.refs([raw.table()])})
    data = raw.finish(raw.table({2: raw.refs([raw.table({3: raw.refs([raw.table({NEW_NOTE: note})])})])}))
    graph = target(data, target(data, field_at(data, u32(data, 0), 2)) + 4)
    operator = target(data, target(data, field_at(data, graph, 3)) + 4)
    element = target(data, field_at(data, target(data, field_at(data, operator, NEW_NOTE)), NOTE["more"].slot)) + 4
    assert copied(data)
    end = (len(data) + 3) // 4 * 4
    data = data.ljust(end, b"\0")
    refused(put(data, element, pack("<I", end + beyond - element)), "a NewNote or its vtable ends outside the file")
