"""The command track-origins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.origin_support import embedded, origins_of
from tests.kit.program import put, run
from tests.kit.support import bytes_of
from tests.kit.tracking_support import chain


@pytest.fixture
def files(tmp_path: Path) -> Path:
    put(tmp_path / "before.tflite", chain("TANH", "FULLY_CONNECTED", "RELU"))
    put(tmp_path / "after.tflite", chain("TANH", "QUANTIZE", "FULLY_CONNECTED", "RELU", first=-1))
    put(tmp_path / "other.tflite", chain("TANH", "CEIL", "COS"))
    return tmp_path


def test_the_command_shows_and_writes(files: Path) -> None:
    ran = run("track-origins", "before.tflite", "after.tflite", "out.tflite", cwd=files)
    assert ran.status == 0
    assert [line.split() for line in ran.out.decode().splitlines()][1:3] == [
        ["0", "TANH", "0", "(noname)", "position", "1.00"],
        ["1", "QUANTIZE", "0", "(noname)", "continued", "0.95"],
    ]
    assert origins_of((files / "out.tflite").read_bytes()).operators[0] == {0: {0}, 1: {0}, 2: {1}, 3: {2}}
    again = run("track-origins", "before.tflite", "out.tflite", "twice.tflite", "--replace", cwd=files)
    assert again.status == 0
    assert (files / "twice.tflite").read_bytes() == (files / "out.tflite").read_bytes()


def test_the_json_is_accepted_by_embed_origins(files: Path) -> None:
    ran = run("track-origins", "before.tflite", "after.tflite", "out.tflite", "--json", cwd=files)
    document = json.loads(ran.out)
    assert document["schema_version"] == 1
    assert document["operators"][1]["grounds"] == [{"source": 0, "evidence": "continued", "confidence": 0.95}]
    put(files / "origins.json", ran.out)
    assert run("embed-origins", "after.tflite", "same.tflite", "--origins", "origins.json", cwd=files).status == 0
    assert (files / "same.tflite").read_bytes() == (files / "out.tflite").read_bytes()


def test_what_has_no_origin_is_reported(files: Path) -> None:
    ran = run("track-origins", "before.tflite", "other.tflite", "--dry-run", "--min-confidence", "0.9", cwd=files)
    assert ran.status == 1
    assert "no origin for 3 of 3 operators" in ran.err
    some = files / "some.tflite"
    put(some, chain("TANH", "FULLY_CONNECTED", "CONV_2D", "RELU", "ARG_MAX"))
    loose = run("track-origins", "before.tflite", some, "--dry-run", "--min-confidence", "0.9", cwd=files)
    assert (loose.status, "there is no origin for" in loose.err) == (0, True)
    assert run(
        "track-origins", "before.tflite", some, "--dry-run", "--min-confidence", "0.9", "--strict", cwd=files
    ).status == 1  # fmt: skip


def test_tables_that_were_carried_along_are_replaced(files: Path) -> None:
    tables = embedded((files / "before.tflite").read_bytes())
    put(files / "tables.tflite", tables)
    carried = embedded((files / "after.tflite").read_bytes(), origins_of(tables))
    put(files / "carried.tflite", carried)
    assert run("track-origins", "tables.tflite", "carried.tflite", "--in-place", cwd=files).status == 0
    assert origins_of((files / "carried.tflite").read_bytes()).operators[0] == {0: {0}, 1: {0}, 2: {1}, 3: {2}}
    own = embedded((files / "after.tflite").read_bytes())
    put(files / "own.tflite", own)
    assert run("track-origins", "tables.tflite", "own.tflite", "out.tflite", cwd=files).status == 4
    assert run("track-origins", "tables.tflite", "own.tflite", "out.tflite", "--replace", cwd=files).status == 0


def test_an_error_names_the_file_that_it_is_about(files: Path) -> None:
    def first_line(*names: str) -> str:
        ran = run("track-origins", *names, "out.tflite", cwd=files)
        assert ran.status in (3, 4)
        return ran.err.splitlines()[0]

    put(files / "own.tflite", embedded((files / "after.tflite").read_bytes()))
    good = bytes_of("tflite/cnn_external")
    put(files / "cut.tflite", good[:-64])  # the data of the constants lies at the end
    assert first_line("before.tflite", "nosuch.tflite").startswith("error: nosuch.tflite: cannot")
    assert first_line("nosuch.tflite", "after.tflite").startswith("error: nosuch.tflite: cannot")
    assert first_line("before.tflite", "own.tflite").startswith("error: own.tflite: the model already has origins")
    assert first_line("before.tflite", "cut.tflite").startswith("error: cut.tflite: buffers")
    assert first_line("cut.tflite", "after.tflite").startswith("error: cut.tflite: buffers")


def test_the_help_speaks_of_its_own_files(files: Path) -> None:
    words = " ".join(run("track-origins", "--help", cwd=files).out.decode().replace("│", " ").split())
    assert "Overwrite AFTER" in words
    assert "IN is" not in words


def test_standard_streams(files: Path) -> None:
    after = (files / "after.tflite").read_bytes()
    ran = run("track-origins", "before.tflite", "-", "-", stdin=after, cwd=files)
    assert ran.status == 0
    assert ran.out[4:8] == b"TFL3"
    assert len(origins_of(ran.out).operators[0]) == 4
    assert run("track-origins", "-", "-", "x.tflite", stdin=after, cwd=files).status == 2
    assert run("track-origins", "before.tflite", "after.tflite", "-", "--json", cwd=files).status == 2
