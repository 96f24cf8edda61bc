"""Copy between files, in the kernel if possible, and without filling holes."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

from circletools.storage.platform import CAN_TELL_HOLES, copy_at

CHUNK_BYTES = 8 << 20  # bytes per step


def copy_range(source: int, start: int, end: int, target: int, at: int) -> Iterator[int]:
    """Copy the bytes `start` to `end` of one open file to offset `at` of another.

    Yields the offset reached in `target` after each step. Raises EOFError if the source ends before `end`.
    """
    for first, stop in _data_ranges(source, start, end):
        position = first
        while position < stop:
            count = min(CHUNK_BYTES, stop - position)
            position += _advance(copy_at(source, position, target, position - start + at, count))
            yield position - start + at
    if os.fstat(source).st_size < end:  # missing data looks like a hole
        raise EOFError


def _data_ranges(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges with data, so the holes of a sparse file stay holes."""
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
    """Make Linux start writing, so the final fsync has little to do.

    The advice not to keep these pages makes Linux write dirty pages; it only drops clean ones.
    """
    if count and hasattr(os, "posix_fadvise"):
        with suppress(OSError):  # it is only advice
            os.posix_fadvise(descriptor, at, count, os.POSIX_FADV_DONTNEED)


def _advance(copied: int) -> int:
    if copied == 0:
        raise EOFError
    return copied
