"""Create or replace a file, whole or not at all; copy in the kernel if possible, and preserve holes.

The new file is written next to its final path and then renamed. If the system supports it (O_TMPFILE), the file has
no name until it is complete, so nothing is left even if the process is killed. Otherwise it is called
`.circletool-….tmp`, and is removed however the writing ends, unless the process is killed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from circletools.storage.platform import BINARY, CAN_TELL_HOLES, copy_at, keep_mode, keep_owner, locked, sync

CHUNK_BYTES = 8 << 20  # bytes per step


def copy_range(source: int, start: int, end: int, target: int, at: int) -> Iterator[int]:
    """Copy the bytes `start` to `end` of one open file to offset `at` of another.

    After each step, yields the offset reached in `target`. Raises EOFError if the source ends before `end`.
    """
    for first, stop in _data_ranges(source, start, end):
        position = first
        while position < stop:
            count = min(CHUNK_BYTES, stop - position)
            copied = copy_at(source, position, target, position - start + at, count)
            if copied == 0:
                raise EOFError
            position += copied
            yield position - start + at
    if os.fstat(source).st_size < end:  # missing data looks like a hole
        raise EOFError


def _data_ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges that hold data, so that the holes of a sparse file stay holes."""
    if not CAN_TELL_HOLES:
        yield start, end
        return
    while start < end:
        try:
            data = os.lseek(descriptor, start, os.SEEK_DATA)
            hole = os.lseek(descriptor, data, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # only a hole follows
                return
            yield start, end  # the file system does not report holes
            return
        yield data, min(hole, end)
        start = hole


def start_writing(descriptor: int, at: int, count: int) -> None:
    """Make Linux start writing to the disk, so that the final fsync has little to do.

    Advised that these pages are not needed, Linux starts writing dirty pages; it drops only clean ones.
    """
    if count and hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # it is only advice
            os.posix_fadvise(descriptor, at, count, os.POSIX_FADV_DONTNEED)


_NEW_MODE = 0o666


def replace(
    path: Path,
    fill: Callable[[BinaryIO, bool], None],
    check: Callable[[], None],
    *,
    like: os.stat_result | None = None,
) -> None:
    """Write a file with `fill`, and put it at `path`.

    An existing file is replaced only once the new one is on the disk (fsync); the new one gets its mode bits and, if
    permitted, its owner; a new file gets the mode bits of `like`. `fill(file, replaces)` may be called a second time,
    to start again. `check()` is called just before the renaming and can prevent it by raising an exception; other
    writers that use this function wait, and then find that the file has changed.
    """
    old = _status(path)
    kept = old or like
    mode = _NEW_MODE if kept is None else stat.S_IMODE(kept.st_mode)
    temporary = temporary_name(path)
    try:
        with _held(path):
            for named in (False, True):
                descriptor = _open(temporary, mode, named)
                if descriptor is None:
                    continue
                with os.fdopen(descriptor, "wb", buffering=0) as file:
                    fill(file, old is not None)
                    if kept is not None:
                        if old is not None:
                            keep_owner(descriptor, old)
                        keep_mode(descriptor, temporary, mode)
                    if old is not None:
                        os.fsync(descriptor)
                    if named or _link(descriptor, temporary):
                        break
            check()
            os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    if old is not None:
        # The file is renamed; some file systems cannot sync a directory, and some directories cannot be opened.
        with suppress(OSError):
            sync(path.parent)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock out other writers that use this function, since one writer would undo the changes of another."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # the file does not exist, or cannot be read
        yield
        return
    try:
        with locked(descriptor):
            yield
    finally:
        os.close(descriptor)


def temporary_name(path: Path) -> Path:
    """Return an unused name next to `path`."""
    return path.with_name(f".circletool-{os.urandom(6).hex()}.tmp")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _open(temporary: Path, mode: int, named: bool) -> int | None:
    """Open the new file, never with overly wide permissions; return None if the system lacks nameless files."""
    if named:
        return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
    if hasattr(os, "O_TMPFILE"):
        with suppress(OSError):  # opening a file by name will report problems with the folder
            return os.open(temporary.parent, os.O_WRONLY | os.O_TMPFILE, mode)
    return None


def _link(descriptor: int, temporary: Path) -> bool:
    """Give the nameless file a name; return False if that is not allowed or /proc is missing."""
    try:
        # A folder is passed only so that Python uses the call that follows links.
        os.link(f"/proc/self/fd/{descriptor}", temporary, src_dir_fd=descriptor, follow_symlinks=True)
    except OSError:
        return False
    return True
