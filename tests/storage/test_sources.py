"""What a model is read from, and that a change meanwhile is noticed."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import CircleToolsError, InvalidInputError, UsageError
from circletools.storage.files import Range, Source, open_source, view


class Broken(io.RawIOBase):
    """A stream that cannot be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def read(self, _size: int = -1) -> bytes:
        raise self.error


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        (Broken(OSError(errno.EIO, "Input/output error")), InvalidInputError, "cannot read it: Input/output error"),
        (Broken(OSError("no number")), InvalidInputError, "cannot read it: no number"),
        (Broken(ValueError("closed")), UsageError, "cannot read it: closed"),
        (io.StringIO("text"), UsageError, "it returns str, not bytes (open it in mode 'rb')"),
        (7, UsageError, "a file is given as a path, bytes or a binary file, not int"),
        (memoryview(bytes(8))[::2], UsageError, "not contiguous memory"),
        ("a\0b", InvalidInputError, "not a file name"),
        ("nowhere.circle", InvalidInputError, "nowhere.circle: cannot read it: No such file"),
    ],
)
def test_what_cannot_be_read(given: Any, kind: type[CircleToolsError], message: str) -> None:
    with pytest.raises(kind) as caught:
        open_source(given)
    assert message in str(caught.value)


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, io.BytesIO])
def test_bytes_and_streams(make: Callable[[bytes], Any]) -> None:
    source = open_source(make(b"abc"))
    assert bytes(source.octets) == b"abc"
    assert (source.path, source.file, source.status) == (None, None, None)
    source.check_unchanged()
    source.close()
    assert (source.closed, bytes(source.octets)) == (True, b"")


def test_numbers_in_memory_are_their_bytes() -> None:
    assert bytes(open_source(memoryview(b"abcd").cast("H")).octets) == b"abcd"


@pytest.mark.parametrize("content", [b"", b"abc"])
def test_a_file_is_mapped(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    source = open_source(path)
    assert (bytes(source.octets), source.name, source.path) == (content, str(path), path)
    assert source.status is not None
    assert source.status.st_size == len(content)
    source.close()
    assert source.file is not None
    assert source.file.closed


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"abcd"),
        lambda path: os.utime(path, ns=(0, 1)),
        lambda path: os.truncate(path, 2),
    ],
)
def test_a_file_that_is_written_to_has_changed(tmp_path: Path, change: Callable[[Path], object]) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    source = open_source(path)
    source.check_unchanged()
    source.check_unchanged(path)
    change(path)
    with pytest.raises(InvalidInputError, match="was changed while it was being read"):
        source.check_unchanged()
    source.close()


def test_another_file_in_its_place_counts_where_it_would_be_lost(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_bytes(b"abc")
    source = open_source(path)
    other.write_bytes(b"abc")
    os.replace(other, path)
    source.check_unchanged()
    source.check_unchanged(tmp_path / "third")
    with pytest.raises(InvalidInputError, match="the input was replaced"):
        source.check_unchanged(path)
    source.close()


def test_ranges_are_views_of_their_source() -> None:
    source = Source(memoryview(b"abcdef"), "name")
    part = Range(source, 2, 5)
    assert (len(part), bytes(view(part)), bytes(view(b"xy"))) == (3, b"cde", b"xy")
    source.close()
    with pytest.raises(UsageError, match="name: the model is closed"):
        Range(source, 0, 1)
