"""Open models and files so that errors name the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENODEV
from pathlib import Path

import circletools as ct

from .captured import allowance, begin


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
    except ct.UsageError:
        raise
    except ct.CircleToolsError as error:
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
