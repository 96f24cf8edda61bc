"""Splitting: what parts hold, how they are connected, and what is refused."""

from __future__ import annotations

import json
import os
import random
import shutil
from contextlib import suppress
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from circletools.affinity.partition.partitions import Mode
from circletools.affinity.store import check_freshness as check_affinity
from circletools.affinity.store import read_affinity
from circletools.check import check
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, EditError, InvalidInputError, UsageError
from circletools.metadata.stamp import STAMP, check_stamp
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import read_origins
from circletools.split.connections import decode_connections
from circletools.split.verify import SplitFiles, check_files, open_split
from circletools.split.write import MANIFEST, Split, split
from tests.kit.build import Build, Graph, floats
from tests.kit.command_support import run
from tests.kit.partition_support import random_case
from tests.kit.split_support import (
    alternating,
    assert_operators_are_the_sources,
    assert_parts_are_the_source,
    by_list,
    files_of,
    in_threes,
    kind_of,
    split_to,
    with_devices,
)
from tests.kit.support import (
    ROOT,
    bytes_of,
    edited,
    field_at,
    locate,
    packed,
    path_of,
    put,
    put_u32,
    read,
    unpacked,
    vtable_of,
)

MODES: tuple[Mode, ...] = ("seed", "safe", "min", "epochs")


# --- all models ---------------------------------------------------------------------------------------------


def test_parts_hold_what_the_source_holds(own_model: Path, tmp_path: Path) -> None:
    data = own_model.read_bytes()
    seen = set()
    for mode in MODES:
        folder = tmp_path / mode / "parts"
        folder.parent.mkdir()
        try:
            annotated = with_devices(data, alternating, mode)
            done = split_to(annotated, folder, kind_of(data))
        except EditError as error:
            if mode == "seed" and "wait for each other" in error.message:
                continue
            pytest.skip(f"not split: {error.message}")
        if done.plan.parts in seen:
            continue
        seen.add(done.plan.parts)
        assert_parts_are_the_source(annotated, folder, done)
    assert seen


def test_the_same_split_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("circle/transformer_block", "tflite/cnn_int8", "tflite/cnn_external"):
        data, kind = with_devices(bytes_of(name), alternating), name.split("/")[0]
        folder = tmp_path / name
        folder.mkdir(parents=True)
        assert split_to(data, folder / "one", kind) == split_to(data, folder / "two", kind)
        assert files_of(folder / "one") == files_of(folder / "two")


# --- random graphs ------------------------------------------------------------------------------------------


def random_model(seed: int) -> tuple[bytes, list[int]]:
    """Return a model with random wiring, odd outputs and odd names, and a device for each operator."""
    count, edges, devices = random_case(seed, most=24)
    generator = random.Random(seed)  # noqa: S311 - no secret
    build = Build()
    graph = Graph(build, "main")
    fed = [graph.tensor(name) for name in ("x", "y")]
    constant = graph.constant("c", floats(2, 2, seed=seed))
    names = [generator.choice(("", "t", f"t{index}")) for index in range(count)]
    made = [graph.tensor(name) for name in names]
    before: dict[int, list[int]] = {index: [] for index in range(count)}
    for source, target in edges:
        before[target].append(source)
    for index in range(count):
        read_tensors = [made[source] for source in before[index]] or [generator.choice((*fed, constant))]
        inputs = (read_tensors * 2)[:2] if len(read_tensors) < 3 else read_tensors
        graph.operator("ADD_N" if len(inputs) > 2 else "ADD", inputs, [made[index]])
    outputs = [generator.choice((*made, *made, *made, *fed, constant)) for _ in range(generator.randint(1, 4))]
    graph.ends(fed, outputs)
    return build.to_bytes(generator.choice(("tflite", "circle"))), devices


def test_random_graphs_are_split_whole(tmp_path: Path) -> None:
    several = renamed = 0
    for seed in range(12):
        data, devices = random_model(seed)
        for mode in MODES:
            folder = tmp_path / f"{seed}{mode}" / "parts"
            folder.parent.mkdir()
            try:
                annotated = with_devices(data, by_list(devices), mode)
            except EditError:
                assert mode == "seed"
                continue
            done = split_to(annotated, folder, kind_of(data))
            assert_operators_are_the_sources(annotated, folder, done)
            assert check_files(open_split(folder)) == []
            several += len(done.plan.parts) > 2
            renamed += bool(done.plan.renamed)
    assert several > 20
    assert renamed > 20


# --- the directory ------------------------------------------------------------------------------------------


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    path = tmp_path / "net.circle"
    path.write_bytes(with_devices(bytes_of("circle/diamond"), alternating))
    return path


def split_file(path: Path, folder: Path, *, force: bool = False) -> Split:
    with open_model(path) as model:
        return split(model, folder, force=force)


def test_the_connections_are_those_of_circle_partitioner(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    document = json.loads((tmp_path / "parts" / "net.part.conn.json").read_bytes())
    assert document["source"] == {
        "file": "net.circle", "inputs": ["tico::x"], "outputs": ["__main__.Branchy::add"],
    }  # fmt: skip
    first = document["parts"][0]
    assert first["file"] == "net.part.00001_npu.circle"
    assert first["inputs"] == ["tico::x"]
    assert all(set(part) == {"file", "inputs", "outputs"} for part in document["parts"])
    manifest = json.loads((tmp_path / "parts" / MANIFEST).read_bytes())
    assert manifest["models"] == [part["file"] for part in document["parts"]]
    assert manifest["model-types"] == ["circle"] * len(document["parts"])
    assert manifest["pkg-inputs"] == ["0:0:0"]
    for edge in manifest["model-connect"]:
        maker, _, slot = map(int, edge["from"].split(":"))
        for end in edge["to"]:
            reader, _, entry = map(int, end.split(":"))
            assert maker < reader
            assert document["parts"][maker]["outputs"][slot] == document["parts"][reader]["inputs"][entry]


def test_a_directory_is_written_whole_or_not_at_all(annotated: Path, tmp_path: Path) -> None:
    target = tmp_path / "parts"
    target.mkdir()
    split_file(annotated, target)  # an empty one is taken
    before = files_of(target)
    with pytest.raises(UsageError, match="the directory is not empty"):
        split_file(annotated, target)
    split_file(annotated, target, force=True)
    assert files_of(target) == before
    (target / "mine.txt").write_text("mine")
    with pytest.raises(UsageError, match="the directory is not empty"):
        split_file(annotated, target, force=True)
    assert files_of(target) == {**before, "mine.txt": b"mine"}
    with pytest.raises(UsageError, match="the output is a file"):
        split_file(annotated, annotated)
    assert {path.name for path in tmp_path.iterdir()} == {"net.circle", "parts"}


def test_nothing_is_left_where_a_part_cannot_be_written(
    annotated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from circletools.edit.extract import Excerpts  # noqa: PLC0415

    taken = []

    def take(self: Excerpts, excerpt: object) -> list[bytes]:
        taken.append(excerpt)
        if len(taken) == 2:
            raise EditError("no more")
        return [b"x"]

    monkeypatch.setattr(Excerpts, "take", take)
    with pytest.raises(EditError, match="no more"):
        split_file(annotated, tmp_path / "parts")
    assert {path.name for path in tmp_path.iterdir()} == {"net.circle"}


# --- names --------------------------------------------------------------------------------------------------


def test_names_that_are_missing_or_repeated_are_made(tmp_path: Path) -> None:
    build = Build()
    graph = Graph(build, "main")
    first = graph.tensor("x")
    made = [graph.tensor(name) for name in ("", "", "x", "#1", "out")]
    for source, target in zip([first, *made], made, strict=False):
        graph.operator("NEG", [source], [target])
    graph.ends([first], [made[-1]])
    data = with_devices(build.to_bytes(), alternating)
    done = split_to(data, tmp_path / "parts", "tflite")
    assert [part.outputs for part in done.connections.parts] == [("#1_",), ("#2",), ("x#3",), ("#1",), ("out",)]
    assert any("'#1_', '#2', 'x#3'" in note.message for note in done.notes)
    assert_operators_are_the_sources(data, tmp_path / "parts", done)


def test_names_that_are_no_text_survive(tmp_path: Path) -> None:
    build = Build()
    graph = Graph(build, "main")
    first, middle, last = graph.tensor("x"), graph.tensor("in the middle"), graph.tensor("y")
    graph.operator("NEG", [first], [middle])
    graph.operator("NEG", [middle], [last])
    graph.ends([first], [last])
    data = with_devices(build.to_bytes().replace(b"in the middle", b"in\xff the \xc3\x28dle"), alternating)
    done = split_to(data, tmp_path / "parts", "tflite")
    assert done.connections.parts[0].outputs == ("in\udcff the \udcc3(dle",)
    assert decode_connections((tmp_path / "parts/model.part.conn.json").read_bytes(), "x") == done.connections
    assert check_files(open_split(tmp_path / "parts")) == []


def test_devices_make_safe_file_names(tmp_path: Path) -> None:
    source = tmp_path / "in.circle"
    source.write_bytes(bytes_of("circle/mlp"))
    ran = run("annotate-affinity", source, tmp_path / "a.circle", "--devices", "a/../b,c d", "--set", "op:*=a/../b")
    assert ran.returncode == 0, ran.stderr
    done = split_file(tmp_path / "a.circle", tmp_path / "parts")
    assert [piece.file for piece in done.connections.parts] == ["a.part.00001_a_.._b.circle"]


# --- what goes along ----------------------------------------------------------------------------------------


def test_origins_and_affinity_go_along(tmp_path: Path) -> None:
    data = bytes_of("circle/transformer_block")
    with open_model(data) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model, NameSource.OUTPUT))
        whole = with_devices(edit.to_bytes(), alternating)
    done = split_to(whole, tmp_path / "parts", "circle")
    assert len(done.plan.parts) > 20
    with open_model(whole) as model:
        expected = read_origins(model)
    assert expected is not None
    for planned, piece in zip(done.plan.parts, done.connections.parts, strict=True):
        with open_model(tmp_path / "parts" / piece.file) as part:
            origins, affinity = read_origins(part), read_affinity(part)
            assert origins is not None
            assert affinity is not None
            assert check_stamp(part).state == check_affinity(part, affinity).state == "fresh"
            assert affinity.subgraphs[0].devices.tolist() == [planned.device_id] * len(planned.operators)
            assert affinity.devices[planned.device_id] == planned.device
            for index, operator in enumerate(planned.operators):
                assert origins.of(0, index) == expected.of(0, operator)
            used = {source for operator in planned.operators for source in expected.of(0, operator)}
            assert origins.sources == {source: expected.sources[source] for source in used}


def test_stale_origins_stay_behind(tmp_path: Path) -> None:
    data = bytes_of("circle/diamond")
    with open_model(data) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model, NameSource.OUTPUT))
        edit.set_metadata(STAMP, bytes.fromhex("01000000 01000000 06000000") + bytes(14))
        data = edit.to_bytes()
    done = split_to(with_devices(data, alternating), tmp_path / "parts", "circle")
    assert [note.code for note in done.notes] == ["STALE_ORIGIN"]
    for piece in done.connections.parts:
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert read_origins(part) is None


def test_metadata_goes_along_unless_it_is_about_the_whole(tmp_path: Path) -> None:
    def note(edit: object) -> None:
        for name in ("note", "TFLITE_METADATA", "ONE_execution_plan_table"):
            edit.set_metadata(name, name.encode() * 3)  # type: ignore[attr-defined]

    done = split_to(with_devices(edited(bytes_of("tflite/cnn"), note), alternating), tmp_path / "parts", "tflite")
    assert [note.code for note in done.notes].count("METADATA_LEFT_OUT") == 2
    for piece in done.connections.parts:
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert bytes(part.metadata_value("note") or b"") == b"notenotenote"
            assert part.metadata_value("TFLITE_METADATA") is None
            assert part.metadata_value("ONE_execution_plan_table") is None


def test_a_signature_goes_where_all_its_ends_are(tmp_path: Path) -> None:
    whole = with_devices(bytes_of("tflite/two_signatures"), lambda _subgraph, _operator: 0)
    done = split_to(whole, tmp_path / "parts", "tflite")
    with open_model(tmp_path / "parts" / done.connections.parts[0].file) as part, open_model(whole) as model:
        (kept,) = part.signatures
        (ours, theirs) = model.signatures
        assert kept.key == ours.key
        names = part.subgraphs[0].tensors
        assert [(name, names[tensor].name) for name, tensor in kept.inputs] == [
            (name, model.subgraphs[0].tensors[tensor].name) for name, tensor in ours.inputs
        ]
    assert any(theirs.key in note.message for note in done.notes)
    other = split_to(whole, tmp_path / "other", "tflite", subgraph=theirs.subgraph)
    with open_model(tmp_path / "other" / other.connections.parts[0].file) as part:
        assert [signature.key for signature in part.signatures] == [theirs.key]
    assert check_files(open_split(tmp_path / "other"), theirs.subgraph) == []


def test_data_outside_stays_outside_and_aligned(tmp_path: Path) -> None:
    for name in ("circle/cnn_external", "tflite/cnn_external", "tflite/custom_options_external"):
        kind, folder = name.split("/")[0], tmp_path / name / "parts"
        folder.parent.mkdir(parents=True)
        done = split_to(with_devices(bytes_of(name), alternating), folder, kind)
        outside = 0
        for piece in done.connections.parts:
            with open_model(folder / piece.file) as part:
                offsets = [int(offset) for offset in part.buffers.offsets if offset > 1]
                offsets += part.operator_columns.tables.scalars("large_custom_options_offset")[0:].tolist()
                offsets = [offset for offset in offsets if offset > 1]
                assert all(offset % 16 == 0 and offset >= part.reachable.end for offset in offsets)
                outside += len(offsets)
        assert outside > 0
        assert check_files(open_split(folder)) == []


def test_a_part_past_two_gibibytes(tmp_path: Path) -> None:
    """The data is a hole, so that this takes neither time nor space."""
    data = with_devices(bytes_of("circle/cnn_external"), alternating)
    with open_model(data) as found:
        rows = [index for index, offset in enumerate(found.buffers.offsets.tolist()) if offset > 1]
    for index, row in enumerate(rows):
        buffer = locate(data, "buffers", row)
        for slot, value in ((1, (1 << 20) + index * (3 << 30)), (2, 3 << 30)):
            data = put(data, field_at(data, buffer, slot), value.to_bytes(8, "little"))
    source = tmp_path / "large.circle"
    with source.open("wb") as file:
        file.write(data)
        file.truncate((1 << 20) + len(rows) * (3 << 30))
    done = split_file(source, tmp_path / "parts")
    sizes = [(tmp_path / "parts" / piece.file).stat() for piece in done.connections.parts]
    assert max(size.st_size for size in sizes) > 3 << 30
    assert sum(size.st_blocks * 512 for size in sizes) < 1 << 20
    for piece in done.connections.parts:
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert [finding for finding in check(part) if finding.severity == "error"] == []


def test_called_subgraphs_go_along_and_no_others(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    done = split_to(with_devices(bytes_of("tflite/while_nested"), alternating), folder, "tflite")
    for piece in done.connections.parts:
        part = read((folder / piece.file).read_bytes())
        codes = [part["operatorCodes"][operator["opcodeIndex"]] for operator in part["subgraphs"][0]["operators"]]
        loops = any(code["builtinCode"] == 119 for code in codes)  # WHILE
        assert (len(part["subgraphs"]) > 1) == loops


# --- inputs and outputs of every kind -----------------------------------------------------------------------


def test_every_output_comes_out_of_one_part(tmp_path: Path) -> None:
    build = Build()
    graph = Graph(build, "main")
    x, unread = graph.tensor("x"), graph.tensor("unread")
    used, alone = graph.constant("used", floats(2, 2)), graph.constant("alone", floats(2, 2))
    a, b, dead = (graph.tensor(name) for name in ("a", "b", "dead"))
    graph.operator("ADD", [x, used], [a])
    graph.operator("NEG", [a], [b])
    graph.operator("NEG", [b], [dead])
    graph.ends([x, unread], [a, b, x, used, alone, b])
    done = split_to(with_devices(build.to_bytes(), alternating), tmp_path / "parts", "tflite")
    assert [(part.inputs, part.outputs) for part in done.connections.parts] == [
        (("x", "unread"), ("a", "x", "used")),
        (("a",), ("b",)),
        (("b",), ("alone",)),
    ]
    assert done.connections.source.outputs == ("a", "b", "x", "used", "alone", "b")
    assert check_files(open_split(tmp_path / "parts")) == []


# --- what is refused ----------------------------------------------------------------------------------------


def stateful(*, variable: bool) -> bytes:
    build = Build()
    graph = Graph(build, "main")
    x = graph.tensor("x")
    state = graph.tensor("state", is_variable=True) if variable else graph.tensor("state", (), "RESOURCE")
    a, b = graph.tensor("a"), graph.tensor("b")
    graph.operator("ADD", [x, x if not variable else state], [a])
    graph.operator("ADD" if variable else "READ_VARIABLE", [a, state] if variable else [state], [b])
    if not variable:
        graph.operator("ASSIGN_VARIABLE", [state, a], [])
        graph.table.inputs = []
        x = graph.tensor("unused")
    graph.ends([x], [a, b])
    return build.to_bytes()


def test_operators_that_share_a_state_stay_together(tmp_path: Path) -> None:
    with pytest.raises(EditError, match=r"operators 0 and 1 use the variable tensor 'state'.*--set index:0,1=DEVICE"):
        split_to(with_devices(stateful(variable=True), alternating), tmp_path / "parts", "tflite")
    with pytest.raises(EditError, match=r"operators 1 and 2 use resources"):
        split_to(with_devices(stateful(variable=False), alternating), tmp_path / "parts", "tflite")
    assert not (tmp_path / "parts").exists()


def test_a_called_subgraph_uses_resources_for_its_caller(tmp_path: Path) -> None:
    build = Build()
    graph = Graph(build, "main")
    once, x, y = graph.tensor("once"), graph.tensor("x"), graph.tensor("y")
    state = graph.tensor("state", (), "RESOURCE")
    graph.operator("NEG", [x], [y])
    graph.operator("CALL", [x], [once], subgraph=1)
    graph.operator("READ_VARIABLE", [state], [graph.tensor("value")])
    graph.ends([x], [y, once])
    inner = build.graph("inner")
    inner_x, inner_state = inner.tensor("x"), inner.tensor("state", (), "RESOURCE")
    inner.operator("ASSIGN_VARIABLE", [inner_state, inner_x], [])
    inner.ends([inner_x], [inner_x])
    with pytest.raises(EditError, match="operators 1 and 2 use resources"):
        split_to(
            with_devices(build.to_bytes(), lambda subgraph, operator: operator % 2 if not subgraph else 0),
            tmp_path / "parts",
            "tflite",
        )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (None, "the model has no affinity"),
        ("stale", "the affinity is stale"),
        ("no device", "have no device"),
        ("cycle", "wait for each other"),
    ],
)
def test_affinity_that_is_no_split(change: str | None, message: str, tmp_path: Path) -> None:
    data = bytes_of("circle/diamond")
    if change is not None:
        data = broken_affinity(data, change)
    with pytest.raises(EditError, match=message):
        split_to(data, tmp_path / "parts", "circle")
    assert not (tmp_path / "parts").exists()


def broken_affinity(data: bytes, change: str) -> bytes:
    from circletools.affinity.tables import (  # noqa: PLC0415
        AFFINITY_STAMP,
        AFFINITY_TABLE,
        NONE,
        decode_affinity,
        encode_affinity,
    )

    annotated = with_devices(data, alternating)
    with open_model(annotated) as model:
        edit = ModelEdit(model)
        ids = decode_affinity(model.metadata_value(AFFINITY_TABLE) or b"")[0]
        if change == "stale":
            edit.set_metadata(AFFINITY_STAMP, bytes.fromhex("01000000 01000000 06000000") + bytes(14))
        elif change == "no device":
            ids.devices[0] = NONE
        else:
            ids.partitions[:] = np.arange(len(ids.partitions))
            ids.partitions[0] = ids.partitions[5] = 0
            ids.devices[0] = ids.devices[5] = 0
        edit.set_metadata(AFFINITY_TABLE, encode_affinity({0: ids}))
        return edit.to_bytes()


def test_a_field_of_a_newer_schema_is_not_lost_silently(tmp_path: Path) -> None:
    data = with_devices(bytes_of("tflite/cnn"), alternating)
    table = locate(data, "subgraphs", 0, "operators", 0)
    assert field_at(data, table, 1)
    vtable = vtable_of(data, table)
    # A vtable in which a slot past those of the schema is set, in front of the old one's table.
    size = int.from_bytes(data[vtable + 2 : vtable + 4], "little")
    entries = data[vtable + 4 : vtable + int.from_bytes(data[vtable : vtable + 2], "little")]
    new = entries.ljust(2 * 20, b"\0") + (4).to_bytes(2, "little")
    longer = (4 + len(new)).to_bytes(2, "little") + size.to_bytes(2, "little") + new
    place = len(data) + len(data) % 2
    data = put_u32(data, table, (table - place) % 2**32).ljust(place, b"\0") + longer
    with pytest.raises(EditError, match="a table Operator has a field that the tflite schema does not know"):
        split_to(data, tmp_path / "parts", "tflite")
    assert not (tmp_path / "parts").exists()


# --- verify-split -------------------------------------------------------------------------------------------


def codes_after(folder: Path, change: object) -> set[str]:
    """Return the codes of findings after a change to the connections."""
    path = next(folder.glob("*.part.conn.json"))
    document = json.loads(path.read_bytes())
    change(document)  # type: ignore[operator]
    (folder / MANIFEST).unlink(missing_ok=True)
    path.write_text(json.dumps(document))
    return {finding.code for finding in check_files(open_split(folder))}


CHANGES = {
    "NOT_MADE_BEFORE": lambda document: document["parts"].reverse(),
    "NOT_MADE": lambda document: document["source"]["outputs"].append("nobody"),
    "MADE_TWICE": lambda document: document["parts"].append(document["parts"][0]),
    "ENDS_DIFFER": lambda document: document["parts"][-1]["outputs"].append("further"),
}


@pytest.mark.parametrize("code", sorted(CHANGES))
def test_connections_that_are_wrong_are_seen(code: str, annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    assert code in codes_after(tmp_path / "parts", CHANGES[code])


def swapped_part(folder: Path, index: int, change: object) -> list[str]:
    """Return the codes of findings after a change to a part, by the published object API."""
    files = open_split(folder)
    data = files.part(index).read_bytes()
    model = unpacked(data)
    change(model)  # type: ignore[operator]
    files.part(index).write_bytes(packed(model, data[4:8]))
    return [finding.code for finding in check_files(files)]


def test_parts_that_are_wrong_are_seen(annotated: Path, tmp_path: Path) -> None:
    def check_change(change: object, *codes: str) -> None:
        split_file(annotated, tmp_path / "parts", force=True)
        assert swapped_part(tmp_path / "parts", 1, change) == list(codes)

    def other_shape(model: object) -> None:
        graph = model.subgraphs[0]  # type: ignore[attr-defined]
        graph.tensors[graph.inputs[0]].shape = np.array([7, 7], np.int32)

    def twice(model: object) -> None:
        graph = model.subgraphs[0]  # type: ignore[attr-defined]
        graph.operators.append(graph.operators[0])
        graph.tensors.append(graph.tensors[graph.operators[0].outputs[0]])
        second = unpacked((tmp_path / "parts" / "net.part.00002_cpu.circle").read_bytes()).subgraphs[0].operators[0]
        second.outputs = np.array([len(graph.tensors) - 1], np.int32)
        graph.operators[-1] = second

    check_change(lambda _: None)
    check_change(other_shape, "FORM_DIFFERS")
    check_change(twice, "OPERATORS_DIFFER")


def located(files: SplitFiles) -> list[tuple[str, str, str]]:
    """Return severity, code and location of what is found."""
    return [(found.severity, found.code, found.location) for found in check_files(files)]


def test_the_operator_that_differs_is_named_and_not_those_after_it(tmp_path: Path) -> None:
    data = with_devices(bytes_of("circle/transformer_block"), in_threes)
    done = split_to(data, tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    with open_model(data) as model:
        codes = model.code_names(0)
    tried = 0
    for index, planned in list(enumerate(done.plan.parts))[::3]:
        before = files.part(index).read_bytes()
        model = unpacked(before)
        graph = model.subgraphs[0]
        made = {*graph.inputs, *(tensor for operator in graph.operators for tensor in operator.outputs)}
        for number, operator in enumerate(graph.operators):
            constant = next((tensor for tensor in operator.inputs if tensor >= 0 and tensor not in made), None)
            if constant is None:
                continue
            buffer = model.buffers[graph.tensors[constant].buffer]
            kept = buffer.data
            buffer.data = np.array(kept, np.uint8) ^ 1
            files.part(index).write_bytes(packed(model, b"CIR0"))
            buffer.data = kept
            place, source = f"parts[{index}].operators[{number}]", planned.operators[number]
            findings = [found for found in check_files(files) if found.code == "OPERATORS_DIFFER"]
            mine = next(found for found in findings if found.location == place)
            assert f"{codes[source]} of {files.connections.parts[index].file} is not in the source" in mine.message
            assert (findings[0].location, len(findings) % 2) == (place, 0)  # others may share the constant
            assert f"source.subgraphs[0].operators[{source}]" in {found.location for found in findings}
            assert len(findings) < 8
            tried += 1
        files.part(index).write_bytes(before)
    assert tried > 2


def test_what_a_part_has_lost_is_seen(tmp_path: Path) -> None:
    with open_model(bytes_of("circle/cnn")) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model, NameSource.OUTPUT))
        edit.set_metadata("mine", b"mine")
        data = with_devices(edit.to_bytes(), alternating)
    split_to(data, tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    for names in (["mine"], ["ONE_op_table", "ONE_source_table"], ["CIRCLETOOLS_affinity"]):
        before = files.part(1).read_bytes()
        model = unpacked(before)
        model.metadata = [entry for entry in model.metadata if entry.name.decode() not in names]
        files.part(1).write_bytes(packed(model, b"CIR0"))
        assert located(files) == [("warning", "METADATA_MISSING", "parts[1].metadata")]
        (finding,) = check_files(files)
        assert ", ".join(names) in finding.message
        files.part(1).write_bytes(before)
    assert check_files(files) == []


def test_a_manifest_that_is_gone_or_wrong_is_seen(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    files = open_split(tmp_path / "parts")
    manifest = tmp_path / "parts" / MANIFEST
    document = json.loads(manifest.read_bytes())
    manifest.write_text(json.dumps(document))  # laid out otherwise
    assert check_files(files) == []
    for change, said in (
        ({"pkg-outputs": ["0:0:9"]}, 'pkg-outputs[0] is "0:0:9", and by the connections "1:0:0"'),
        ({"configs": ["x"]}, 'configs is ["x"], and by the connections nothing'),
    ):
        manifest.write_text(json.dumps({**document, **change}))
        (finding,) = check_files(files)
        assert (finding.code, finding.message) == ("MANIFEST_DIFFERS", said)
    for words in ("", "[]", "[" * 100_000, '{"models": '):
        manifest.write_text(words)
        assert located(files) == [("error", "MANIFEST_DIFFERS", MANIFEST)]
    manifest.unlink()
    os.mkfifo(manifest)
    assert located(files) == [("error", "MANIFEST_DIFFERS", MANIFEST)]
    manifest.unlink()
    assert located(files) == [("warning", "MANIFEST_MISSING", MANIFEST)]
    ran = run("verify-split", tmp_path / "parts", "--runtime", "none")
    assert (ran.returncode, "warning MANIFEST_MISSING" in ran.stdout) == (1, True)


@pytest.mark.parametrize("name", ["circle/lstm_cell", "circle/input_as_output"])
def test_a_manifest_that_cannot_be_is_not_missed(name: str, tmp_path: Path) -> None:
    split_to(with_devices(bytes_of(name), in_threes), tmp_path / "parts", "circle")
    assert not (tmp_path / "parts" / MANIFEST).exists()
    assert check_files(open_split(tmp_path / "parts")) == []


def test_what_no_split_wrote_is_seen(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    shutil.copy(annotated, tmp_path / "parts")  # where the source is looked for, too
    files = open_split(tmp_path / "parts")
    assert check_files(files) == []
    (tmp_path / "parts" / "extra.circle").write_bytes(b"junk")
    (tmp_path / "parts" / "more" / "below").mkdir(parents=True)
    (tmp_path / "parts" / "metadata" / "tc").touch()
    assert located(files) == [("warning", "STRAY_FILE", name) for name in ("extra.circle", "metadata/tc", "more")]


def test_a_part_in_the_place_of_another_is_seen(tmp_path: Path) -> None:
    split_to(with_devices(bytes_of("circle/cnn"), alternating), tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    pieces = range(len(files.connections.parts))
    contents = [files.part(index).read_bytes() for index in pieces]
    assert len(contents) > 3
    for one, two in [*permutations(pieces[:3], 2), (pieces[-1], 0)]:
        files.part(one).write_bytes(contents[two])
        findings = check_files(files)
        assert {(finding.code, finding.location.split(".")[0]) for finding in findings} == {
            ("ENDS_DIFFER", f"parts[{one}]")
        }
        files.part(one).write_bytes(contents[one])


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"parts": [1]}', '{"source": {}, "parts": []}', "[" * 10000])
def test_connections_that_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "x.part.conn.json").write_text(text)
    with pytest.raises(InvalidInputError):
        open_split(tmp_path)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "", ".."])
def test_parts_are_looked_for_in_the_directory_only(name: str, tmp_path: Path) -> None:
    piece = {"file": name, "inputs": [], "outputs": []}
    (tmp_path / "x.part.conn.json").write_text(json.dumps({"source": {**piece, "file": "x"}, "parts": [piece]}))
    with pytest.raises(InvalidInputError, match="is no name of a file in this directory"):
        open_split(tmp_path)


def test_damaged_parts_give_findings_or_one_error(annotated: Path, tmp_path: Path) -> None:
    split_file(annotated, tmp_path / "parts")
    files = open_split(tmp_path / "parts")
    data = files.part(1).read_bytes()
    generator = random.Random(0)  # noqa: S311 - no secret
    for _ in range(40):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 4)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        files.part(1).write_bytes(damaged[: generator.choice((len(data), generator.randrange(len(data))))])
        with suppress(CircleToolsError):
            check_files(files)


def test_damaged_models_are_split_or_refused(annotated: Path, tmp_path: Path) -> None:
    data = annotated.read_bytes()
    generator = random.Random(1)  # noqa: S311 - no secret
    for number in range(100):
        damaged = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        try:
            with open_model(bytes(damaged)) as model:
                split(model, tmp_path / str(number))
        except CircleToolsError:
            assert not (tmp_path / str(number)).exists()


# --- the commands -------------------------------------------------------------------------------------------


def test_from_annotation_to_a_verified_split(tmp_path: Path) -> None:
    source, target = path_of("circle/diamond"), tmp_path / "parts"
    steps = [
        ("embed-origins", source, tmp_path / "a.circle"),
        ("annotate-affinity", tmp_path / "a.circle", tmp_path / "b.circle", "--devices", "npu,cpu",
         "--set", "op:MUL=npu", "--default", "cpu"),
        ("fix-outputs", tmp_path / "b.circle", tmp_path / "c.circle", "--detach-taps"),
        ("split", tmp_path / "c.circle", target, "--json"),
        ("verify-split", target, "--json"),
    ]  # fmt: skip
    for step in steps:
        ran = run(*step)
        assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {"schema_version": 1, "verdict": "ok", "runtime": "onert", "findings": []}
    (target / "c.part.00001_cpu.circle").unlink()
    assert run("verify-split", target).returncode == 3
    moved = tmp_path / "elsewhere" / "parts"
    moved.parent.mkdir()
    target.rename(moved)
    ran = run("verify-split", moved)
    assert ran.returncode == 2
    assert "name c.circle with --source" in ran.stderr


def test_statuses_of_split(tmp_path: Path) -> None:
    assert run("split", path_of("circle/mlp"), tmp_path / "parts").returncode == 4
    assert run("split", tmp_path / "nothing", tmp_path / "parts").returncode == 3
    assert run("verify-split", tmp_path).returncode == 3
    (tmp_path / "a.circle").write_bytes(with_devices(bytes_of("circle/mlp")))
    ran = run("split", tmp_path / "a.circle", tmp_path / "parts", "--subgraph", "1")
    assert (ran.returncode, ran.stderr) == (2, "error: subgraph 1 does not exist; there are 1\n")


def test_every_code_is_documented() -> None:
    table = (ROOT / "docs" / "split.md").read_text(encoding="utf-8")
    used = set()
    for path in (ROOT / "circletools" / "split").glob("*.py"):
        for line in path.read_text(encoding="utf-8").split("Finding(")[1:]:
            used.add(line.split('"')[1])
    assert used
    assert [code for code in sorted(used) if f"| `{code}` |" not in table] == []
