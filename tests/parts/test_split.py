"""Splitting: what parts hold, how they are connected, and what is refused."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from circletools.affinity.solvers.partitions import Mode
from circletools.errors import EditError, ModelFormatError, UsageError
from circletools.parts.compare import check_files, open_split
from circletools.parts.split import MANIFEST, decode_connections
from tests.kit.build import Build, Graph, floats
from tests.kit.command_support import run
from tests.kit.partition_support import random_case
from tests.kit.split_support import (
    alternating,
    assert_operators_are_the_sources,
    assert_parts_are_the_source,
    by_list,
    files_of,
    kind_of,
    split_file,
    split_to,
    with_devices,
)
from tests.kit.support import bytes_of

MODES: tuple[Mode, ...] = ("seed", "min")


# --- all models ---------------------------------------------------------------------------------------------


def test_parts_contain_the_contents_of_the_source(own_model: Path, tmp_path: Path) -> None:
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
    for seed in range(10):
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
    assert several > 8
    assert renamed > 8


# --- the directory ------------------------------------------------------------------------------------------


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
    from circletools.parts.whole import Whole  # noqa: PLC0415

    taken = []

    def take(self: Whole, excerpt: object) -> list[bytes]:
        taken.append(excerpt)
        if len(taken) == 2:
            raise EditError("no more")
        return [b"x"]

    monkeypatch.setattr(Whole, "bytes_of", take)
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


def test_very_many_parts_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("circletools.parts.split._PART_BYTES", 8 << 20)
    with pytest.raises(ModelFormatError, match="the parts and all subgraphs that they call total"):
        split_to(with_devices(bytes_of("circle/mlp"), alternating), tmp_path / "parts", "circle")


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
