"""The output of a command about one model, captured instead of shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import circletools as ct

TEXT_TIMES, TEXT_BYTES = 10, 200 << 20  # what is written about models: so many times their files, and so many bytes


class Allowance:
    """The most text that the models read so far justify: a small crafted one could produce gigabytes."""

    def __init__(self) -> None:
        self.read = self.written = 0

    def write(self, count: int) -> None:
        """Note that so many bytes are written. Raises InvalidInputError where models do not justify them."""
        self.written += count
        if self.read and self.written > TEXT_TIMES * self.read + TEXT_BYTES:
            message = f"more than {self.written} bytes would be written about models of {self.read}"
            raise ct.InvalidInputError(message, hint="it was made to produce excessive text; the rest is left out")


class Captured:
    """The bytes for standard output, and the messages (kind, text) for standard error.

    With `is_one_of_several`, a JSON document becomes one line, and a SARIF log its run on one line.
    `counts` is None for commands that are not summed up. `began`: a model was opened; an error before that may be one
    of the command line.
    """

    def __init__(self, is_one_of_several: bool = False) -> None:
        self.is_one_of_several = is_one_of_several
        self.out: list[bytes] = []
        self.messages: list[tuple[str | None, str]] = []
        self.counts: Mapping[tuple[str, str], int] | None = None
        self.error: str | None = None
        self.began = False
        self.allowance = Allowance()


_current: ContextVar[Captured | None] = ContextVar("captured", default=None)


_alone = Allowance()


def allowance() -> Allowance:
    """Return the allowance of the model that is worked on, or of all that are read in this process."""
    return _alone if (captured := _current.get()) is None else captured.allowance


def current() -> Captured | None:
    """Return where output goes; None where it is to be shown."""
    return _current.get()


@contextmanager
def capturing(captured: Captured) -> Iterator[Captured]:
    """Capture the output meanwhile, in this thread."""
    token = _current.set(captured)
    try:
        yield captured
    finally:
        _current.reset(token)


def begin() -> None:
    """Note that a model is being opened."""
    if (captured := _current.get()) is not None:
        captured.began = True


def record(error: str | None, counts: Mapping[tuple[str, str], int] | None) -> bool:
    """Record an error shown among a model's findings, and their counts; return whether it was recorded.

    `counts` are those of each severity and code, to be summed up behind the last model.
    """
    if (captured := _current.get()) is not None:
        captured.error, captured.counts = error, counts
    return captured is not None
