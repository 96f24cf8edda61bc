"""Metadata, origins, affinity and files behind the model."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from circletools.affinity.store import annotate
from circletools.diff.difference import compare_models
from circletools.errors import ModelFormatError, UsageError
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Raw
from tests.kit.difference_models import at, twice_listed
from tests.kit.difference_support import compared, differences, paths
from tests.kit.origin_support import STAMP, embedded, origins
from tests.kit.support import bytes_of, edited, generated, noted, packed, unpacked

MLP = bytes_of("circle/mlp")


def test_metadata_by_name() -> None:
    def shown(value: bytes, **more: str) -> dict[str, Any]:
        return {"bytes": len(value), **more, "blake2b": hashlib.blake2b(value, digest_size=16).hexdigest()}

    before, after = noted(noted(MLP, "a", b"\1\2"), "b", b"text"), noted(noted(MLP, "b", b"other\0"), "c", b"")
    assert differences(before, after) == [
        at("removed", "metadata[a]", shown(b"\1\2"), None),
        at("changed", "metadata[b]", shown(b"text", text="text"), shown(b"other\0", text="other")),
        at("added", "metadata[c]", None, shown(b"", text="")),
    ]


def test_what_embed_origins_does() -> None:
    entries = [f"metadata[{name}]" for name in ("ONE_source_table", "ONE_op_table", "CIRCLETOOLS_stamp")]
    assert paths(MLP, embedded(MLP)) == [("added", path) for path in (*entries, "origins")]
    assert paths(embedded(MLP), MLP, "origins") == [("removed", "origins")]


def test_origins_gained_and_lost() -> None:
    """Sources are identified by name: an id may change."""
    before = embedded(MLP, origins({1: "a", 2: "b", 3: "c"}, {0: {1}, 1: {1, 2}, 2: {3}}))
    after = embedded(MLP, origins({1: "a", 5: "b", 3: "d"}, {0: {1}, 1: {1, 5}, 2: {1, 3}}))
    assert [one for one in differences(before, after, "origins") if "sources" not in one.path] == [
        at("changed", "subgraphs[0].operators[2].origin", ["c"], ["a", "d"])
    ]
    assert [(kind, path) for kind, path in paths(before, after, "origins") if "sources" in path] == [
        ("removed", "origins.sources[2]"), ("changed", "origins.sources[3]"), ("added", "origins.sources[5]"),
    ]  # fmt: skip


def test_origins_of_operators_that_moved_back() -> None:
    data = twice_listed()
    before = embedded(data, origins({1: "a", 2: "b", 3: "c"}, {0: {1}, 1: {2}, 2: {3}}))
    model = unpacked(data)
    graph = model.subgraphs[0]
    graph.operators.insert(0, generated("OperatorT", b"CIR0")())
    graph.operators[0].inputs, graph.operators[0].outputs = [0], []
    after = embedded(packed(model, b"CIR0"), origins({1: "a", 2: "b", 3: "c"}, {0: {3}, 1: {1}, 2: {2}, 3: {3}}))
    assert differences(before, after, "origins") == [at("added", "subgraphs[0].operators[0].origin", None, ["c"])]


def test_devices_and_partitions() -> None:
    def with_devices(*given: Any) -> bytes:
        return edited(twice_listed(), lambda edit: annotate(edit, affinity(("cpu", "npu"), given)))

    before, after = with_devices((0, 0, 1), (0, 0, 1)), with_devices((0, 1, 1), (0, 1, 1))
    assert differences(before, after, "affinity") == [
        at("changed", "subgraphs[0].operators[1].device", "cpu", "npu"),
        at("changed", "subgraphs[0].partitions[0]",
                   {"device": "cpu", "operators": "0-1"}, {"device": "cpu", "operators": "0"}),
        at("added", "subgraphs[0].partitions[1]", None, {"device": "npu", "operators": "1-2"}),
        at("removed", "subgraphs[0].partitions[1]", {"device": "npu", "operators": "2"}, None),
    ]  # fmt: skip
    assert paths(twice_listed(), after, "affinity") == [("added", "affinity")]


def test_tables_that_cannot_be_decoded_are_compared_as_bytes() -> None:
    found = compared(embedded(MLP), noted(embedded(MLP), "ONE_op_table", b"broken"))
    assert [(one.difference.kind, one.difference.path) for one in found.changes] == [
        ("changed", "metadata[ONE_op_table]"), ("removed", "origins"),
    ]  # fmt: skip
    assert "the origins table was ignored, because it cannot be decoded: ONE_op_table" in found.notes[0].message


def test_stamps_that_cannot_be_decoded() -> None:
    before = edited(embedded(MLP), lambda edit: annotate(edit, affinity(("cpu",), ((0, 0, 0), (0, 0, 0)))))
    after = noted(noted(before, STAMP, b"broken"), "CIRCLETOOLS_affinity_stamp", b"broken")
    assert differences(before, after, "origins", "affinity") == [
        at("changed", "origins.freshness", "fresh", "unknown"),
        at("changed", "affinity.freshness", "fresh", "unknown"),
    ]


def test_files_behind_the_model(tmp_path: Path) -> None:
    name = "tflite/zip_tail"
    data = bytes_of(name)
    with open_model(data) as model:
        end = model.reachable.end
    assert paths(data, data[:end] + bytes(7)) == [("removed", "archive[labels.txt]")]
    assert paths(data[:end], data[:end] + bytes(7)) == []
    assert paths(data[:end], data[:end] + b"more") == [("changed", "trailing_bytes")]
    assert paths(data, edited(data, lambda edit: edit.set_metadata("note", b"x"))) == [("added", "metadata[note]")]


def test_fields_that_the_schema_does_not_know() -> None:
    """Whether they are there is compared; what is in them cannot be."""

    def with_code(value: int | None) -> bytes:
        raw = Raw()
        code = raw.table({0: ("i8", 1)} | ({} if value is None else {9: ("u32", value)}))
        return raw.finish(raw.table({1: raw.refs([code])}), b"CIR0")

    plain, unknown, other = with_code(None), with_code(5), with_code(6)
    assert paths(plain, unknown) == [("changed", "operator_codes[0].slot_9")]
    found = compared(unknown, other)
    assert (found.changes, found.identical) == ((), False)
    (note,) = found.notes
    words = "the schema does not know operator_codes[0].slot_9; unknown fields are not compared"
    assert (note.code, note.severity, note.message) == ("UNKNOWN_FIELD", "info", words)


def test_short_metadata_is_shown_as_text() -> None:
    (change,) = differences(noted(MLP, "a", b"x" * 64), noted(MLP, "a", b"x" * 65))
    assert [change.before.get("text"), change.after.get("text")] == ["x" * 64, None]


def test_a_partition_that_got_an_operator_of_its_own_has_changed() -> None:
    """The operator that was inserted has no partner, whatever its index is."""
    model = unpacked(twice_listed())
    graph = model.subgraphs[0]
    inserted = generated("OperatorT", b"CIR0")()
    inserted.inputs, inserted.outputs = [0], []
    graph.operators.insert(1, inserted)
    after = packed(model, b"CIR0")

    def with_devices(data: bytes, *given: Any) -> bytes:
        return edited(data, lambda edit: annotate(edit, affinity(("cpu", "npu"), given)))

    before = with_devices(twice_listed(), (0, 0, 1), (0, 0, 1))
    assert differences(before, with_devices(after, (0, 0, 0, 1), (0, 0, 0, 1)), "affinity") == [
        at("changed", "subgraphs[0].partitions[0]",
           {"device": "cpu", "operators": "0-1"}, {"device": "cpu", "operators": "0-2"}),
    ]  # fmt: skip


def test_bytes_behind_external_data() -> None:
    data = bytes_of("tflite/cnn_external")
    (change,) = differences(data, data + b"more", "file")
    assert change.before == {"bytes": 0}  # zeros count as padding
    assert change.after["bytes"] < 64
    assert differences(data, data + bytes(4), "file") == []


def test_metadata_whose_buffer_does_not_exist() -> None:
    def leading(buffer: int) -> bytes:
        model = unpacked(noted(MLP, "a", b"text"))
        model.metadata[-1].buffer = buffer
        return packed(model, b"CIR0")

    there = noted(MLP, "a", b"text")
    (change,) = differences(there, leading(99), "metadata")
    assert (change.path, change.before["text"], change.after) == ("metadata[a]", "text", {"missing_buffer": 99})
    assert paths(leading(99), there, "metadata") == [("changed", "metadata[a]")]
    assert paths(leading(99), leading(100), "metadata") == []


def test_devices_of_a_subgraph_that_only_one_model_knows() -> None:
    data = bytes_of("circle/two_signatures")
    with open_model(data) as model:
        counts = [len(subgraph.operators) for subgraph in model.subgraphs]
    every = [([0] * count, [0] * count) for count in counts]
    one, both = (annotated(data, affinity(("cpu",), *every[:count])) for count in (1, 2))
    expected = [f"subgraphs[1].operators[{index}].device" for index in range(counts[1])]
    assert [path for _, path in paths(one, both, "affinity")] == [*expected, "subgraphs[1].partitions[0]"]
    assert [path for _, path in paths(both, one, "affinity")] == [*expected, "subgraphs[1].partitions[0]"]


def test_some_sections_and_paths_only() -> None:
    before, after = noted(MLP, "a", b"x"), embedded(noted(MLP, "a", b"y"))
    with open_model(before) as old, open_model(after) as new:

        def found(*sections: str, ignore: Sequence[str] = ()) -> list[str]:
            changes = compare_models(old, new, sections or None, ignore=ignore).changes
            return [change.difference.path for change in changes]

        assert found("origins", "metadata") == found() != found("metadata")
        assert found("origins") == found(ignore=["metadata"]) == found(ignore=["metadat?[*]"]) == ["origins"]
        assert found(ignore=["metadata[a"]) == found(ignore=["etadata", "metadata[?]]"]) == found()
        assert found("metadata", ignore=["metadata[ONE_*", "*stamp]"]) == ["metadata[a]"]
        with pytest.raises(UsageError, match=r"no section 'meta' \(did you mean 'metadata'\?\)"):
            found("meta")
        with pytest.raises(UsageError) as caught:
            found("x" * 100)
        assert caught.value.message == f"there is no section {'x' * 40!r}"


def test_an_error_names_the_model_that_is_broken() -> None:
    with open_model(MLP) as good, open_model(MLP[:-100]) as broken:
        for pair in ((good, broken), (broken, good)):
            with pytest.raises(ModelFormatError) as caught:
                compare_models(*pair)
            assert str(caught.value).startswith("<bytes>: ")
