"""What a target is, and the only outcomes it may have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Literal

from circletools.errors import CircleToolsError

Outcome = Literal["value", "refused"]
Mutate = Callable[[bytes, Random, bytes], bytes]
"""Changes an input a little; the last argument is another input that may be spliced in."""


@dataclass(frozen=True, slots=True)
class Target:
    """A surface: `run` reads an input, `seeds` give inputs to start from, `mutate` knows their structure.

    `commands` are those that do with a file what `run` does; the tests hold them against the commands that there are.
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], list[bytes]]
    mutate: Mutate
    commands: str = ""

    def outcome(self, data: bytes) -> Outcome:
        """Run on one input; whatever is raised here is a finding."""
        try:
            self.run(data)
        except CircleToolsError as error:
            check_message(error)
            return "refused"
        return "value"


def check_message(error: CircleToolsError) -> None:
    """Fail unless an error says something that fits on one line of a terminal."""
    text = str(error)
    assert text.strip(), f"{type(error).__name__} without a message"
    assert len(text) < 4000, f"a message of {len(text)} characters: {text[:200]}"


@contextmanager
def no_refusal(what: str) -> Iterator[None]:
    """Fail where what this program made itself is refused."""
    try:
        yield
    except CircleToolsError as error:
        raise AssertionError(f"{what}: {error}") from error
