"""Write a directory whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from circletools.errors import OutputError, UsageError
from circletools.storage.files import Part, check_name, make_directory, write
from circletools.storage.platform import sync
from circletools.storage.replacing import temporary_name

MayReplace = Callable[[Path], bool]

_HERE = -100  # Linux's AT_FDCWD: names are relative to the working directory
_EXCHANGE = 2  # RENAME_EXCHANGE, see renameat2(2)


def check_directory(target: Path, may_replace: MayReplace, *, name: Path | None = None) -> None:
    """Raise UsageError if `target` exists and must not be replaced; errors call it `name`.

    Raises OutputError if it is unclear whether `target` may be replaced.
    """
    location = str(name or target)
    check_name(location)
    try:
        if not target.exists():
            return
        if not target.is_dir():
            raise UsageError("the output is a file; name a directory", location=location)
        refused = any(target.iterdir()) and not may_replace(target)
    except OSError as error:
        raise OutputError(f"cannot write it: {error.strerror}", location=location) from error
    if refused:
        raise UsageError(
            "the directory is not empty",
            location=location,
            hint="name another directory; `force=True` replaces only an earlier split",
        )


@contextmanager
def making_directory(path: Path) -> Iterator[None]:
    """Make a directory and its parents; after an exception, remove those that are still empty.

    Raises OutputError if a directory cannot be made.
    """
    missing = [folder for folder in (path, *path.parents) if not os.path.lexists(folder)]
    try:
        make_directory(path)
        yield
    except BaseException:
        with suppress(OSError):
            for folder in missing:
                folder.rmdir()
        raise


def write_directory(
    target: Path,
    files: Iterable[tuple[str, Sequence[Part]]],
    may_replace: MayReplace,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Write files, given by relative path, to a directory next to `target`, and rename it when it is complete.

    An existing directory is replaced, once the new files are on the disk, if it is empty or `may_replace` allows it.
    `check()` is called last, and can prevent the renaming by raising an exception. Raises OutputError if the
    directory cannot be written, and UsageError if it exists, even if it was created during the writing.
    """
    check_directory(target, may_replace)
    target = Path(os.path.realpath(target))
    new = temporary_name(target)
    try:
        with making_directory(target.parent), _temporary(new, may_replace):
            for name, parts in files:
                path = new / PurePosixPath(name)
                make_directory(path.parent)
                write(path, parts)
            check()
            _put_in_place(new, target, may_replace)
    except OutputError as error:
        error.location = str(target)  # not the temporary name
        raise
    except OSError as error:
        raise OutputError(f"cannot write it: {error.strerror}", location=str(target)) from error


@contextmanager
def _temporary(new: Path, may_replace: MayReplace) -> Iterator[None]:
    """Make a temporary directory; at the end, remove the directory with this name, which may be the replaced one."""
    made = None
    try:
        try:
            make_directory(new)
            made = new.lstat()
            yield
        finally:
            _remove(new, made, may_replace)
    except BaseException:
        _remove(new, made, may_replace)  # try again: a signal may have ended the first attempt
        raise


def _remove(path: Path, made: os.stat_result | None, may_replace: MayReplace) -> None:
    if not path.exists() or not (made is None or _is(path, made) or may_replace(path) or not any(path.iterdir())):
        return
    try:
        shutil.rmtree(path, ignore_errors=True)
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)  # a partly removed directory would not be recognized as a split
        raise


def _is(path: Path, status: os.stat_result) -> bool:
    with suppress(OSError):
        return os.path.samestat(path.lstat(), status)
    return False


def _put_in_place(new: Path, target: Path, may_replace: MayReplace) -> None:
    """Rename the new directory to `target`; if a directory existed there, it is at `new` afterward."""
    try:
        os.replace(new, target)  # the system refuses this if the directory is not empty
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            raise
    check_directory(target, may_replace)
    for path in new.rglob("*"):
        sync(path)
    made = new.lstat()
    try:
        _exchange(new, target)
        check_directory(new, may_replace, name=target)  # nobody can add files to it there
    except BaseException:
        if _is(target, made):
            _exchange(new, target)
        raise


def _exchange(new: Path, target: Path) -> None:
    """Swap the names of two directories, atomically if the system supports that."""
    if _exchange_atomically(new, target):
        return
    aside = new.with_name(f"{new.name}.old")
    try:
        os.rename(target, aside)
        os.rename(new, target)
        os.rename(aside, new)
    except BaseException:
        if aside.exists():
            os.rename(aside, new if target.exists() else target)
        raise


def _exchange_atomically(new: Path, target: Path) -> bool:
    """Swap the names atomically; return False if the C library, the system or the file system cannot."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):
        return False
    if call(_HERE, os.fsencode(new), _HERE, os.fsencode(target), ctypes.c_uint(_EXCHANGE)) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(number, os.strerror(number))
