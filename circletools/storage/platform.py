"""System calls that are missing or different on macOS and Windows."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

BINARY: int = getattr(os, "O_BINARY", 0)
"""The flag that keeps Windows from translating line endings."""

CAN_TELL_HOLES = hasattr(os, "SEEK_HOLE")

_NOT_BY_KERNEL = (errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM)
_CHUNK_BYTES = 1 << 20


def read_at(descriptor: int, count: int, at: int) -> bytes:
    """Return up to `count` bytes of an open file at an offset, without moving its position; Windows lacks pread."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, count, at)
    before = os.lseek(descriptor, 0, os.SEEK_CUR)
    os.lseek(descriptor, at, os.SEEK_SET)
    try:
        return os.read(descriptor, count)
    finally:
        os.lseek(descriptor, before, os.SEEK_SET)


def write_at(descriptor: int, data: bytes | memoryview, at: int) -> int:
    """Write to an open file at an offset; return the number of bytes. Without pwrite, the file's position moves."""
    if hasattr(os, "pwrite"):
        return os.pwrite(descriptor, data, at)
    os.lseek(descriptor, at, os.SEEK_SET)
    return os.write(descriptor, data)


def copy_at(source: int, at: int, target: int, to: int, count: int) -> int:
    """Copy up to `count` bytes between open files, in the kernel if possible; return how many were copied."""
    if hasattr(os, "copy_file_range"):
        try:
            return os.copy_file_range(source, target, count, at, to)
        except OSError as error:
            if error.errno not in _NOT_BY_KERNEL:
                raise
    data = read_at(source, min(count, _CHUNK_BYTES), at)
    return write_at(target, data, to) if data else 0


def keep_owner(descriptor: int, old: os.stat_result) -> None:
    """Give an open file the owner of another file if permitted."""
    if hasattr(os, "fchown"):
        with suppress(PermissionError):  # only root may change a file's owner
            os.fchown(descriptor, old.st_uid, old.st_gid)


def keep_mode(descriptor: int, path: Path, mode: int) -> None:
    """Set the mode bits of an open file if permitted; this uses the file's name if the system requires it."""
    with suppress(PermissionError):  # some file systems have no mode bits
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, mode)
        else:
            os.chmod(path, mode)


def sync(path: Path) -> None:
    """Wait until a file or directory is on disk; do nothing on Windows, which needs an open file. Raises OSError."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(file: int) -> Iterator[None]:
    """Hold an advisory lock on an open file within the block, if the system has such locks."""
    lock = _module("fcntl")
    if lock is None:
        yield
        return
    with suppress(OSError):  # some network file systems have no locks
        lock.flock(file, lock.LOCK_EX)
    try:
        yield
    finally:
        with suppress(OSError):
            lock.flock(file, lock.LOCK_UN)


def limit_memory(kind: Literal["AS", "DATA"], limit_bytes: int) -> None:
    """Limit the memory of this process if the system allows that, and disable core dumps."""
    limits = _module("resource")
    if limits is None:
        return
    limits.setrlimit(limits.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):  # macOS has the constant, but not the limit
        limits.setrlimit(getattr(limits, f"RLIMIT_{kind}"), (limit_bytes, limit_bytes))


def _module(name: str) -> Any:
    """Return a module of the standard library; None if the system lacks it."""
    try:
        return import_module(name)
    except ImportError:
        return None
