"""A new file in the place of an old one, or in an empty place: whole or not at all.

The new file is written beside its place and takes it by a rename. Until it is complete it has no name, where the
system can do that (O_TMPFILE): then nothing stays of it, even when the process is killed. Elsewhere it has the name
`.circletool-….tmp`, and whatever ends the writing but a kill removes it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from circletools.storage.platform import BINARY, keep_mode, keep_owner, locked, sync

_NEW_MODE = 0o666


def replace(
    path: Path,
    fill: Callable[[BinaryIO, bool], None],
    check: Callable[[], None],
    *,
    like: os.stat_result | None = None,
) -> None:
    """Put the file that `fill` writes at `path`.

    A file that is there gives way only when the new one is on the disk (fsync), and passes on its mode bits and, as
    far as we may, its owner; a new file gets the mode bits of `like`. `fill(file, replaces)` may be called again
    from the start. `check()` is the last call before the rename, to stop it with an exception; whoever else writes by
    this function waits, and finds then that the file is another.
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
        # The rename itself has happened; some file systems cannot do more, and some directories may not be opened.
        with suppress(OSError):
            sync(path.parent)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep others who do the same from putting their file here meanwhile: else the later would undo the earlier."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError:  # there is none, or it may not be read
        yield
        return
    try:
        with locked(descriptor):
            yield
    finally:
        os.close(descriptor)


def temporary_name(path: Path) -> Path:
    """Return an unused name beside `path`."""
    return path.with_name(f".circletool-{os.urandom(6).hex()}.tmp")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _open(temporary: Path, mode: int, named: bool) -> int | None:
    """Open the new file, which nobody may read at any time who should not; None when it cannot be nameless."""
    if named:
        return os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
    if hasattr(os, "O_TMPFILE"):
        with suppress(OSError):  # what is wrong with the folder shows with a name too
            return os.open(temporary.parent, os.O_WRONLY | os.O_TMPFILE, mode)
    return None


def _link(descriptor: int, temporary: Path) -> bool:
    """Give the nameless file a name; False where that is not allowed, or /proc is not there."""
    try:
        # A folder for the source, which has no effect here, makes Python use the call that follows the link.
        os.link(f"/proc/self/fd/{descriptor}", temporary, src_dir_fd=descriptor, follow_symlinks=True)
    except OSError:
        return False
    return True
