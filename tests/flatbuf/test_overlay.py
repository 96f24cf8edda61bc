"""Edits: what is named changes, every other byte and every other meaning stays."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from circletools.edit.edit import ModelEdit
from circletools.flatbuf.writer import data_alignment
from circletools.model.model import open_model
from tests.kit.support import (
    EXTERNAL,
    by_content,
    bytes_of,
    edited,
    ends_with,
    field_at,
    find_field,
    locate,
    noted,
    packed,
    put,
    read,
    target,
    u32,
    unpacked,
    value_of,
    with_entry,
)

ZIPPED = ("tflite/zip_tail", "tflite/zip_tail_joined")
SOME = ("circle/while_loop", "tflite/if_cond", "circle/only_input", "tflite/debug_metadata", *EXTERNAL, *ZIPPED)


MARKER = b"CIRTOOL1"  # at byte 8, and behind it the length of the prefix


def note(name: str, value: bytes) -> Callable[[ModelEdit], None]:
    return lambda edit: edit.set_metadata(name, value)


def removed(data: bytes, *names: str) -> bytes:
    return edited(data, lambda edit: [edit.remove_metadata(name) for name in names])


# --- one edit -----------------------------------------------------------------------------------------------


def test_the_old_file_follows_the_prefix(own_model: Path) -> None:
    data = own_model.read_bytes()
    after = noted(data)
    assert ends_with(after, data)
    prefix = len(after) - len(data)
    assert prefix % 64 == 0
    assert (after[8:16], int.from_bytes(after[16:24], "little")) == (MARKER, prefix)
    assert data[8:16] != MARKER


def test_another_reader_sees_the_entry_and_nothing_else_changed(own_model: Path) -> None:
    data = own_model.read_bytes()
    assert read(noted(data)) == with_entry(read(data), b"note", b"a value")


def test_the_value_of_an_entry_is_replaced_where_it_is() -> None:
    data = bytes_of("tflite/zip_tail")
    name, expected = "min_runtime_version", read(data)
    entry = next(entry for entry in expected["metadata"] if entry["name"] == name.encode())
    expected["buffers"][entry["buffer"]]["data"] = b"new"
    assert read(noted(data, name, b"new")) == expected


def test_a_buffer_that_is_shared_is_not_replaced() -> None:
    """The value of an entry is also a tensor's: the tensor keeps it."""
    data = bytes_of("circle/mlp")
    model = unpacked(noted(data))
    entry = model.metadata[0]
    model.subgraphs[0].tensors[1].buffer = entry.buffer
    shared = packed(model, b"CIR0")
    before = by_content(read(shared))
    for change in (noted(shared, "note", b"other"), removed(shared, "note")):
        after = by_content(read(change))
        assert after["subgraphs"] == before["subgraphs"]
    assert by_content(read(noted(shared, "note", b"other")))["metadata"] == [(b"note", (b"other", 0, 0))]


def test_one_of_several_entries_with_one_name_remains() -> None:
    model = unpacked(noted(noted(bytes_of("circle/mlp"), "one", b"1"), "two", b"2"))
    for entry in model.metadata:
        entry.name = "same"
    data = packed(model, b"CIR0")
    assert by_content(read(noted(data, "same", b"3")))["metadata"] == [(b"same", (b"3", 0, 0))]
    with open_model(data) as opened:
        assert ModelEdit(opened).remove_metadata("same") == 2
        assert ModelEdit(opened).remove_metadata("other") == 0
    assert not by_content(read(removed(data, "same")))["metadata"]


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000])
def test_new_data_is_aligned(size: int) -> None:
    value = bytes(range(1, 101)) * 10
    value = value[:size]
    data = bytes_of("circle/cnn")
    after = edited(data, note("m", value), lambda edit: [edit.add_buffer(b"odd"), edit.add_buffer(value)])
    for index in range(len(read(data)["buffers"]), len(read(after)["buffers"])):
        buffer = locate(after, "buffers", index)
        if find_field(after, buffer, 0):
            at = target(after, field_at(after, buffer, 0))
            assert (at + 4) % data_alignment(u32(after, at)) == 0


@pytest.mark.parametrize(("size", "alignment"), [((16 << 20) - 1, 64), (16 << 20, 4096)])
def test_a_large_file_moves_by_whole_pages(size: int, alignment: int) -> None:
    data = bytes_of("circle/mlp").ljust(size, b"\0")
    prefix = len(noted(data)) - size
    assert prefix % alignment == 0
    assert prefix < 2 * 4096
    assert (prefix == 4096) == (alignment == 4096)


def test_nothing_to_do_gives_the_same_bytes(own_model: Path) -> None:
    data = own_model.read_bytes()
    assert edited(data) == data
    assert removed(data, "no such entry") == data


def test_names_that_are_no_text_survive() -> None:
    model = unpacked(noted(bytes_of("circle/mlp")))
    model.metadata[0].name = b"caf\xe9"
    data = packed(model, b"CIR0")
    with open_model(noted(data)) as opened:
        name = opened.metadata[0].name
        assert name == "caf\udce9"
        assert value_of(opened, name) == b"a value"
    assert [entry["name"] for entry in read(noted(data, name, b"x"))["metadata"]] == [b"caf\xe9"]


# --- edit after edit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SOME)
def test_the_same_edit_again_changes_no_byte(name: str) -> None:
    once = noted(bytes_of(name))
    assert noted(once) == once
    assert edited(once) == once


@pytest.mark.parametrize("name", SOME)
def test_taking_back_what_was_added_gives_the_old_file(name: str) -> None:
    data = bytes_of(name)
    after = noted(noted(data, "one", b"1" * 100), "two", b"2")
    assert removed(removed(after, "one"), "two") == data
    assert removed(removed(after, "two"), "one") == data
    assert removed(after, "two", "one") == data


@pytest.mark.parametrize("name", SOME)
def test_a_value_that_is_set_back_gives_the_old_file(name: str) -> None:
    data = bytes_of(name)
    with open_model(data) as model:
        entries = {entry.name: bytes(model.metadata_value(entry.name) or b"") for entry in model.metadata}
    for entry, value in entries.items():
        assert noted(noted(data, entry, b"something else"), entry, value) == data


@pytest.mark.parametrize("name", SOME)
def test_ten_edits_need_no_more_room_than_one(name: str) -> None:
    data = bytes_of(name)
    after = data
    for number in range(4):
        after = noted(after, f"entry {number}", bytes([number]) * 1000)
    after = noted(after, "entry 2", b"other" * 100)
    after = removed(after, "entry 0")
    after = removed(after, "entry 3")
    after = noted(after, "entry 1", b"x")
    after = removed(after, "entry 2")
    after = noted(after, "last", b"y" * 50)
    once = edited(data, note("entry 1", b"x"), note("last", b"y" * 50))
    assert by_content(read(after)) == by_content(read(once))
    assert len(after) <= len(once) + 64


@pytest.mark.parametrize("name", SOME)
def test_the_way_to_a_state_leaves_no_trace(name: str) -> None:
    data = bytes_of(name)
    ways = [
        noted(noted(data, "a", b"1"), "b", b"2"),
        noted(noted(noted(data, "a", b"0"), "b", b"2"), "a", b"1"),
        removed(noted(noted(noted(data, "a", b"1"), "b", b"2"), "c", b"3" * 99), "c"),
        edited(data, note("a", b"1"), note("b", b"2")),
        noted(noted(removed(noted(data, "z", b"9"), "z"), "a", b"1"), "b", b"2"),
    ]
    assert len(set(ways)) == 1


def test_an_edit_can_go_on_after_its_bytes_were_asked_for() -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        edit = ModelEdit(model)
        for name in ("a", "b", "c"):
            edit.set_metadata(name, name.encode() * 9)
            after = edit.to_bytes()
    expected = edited(data, *(note(name, name.encode() * 9) for name in ("a", "b", "c")))
    assert after == expected


def test_a_model_without_buffers_gets_the_empty_one_first() -> None:
    model = unpacked(bytes_of("circle/only_input"))
    model.buffers, model.metadata = None, None
    data = packed(model, b"CIR0")
    after = noted(noted(data, "a", b"1"), "b", b"2")
    assert [buffer["data"] for buffer in read(after)["buffers"]] == [None, b"1", b"2"]
    assert by_content(read(after))["metadata"] == [(b"a", (b"1", 0, 0)), (b"b", (b"2", 0, 0))]
    again = noted(removed(after, "a"), "c", b"3")
    assert [buffer["data"] for buffer in read(again)["buffers"]] == [None, b"3", b"2"]


def test_a_model_without_buffers_is_given_back_as_it_was() -> None:
    model = unpacked(bytes_of("circle/only_input"))
    model.buffers, model.metadata = None, None
    data = packed(model, b"CIR0")
    assert removed(noted(data), "note") == data


# --- what lies behind the flatbuffer ------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data_is_found_after_one_two_and_three_edits(name: str) -> None:
    data = bytes_of(name)
    expected = read(data)
    assert any(isinstance(buffer["offset"], bytes) for buffer in expected["buffers"])
    after = noted(data, "one", b"1")
    assert read(after) == with_entry(expected, b"one", b"1")
    after = noted(after, "two", b"2" * 500)
    assert read(after) == with_entry(with_entry(expected, b"one", b"1"), b"two", b"2" * 500)
    assert read(removed(after, "two")) == with_entry(expected, b"one", b"1")


def test_external_custom_options_are_found_after_edits() -> None:
    data = bytes_of("tflite/custom_options_external")
    options = read(data)["subgraphs"][0]["operators"][1]["largeCustomOptionsOffset"]
    assert isinstance(options, bytes)
    assert len(options) > 10
    after = noted(noted(data), "two", bytes(999))
    assert read(after)["subgraphs"][0]["operators"][1]["largeCustomOptionsOffset"] == options


def test_buffers_may_share_their_external_data() -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        one, two = [index for index, buffer in enumerate(model.buffers) if buffer.external][:2]
        offset, size = int(model.buffers.offsets[one]), int(model.buffers.sizes[one])
    for slot, value in ((1, offset), (2, size)):
        data = put(data, field_at(data, locate(data, "buffers", two), slot), value.to_bytes(8, "little"))
    after = noted(noted(data), "two", b"2")
    buffers = read(after)["buffers"]
    assert buffers[one] == buffers[two] == read(data)["buffers"][one]


@pytest.mark.parametrize("name", ZIPPED)
def test_an_archive_at_the_end_opens_with_the_same_members(name: str) -> None:
    def members(data: bytes) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            assert archive.testzip() is None
            return {name: archive.read(name) for name in archive.namelist()}

    data = bytes_of(name)
    assert members(data)
    for after in (noted(data), noted(noted(data), "two", bytes(5000)), removed(noted(data), "TFLITE_METADATA")):
        assert members(after) == members(data)


def test_bytes_behind_the_flatbuffer_stay_at_the_end() -> None:
    tail = bytes(range(256)) * 3
    assert noted(noted(bytes_of("circle/mlp") + tail), "two", b"2").endswith(tail)
