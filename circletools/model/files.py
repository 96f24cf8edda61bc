"""Files: mapped for reading, replaced whole when written. `-` is standard input and output."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from circletools.errors import InvalidInputError, OutputError, UsageError

Progress = Callable[[int, int], None]
"""Called with (bytes written so far, bytes in all)."""

_CHUNK_BYTES = 8 << 20
_CUT_SHORT = "the input became shorter while it was being copied"


@dataclass(slots=True)
class Source:
    """The bytes of a file, and where they came from. `file` is open for reading where there is one."""

    memory: memoryview
    name: str
    file: BinaryIO | None = None

    @property
    def path(self) -> Path | None:
        """The file's path; None for bytes and streams."""
        return Path(self.name) if self.file is not None else None

    def close(self) -> None:
        """Let go of the file. The mapping goes when the last view of it does."""
        if self.file is not None:
            self.file.close()
        self.memory = memoryview(b"")


def open_source(source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> Source:
    """Map a file, or take bytes as they are; streams and `-` are read to their end.

    Raises InvalidInputError when the file cannot be read.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return Source(memoryview(source).cast("B"), "<bytes>")
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name == "-":
            if sys.stdin is None:
                raise InvalidInputError("standard input is closed")
            return Source(memoryview(sys.stdin.buffer.read()), "<standard input>")
        try:
            return _map(open(name, "rb"), name)
        except OSError as error:
            raise InvalidInputError(f"cannot read it: {error.strerror}", location=name) from error
        except ValueError as error:
            raise InvalidInputError(f"this is no file name: {error}", location=repr(name)) from error
    return Source(memoryview(source.read()), str(getattr(source, "name", "<stream>")))


def _map(file: BinaryIO, name: str) -> Source:
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        with file:
            return Source(memoryview(file.read()), name)
    if status.st_size == 0:
        return Source(memoryview(b""), name, file)
    return Source(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), name, file)


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes of `source` from `start` to `end`, to be copied by the kernel where it can."""

    source: Source
    start: int
    end: int

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self.end - self.start


Part = bytes | Range


def view(part: Part) -> memoryview:
    """Return the bytes of a part without copying them."""
    return memoryview(part) if isinstance(part, bytes) else part.source.memory[part.start : part.end]


def write(
    target: str | os.PathLike[str],
    parts: Sequence[Part],
    *,
    like: Path | None = None,
    progress: Progress | None = None,
) -> None:
    """Write `parts` to `target`, whole or not at all.

    A temporary file beside the target is written and renamed to it. A file that was there gives way only when the
    new one is on the disk (fsync), and passes its mode bits on; else they are those of `like`. A symbolic link is
    followed; `-`, pipes and devices are written straight through. Raises OutputError when it cannot be written.
    """
    name = os.fspath(target)
    check_target(name)
    try:
        if name == "-":
            _stream(standard_output(), parts)
            return
        path = Path(os.path.realpath(name))
        if path.exists() and not path.is_file():
            with path.open("wb") as stream:
                _stream(stream, parts)
            return
        _replace(path, parts, like, progress)
    except OSError as error:
        raise OutputError(f"cannot write it: {error.strerror}", location=name) from error


def check_target(target: str | os.PathLike[str]) -> None:
    """Raise what `write` would, as far as it shows without writing: OutputError, or UsageError for a directory."""
    name = os.fspath(target)
    if "\0" in name:
        raise OutputError("this is no file name: it holds a NUL character", location=repr(name))
    if name == "-":
        return
    path = Path(os.path.realpath(name))
    try:
        if path.is_symlink():
            raise OutputError("cannot write it: the link leads back to itself", location=name)
        if path.is_dir():
            raise UsageError("the output is a directory; name a file", location=name)
        path.parent.stat()
    except OSError as error:
        raise OutputError(f"cannot write it: {error.strerror}", location=name) from error


def standard_output() -> BinaryIO:
    """Return standard output for bytes. Raises OSError when the process was started without it."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, "standard output is closed")
    return sys.stdout.buffer


def make_directory(path: Path) -> None:
    """Make a directory and its parents, unless it is there. Raises OutputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory: {error.strerror}", location=str(path)) from error


def same_file(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Say whether two names are one existing file."""
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def _stream(stream: BinaryIO, parts: Sequence[Part]) -> None:
    for part in parts:
        stream.write(view(part))
    stream.flush()


def _replace(path: Path, parts: Sequence[Part], like: Path | None, progress: Progress | None) -> None:
    temporary = path.with_name(f".circletool-{os.urandom(6).hex()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as file:
            replaces = path.exists()
            _fill(file, parts, progress, early=replaces)
            kept = path if replaces else like
            if kept is not None:
                os.fchmod(descriptor, stat.S_IMODE(kept.stat().st_mode))
            if replaces:
                os.fsync(descriptor)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    if replaces:
        _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    # The rename itself has happened; some file systems cannot do more, and some directories may not be opened.
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _fill(file: BinaryIO, parts: Sequence[Part], progress: Progress | None, *, early: bool) -> None:
    """Write the parts one after the other; `early` has the disk start while the copy goes on."""
    total, done = sum(len(part) for part in parts), 0
    for part in parts:
        for written in _copy(part, file, done):
            if early:
                _start_writing(file.fileno(), done, written - done)
            done = written
            if progress is not None:
                progress(done, total)
    os.ftruncate(file.fileno(), total)


def _copy(part: Part, file: BinaryIO, at: int) -> Iterator[int]:
    """Write one part at offset `at`; yield the offset reached after each step."""
    end = at + len(part)
    if isinstance(part, Range) and part.source.file is not None:
        source = part.source.file.fileno()
        for start, stop in _data_ranges(source, part.start, part.end):
            position = start
            while position < stop:
                moved = position - part.start + at
                position += _kernel_copy(source, position, file.fileno(), moved, min(_CHUNK_BYTES, stop - position))
                yield position - part.start + at
        if os.fstat(source).st_size < part.end:  # what is missing looks like a hole
            raise InvalidInputError(_CUT_SHORT, location=part.source.name)
    else:
        memory = view(part)
        position = 0
        while position < len(memory):
            position += os.pwrite(file.fileno(), memory[position : position + _CHUNK_BYTES], at + position)
            yield at + position
    yield end


def _data_ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges that hold data, so that the holes of a sparse file stay holes."""
    while start < end:
        try:
            data = os.lseek(descriptor, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                return
            yield start, end  # the file system cannot tell
            return
        hole = min(os.lseek(descriptor, data, os.SEEK_HOLE), end)
        if data < end:
            yield data, hole
        start = hole if data < end else end


def _kernel_copy(source: int, at: int, target: int, to: int, count: int) -> int:
    """Copy up to `count` bytes between files without passing them through this process; return how many."""
    if hasattr(os, "copy_file_range"):
        try:
            return _advance(os.copy_file_range(source, target, count, at, to))
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM):
                raise
    os.lseek(target, to, os.SEEK_SET)
    try:
        return _advance(os.sendfile(target, source, at, count))
    except OSError as error:
        if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP):
            raise
    return _advance(os.pwrite(target, os.pread(source, min(count, 1 << 20), at), to))


def _start_writing(descriptor: int, at: int, count: int) -> None:
    """Leave the final fsync little to do.

    The advice not to keep these pages makes Linux start writing the dirty ones; it drops only clean ones.
    """
    if count and hasattr(os, "posix_fadvise"):
        os.posix_fadvise(descriptor, at, count, os.POSIX_FADV_DONTNEED)


def _advance(copied: int) -> int:
    if copied == 0:
        raise InvalidInputError(_CUT_SHORT)
    return copied
