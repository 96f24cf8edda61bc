"""Models beyond 2 GiB, as sparse files: memory for what is read only, and the limit of the flatbuffer itself."""

from __future__ import annotations

import json
import mmap
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.huge import external
from benchmarks.huge_models import HUGE_BYTES, LOOKUPS, ROW_BYTES, TABLES, huge
from circletools.edit.compact import compact
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf import writer as flatbuf_writer
from circletools.model.model import open_model
from circletools.storage.platform import CAN_TELL_HOLES
from tests.kit.build import Raw
from tests.kit.support import ROOT, bytes_of, generated, put_u32, u32, within

TOOL = Path(sys.executable).with_name("circletool")
LIMIT = 2**31 - 1
MORE_BYTES = 100 << 20


def need_sparse(path: Path) -> None:
    if path.stat().st_blocks * 512 > 64 << 20:
        pytest.skip("this file system has no sparse files")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell the address space")
@pytest.mark.parametrize("ending", ["tflite", "circle"])
def test_all_edits_need_little_more_than_the_mapping(ending: str, tmp_path: Path) -> None:
    pytest.importorskip("resource")
    first = tmp_path / f"first.{ending}"
    huge(first, circle=ending == "circle", sparse=True)
    need_sparse(first)
    edits: dict[str, tuple[str, ...]] = {
        "embed-origins": (),
        "annotate-affinity": ("--devices", "npu,cpu", "--set", "op:GATHER=npu", "--default", "cpu"),
        "fix-outputs": ("--detach-taps",),
        "metadata remove": ("--origins", "--affinity"),
        "compact": (),
    }
    commands, source = [], first
    for command, options in edits.items():
        output = tmp_path / f"{command}.{ending}"
        commands.append([*command.split(), str(source), str(output), *options])
        source = output
    commands += [[command, str(source)] for command in ("check", "inspect")]
    arguments = [str(HUGE_BYTES + MORE_BYTES), json.dumps(commands)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.kit.limited", *arguments],
        cwd=ROOT,
        capture_output=True,
        check=True,
        timeout=300,
    )
    assert json.loads(done.stdout) == [0] * len(commands), done.stderr.decode()
    need_sparse(source)
    for output in (tmp_path / f"fix-outputs.{ending}", source):
        assert samples(output) == samples(first)


def samples(path: Path) -> list[tuple[str, int, bytes]]:
    """Return name, size and what is in the sparse file of all external data, where the published accessors see it."""
    found = []
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name, place, size in external(data):
            starts = np.linspace(0, max(size - ROW_BYTES, 0), LOOKUPS, dtype=np.int64) // ROW_BYTES * ROW_BYTES
            some = b"".join(data[place + start : place + min(start + ROW_BYTES, size)] for start in starts.tolist())
            assert some.count(0) < len(some) // 2
            found.append((name, size, some + data[place + size - 8 : place + size]))
    assert len(found) == TABLES + 2
    return found


def nearly_full(path: Path, left: int) -> None:
    """Write a model with one operator whose flatbuffer ends `left` bytes before 2 GiB - 1: a constant is as long."""
    raw = Raw()
    data = raw.data(bytes(16))  # what is built first comes last in the file
    constant, empty = raw.table({0: data}), raw.table()
    names = [raw.string(name) for name in (b"in", b"out")]
    shape, sources, results = raw.ints([1]), raw.ints([0]), raw.ints([1])
    tensors = raw.refs([raw.table({0: shape, 3: name}) for name in names])
    operators = raw.refs([raw.table({1: sources, 2: results})])
    graph = raw.table({0: tensors, 1: sources, 2: results, 3: operators})
    codes = raw.refs([raw.table({3: ("i32", 98)})])  # NEG has no options that must be there
    root = raw.table({1: codes, 2: raw.refs([graph]), 4: raw.refs([empty, constant]), 0: ("u32", 3)})
    small = raw.finish(root)
    vector = len(small) - 16 - 4
    assert u32(small, vector) == 16
    size = LIMIT - left
    path.write_bytes(put_u32(small, vector, size - vector - 4))
    with path.open("r+b") as file:
        file.truncate(size)
    need_sparse(path)


@pytest.mark.skipif(not CAN_TELL_HOLES, reason="this system does not tell holes in files")
def test_close_to_the_limit_an_edit_takes_what_room_there_is(tmp_path: Path) -> None:
    source, target = tmp_path / "in.tflite", tmp_path / "out.tflite"
    nearly_full(source, 1000)
    with within(3), open_model(source) as model:
        edit = ModelEdit(model)
        edit.set_metadata("note", b"a value")
        edit.save(target)
    assert source.stat().st_size < target.stat().st_size <= LIMIT
    with target.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found: Any = generated("Model", b"TFL3").GetRootAs(data, 0)
        assert found.Buffers(1).DataLength() > LIMIT - 2000
        assert found.Metadata(0).Name() == b"note"
        assert found.Buffers(found.Metadata(0).Buffer()).DataAsNumpy().tobytes() == b"a value"
        start = found.Buffers(1)._tab.Vector(found.Buffers(1)._tab.Offset(4))
        assert start + found.Buffers(1).DataLength() == target.stat().st_size


@pytest.mark.parametrize("words", [("embed-origins",), ("annotate-affinity", "--devices", "cpu", "--default", "cpu")])
@pytest.mark.parametrize("to", ["out.tflite", "in.tflite"])
def test_an_edit_that_would_cross_the_limit_is_refused(words: tuple[str, ...], to: str, tmp_path: Path) -> None:
    source = tmp_path / "in.tflite"
    nearly_full(source, 200)
    before = source.stat()
    place = ["--in-place"] if to == "in.tflite" else [to]
    done = subprocess.run(
        [TOOL, words[0], "in.tflite", *place, *words[1:]], cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    assert done.returncode == 4
    assert done.stderr.decode() == (
        "error: in.tflite: the flatbuffer would exceed 2 GiB, the limit of the format "
        "(keep the data of large buffers outside the flatbuffer (external buffers))\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["in.tflite"]
    assert (source.stat().st_ino, source.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_a_flatbuffer_that_crosses_the_limit_already_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "in.tflite"
    nearly_full(source, -16)
    with open_model(source) as model, pytest.raises(ModelFormatError, match="a vector ends outside the file"):
        ModelEdit(model)


def test_a_prefix_alone_cannot_cross_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuf_writer, "MAX_FLATBUFFER_BYTES", 1 << 16)
    with open_model(bytes_of("tflite/cnn")) as model:
        edit = ModelEdit(model)
        edit.set_metadata("note", bytes(1 << 16))
        with pytest.raises(EditError, match="2 GiB"):
            edit.to_bytes()


def test_compact_cannot_cross_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It can make a file longer: it aligns what was misaligned."""
    with open_model(bytes_of("tflite/cnn")) as model:
        size = compact(model, tmp_path / "out.tflite")
        monkeypatch.setattr(flatbuf_writer, "MAX_FLATBUFFER_BYTES", size)
        assert compact(model, tmp_path / "out.tflite") == size
        monkeypatch.setattr(flatbuf_writer, "MAX_FLATBUFFER_BYTES", size - 1)
        with pytest.raises(EditError, match="2 GiB"):
            compact(model, tmp_path / "more.tflite")
    assert [path.name for path in tmp_path.iterdir()] == ["out.tflite"]
