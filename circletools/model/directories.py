"""A directory that is written whole or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath

from circletools.errors import OutputError, UsageError
from circletools.model.files import Part, make_directory, write


def check_directory(target: Path, may_replace: Callable[[Path], bool]) -> None:
    """Raise UsageError where something stands at `target` that is not to be replaced."""
    if not target.exists():
        return
    if not target.is_dir():
        raise UsageError("the output is a file; name a directory", location=str(target))
    if any(target.iterdir()) and not may_replace(target):
        raise UsageError(
            "the directory is not empty",
            location=str(target),
            hint="name another; --force replaces what an earlier split wrote, if nothing else is there",
        )


def write_directory(
    target: Path, files: Iterable[tuple[str, list[Part]]], may_replace: Callable[[Path], bool]
) -> None:
    """Write files, by their path in the directory, to a directory beside `target`; rename it when it is complete.

    An empty directory is replaced, another one where `may_replace` says so, once the new files are on the disk.
    Raises OutputError when it cannot be written, UsageError when there is another directory.
    """
    target = Path(os.path.realpath(target))
    check_directory(target, may_replace)
    make_directory(target.parent)
    new = target.with_name(f".circletool-{os.urandom(6).hex()}.tmp")
    try:
        make_directory(new)
        for name, parts in files:
            path = new / PurePosixPath(name)
            make_directory(path.parent)
            write(path, parts)
        _put_in_place(new, target)
    except OSError as error:
        raise OutputError(f"cannot write it: {error.strerror}", location=str(target)) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _put_in_place(new: Path, target: Path) -> None:
    if not target.exists() or not any(target.iterdir()):
        os.replace(new, target)
        return
    for path in new.rglob("*"):
        _sync(path)
    old = new.with_name(f"{new.name}.old")
    os.rename(target, old)
    try:
        os.rename(new, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
