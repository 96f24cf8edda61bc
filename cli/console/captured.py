"""Capture the output of a command about one model instead of showing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import circletools as ct

TEXT_TIMES, TEXT_BYTES = 10, 200 << 20  # at most TIMES the size of the models plus BYTES of text


class Allowance:
    """The limit on text for the models read so far, since a small crafted model could produce gigabytes."""

    def __init__(self) -> None:
        self.read = self.written = 0

    def write(self, count: int) -> None:
        """Count written bytes. Raises InvalidInputError if the total exceeds the allowance."""
        self.written += count
        if self.read and self.written > TEXT_TIMES * self.read + TEXT_BYTES:
            message = f"more than {self.written} bytes would be written for models of {self.read} bytes"
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
