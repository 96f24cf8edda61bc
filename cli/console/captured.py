"""Open models and files so that errors name the file, and capture the output about a model instead of showing it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from errno import ENODEV
from pathlib import Path

import circletools as ct

TEXT_TIMES, TEXT_BYTES = 10, 200 << 20  # at most TIMES the size of the models plus BYTES of text


class Allowance:
    """The limit on text for the models read so far, since a small crafted model could produce gigabytes."""

    def __init__(self) -> None:
        self.read = self.written = 0

    def write(self, count: int) -> None:
        """Count written bytes. Raises InvalidInputError if the total exceeds the allowance."""
        self.check(count)
        self.written += count

    def check(self, count: int) -> None:
        """Raise InvalidInputError if `count` more bytes exceed the allowance."""
        whole = self.written + count
        if self.read and whole > TEXT_TIMES * self.read + TEXT_BYTES:
            message = f"more than {whole} bytes would be written for models of {self.read} bytes"
            raise ct.InvalidInputError(
                message, hint="a model seems crafted to produce excessive text; the rest is left out"
            )


class Captured:
    """The bytes for standard output, and the messages (kind, text) for standard error.

    With `is_one_of_several`, a JSON document becomes one line, and a SARIF log becomes its run on one line. `counts`
    is None for commands without a summary. `began` is true once a model has been opened; an error before that may
    concern the command line.
    """

    def __init__(self, is_one_of_several: bool = False) -> None:
        self.is_one_of_several = is_one_of_several
        self.out: list[bytes] = []
        self.messages: list[tuple[str | None, str]] = []
        self.counts: Mapping[tuple[str, str], int] | None = None
        self.unmatched: frozenset[str] | None = None
        self.error: str | None = None
        self.began = False
        self.allowance = Allowance()


_current: ContextVar[Captured | None] = ContextVar("captured", default=None)
_alone = Allowance()


def allowance() -> Allowance:
    """Return the allowance of the current model, or of all models read in this process."""
    return _alone if (captured := _current.get()) is None else captured.allowance


def current() -> Captured | None:
    """Return the object that captures output, or None if output is shown."""
    return _current.get()


@contextmanager
def capturing(captured: Captured) -> Iterator[Captured]:
    """Capture this thread's output inside the block."""
    token = _current.set(captured)
    try:
        yield captured
    finally:
        _current.reset(token)


def begin() -> None:
    """Record that a model is being opened."""
    if (captured := _current.get()) is not None:
        captured.began = True


def record(error: str | None, counts: Mapping[tuple[str, str], int] | None, unmatched: Iterable[str] = ()) -> bool:
    """Record the counts of a model's findings, and the error shown with them; return whether output is captured.

    The summary after the last model needs the counts by severity and code, and the patterns without a match.
    """
    if (captured := _current.get()) is not None:
        captured.error, captured.counts, captured.unmatched = error, counts, frozenset(unmatched)
    return captured is not None


@contextmanager
def reading(source: str) -> Iterator[ct.Model]:
    """Open a model; errors about its contents get the file's name in front of their location.

    Raises InvalidInputError at the end if the file has changed, since the data may then mix both versions.
    """
    begin()
    with naming(source), ct.open(source) as model:
        allowance().read += model.wire.size
        yield model
        model.source.check_unchanged()


@contextmanager
def naming(source: str) -> Iterator[None]:
    """Put the file's name in front of the locations of errors about its contents, unless they name another file."""
    try:
        yield
    except ct.CircleToolsError as error:
        if isinstance(error, ct.UsageError) and not (error.location or "").startswith("subgraphs["):
            raise
        if not isinstance(error, ct.OutputError):
            error.name_file(source)
        error.names_file = True
        raise


def read_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file; - is standard input. Raises InvalidInputError."""
    try:
        if Path(path).is_char_device() and str(path) != os.devnull:  # reading a device may never end
            raise OSError(ENODEV, "it is a device")
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ct.InvalidInputError(f"cannot read it: {reason}", location=str(path)) from error


def read_text(path: Path) -> str:
    """Return the text of a file; bytes that are not UTF-8 become surrogate escapes. Raises InvalidInputError."""
    return read_bytes(path).decode("utf-8-sig", "surrogateescape")
