"""Targets, and the outcomes that they may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Literal

from circletools.errors import CircleToolsError

Outcome = Literal["value", "refused"]
Mutate = Callable[[bytes, Random, bytes], bytes]
"""A function that changes an input slightly; the last argument is another input that may be spliced in."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target: `run` reads an input, `seeds` returns initial inputs, and `mutate` changes an input by its structure.

    `commands` are those that process a file as `run` does; tests compare them with the existing commands.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    mutate: Mutate
    commands: str = ""

    def outcome(self, data: bytes) -> Outcome:
        """Run the target on one input; any exception raised here is a finding."""
        try:
            self.run(data)
        except CircleToolsError as error:
            check_message(error)
            return "refused"
        return "value"


def check_message(error: CircleToolsError) -> None:
    """Fail unless an error has a message that fits on one line of a terminal."""
    text = str(error)
    assert text.strip(), f"{type(error).__name__} without a message"
    assert len(text) < 4000, f"a message of {len(text)} characters: {text[:200]}"


@contextmanager
def no_refusal(what: str) -> Iterator[None]:
    """Fail if the program refuses its own output."""
    try:
        yield
    except CircleToolsError as error:
        raise AssertionError(f"{what}: {error}") from error
