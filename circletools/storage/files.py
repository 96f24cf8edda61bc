"""Map files for reading, replace them as a whole, and find them in directories. `-` is standard input or output."""

from __future__ import annotations

import errno
import mmap
import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from circletools.errors import InvalidInputError, OutputError, UsageError
from circletools.storage.platform import write_at
from circletools.storage.replacing import CHUNK_BYTES, copy_range, replace, start_writing
from circletools.wording import did_you_mean, nearest

Progress = Callable[[int, int], None]
"""Called with the number of bytes written so far, and the total number."""

SUFFIXES, BUNDLES = (".circle", ".tflite"), (".litertlm", ".task")
_MOST_NAMES = 1000  # the maximum number of names in a folder that are compared with a wrong name
_LINKS = 40  # the maximum number of symbolic links that Linux follows


@dataclass(slots=True)
class Source:
    """The bytes of a file, and their origin.

    `file` is the open file, if there is one; `status` is its `stat` when it was opened.
    """

    octets: memoryview
    name: str
    file: BinaryIO | None = None
    status: os.stat_result | None = None
    closed: bool = False

    @property
    def path(self) -> Path | None:
        """The path of the file; None for bytes and streams."""
        return Path(self.name) if self.file is not None else None

    def close(self) -> None:
        """Close the file. The contents stay mapped as long as a view of them exists."""
        if self.file is not None:
            self.file.close()
        self.octets = memoryview(b"")
        self.closed = True

    def parts(self, chunks: Iterable[bytes | tuple[int, int]]) -> list[Part]:
        """Return the parts to write for the chunks (bytes, or ranges (start, end) of this file) of a new file."""
        return [chunk if isinstance(chunk, bytes) else Range(self, *chunk) for chunk in chunks]

    def check_other(self, target: str | os.PathLike[str], *, in_place: bool) -> None:
        """Raise UsageError if `target` is the file itself, unless it may be changed `in_place`."""
        if self.path is not None and not in_place and same_file(self.path, target):
            message = "input and output are the same file"
            raise UsageError(message, location=os.fspath(target), hint="use `in_place=True`")

    def check_unchanged(self, target: Path | None = None) -> None:
        """Raise InvalidInputError if the file was written to since it was opened.

        Changes are detected by size and modification time. If `target` is the file itself, which will be replaced,
        another file that has taken its name also counts as a change, since that file would be lost.
        """
        if self.file is None or self.file.closed or self.status is None:
            return
        now = os.fstat(self.file.fileno())
        if (now.st_size, now.st_mtime_ns) != (self.status.st_size, self.status.st_mtime_ns):
            message = "the input was changed while it was being read"
        elif target is not None and same_file(self.name, target) and not os.path.samestat(os.stat(target), now):
            message = "the input was replaced by another file while it was being read"
        else:
            return
        raise InvalidInputError(message, location=self.name, hint="run again when nothing else writes to it")


def open_source(source: str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO) -> Source:
    """Map a file or wrap bytes; streams and `-` are read to the end.

    Raises InvalidInputError if the file cannot be read, and UsageError for a source of another type.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return Source(_flat(source), "<bytes>")
    if isinstance(source, str | os.PathLike):
        name = os.fspath(source)
        if name == "-":
            if sys.stdin is None:
                raise InvalidInputError("standard input is closed")
            return Source(memoryview(sys.stdin.buffer.read()), "<standard input>")
        try:
            return _map(name)
        except OSError as error:
            raise InvalidInputError(f"cannot read it: {error.strerror}", location=name, hint=_near(name)) from error
        except ValueError as error:
            raise InvalidInputError(f"not a file name: {error}", location=repr(name)) from error
    return _read(source)


def _near(name: str) -> str:
    """Return a hint about the file that was probably meant instead of one that cannot be read."""
    if "://" in name:
        return "download it first"
    try:
        if os.path.isdir(name):
            return f"name a file in it, such as {min(os.listdir(name), default='…')}"
        stem, names = Path(name).stem, islice(os.listdir(os.path.dirname(name) or "."), _MOST_NAMES)
        alike = (one for one in names if nearest(stem, [Path(one).stem]))  # a common suffix proves nothing
        return "" if os.path.lexists(name) else did_you_mean(os.path.basename(name), alike)
    except OSError:
        return ""


def _flat(data: bytes | bytearray | memoryview) -> memoryview:
    try:
        return memoryview(data).cast("B")
    except (TypeError, ValueError) as error:
        raise UsageError(f"not contiguous memory: {error}", location="<bytes>") from error


def _read(stream: BinaryIO) -> Source:
    if not hasattr(stream, "read"):
        hint = "write its source.path" if hasattr(stream, "source") else "write a path"
        raise UsageError(f"a file is given as a path, bytes or a binary file, not {type(stream).__name__}", hint=hint)
    name = str(getattr(stream, "name", "<stream>"))
    try:
        data = stream.read()
    except OSError as error:
        raise InvalidInputError(f"cannot read it: {error.strerror or error}", location=name) from error
    except ValueError as error:
        raise UsageError(f"cannot read it: {error}", location=name, hint="open it in mode 'rb'") from error
    if not isinstance(data, bytes | bytearray | memoryview):
        raise UsageError(f"it returns {type(data).__name__}, not bytes", location=name, hint="open it in mode 'rb'")
    return Source(_flat(data), name)


def _map(name: str) -> Source:
    file = open(name, "rb")  # noqa: SIM115 - open as long as the source
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        with file:
            if stat.S_ISCHR(status.st_mode) and name != os.devnull:  # a device may have no end
                raise OSError(errno.ENODEV, "it is a device")
            return Source(memoryview(file.read()), name)
    try:
        memory = mmap.mmap(file.fileno(), status.st_size, access=mmap.ACCESS_READ) if status.st_size else b""
    except OSError:
        file.close()
        raise
    except ValueError as error:
        file.close()
        raise InvalidInputError("the file was truncated while it was being opened", location=name) from error
    return Source(memoryview(memory), name, file, status)


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes of `source` from `start` to `end`, copied by the kernel if possible."""

    source: Source
    start: int
    end: int

    def __post_init__(self) -> None:
        """Raise UsageError if the source is closed, since its bytes are no longer available."""
        if self.source.closed:
            raise UsageError("the model is closed", location=self.source.name, hint="save it before closing it")

    def __len__(self) -> int:
        return self.end - self.start


Part = bytes | Range


def view(part: Part) -> memoryview:
    """Return the bytes of a part without copying them."""
    return memoryview(part) if isinstance(part, bytes) else part.source.octets[part.start : part.end]


def write(
    target: str | os.PathLike[str],
    parts: Sequence[Part],
    *,
    source: Source | None = None,
    progress: Progress | None = None,
) -> None:
    """Write `parts` to `target`, whole or not at all; see `replacing`.

    `source` is the file from which the parts were made: a new file gets its mode bits, and nothing is written if it
    has changed since it was opened (InvalidInputError), or if this file would stay the same. A symbolic
    link is followed; `-`, pipes, devices and names such as /dev/stdout are written directly. Raises OutputError if
    writing fails.
    """
    name = os.fspath(target)
    check_target(name)
    try:
        path = Path(os.path.realpath(name))
        descriptor = _descriptor(name)
        if name == "-":
            if sys.stdout is None:
                raise OSError(errno.EBADF, "standard output is closed")
            _stream(sys.stdout.buffer, parts)
        elif descriptor is not None or (path.exists() and not path.is_file()):
            with open(path if descriptor is None else os.dup(descriptor), "wb") as stream:
                _stream(stream, parts)
        elif source is None or [*parts] != [Range(source, 0, len(source.octets))] or not same_file(source.name, path):
            _replace(path, parts, source, progress)
            return
    except OSError as error:
        if source is not None and error.errno == errno.EFAULT:  # a mapped file has been truncated
            source.check_unchanged()
        raise OutputError(f"cannot write it: {error.strerror}", location=name) from error
    if source is not None:
        source.check_unchanged()


def _replace(path: Path, parts: Sequence[Part], source: Source | None, progress: Progress | None) -> None:
    def fill(file: BinaryIO, early: bool) -> None:
        """Write the parts one after another; with `early`, the system starts writing to the disk during the copy."""
        total, done = sum(len(part) for part in parts), 0
        for part in parts:
            for written in _copy(part, file.fileno(), done):
                if early:
                    start_writing(file.fileno(), done, written - done)
                done = written
                if progress is not None:
                    progress(done, total)
        os.ftruncate(file.fileno(), total)

    if source is None:
        replace(path, fill, lambda: None)
    else:
        replace(path, fill, partial(source.check_unchanged, path), like=source.status)


def check_target(target: str | os.PathLike[str]) -> None:
    """Raise the errors of `write` that can be found without writing: OutputError, or UsageError for a directory."""
    name = os.fspath(target)
    check_name(name)
    if name == "-" or _descriptor(name) is not None:
        return
    path = Path(os.path.realpath(name))
    try:
        if path.is_symlink():
            raise OutputError("cannot write it: the symbolic link leads to itself", location=name)
        if path.is_dir():
            raise UsageError("the output is a directory; name a file", location=name)
        path.parent.stat()
    except OSError as error:
        raise OutputError(f"cannot write it: {error.strerror}", location=name) from error


def check_name(name: str) -> None:
    """Raise OutputError if `name` is not a possible file name."""
    try:
        if b"\0" in os.fsencode(name):
            raise OutputError("not a file name: it contains a NUL character", location=repr(name))
    except UnicodeEncodeError as error:
        raise OutputError(f"not a file name: {error.reason}", location=ascii(name)) from error


def _descriptor(name: str) -> int | None:
    """Return the descriptor of the open file that a name such as /dev/stdout or /dev/fd/63 refers to."""
    for _ in range(_LINKS):
        folder, last = os.path.split(name)
        folder = os.path.realpath(folder)
        if folder == f"/proc/{os.getpid()}/fd":
            return int(last) if last.isdecimal() else None
        if not os.path.islink(name):
            return None
        name = os.path.join(folder, os.readlink(name))
    return None


def make_directory(path: Path) -> None:
    """Make a directory, if it does not exist, and its parents. Raises OutputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the directory: {error.strerror}", location=str(path)) from error


def same_file(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Return whether two names refer to the same existing file."""
    try:
        return os.path.samefile(first, second)
    except (OSError, ValueError):
        return False


def _stream(stream: BinaryIO, parts: Sequence[Part]) -> None:
    for part in parts:
        stream.write(view(part))
    stream.flush()


def _copy(part: Part, target: int, at: int) -> Iterator[int]:
    """Write one part at offset `at`; after each step, yield the offset reached."""
    if isinstance(part, Range) and part.source.file is not None:
        try:
            yield from copy_range(part.source.file.fileno(), part.start, part.end, target, at)
        except EOFError as error:
            message = "the input was truncated while it was being copied"
            raise InvalidInputError(message, location=part.source.name) from error
    else:
        memory = view(part)
        position = 0
        while position < len(memory):
            position += write_at(target, memory[position : position + CHUNK_BYTES], at + position)
            yield at + position
    yield at + len(part)


def models_below(directory: str, suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[str]:
    """Yield the paths, relative to `directory`, of the models in it and below, sorted by name.

    A model is a file whose name has one of the suffixes, in any case, and does not begin with a dot. Links are
    followed; each directory is entered once, so cyclic links terminate. A dangling link and an unreadable directory
    are yielded too, so that opening them raises the error.
    """
    entered: set[tuple[int, int]] = set()
    waiting = [""]  # the next one is last
    while waiting:
        name = waiting.pop()
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            try:
                waiting += reversed(_inside(path, name, entered))
            except OSError:
                yield name or os.curdir
        elif name.lower().endswith(suffixes) and (os.path.isfile(path) or not os.path.exists(path)):
            yield name


def _inside(path: str, name: str, entered: set[tuple[int, int]]) -> list[str]:
    """Return the entries of a directory, sorted; none if it was entered before."""
    status = os.stat(path)
    identity = status.st_dev, status.st_ino
    if identity in entered:
        return []
    entered.add(identity)
    return [os.path.join(name, entry) for entry in sorted(os.listdir(path)) if not entry.startswith(".")]
