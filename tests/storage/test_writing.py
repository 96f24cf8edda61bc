"""Writing parts to a file: each at its place, however large, and with advice to the disk."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest

from circletools.errors import InvalidInputError, OutputError
from circletools.storage import files
from circletools.storage.files import Range, check_target, open_source, write
from circletools.storage.replacing import replace


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 100)


@pytest.mark.usefixtures("small_pieces")
def test_parts_follow_each_other_and_progress_is_reported(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(bytes(range(256)))
    source = open_source(tmp_path / "in")
    parts: list[files.Part] = [b"a" * 250, Range(source, 10, 250), b"", b"b" * 101]
    seen: list[tuple[int, int]] = []
    write(tmp_path / "out", parts, progress=lambda done, total: seen.append((done, total)))
    assert (tmp_path / "out").read_bytes() == b"a" * 250 + bytes(range(10, 250)) + b"b" * 101
    steps = [100, 200, 250, 250, 490, 490, 490, 590, 591, 591]
    assert seen == [(done, 591) for done in steps]
    source.close()


@pytest.mark.usefixtures("small_pieces")
def test_a_replaced_file_is_flushed_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(files, "start_writing", lambda _file, at, count: seen.append((at, count)))
    write(tmp_path / "out", [b"a" * 150, b"b" * 30])
    assert seen == []
    write(tmp_path / "out", [b"a" * 150, b"b" * 30])
    assert seen == [(0, 100), (100, 50), (150, 0), (150, 30), (180, 0)]


def test_a_name_that_is_a_dash_is_standard_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").mkdir()
    check_target("-")
    check_target("/dev/stdout")


@pytest.mark.parametrize(("links", "known"), [(0, True), (38, True), (39, False)])
def test_links_to_standard_output_are_followed_as_far_as_the_system_does(
    tmp_path: Path, links: int, *, known: bool
) -> None:
    os.symlink("/dev/stdout", tmp_path / "0")
    for number in range(1, links + 1):
        os.symlink(f"{number - 1}", tmp_path / f"{number}")
    name = "/dev/stdout" if not links else str(tmp_path / f"{links - 1}")
    assert (files._descriptor(name) == 1) == known


@pytest.mark.parametrize("changed", [False, True])
@pytest.mark.parametrize("number", [errno.EFAULT, errno.EIO])
def test_a_mapped_file_that_was_cut_short_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, changed: bool
) -> None:
    (tmp_path / "in").write_bytes(b"abc")
    source = open_source(tmp_path / "in")

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files, "replace", fail)
    if changed:
        os.utime(tmp_path / "in", ns=(0, 1))
    kind = InvalidInputError if changed and number == errno.EFAULT else OutputError
    with pytest.raises(kind):
        write(tmp_path / "out", [b"x"], source=source)
    with pytest.raises(OutputError):
        write(tmp_path / "out", [b"x"])
    source.close()


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="this system has no files without a name")
def test_until_it_is_complete_a_file_has_no_name(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path, os.O_WRONLY | os.O_TMPFILE))
    except OSError:
        pytest.skip("this file system has no files without a name")
    seen: list[list[str]] = []

    def fill(file: BinaryIO, _early: bool) -> None:
        file.write(b"new")
        seen.append(os.listdir(tmp_path))

    replace(tmp_path / "out", fill, lambda: None)
    assert (seen, os.listdir(tmp_path)) == ([[]], ["out"])
