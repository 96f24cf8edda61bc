"""Copying between files: every way the system has, holes, and files beyond 2 GiB."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.storage import replacing
from circletools.storage.replacing import copy_range
from tests.kit.saving import names, save
from tests.kit.support import bytes_of, value_of, within


def refuse(number: int) -> Callable[..., Any]:
    def call(*_arguments: object) -> Any:
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize("number", [errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM])
def test_without_copy_file_range(model: Path, expected: bytes, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(os, "copy_file_range", refuse(number), raising=False)
    save(model, model.with_name("out.circle"))
    assert model.with_name("out.circle").read_bytes() == expected


def test_a_disk_that_is_full_is_not_a_missing_feature(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", refuse(errno.ENOSPC), raising=False)
    with pytest.raises(EditError, match="No space"):
        save(model, model.with_name("out.circle"))
    assert names(model.parent) == ["in.circle"]


SPARSE_BYTES = 2_500_000_000


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """Give a model of 2.5 GB that takes a few blocks: data, a hole, data in the middle, a hole."""
    if not hasattr(os, "SEEK_HOLE"):
        pytest.skip("this system tells no holes")
    path = tmp_path / "sparse.circle"
    with path.open("wb") as file:
        file.write(bytes_of("circle/mlp"))
        file.seek(1 << 30)
        file.write(b"in the middle")
        file.truncate(SPARSE_BYTES)
    if path.stat().st_blocks * 512 > 1 << 20:
        pytest.skip("this file system has no sparse files")
    return path


@pytest.mark.parametrize("way", ["copy_file_range", "a loop"])
def test_holes_stay_holes(sparse: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if way != "copy_file_range":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    target = sparse.with_name("out.circle")
    with within(2):
        save(sparse, target)
    prefix = target.stat().st_size - SPARSE_BYTES
    assert prefix % 4096 == 0
    assert prefix <= 1 << 20
    assert target.stat().st_blocks * 512 < 4 << 20
    with target.open("rb") as file:
        file.seek(prefix)
        assert file.read(3672) == bytes_of("circle/mlp")
        file.seek(prefix + (1 << 30))
        assert file.read(13) == b"in the middle"
        file.seek(-10, os.SEEK_END)
        assert file.read() == bytes(10)
    with open_model(target) as opened:
        assert value_of(opened, "note") == b"a value"


def test_a_file_beyond_two_gigabytes_is_restored(sparse: Path) -> None:
    save(sparse, sparse.with_name("out.circle"))
    with within(2), open_model(sparse.with_name("out.circle")) as opened:
        edit = ModelEdit(opened)
        edit.remove_metadata("note")
        edit.save(sparse.with_name("back.circle"))
    assert sparse.with_name("back.circle").stat().st_size == SPARSE_BYTES
    with sparse.with_name("back.circle").open("rb") as file:
        assert file.read(3672) == bytes_of("circle/mlp")


def test_a_flatbuffer_cannot_pass_two_gigabytes(tmp_path: Path) -> None:
    """Where the flatbuffer itself, not the file, would become too large."""
    with open_model(bytes_of("circle/mlp")) as opened:
        edit = ModelEdit(opened)
        opened.__dict__["reachable"] = SimpleNamespace(
            tables=opened.reachable.tables, visits=opened.reachable.visits, end=2**31 - 100
        )
        edit.set_metadata("note", b"a value")
        with pytest.raises(EditError, match="2 GiB"):
            edit.save(tmp_path / "out.circle")
    assert names(tmp_path) == []


WAYS = ["copy_file_range", "a loop"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param != "copy_file_range":
        monkeypatch.delattr(os, "copy_file_range", raising=False)
    monkeypatch.setattr(replacing, "CHUNK_BYTES", 1000)
    return str(request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("start", "end", "at"), [(0, 2500, 0), (7, 2500, 100), (2000, 2001, 5), (3, 3, 0)])
def test_a_range_is_copied_and_every_step_reported(tmp_path: Path, start: int, end: int, at: int) -> None:
    content = bytes(range(1, 251)) * 10
    (tmp_path / "from").write_bytes(content)
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("w+b") as target:
        steps = list(copy_range(source.fileno(), start, end, target.fileno(), at))
        assert steps == [min(step + 1000, end) - start + at for step in range(start, end, 1000)]
        target.seek(at)
        assert target.read() == content[start:end]


@pytest.mark.usefixtures("way")
def test_a_source_that_is_too_short_is_reported(tmp_path: Path) -> None:
    (tmp_path / "from").write_bytes(b"abc")
    with (tmp_path / "from").open("rb") as source, (tmp_path / "to").open("w+b") as target:
        assert list(copy_range(source.fileno(), 0, 3, target.fileno(), 0)) == [3]
        with pytest.raises(EOFError):
            list(copy_range(source.fileno(), 0, 4, target.fileno(), 0))
        with pytest.raises(EOFError):
            list(copy_range(source.fileno(), 3, 4, target.fileno(), 0))


def test_an_error_that_is_no_missing_feature_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "copy_file_range", refuse(errno.EIO), raising=False)
    (tmp_path / "from").write_bytes(b"abc")
    with (
        (tmp_path / "from").open("rb") as source,
        (tmp_path / "to").open("w+b") as target,
        pytest.raises(OSError, match="Input/output"),
    ):
        list(copy_range(source.fileno(), 0, 3, target.fileno(), 0))
