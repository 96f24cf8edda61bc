"""What belongs together in two models: subgraphs, buffers, codes, metadata, files behind them."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import Any

import pytest

from circletools.affinity.tables import Affinity, SubgraphAffinity
from circletools.flatbuf.comparison import Difference
from tests.kit.affinity_support import annotated, ids
from tests.kit.build import Build, Code, Raw, Table, floats
from tests.kit.difference_models import at
from tests.kit.difference_support import compared, differences, paths

# --- what belongs together ----------------------------------------------------------------------------------


def test_what_is_alone_in_its_place_belongs_together() -> None:
    def model(code: str, version: int, key: str, entry: str) -> bytes:
        graph = (build := Build()).graph()
        graph.ends([0], [graph.tensor("x")])
        build.code(Code("CUSTOM", version, code))
        build.signature(key, [(entry, 0)], [])
        return build.to_bytes("circle")

    assert differences(model("a", 1, "k", "in"), model("b", 1, "k", "in"), "structure") == [
        at("changed", "operator_codes[0].custom_code", "a", "b")
    ]
    assert differences(model("a", 1, "k", "in"), model("a", 2, "k", "in"), "structure") == [
        at("changed", "operator_codes[0].version", 1, 2)
    ]
    assert differences(model("a", 1, "k", "in"), model("a", 1, "l", "on"), "structure") == [
        at("changed", "signature_defs[0].inputs[0].name", "in", "on"),
        at("changed", "signature_defs[0].signature_key", "k", "l"),
    ]


def test_a_subgraph_of_another_name_belongs_to_the_one_in_its_place() -> None:
    def model(*names: str) -> bytes:
        build = Build()
        for name in names:
            build.graph(name).tensor(f"{name[0]}.x")
        return build.to_bytes("circle")

    found = paths(model("first", "one", "last"), model("first", "other", "last"), "structure")
    assert found == [("changed", "subgraphs[1].name")]
    both = paths(model("first", "one"), model("first", "zero", "one"), "structure")
    assert both == [("added", "subgraphs[1]")]


def test_subgraphs_of_one_name_are_distinguished_by_their_tensors() -> None:
    def model(*graphs: str) -> bytes:
        build = Build()
        for names in graphs:
            graph = build.graph("same")
            for name in names:
                graph.tensor(name)
        return build.to_bytes("circle")

    for order in (("def", "ab", "c"), ("c", "ab", "def"), ("c", "def", "ab"), ("ab", "def", "c")):
        found = paths(model("ab", "c", "def"), model(*order), "structure")
        assert found
        assert {kind for kind, _ in found} == {"moved"}
    assert paths(model("ab", "c"), model("c"), "structure") == [("removed", "subgraphs[0]")]
    assert paths(model("ab", "c"), model("ab"), "structure") == [("removed", "subgraphs[1]")]


# --- buffers ------------------------------------------------------------------------------------------------


def test_a_buffer_that_only_metadata_names_is_compared_as_metadata() -> None:
    def model(entry: bytes, constant: bytes, *, first: bool) -> bytes:
        graph = (build := Build()).graph()
        if first:
            build.metadata("note", entry)
        graph.tensor("c", data=constant)
        if not first:
            build.metadata("note", entry)
        return build.to_bytes("circle")

    for first in (True, False):
        before = model(b"1", b"same", first=first)
        assert paths(before, model(b"2", b"same", first=first)) == [("changed", "metadata[note]")]
        assert paths(before, model(b"1", b"Same", first=first)) == [("changed", f"buffers[{1 + first}].data[0]")]
        assert paths(model(b"", b"same", first=first), before) == [("changed", "metadata[note]")]


def test_metadata_outside_the_flatbuffer_is_not_what_readers_find() -> None:
    def model(**value: object) -> bytes:
        build = Build()
        build.metadata("note", b"")
        build.model.buffers[-1] = Table("Buffer", **value)
        return build.to_bytes().ljust(1 << 12, b"-") + b"text"

    (found,) = differences(model(data=b"text"), model(offset=1 << 12, size=4), "metadata")
    assert found.after == found.before | {"outside": True}


def test_buffer_0_belongs_to_the_model_although_metadata_names_it() -> None:
    def model(constant: bytes) -> bytes:
        build = Build()
        build.graph().tensor("c", data=constant)
        build.metadata("note", b"text")
        build.model.metadata[0].buffer = 0
        build.model.buffers.pop()
        return build.to_bytes("circle")

    assert paths(model(b"1"), model(b"2")) == [("changed", "buffers[1].data[0]")]


def test_a_buffer_that_is_left_over_belongs_to_the_one_in_its_place() -> None:
    def model(*constants: tuple[str, bytes]) -> bytes:
        graph = (build := Build()).graph()
        for name, data in constants:
            graph.tensor(name, data=data)
        return build.to_bytes("circle")

    before = model(("a", b"first"), ("b", b"second"), ("c", b"third"))
    after = model(("a", b"first"), ("B", b"another"), ("c", b"third"))
    assert [one for one in paths(before, after, "structure") if one[1].startswith("buffers")] == [
        ("changed", "buffers[2].data")
    ]


def test_models_without_buffers() -> None:
    def model(*buffers: bytes | None) -> bytes:
        build = Build()
        build.graph().tensor("c")
        build.model.buffers.pop()
        for data in buffers:
            build.buffer(data)
        return build.to_bytes("circle")

    assert paths(model(), model(None)) == [("added", "buffers[0]")]
    assert paths(model(None, b"1"), model(None, b"2")) == [("changed", "buffers[1].data[0]")]
    assert paths(model(), model(b"1")) == [("added", "buffers[0]")]
    assert paths(model(b"1"), model()) == [("removed", "buffers[0]")]
    assert paths(model(b"1"), model(b"2")) == [("changed", "buffers[0].data[0]")]


@pytest.mark.parametrize("beyond", [0, 1, 9])
def test_indices_past_the_end_are_the_same_by_their_distance_from_it(beyond: int) -> None:
    def model(buffers: int, more: int, name: str = "c") -> bytes:
        build = Build()
        graph = build.graph()
        for number in range(buffers):
            graph.tensor(f"t{number}", data=b"%d" % number)
        graph.tensor(name, buffer=buffers + 1 + more)
        graph.operator("NEG", [0], [0])
        graph.table.operators[0].opcode_index = 1 + more
        build.metadata("note", b"")
        build.model.metadata[0].buffer = buffers + 1 + more
        build.model.buffers.pop()
        return build.to_bytes("circle")

    before = model(2, beyond)
    assert paths(before, model(2, beyond, "other"), "structure") == [("changed", "subgraphs[0].tensors[2].name")]
    assert paths(before, model(3, beyond), "structure") == [
        ("added", "subgraphs[0].tensors[2]"),
        ("added", "buffers[3]"),
    ]
    assert paths(before, model(2, beyond + 1), "structure") == [
        ("changed", "subgraphs[0].tensors[2].buffer"),
        ("changed", "subgraphs[0].operators[0].opcode_index"),
    ]
    assert paths(before, model(2, beyond + 1), "metadata") == []
    assert differences(before, graphs(1), "metadata") == [
        at("removed", "metadata[note]", {"missing_buffer": 3 + beyond}, None)
    ]


# --- types of two formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tflite", "circle", "same"),
    [(0, 0, True), (20, -1, True), (19, 19, False), (20, 20, False), (20, -2, False), (-1, -1, False), (0, 1, False)],
)
def test_a_number_that_a_format_has_no_type_for_is_no_type_of_the_other(tflite: int, circle: int, same: bool) -> None:
    """UINT4 is 20 in TFLite and -1 in Circle; Circle has no 19, and TFLite no negative ones."""

    def model(form: str, kind: int) -> bytes:
        build = Build()
        build.graph().tensor("t", type=kind)  # type: ignore[arg-type]
        return build.to_bytes(form)

    expected = [] if same else [("changed", "subgraphs[0].tensors[0].type")]
    first, second = model("tflite", tflite), model("circle", circle)
    for pair in ((first, second), (second, first)):
        assert [one for one in paths(*pair, "structure") if one[1] != "version"] == expected


# --- metadata -----------------------------------------------------------------------------------------------


def test_metadata_of_one_name_is_numbered() -> None:
    def model(*values: bytes) -> bytes:
        build = Build()
        build.graph()
        for value in values:
            build.metadata("a", value)
        build.metadata("b", b"")
        return build.to_bytes("circle")

    before = model(b"1", b"2", b"3")
    for after, expected in (
        (model(b"X", b"2", b"3"), [("changed", "metadata[a]")]),
        (model(b"1", b"X", b"3"), [("changed", "metadata[a#2]")]),
        (model(b"1", b"2", b"X"), [("changed", "metadata[a#3]")]),
        (model(b"1"), [("removed", "metadata[a#2]"), ("removed", "metadata[a#3]")]),
    ):
        assert paths(before, after) == expected


# --- files --------------------------------------------------------------------------------------------------


def test_differences_after_the_models_of_two_files() -> None:
    def model(form: str) -> bytes:
        build = Build()
        build.graph()
        return build.to_bytes(form)

    data = model("circle")
    assert differences(model("tflite"), data, "file") == [at("changed", "format", "tflite", "circle")]
    assert differences(data, model("tflite"), "file") == [at("changed", "format", "circle", "tflite")]
    for before, after, counts in ((b"", b"\1", (0, 1)), (b"\1\2", b"\1", (2, 1)), (b"\0\0", b"\0\1\0", (0, 3))):
        assert differences(data + before, data + after, "file") == [
            at("changed", "trailing_bytes", {"bytes": counts[0]}, {"bytes": counts[1]})
        ]
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("one.txt", b"one")
        file.writestr("two.txt", b"second")
    one, two = ({"bytes": len(text), "crc32": f"{zlib.crc32(text):08x}"} for text in (b"one", b"second"))
    zipped = data + archive.getvalue()
    assert differences(data, zipped, "file") == [
        at("added", "archive[one.txt]", None, one),
        at("added", "archive[two.txt]", None, two),
    ]
    assert differences(zipped, data, "file") == [
        at("removed", "archive[one.txt]", one, None),
        at("removed", "archive[two.txt]", two, None),
    ]


# --- affinity of some subgraphs -----------------------------------------------------------------------------


def graphs(*operators: int) -> bytes:
    """Return subgraphs with so many operators."""
    build = Build()
    for index, count in enumerate(operators):
        graph = build.graph(f"g{index}")
        value = start = graph.tensor("x")
        for number in range(count):
            value = graph.compute("NEG", [value], f"g{index}.{number}")
        graph.ends([start], [value])
    return build.to_bytes("circle")


def placed(data: bytes, devices: list[str], subgraphs: dict[int, list[int | None]]) -> bytes:
    """Return the model with these devices of operators; each device of a subgraph is a partition."""
    tables = {index: SubgraphAffinity(ids(*given), ids(*given)) for index, given in subgraphs.items()}
    return annotated(data, Affinity(dict(enumerate(devices)), tables))


def device(subgraph: int, operator: int, before: str | None, after: str | None) -> Difference:
    return at("changed", f"subgraphs[{subgraph}].operators[{operator}].device", before, after)


def partition(kind: Any, subgraph: int, number: int, before: Any, after: Any) -> Difference:
    def shown(value: Any) -> Any:
        return None if value is None else {"device": value[0], "operators": value[1]}

    return at(kind, f"subgraphs[{subgraph}].partitions[{number}]", shown(before), shown(after))


def test_only_subgraphs_that_a_table_has_are_compared() -> None:
    data = graphs(2, 3, 2)
    before = placed(data, ["cpu", "npu"], {1: [0, 0, 1]})
    assert differences(before, placed(data, ["cpu", "npu"], {1: [0, 0, 1]}), "affinity") == []
    assert differences(before, placed(data, ["cpu", "npu"], {1: [0, 1, 1]}), "affinity") == [
        device(1, 1, "cpu", "npu"),
        partition("changed", 1, 0, ("cpu", "0-1"), ("cpu", "0")),
        partition("added", 1, 1, None, ("npu", "1-2")),
        partition("removed", 1, 1, ("npu", "2"), None),
    ]
    assert differences(before, placed(data, ["cpu", "npu"], {1: [0, 0, 1], 2: [1, 1]}), "affinity") == [
        device(2, 0, None, "npu"),
        device(2, 1, None, "npu"),
        partition("added", 2, 1, None, ("npu", "0-1")),
    ]


# --- what is not compared -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "others"), [(1, ""), (2, " and 1 other"), (3, " and 2 others")])
def test_places_that_are_not_compared_are_counted(count: int, others: str) -> None:
    def model(value: int) -> bytes:
        raw = Raw()
        codes = raw.refs([raw.table({0: ("i8", 1), 8 + number: ("u32", value)}) for number in range(count)])
        return raw.finish(raw.table({1: codes}), b"CIR0")

    (note,) = compared(model(1), model(2)).notes
    message = f"the schema does not know operator_codes[0].slot_8{others}; unknown fields are not compared"
    assert (note.code, note.message) == ("UNKNOWN_FIELD", message)


def test_equal_constants_are_distinguished_by_their_tensors() -> None:
    def model(first: int, second: int) -> bytes:
        build = Build()
        graph = build.graph()
        for name, seed in (("a", first), ("b", second)):
            graph.constant(name, floats(2, 8, seed=seed))
        return build.to_bytes("circle")

    for pair, expected in (((1, 2), 1), ((2, 1), 2)):
        (change,) = paths(model(1, 1), model(*pair), "structure")[:1]
        assert change[1].startswith(f"buffers[{3 - expected}].data")
