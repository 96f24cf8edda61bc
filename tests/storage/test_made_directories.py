"""Directories that are made, exchanged, and taken away again."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

import pytest

from circletools.errors import OutputError, UsageError
from circletools.storage import directories
from circletools.storage.directories import making_directory, write_directory
from tests.kit.split_support import files_of
from tests.storage.test_directories import NEW, OLD, files, ours, target

__all__ = ["target"]


def test_directories_that_were_made_go_again_while_they_are_empty(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(KeyboardInterrupt), making_directory(tmp_path / "there" / "a" / "b"):
        raise KeyboardInterrupt
    assert files_below(tmp_path) == ["there"]
    with pytest.raises(KeyboardInterrupt), making_directory(tmp_path / "there" / "a" / "b"):
        interrupted_after(tmp_path / "there" / "a" / "kept")
    assert files_below(tmp_path) == ["there", "there/a", "there/a/kept"]
    with making_directory(tmp_path / "x" / "y"):
        pass
    assert files_below(tmp_path / "x") == ["y"]


def interrupted_after(path: Path) -> None:
    path.touch()
    raise KeyboardInterrupt


def files_below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_directory_below_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match="cannot make the directory"), making_directory(tmp_path / "file" / "a"):
        raise AssertionError
    assert files_below(tmp_path) == ["file"]


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EIO])
def test_without_the_call_that_exchanges(target: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    class Library:
        def __init__(self, *_arguments: object, **_options: object) -> None:
            pass

        def renameat2(self, *_arguments: object) -> int:
            ctypes.set_errno(number)
            return -1

    monkeypatch.setattr(ctypes, "CDLL", Library)
    if number == errno.EIO:
        with pytest.raises(OutputError, match="Input/output"):
            write_directory(target, files(), ours)
        assert files_of(target) == OLD
    else:
        write_directory(target, files(), ours)
        assert files_of(target) == NEW
    assert os.listdir(target.parent) == ["parts"]


def test_every_new_file_is_on_the_disk_before_the_old_ones_go(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        calls.append("sync")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    exchange = directories._exchange

    def record(*paths: Path) -> None:
        calls.append("exchange")
        exchange(*paths)

    monkeypatch.setattr(directories, "_exchange", record)
    write_directory(target, files(), ours)
    assert calls == ["sync"] * 3 + ["exchange"]  # a, deep and deep/b


def test_obstructing_files_are_reported(target: Path) -> None:
    directories.check_directory(target.with_name("new"), ours)
    directories.check_directory(target, ours)
    with pytest.raises(UsageError, match=r"^other: the directory is not empty"):
        directories.check_directory(target, lambda _: False, name=Path("other"))
    with pytest.raises(UsageError, match="the output is a file"):
        directories.check_directory(target / "a", lambda _: True)
    (target / "a").unlink()
    directories.check_directory(target, lambda _: False)
