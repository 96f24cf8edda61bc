"""What TFLITE_METADATA and the archive behind a model say, as other readers see it."""

from __future__ import annotations

import io
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
        found = walk(Wire(value), load_schema("tflite_metadata"), max_tables=None).tables
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
    assert labelled(after) == after
    other = labelled(after, LABELS[::-1])
    assert files(other) == {"labels.txt": "5\n四\ntrois\nzwei\none\n".encode()}
    assert files(edited(other, lambda edit: edit.set_metadata("a", b"x"))) == files(other)


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
    first = ct.metadata.Description(
        "cats", "finds cats", "1", "me", "MIT", (("0", "a picture"),), (("0", "a score"),)
    )
    after = edited(labelled(bytes_of("tflite/cnn")), lambda edit: ct.metadata.describe(edit, first))
    assert edited(after, lambda edit: ct.metadata.describe(edit, first)) == after
    assert texts(after, "ModelMetadata", "name") == ["cats"]
    assert sorted(texts(after, "TensorMetadata", "description")) == ["a picture", "a score"]
    again = edited(after, lambda edit: ct.metadata.describe(edit, ct.metadata.Description(author="you")))
    assert texts(again, "ModelMetadata", "author") == ["you"]
    assert texts(again, "AssociatedFile", "name") == ["labels.txt"]
    normal = edited(again, lambda edit: ct.metadata.normalize(edit, [127.5], [127.5]))
    assert edited(normal, lambda edit: ct.metadata.normalize(edit, [127.5], [127.5])) == normal
    changed = edited(normal, lambda edit: ct.metadata.normalize(edit, [0.0], [255.0]))
    with ct.open(changed) as model:
        value = model.metadata_value("TFLITE_METADATA")
        assert value is not None
        found = walk(Wire(value), load_schema("tflite_metadata"), max_tables=None).tables
    assert found["NormalizationOptions"].vectors("std").row(0).tolist() == [255.0]


def test_the_commands(tmp_path: Path) -> None:
    labels, out, last = tmp_path / "labels.txt", tmp_path / "out.tflite", tmp_path / "last.tflite"
    labels.write_text("a\nb\n", encoding="utf-8")
    ran = run("metadata", "labels", path_of("tflite/cnn"), out, "--labels", labels)
    assert (ran.status, "2 labels for 5 entries of output 0" in ran.err) == (2, True)
    ran = run("metadata", "labels", path_of("tflite/cnn"), out, "--labels", labels, "--values")
    assert (ran.status, files(out.read_bytes())) == (0, {"labels.txt": b"a\nb\n"})
    ran = run("metadata", "describe", out, last, "--input", "0=x", "--mean", "1,2,3", "--std", "1,1,1")
    assert (ran.status, sorted(texts(last.read_bytes(), "TensorMetadata", "description"))) == (0, ["", "x"])
    for words, said in (
        (("--mean", "1"), "--mean and --std go together"),
        (("--mean", "1", "--std", "0"), "std is above 0"),
        (("--mean", "1", "--std", "x"), "are no numbers"),
        (("--input", "9=x"), "no tensor is called '9'"),
    ):
        ran = run("metadata", "describe", out, last, *words)
        assert (ran.status, said in ran.err) == (2, True)
    run("metadata", "set", path_of("tflite/cnn"), out, "--name", "TFLITE_METADATA", "--text", "broken")
    ran = run("metadata", "describe", out, last, "--name", "x")
    assert (ran.status, "metadata TFLITE_METADATA" in ran.err) == (3, True)
