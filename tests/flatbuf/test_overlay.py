"""Edits: what is named changes, every other byte and every other meaning stays."""

from __future__ import annotations

import io
import itertools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.model.model import open_model
from tests.kit.build import Raw
from tests.kit.support import (
    blank,
    by_content,
    bytes_of,
    edited,
    entry_at,
    field_at,
    find_field,
    generated,
    locate,
    noted,
    packed,
    plain,
    put,
    read,
    target,
    u32,
    unpacked,
    value_of,
    vtable_of,
    with_entry,
)

EXTERNAL = ("circle/mlp_external", "circle/cnn_external", "tflite/cnn_external", "tflite/custom_options_external")
ZIPPED = ("tflite/zip_tail", "tflite/zip_tail_joined")
SOME = ("circle/while_loop", "tflite/if_cond", "circle/only_input", "tflite/debug_metadata", *EXTERNAL, *ZIPPED)


MARKER = b"CIRTOOL1"  # at byte 8, and behind it the length of the prefix


def note(name: str, value: bytes) -> Callable[[ModelEdit], None]:
    return lambda edit: edit.set_metadata(name, value)


def removed(data: bytes, *names: str) -> bytes:
    return edited(data, lambda edit: [edit.remove_metadata(name) for name in names])


# --- one edit -----------------------------------------------------------------------------------------------


def test_the_old_file_stands_behind_the_prefix(own_model: Path) -> None:
    data = own_model.read_bytes()
    after = noted(data)
    assert after.endswith(data)
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


def test_of_entries_with_one_name_one_remains() -> None:
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
            assert (target(after, field_at(after, buffer, 0)) + 4) % 16 == 0


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
    assert len(after) <= len(once)


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


def test_bytes_can_be_asked_for_again() -> None:
    with open_model(bytes_of("circle/mlp_external")) as model:
        edit = ModelEdit(model)
        edit.set_metadata("a", b"1")
        assert edit.to_bytes() == edit.to_bytes()


def test_an_edit_can_go_on_after_its_bytes_were_asked_for() -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        edit = ModelEdit(model)
        for name in ("a", "b", "c"):
            edit.set_metadata(name, name.encode() * 9)
            after = edit.to_bytes()
    expected = edited(data, *(note(name, name.encode() * 9) for name in ("a", "b", "c")))
    assert after == expected


def test_a_prefix_that_was_edited_first_goes_on_after_its_bytes_were_asked_for() -> None:
    data = noted(bytes_of("tflite/if_cond"))
    with open_model(data) as model:
        edit = ModelEdit(model)
        edit.add_tensor(0, "one", type="INT8", shape=[1])
        edit.to_bytes()
        edit.add_tensor(0, "two", type="INT8", shape=[1])
        after = edit.to_bytes()
    assert [tensor["name"] for tensor in read(after)["subgraphs"][0]["tensors"]][-2:] == [b"one", b"two"]


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


# --- fields that the schema does not know, or no longer knows -----------------------------------------------

UNKNOWN_SLOT, UNKNOWN_VALUE = 30, 0x1234567


def with_unknown(table: str) -> bytes:
    """Build a model in which the tables of one type have a field far beyond the schema."""
    raw = Raw()

    def make(name: str, fields: dict[int, int | tuple[str, int]]) -> int:
        return raw.table(fields | ({UNKNOWN_SLOT: ("i32", UNKNOWN_VALUE)} if name == table else {}))

    buffers = raw.refs([make("Buffer", {}), make("Buffer", {0: raw.string(b"value")})])
    tensor = make("Tensor", {0: raw.ints([1, 2]), 3: raw.string(b"x"), 2: ("u32", 0)})
    maps = raw.refs([make("TensorMap", {0: raw.string(b"in"), 1: ("u32", 0)})])
    signature = make("SignatureDef", {0: maps, 2: raw.string(b"key"), 3: raw.string(b"old tag"), 4: ("u32", 0)})
    code = make("OperatorCode", {0: ("i8", 0), 3: ("i32", 0)})
    operator = make("Operator", {1: raw.ints([0, 0]), 2: raw.ints([0]), 0: ("u32", 0)})
    subgraph = make(
        "SubGraph",
        {0: raw.refs([tensor]), 1: raw.ints([0]), 2: raw.ints([0]), 3: raw.refs([operator]), 4: raw.string(b"main")},
    )
    entry = make("Metadata", {0: raw.string(b"old"), 1: ("u32", 1)})
    root = {1: raw.refs([code]), 2: raw.refs([subgraph]), 4: buffers, 6: raw.refs([entry]), 7: raw.refs([signature])}
    return raw.finish(make("Model", {**root, 0: ("u32", 3)}))


def remap(edit: ModelEdit) -> None:
    edit.set_signature_entry(0, "inputs", 0, edit.add_tensor_like(0, 0, "t"))


CHANGES: dict[str, Callable[[ModelEdit], object]] = {
    "metadata": lambda edit: edit.set_metadata("note", b"a value"),
    "outputs": lambda edit: edit.set_outputs(0, [0, 0]),
    "tensor": lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[1]),
    "like": lambda edit: edit.add_tensor_like(0, 0, "t"),
    "code": lambda edit: edit.add_operator_code("MUL"),
    "operator": lambda edit: edit.add_operator(0, 0, [0, 0], [0]),
    "entry": lambda edit: edit.set_signature_entry(0, "inputs", 0, 0),
    "remap": remap,
}
PLACES = {
    "Model": (),
    "SubGraph": ("subgraphs", 0),
    "Tensor": ("subgraphs", 0, "tensors", 0),
    "Operator": ("subgraphs", 0, "operators", 0),
    "OperatorCode": ("operator_codes", 0),
    "Buffer": ("buffers", 0),
    "Metadata": ("metadata", 0),
    "SignatureDef": ("signature_defs", 0),
}
REWRITTEN = {
    "metadata": {"Model"},
    "outputs": {"Model", "SubGraph"},
    "tensor": {"Model", "SubGraph"},
    "like": {"Model", "SubGraph", "Tensor"},  # a table is only copied whole
    "code": {"Model"},
    "operator": {"Model", "SubGraph"},
    "entry": {"Model", "SignatureDef"},
    "remap": {"Model", "SubGraph", "SignatureDef", "Tensor"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("table", PLACES)
def test_a_field_that_the_schema_does_not_know_survives_or_the_edit_is_refused(table: str, change: str) -> None:
    data = with_unknown(table)
    if table in REWRITTEN[change]:
        with pytest.raises(EditError, match=f"{table} at byte .* has a field that the tflite schema does not know"):
            edited(data, CHANGES[change])
        return
    after = edited(data, CHANGES[change])
    place = locate(after, *PLACES[table])
    assert u32(after, field_at(after, place, UNKNOWN_SLOT)) == UNKNOWN_VALUE


def test_a_sound_model_was_built_for_these_tests() -> None:
    for table, place in PLACES.items():
        data = with_unknown(table)
        assert read(data)["subgraphs"][0]["tensors"][0]["shape"] == (1, 2)
        assert u32(data, field_at(data, locate(data, *place), UNKNOWN_SLOT)) == UNKNOWN_VALUE


def text_at(data: bytes, at: int) -> bytes:
    start = target(data, at)
    return data[start + 4 : start + 4 + u32(data, start)]


def test_the_deprecated_tag_of_a_signature_survives_that_its_table_is_written_anew() -> None:
    after = edited(with_unknown("none"), CHANGES["remap"])
    assert read(after)["signatureDefs"][0]["inputs"][0]["tensorIndex"] == 1
    for data in (after, noted(after), noted(noted(after, "two", b"2"))):
        assert text_at(data, field_at(data, locate(data, "signature_defs", 0), 3)) == b"old tag"


def test_the_deprecated_format_of_a_circle_subgraph_survives() -> None:
    raw = Raw()
    tensor = raw.table({0: raw.ints([1]), 3: raw.string(b"x"), 1: ("i8", 0)})
    subgraph = raw.table({0: raw.refs([tensor]), 1: raw.ints([0]), 2: raw.ints([0]), 5: ("i8", 1), 6: ("i32", 7)})
    data = raw.finish(raw.table({2: raw.refs([subgraph]), 4: raw.refs([raw.table()])}), b"CIR0")
    after = noted(edited(data, CHANGES["outputs"]))
    assert after[field_at(after, locate(after, "subgraphs", 0), 5)] == 1
    assert read(after)["subgraphs"][0]["debugMetadataIndex"] == 7


def test_an_absent_field_stays_absent_and_a_written_default_stays_written() -> None:
    data = with_unknown("none")
    after = edited(data, CHANGES["outputs"])
    assert find_field(after, locate(after, "subgraphs", 0), 5) == find_field(data, locate(data, "subgraphs", 0), 5)
    data = bytes_of("tflite/if_cond")
    subgraph = find_field(data, locate(data, "subgraphs", 1), 5)
    after = edited(data, lambda edit: edit.set_outputs(1, [0]))
    assert bool(find_field(after, locate(after, "subgraphs", 1), 5)) == bool(subgraph)


# --- a marker that lies -------------------------------------------------------------------------------------


def forged(data: bytes, length: int) -> bytes:
    assert data[8:16] == MARKER
    return put(data, 16, (length % 2**64).to_bytes(8, "little"))


def checked_after(data: bytes) -> None:
    """Edit `data`; another reader sees it unchanged but for the entry."""
    expected = read(data)
    after = noted(data, "another", b"value")
    assert read(after) == with_entry(expected, b"another", b"value")
    assert read(noted(after, "third", b"3")) == with_entry(with_entry(expected, b"another", b"value"), b"third", b"3")


@pytest.mark.parametrize("name", [*EXTERNAL, "tflite/if_cond", "circle/while_loop"])
@pytest.mark.parametrize("change", [-(2**63), -128, -64, -1, 1, 64, 128, 2**40])
def test_a_marker_with_a_wrong_length_is_no_marker(name: str, change: int) -> None:
    data = noted(bytes_of(name))
    prefix = len(data) - len(bytes_of(name))
    checked_after(forged(data, prefix + change))


def appended(first: bytes, second: bytes) -> bytes:
    """Put a second model behind an edited one, and let the marker lead to it."""
    first += bytes(-len(first) % 64)
    return forged(first, len(first)) + second


@pytest.mark.parametrize("second", ["circle/mlp", "circle/only_input", "circle/mlp_external"])
def test_a_marker_that_leads_to_another_model_changes_nothing(second: str) -> None:
    data = appended(noted(bytes_of("circle/while_loop")), bytes_of(second))
    checked_after(data)


@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data_in_front_of_a_forged_base_is_not_lost(name: str) -> None:
    second = f"{name.split('/', maxsplit=1)[0]}/{'only_input' if name.startswith('circle') else 'scalar'}"
    checked_after(appended(noted(bytes_of(name)), bytes_of(second)))


def test_a_marker_that_leads_to_garbage_changes_nothing() -> None:
    """The header there is right, the rest is not."""
    first = noted(bytes_of("circle/while_loop"))
    for word in (0x00000000, 0x7FFFFFFF, 0xFFFFFFFF, 0x00000010):
        second = b"\x10\0\0\0CIR0" + word.to_bytes(4, "little") * 14
        checked_after(appended(first, second))


def test_an_original_that_was_broken_behind_an_intact_prefix_changes_nothing() -> None:
    original = bytes_of("circle/while_loop")
    data = noted(original)
    base = len(data) - len(original)
    root = base + u32(original, 0)
    for place, word in ((root, 0x7FFFFFFF), (root, 0), (vtable_of(data, root), 0xFFFF), (root + 4, 0x7FFFFFFF)):
        damaged = put(data, place, word.to_bytes(4, "little"))
        try:
            read(damaged)
        except Exception:  # noqa: S112 - this place was needed
            continue
        checked_after(damaged)


def test_a_marker_in_a_file_of_somebody_else_is_no_harm() -> None:
    """A file that never was edited, with the marker in its unused bytes."""
    for length in (0, 64, 128, 1 << 20):
        raw = Raw()
        tensor = raw.table({0: raw.ints([1]), 3: raw.string(b"x"), 1: ("i8", 0)})
        subgraph = raw.table({0: raw.refs([tensor]), 1: raw.ints([0]), 2: raw.ints([0])})
        root = raw.table({2: raw.refs([subgraph]), 4: raw.refs([raw.table()])})
        raw.builder.Prep(64, 24)
        raw.builder.PrependUint64(length)
        raw.builder.PrependUint64(int.from_bytes(MARKER, "little"))
        data = raw.finish(root, b"CIR0")
        assert data[8:16] == MARKER
        checked_after(data)


# --- any sequence of edits ----------------------------------------------------------------------------------

IDENTIFIER = b"TFL3"
STARTS = ("tflite/two_signatures", "tflite/cnn_external", "tflite/zip_tail", "tflite/if_cond")
Step = tuple[Any, ...]
small = st.integers(0, 7)
values = st.binary(max_size=40)
indices = st.lists(small, max_size=3)
steps = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("abc"), values),
    st.tuples(st.just("set"), st.sampled_from(["a", "min_runtime_version", "CONVERSION_METADATA"]), values),
    st.tuples(st.just("remove"), st.sampled_from(["a", "b", "c", "min_runtime_version"])),
    st.tuples(st.just("buffer"), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("tensor"), small, st.text("xyz", max_size=3), st.lists(st.integers(0, 5), max_size=3), small),
    st.tuples(st.just("like"), small, small, st.text("xyz", max_size=3)),
    st.tuples(st.just("code"), st.sampled_from(["ADD", "BITCAST", "CUSTOM"]), st.integers(1, 2)),
    st.tuples(st.just("operator"), small, small, indices, indices, st.booleans()),
    st.tuples(st.just("outputs"), small, st.lists(small, max_size=3)),
    st.tuples(st.just("inputs"), small, st.lists(small, max_size=3)),
    st.tuples(st.just("entry"), small, st.sampled_from(["inputs", "outputs"]), small, small),
)
CODES = {"ADD": 0, "BITCAST": 159, "CUSTOM": 32}


class Expected:
    """What a model should look like: the plain data of the other reader, changed by hand."""

    def __init__(self, data: bytes) -> None:
        self.model = read(data)
        self.contents = {
            index: (buffer["data"] or b"", buffer["offset"], buffer["size"])
            for index, buffer in enumerate(self.model["buffers"])
        }
        self.metadata = [(entry["name"], self.contents[entry["buffer"]]) for entry in self.model["metadata"] or ()]
        for subgraph in self.model["subgraphs"]:
            for tensor in subgraph["tensors"]:
                tensor["buffer"] = self.contents[tensor["buffer"]]
        self.added: dict[int, bytes] = {}

    def subgraph(self, number: int) -> tuple[int, dict[str, Any]]:
        index = number % len(self.model["subgraphs"])
        return index, self.model["subgraphs"][index]

    def apply(self, edit: ModelEdit, step: Step) -> None:
        getattr(self, f"do_{step[0]}")(edit, *step[1:])

    def do_set(self, edit: ModelEdit, name: str, value: bytes) -> None:
        edit.set_metadata(name, value)
        entry = (name.encode(), (value, 0, 0))
        same = [index for index, (known, _) in enumerate(self.metadata) if known == name.encode()]
        if same:
            self.metadata[same[0]] = entry
        else:
            self.metadata.append(entry)

    def do_remove(self, edit: ModelEdit, name: str) -> None:
        kept = [entry for entry in self.metadata if entry[0] != name.encode()]
        assert edit.remove_metadata(name) == len(self.metadata) - len(kept)
        self.metadata = kept

    def do_buffer(self, edit: ModelEdit, data: bytes) -> None:
        index = edit.add_buffer(data)
        assert index not in self.added
        self.added[index] = data

    def do_tensor(self, edit: ModelEdit, number: int, name: str, shape: list[int], which: int) -> None:
        index, subgraph = self.subgraph(number)
        buffers = [0, *self.added]
        buffer = buffers[which % len(buffers)]
        added = edit.add_tensor(index, name, type="INT16", shape=shape, shape_signature=shape[:1], buffer=buffer)
        assert added == len(subgraph["tensors"])
        made = blank("Tensor", IDENTIFIER) | {
            "name": name.encode(), "shape": tuple(shape), "shapeSignature": tuple(shape[:1]), "type": 7,
            "hasRank": True, "buffer": (self.added.get(buffer, b""), 0, 0),
        }  # fmt: skip
        subgraph["tensors"].append(made)

    def do_like(self, edit: ModelEdit, number: int, like: int, name: str) -> None:
        index, subgraph = self.subgraph(number)
        like %= len(subgraph["tensors"])
        assert edit.add_tensor_like(index, like, name) == len(subgraph["tensors"])
        model = subgraph["tensors"][like]
        kept = {key: model[key] for key in ("shape", "shapeSignature", "type", "quantization", "hasRank")}
        made = blank("Tensor", IDENTIFIER) | kept | {"name": name.encode(), "buffer": (b"", 0, 0)}
        subgraph["tensors"].append(made)

    def do_code(self, edit: ModelEdit, name: str, version: int) -> None:
        custom = "mine" if name == "CUSTOM" else None
        codes, code = self.model["operatorCodes"], CODES[name]
        wanted = blank("OperatorCode", IDENTIFIER) | {
            "deprecatedBuiltinCode": min(code, 127), "builtinCode": code, "version": version,
            "customCode": custom and custom.encode(),
        }  # fmt: skip
        keys = ("builtinCode", "version", "customCode")
        found = [[known[key] for key in keys] for known in codes]
        index = edit.add_operator_code(name, version, custom or "")
        if [wanted[key] for key in keys] in found:
            assert index == found.index([wanted[key] for key in keys])
        else:
            assert index == len(codes)
            codes.append(wanted)

    def do_operator(
        self, edit: ModelEdit, number: int, code: int, inputs: list[int], outputs: list[int], options: bool
    ) -> None:
        index, subgraph = self.subgraph(number)
        code %= len(self.model["operatorCodes"])
        inputs, outputs = ([item % len(subgraph["tensors"]) for item in items] for items in (inputs, outputs))
        given = ("AddOptions", {"fused_activation_function": 1}) if options else None
        subgraph["operators"] = subgraph["operators"] or []
        assert edit.add_operator(index, code, inputs, outputs, options=given) == len(subgraph["operators"])
        made = blank("Operator", IDENTIFIER)
        made |= {"opcodeIndex": code, "inputs": tuple(inputs), "outputs": tuple(outputs)}
        if options:
            made["builtinOptionsType"] = generated("BuiltinOptions", IDENTIFIER).AddOptions
            made["builtinOptions"] = blank("AddOptions", IDENTIFIER) | {"fusedActivationFunction": 1}
        subgraph["operators"].append(made)
        names = tuple(subgraph["tensors"][item]["name"] or b"" for item in outputs)
        assert edit.index_map.added[-1].output_names == names

    def do_outputs(self, edit: ModelEdit, number: int, tensors: list[int], key: str = "outputs") -> None:
        index, subgraph = self.subgraph(number)
        tensors = [tensor % len(subgraph["tensors"]) for tensor in tensors]
        getattr(edit, f"set_{key}")(index, tensors)
        subgraph[key] = tuple(tensors)

    def do_inputs(self, edit: ModelEdit, number: int, tensors: list[int]) -> None:
        self.do_outputs(edit, number, tensors, "inputs")

    def do_entry(self, edit: ModelEdit, which: int, direction: Any, entry: int, tensor: int) -> None:
        signatures = self.model["signatureDefs"]
        index = which % len(signatures)
        entries = signatures[index][direction]
        tensor %= len(self.model["subgraphs"][signatures[index]["subgraphIndex"]]["tensors"])
        edit.set_signature_entry(index, direction, entry % len(entries), tensor)
        entries[entry % len(entries)]["tensorIndex"] = tensor

    def check(self, data: bytes) -> None:
        found = read(data)
        for index, contents in self.added.items():
            assert found["buffers"][index]["data"] == contents
        expected = {**self.model, "buffers": None, "metadata": self.metadata}
        assert by_content(found) == expected


@settings(max_examples=150)
@given(st.sampled_from(STARTS), st.lists(st.lists(steps, min_size=1, max_size=5), max_size=5))
def test_any_edits_in_any_groups_give_the_expected_model(name: str, groups: list[list[Step]]) -> None:
    data = after = bytes_of(name)
    expected = Expected(data)
    for group in groups:
        with open_model(after) as model:
            edit = ModelEdit(model)
            for step in group:
                expected.apply(edit, step)
            after = edit.to_bytes()
        assert after.endswith(data)
        expected.check(after)
    assert edited(after) == after
    together = Expected(data)
    with open_model(data) as model:
        edit = ModelEdit(model)
        for step in itertools.chain(*groups):
            together.apply(edit, step)
        assert edit.to_bytes() == after


def test_the_plain_data_shows_every_difference_that_is_looked_for() -> None:
    """The comparison itself: one changed byte of weights, one name, one index, an external byte."""
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        last = max(range(len(model.buffers)), key=lambda index: int(model.buffers.offsets[index]))
        offset = int(model.buffers.offsets[last])
    assert read(put(data, offset, b"\xee")) != read(data)
    name = data.index(b"tico::")
    assert read(put(data, name, b"T")) != read(data)
    subgraph = locate(data, "subgraphs", 0)
    outputs = target(data, field_at(data, subgraph, 2)) + 4
    assert read(put(data, outputs, b"\1")) != read(data)
    assert entry_at(data, subgraph, 99) == 0
    assert plain(float("nan")) == plain(float("nan"))
