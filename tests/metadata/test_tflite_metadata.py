"""What TFLITE_METADATA and the archive behind a model say, as other readers see it."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import circletools as ct
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.schema import load_schema
from circletools.flatbuf.verify import walk
from tests.kit.build import Build
from tests.kit.program import put, run
from tests.kit.support import bytes_of, edited, path_of

LABELS = ["one", "zwei", "trois", "四", "5"]


def labelled(data: bytes, names: list[str] = LABELS, **more: Any) -> bytes:
    return edited(data, lambda edit: ct.metadata.labels(edit, names, **more))


def texts(data: bytes, table: str, field: str) -> list[str]:
    """Return a text of all tables of a type, as the official rules of flatbuffers read it."""
    with ct.open(data) as model:
        value = model.metadata_value("TFLITE_METADATA")
        assert value is not None
        found = walk(Wire(value), load_schema("tflite_metadata")).tables
    return [text.decode() for text in found[table].strings(field)] if table in found else []


def files(data: bytes) -> dict[str, bytes]:
    with ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("name", ["tflite/cnn", "tflite/cnn_external", "circle/cnn"])
def test_labels_are_named_and_in_the_archive(name: str) -> None:
    after = labelled(bytes_of(name))
    assert files(after) == {"labels.txt": "one\nzwei\ntrois\n四\n5\n".encode()}
    assert texts(after, "AssociatedFile", "name") == ["labels.txt"]
    (graph,) = document(after)["subgraph_metadata"]
    assert [len(graph[f"{side}_tensor_metadata"]) for side in ("input", "output")] == [1, 1]
    assert labelled(after) == after
    other = labelled(after, LABELS[::-1])
    assert (files(other), b"one\nzwei" in other) == ({"labels.txt": "5\n四\ntrois\nzwei\none\n".encode()}, False)
    assert files(edited(other, lambda edit: edit.set_metadata("a", b"x"))) == files(other)
    named = labelled(bytes_of(name), file="x.txt")
    assert set(files(labelled(named, LABELS[::-1]))) == {"x.txt"}
    bare = edited(named, lambda edit: ct.metadata.remove(edit, ["TFLITE_METADATA"], files=True))
    assert bare == bytes_of(name)
    bare = edited(named, lambda edit: ct.metadata.remove(edit, files=True))
    assert texts(bare, "AssociatedFile", "name") == []


def test_what_is_in_the_archive_stays(tmp_path: Path) -> None:
    data = bytes_of("tflite/zip_tail")
    before = files(data)
    after = labelled(data, ["a", "b", "c"], file="more.txt", locale="en")
    assert files(after) == {**before, "more.txt": b"a\nb\nc\n"}
    assert "en" in texts(after, "AssociatedFile", "locale")
    if program := shutil.which("unzip"):
        path = put(tmp_path / "after.tflite", after)
        done = subprocess.run([program, "-t", path], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_a_description_changes_what_it_names_and_nothing_else() -> None:
    ends = {"inputs": (("0", "a picture"),), "outputs": (("0", "a score"),)}
    first = ct.metadata.Description("cats", "finds cats", "1", "me", "MIT", **ends)
    after = edited(labelled(bytes_of("tflite/cnn")), lambda edit: ct.metadata.describe(edit, first))
    assert edited(after, lambda edit: ct.metadata.describe(edit, first)) == after
    again = edited(after, lambda edit: ct.metadata.describe(edit, ct.metadata.Description(author="you")))
    assert document(again) == {**document(after), "author": "you"}
    normal = edited(again, lambda edit: ct.metadata.normalize(edit, [127.5], [127.5]))
    assert edited(normal, lambda edit: ct.metadata.normalize(edit, [127.5], [127.5])) == normal
    changed = edited(normal, lambda edit: ct.metadata.normalize(edit, [0.0], [255.0]))
    (graph,) = document(changed)["subgraph_metadata"]
    assert graph["input_tensor_metadata"][0] == {
        **{"name": "serving_default_image:0", "description": "a picture"},
        "content": {"content_properties_type": "ImageProperties", "content_properties": {"color_space": "RGB"}},
        "process_units": [{"options_type": "NormalizationOptions", "options": {"mean": [0.0], "std": [255.0]}}],
        "stats": {"max": [1.0], "min": [0.0]},
    }
    (labels,) = graph["output_tensor_metadata"][0]["associated_files"]
    assert labels == {"name": "labels.txt", "type": "TENSOR_AXIS_LABELS"}
    other = document(labelled(changed, file="names.txt"))["subgraph_metadata"][0]["output_tensor_metadata"][0]
    assert other["associated_files"] == [{**labels, "name": "names.txt"}]


def test_a_gray_image_has_one_color_and_a_scalar_no_labels() -> None:
    graph = (build := Build()).graph()
    x = graph.tensor("x", [1, 2, 2, 1], "UINT8")
    graph.ends([x], [graph.tensor("y", [])])
    image = {"name": "x", "process_units": [{"options_type": "NormalizationOptions"}]}
    own = {"subgraph_metadata": [{"input_tensor_metadata": [image], "output_tensor_metadata": [{"name": "y"}]}]}
    before = edited(build.to_bytes(), lambda edit: ct.metadata.set_document(edit, own))
    after = edited(before, lambda edit: ct.metadata.normalize(edit, [127.5], [127.5]))
    (image,) = document(after)["subgraph_metadata"][0]["input_tensor_metadata"]
    assert image["content"]["content_properties"] == {"color_space": "GRAYSCALE"}
    assert [unit["options"] for unit in image["process_units"]] == [{"mean": [127.5], "std": [127.5]}]
    assert image["stats"] == {"max": [255.0], "min": [0.0]}
    with pytest.raises(ct.UsageError, match="1 label for 0 entries of output 0"):
        labelled(build.to_bytes(), ["a"])


@pytest.mark.parametrize("shape", [(2, 2, 3), (1, 2, 2, 2), (1, 2, 2, 3)])
def test_only_images_have_a_color_space_and_int8_has_no_bounds(shape: tuple[int, ...]) -> None:
    graph = (build := Build()).graph()
    graph.ends([graph.tensor("x", shape, "INT8")], [])
    after = edited(build.to_bytes(), lambda edit: ct.metadata.normalize(edit, [1.0], [2.0]))
    (found,) = document(after)["subgraph_metadata"][0]["input_tensor_metadata"]
    assert ("content" in found, found.get("stats", {})) == (shape == (1, 2, 2, 3), {})


AUDIO = """"subgraph_metadata": [{{"input_tensor_metadata": [{{"content":
    {{"content_properties_type": "AudioProperties", "content_properties": {{"sample_rate": {}}}}}}}]}}]"""


def document(data: bytes) -> dict[str, Any]:
    with ct.open(data) as model:
        return ct.metadata.document(model)


def kinds() -> dict[str, Any]:
    """Return a document with every kind of field, and each member of the unions."""
    files = [{"name": "labels.txt", "type": "VOCABULARY", "locale": "ä"}]
    units = {
        "ScoreCalibrationOptions": {"score_transformation": "LOG", "default_score": 0.2},
        "ScoreThresholdingOptions": {"global_score_threshold": 1.5},
        "BertTokenizerOptions": {"vocab_file": files},
        "SentencePieceTokenizerOptions": {"sentencePiece_model": [], "vocab_file": files},
        "RegexTokenizerOptions": {"delim_regex_pattern": "[^a]+", "vocab_file": files},
    }
    contents = {
        "BoundingBoxProperties": {"index": [1, 0, 3, 2], "type": "CENTER", "coordinate_type": "PIXEL"},
        "AudioProperties": {"sample_rate": 16000, "channels": 1},
        "FeatureProperties": {},
    }
    inputs = [
        {
            **{"name": name, "dimension_names": ["batch", ""], "stats": {"min": [0.485, -1.0]}},
            "content": {"content_properties_type": name, "content_properties": one, "range": {"min": 2, "max": -1}},
        }
        for name, one in contents.items()
    ]
    graph = {
        "input_tensor_metadata": inputs,
        "input_process_units": [{"options_type": name, "options": one} for name, one in units.items()],
        "output_tensor_groups": [{"name": "all", "tensor_names": ["a", "b", "ä"]}],
        "custom_metadata": [{"name": "x", "data": [0, 255]}],
    }
    return {"name": "all", "subgraph_metadata": [graph], "associated_files": []}


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_a_document_comes_back(kind: str) -> None:
    given, build = {"labels.txt": b"a\nb\n"}, Build()
    graph = build.graph()
    graph.ends([graph.tensor(f"x{at}", [1, 4]) for at in range(3)], [])
    after = edited(build.to_bytes(kind), lambda edit: ct.metadata.set_document(edit, kinds(), given))
    assert document(after) == {**kinds(), "min_parser_version": "1.3.0"}
    assert files(after) == given
    assert edited(after, lambda edit: ct.metadata.set_document(edit, document(after))) == after
    small = edited(after, lambda edit: ct.metadata.set_document(edit, b'{"version": "2"}'))
    assert document(small) == {"version": "2", "min_parser_version": "1.0.0"}
    newer = {"1.0.1": ("type", "VOCABULARY"), "1.4.0": ("type", "SCANN_INDEX_FILE"), "1.4.1": ("version", "2")}
    for version, (name, value) in newer.items():
        text = json.dumps({"associated_files": [{"name": "labels.txt", name: value}]})
        found = edited(after, lambda edit, text=text: ct.metadata.set_document(edit, text.encode()))  # type: ignore[misc]
        assert document(found)["min_parser_version"] == version


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ('"nam": "x"', "nam: ModelMetadata has no such field"),
        ('"name": 1', "name: this must be text"),
        ('"subgraph_metadata": {}', "subgraph_metadata: this must be a list"),
        ('"subgraph_metadata": [1]', "subgraph_metadata[0]: this must be an object"),
        ('"subgraph_metadata": [{"input_tensor_metadata": [{}, {}]}]', "it describes 2 inputs, but the model has 1"),
        ('"subgraph_metadata": [{"input_tensor_metadata": [{}]}]', "it describes 0 outputs, but the model has 1"),
        ('"associated_files": [{"type": "LABELS"}]', "associated_files[0].type: 'LABELS' is not known"),
        ('"associated_files": [{"type": 1000}]', "AssociatedFile.type cannot hold this"),
        ('"associated_files": [{"name": "a.txt"}]', "lists files that do not exist: a.txt"),
        (AUDIO.format("-1"), "AudioProperties.sample_rate cannot hold this"),
        ('"subgraph_metadata": [{"input_process_units": [{"options": {}}]}]', "options_type must name the type of"),
    ],
)
def test_what_readers_refuse_is_refused(field: str, words: str, tmp_path: Path) -> None:
    """What the schema does not have, and what the writers of tflite-support refuse."""
    path = put(tmp_path / "a.json", f"{{{field}}}".encode())
    ran = run("metadata", "describe", path_of("tflite/cnn"), tmp_path / "out.tflite", "--json", path)
    assert (ran.status, words in ran.err) == (2, True), ran.err


def test_the_commands(tmp_path: Path) -> None:
    labels, out, last = tmp_path / "labels.txt", tmp_path / "out.tflite", tmp_path / "last.tflite"
    labels.write_text("a\nb\n", encoding="utf-8")
    ran = run("metadata", "labels", path_of("tflite/cnn"), out, "--labels", labels)
    assert (ran.status, "2 labels for 5 entries of output 0" in ran.err) == (2, True)
    ran = run("metadata", "labels", path_of("tflite/cnn"), out, "--labels", labels, "--values")
    assert (ran.status, files(out.read_bytes())) == (0, {"labels.txt": b"a\nb\n"})
    ran = run("metadata", "describe", out, last, "--input", "0=x", "--mean", "1,2,3", "--std", "1,1,1")
    assert (ran.status, sorted(texts(last.read_bytes(), "TensorMetadata", "description"))) == (0, ["", "x"])
    ran = run("metadata", "get", last, "TFLITE_METADATA", "--json")
    assert json.loads(ran.out) == document(last.read_bytes())
    written = put(tmp_path / "all.json", ran.out)
    ran = run("metadata", "describe", path_of("tflite/cnn"), out, "--json", written, "--file", labels)
    assert (ran.status, document(out.read_bytes())) == (0, document(last.read_bytes()))
    for words, message in (
        (("--mean", "1"), "--mean and --std go together"),
        *((("--mean", "1", "--std", std), "mean and std must have the same length") for std in ("0", "1,2", "inf")),
        (("--mean", "1", "--std", "x"), "not numbers"),
        (("--input", "9=x"), "no tensor is called '9'"),
        (("--output", "x=x"), "no tensor is called 'x'"),
        (("--json", labels, "--name", "x"), "--json replaces the whole description"),
        (("--file", labels), "--file requires --json"),
    ):
        ran = run("metadata", "describe", out, last, *words)
        assert (ran.status, message in ran.err) == (2, True)
    run("metadata", "set", path_of("tflite/cnn"), out, "--name", "TFLITE_METADATA", "--text", "broken")
    ran = run("metadata", "describe", out, last, "--name", "x")
    assert (ran.status, "metadata TFLITE_METADATA" in ran.err) == (3, True)
