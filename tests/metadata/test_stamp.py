"""The stamp: its contents, and that it reveals changes to operators."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.edit.edit import ModelEdit
from circletools.errors import TableFormatError
from circletools.graph.build import model_graph
from circletools.metadata.entries import stamp_after
from circletools.metadata.stamp import (
    STAMP,
    Freshness,
    Stamp,
    SubgraphStamp,
    check_stamp,
    compare,
    decode_stamp,
    encode_stamp,
    make_stamp,
    operator_record,
    stamp_model,
)
from circletools.model.model import Model, open_model
from tests.kit.support import bytes_of

NAME = "circle/diamond"
STAMPS = st.builds(
    Stamp,
    st.lists(
        st.builds(SubgraphStamp, st.binary(min_size=8, max_size=8), st.binary(max_size=9)), max_size=4
    ).map(tuple),
)  # fmt: skip


def of(*subgraphs: bytes) -> Stamp:
    """Return a stamp in which every operator is a byte."""
    return make_stamp([[bytes([operator]) for operator in subgraph] for subgraph in subgraphs])


def test_the_bytes() -> None:
    records = [b"ADD\0a\0", b"CUSTOM:x\0a\0b\0"]
    assert operator_record("ADD", [b"a"]) == records[0]
    assert operator_record("CUSTOM:x", [b"a", b"b"]) == records[1]
    assert operator_record("CUSTOM:\udcff", []) == b"CUSTOM:\xff\0"
    assert encode_stamp(make_stamp([records, []])) == (
        struct.pack("<III", 1, 2, 2)
        + blake2b(b"".join(records), digest_size=8).digest()
        + bytes(zlib.crc32(record) & 0xFF for record in records)
        + struct.pack("<I", 0)
        + blake2b(b"", digest_size=8).digest()
    )


@given(STAMPS)
def test_a_stamp_is_read_as_it_was_written(stamp: Stamp) -> None:
    assert decode_stamp(memoryview(encode_stamp(stamp))) == stamp


def test_a_model_has_the_records_of_its_operators() -> None:
    with open_model(bytes_of(NAME)) as model:
        graph = model.subgraphs[0]
        records = model_graph(model).graphs[0].operators.records
        assert records == [
            operator_record(operator.code.name, [graph.tensors[output].name.encode() for output in operator.outputs])
            for operator in graph.operators
        ]
        assert stamp_model(model_graph(model)) == make_stamp(
            [each.operators.records for each in model_graph(model).graphs]
        )


WHOLE = encode_stamp(of(b"ab", b""))


@pytest.mark.parametrize(
    ("data", "offset", "text"),
    [
        (b"", 0, "too short for its header"),
        (WHOLE[:7], 0, "too short for its header"),
        (struct.pack("<II", 2, 0), 0, "version 2 is not known"),
        (struct.pack("<II", 0, 0), 0, "version 0 is not known"),
        (WHOLE[:8], 8, "a subgraph's entry is truncated"),
        (WHOLE[:19], 8, "a subgraph's entry is truncated"),
        (WHOLE[:21], 20, "the checks of operators are truncated: 2 needed"),
        (WHOLE[:-1], 22, "a subgraph's entry is truncated"),
        (WHOLE + b"\0", len(WHOLE), "bytes left over"),
    ],
)
def test_what_is_malformed_is_refused_with_its_place(data: bytes, offset: int, text: str) -> None:
    with pytest.raises(TableFormatError, match=text) as caught:
        decode_stamp(data, "entry")
    assert (caught.value.offset, caught.value.location) == (offset, "entry")


def test_a_stamp_without_subgraphs() -> None:
    assert decode_stamp(struct.pack("<II", 1, 0)) == Stamp(())


@pytest.mark.parametrize(
    ("then", "now", "found"),
    [
        (of(b"ab", b"c"), of(b"ab", b"c"), Freshness("fresh")),
        (of(), of(), Freshness("fresh")),
        (of(b"ab"), of(b"ab", b"c"), Freshness("stale", 1, 0, "the number of subgraphs was 1 and is now 2")),
        (of(b"ab", b"c"), of(b"xy"), Freshness("stale", 1, 0, "the number of subgraphs was 2 and is now 1")),
        (of(b"ab", b"cd"), of(b"ab", b"cx"), Freshness("stale", 1, 1, "the operators differ")),
        (of(b"abc"), of(b"ab"), Freshness("stale", 0, 2, "the number of operators was 3 and is now 2")),
        (of(b"a"), of(b"abc"), Freshness("stale", 0, 1, "the number of operators was 1 and is now 3")),
        (of(b"ab"), of(b"xbc"), Freshness("stale", 0, 0, "the number of operators was 2 and is now 3")),
    ],
)
def test_from_which_operator_on_two_differ(then: Stamp, now: Stamp, found: Freshness) -> None:
    assert compare(then, now) == found


def test_the_fingerprint_detects_changes_that_checks_miss() -> None:
    then, now = (Stamp((SubgraphStamp(fingerprint * 8, b"ab"),)) for fingerprint in (b"x", b"y"))
    found = compare(then, now)
    assert found == Freshness("stale", 0, None, "the operators differ")
    assert found.place == "subgraphs[0]"
    assert Freshness("stale", 1, 0).place == "subgraphs[1].operators[0]"


def stamped(model: Model) -> bytes:
    edit = ModelEdit(model)
    edit.set_metadata(STAMP, encode_stamp(stamp_model(model_graph(model))))
    return edit.to_bytes()


def test_a_stamp_in_a_model_is_compared_with_its_operators() -> None:
    with open_model(bytes_of(NAME)) as model:
        assert check_stamp(model_graph(model)) == Freshness("unstamped")
        data = stamped(model)
    with open_model(data) as model:
        assert check_stamp(model_graph(model)).state == "fresh"
        edit = ModelEdit(model)
        edit.set_metadata(STAMP, b"")
        data = edit.to_bytes()
    with open_model(data) as model, pytest.raises(TableFormatError, match=f"^{STAMP}: too short"):
        check_stamp(model_graph(model))


def test_the_stamp_after_an_edit_is_that_of_the_result() -> None:
    with open_model(bytes_of(NAME)) as model:
        edit = ModelEdit(model)
        graph = model.subgraphs[0]
        count = len(graph.operators)
        assert stamp_after(edit) == encode_stamp(stamp_model(model_graph(model)))
        output = int(graph.operators[0].outputs[0])
        for name in ("one", "two"):
            tensor = edit.add_tensor_like(0, output, name)
            edit.add_operator(0, edit.add_operator_code("RELU"), [output], [tensor], inherits=[0])
        after = stamp_after(edit)
        old = encode_stamp(stamp_model(model_graph(model)))
        data = edit.to_bytes()
    with open_model(data) as model:
        assert after == encode_stamp(stamp_model(model_graph(model)))
        assert compare(decode_stamp(old), stamp_model(model_graph(model))) == Freshness(
            "stale", 0, count, f"the number of operators was {count} and is now {count + 2}"
        )
