"""Check that the operators of the parts are those of the source, each once, and find the first that differ.

An operator that reads something else than in the source differs too. Reported are those whose inputs the other side
also computes: the rest differ because of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from circletools.findings import Finding
from circletools.split.contents import Flow
from circletools.split.state import State

_UNKNOWN = "is not in the source with these options, constants, inputs and outputs"


class Comparison:
    """The operators of the source, and those of the parts that were seen so far."""

    def __init__(
        self, source: Flow, codes: Sequence[str], place: str, state: State, constants: Iterable[int] = ()
    ) -> None:
        """Take the source; `codes` are the names of its operators' codes, `place` is what it is called.

        Several parts may each have one of the operators `constants`, and of those that `state` copies.
        """
        self._source, self._codes, self._place, self._state = source, codes, place, state
        self._left = Counter(source.operators.values())
        self._known = set(source.operators.values())
        self._computed = set(source.tensors.values())
        self._seen: set[bytes] = set()
        self._copied = {source.operators[operator] for operator in (*constants, *state.copied)}

    def add(self, part: Flow, codes: Sequence[str], file: str, place: str) -> Iterator[Finding]:
        """Count the operators of a part, and yield those that are too many."""
        self._seen.update(part.tensors.values())
        for index, operator in part.operators.items():
            if self._left[operator]:
                self._left[operator] -= 1
            elif operator not in self._copied and self._computed.issuperset(part.reads[index]):
                said = "is there twice" if operator in self._known else _UNKNOWN
                where = f"{place}.operators[{index}]"
                yield Finding("OPERATORS_DIFFER", "error", where, f"{codes[index]} of {file} {said}")

    def lacking(self, part: Flow, file: str) -> Iterator[Finding]:
        """Yield what a part lacks of what names or first sets things that its operators use."""
        source, there = self._source.operators, set(part.operators.values())
        for operator, users in self._state.copied.items():
            if source[operator] not in there and any(source[user] in there for user in users):
                where = f"{self._place}.operators[{operator}]"
                message = f"{self._codes[operator]} is not in {file}, whose operators need it"
                yield Finding("OPERATORS_DIFFER", "error", where, message)

    def missing(self) -> Iterator[Finding]:
        """Yield the operators of the source that no part has."""
        for index, operator in self._source.operators.items():
            if self._left[operator]:
                self._left[operator] -= 1
                if self._seen.issuperset(self._source.reads[index]):
                    place = f"{self._place}.operators[{index}]"
                    yield Finding("OPERATORS_DIFFER", "error", place, f"{self._codes[index]} is in no part")
