"""Pipes, devices, and `-` for standard input and output."""

from __future__ import annotations

import io
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, InvalidInputError
from circletools.model.model import open_model
from tests.kit.saving import names, save
from tests.kit.support import ROOT, bytes_of, path_of


def test_a_pipe_is_written_through(model: Path, expected: bytes) -> None:
    pipe = model.with_name("pipe")
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    save(model, pipe)
    reader.join(10)
    assert read == [expected]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names(model.parent) == ["in.circle", "pipe"]


def test_a_device_is_written_through(model: Path) -> None:
    save(model, "/dev/null")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_device_that_is_full_is_an_error(model: Path) -> None:
    with pytest.raises(EditError, match="No space left"):
        save(model, "/dev/full")


def test_a_pipe_is_read(model: Path) -> None:
    pipe = model.with_name("pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(bytes_of("circle/cnn")))
    writer.start()
    with open_model(pipe) as opened:
        assert bytes(opened.source.octets) == bytes_of("circle/cnn")
    writer.join(10)


def test_a_dash_is_standard_input_and_output(monkeypatch: pytest.MonkeyPatch, expected: bytes) -> None:
    given, written = io.BytesIO(bytes_of("circle/mlp")), io.BytesIO()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=given))
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=written))
    with open_model("-") as opened:
        edit = ModelEdit(opened)
        edit.set_metadata("note", b"a value")
        edit.save("-")
    assert written.getvalue() == expected


PROGRAM = """
import circletools as ct
with ct.open("-") as model:
    edit = ct.edit(model)
    edit.set_metadata("note", b"a value")
    edit.save("-")
"""


def test_a_dash_works_between_processes(expected: bytes) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=bytes_of("circle/mlp"), capture_output=True, check=True, cwd=ROOT
    )
    assert (done.stdout, done.stderr) == (expected, b"")


def test_a_dash_takes_nothing_that_is_no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"text")))
    with pytest.raises(InvalidInputError) as caught:
        open_model("-")
    assert caught.value.location == "<standard input>"


def test_standard_input_may_be_the_file_that_is_replaced(model: Path, expected: bytes) -> None:
    with model.open("rb") as given:
        program = PROGRAM.replace('save("-")', f"save({str(model)!r})")
        subprocess.run([sys.executable, "-c", program], stdin=given, check=True, cwd=ROOT)
    assert model.read_bytes() == expected


def test_the_test_models_themselves_were_not_touched() -> None:
    assert path_of("circle/mlp").stat().st_size == 3672
