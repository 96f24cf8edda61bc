"""Diagnostics of a trace. The codes are in `circletools/codes.json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circletools.codes import explain, severities
from circletools.findings import Finding


@dataclass(frozen=True, slots=True)
class Diagnostic(Finding):
    """A finding in a trace, with the place of its first occurrence, the number of occurrences, and a remedy."""

    count: int
    hint: str


class Collector:
    """Collects diagnostics; equal cases are combined in one diagnostic with a count."""

    def __init__(self) -> None:
        self._cases: dict[tuple[str, ...], tuple[int, str, int]] = {}

    def add(self, code: str, where: int, message: str, *like: str, count: int = 1) -> None:
        """Record a case; cases are equal if they have the same code and the same `like`."""
        first, shown, before = self._cases.get((code, *like), (where, message, 0))
        self._cases[(code, *like)] = first, shown, before + count

    def known(self, code: str, *like: str) -> bool:
        """Return whether an equal case was added before."""
        return (code, *like) in self._cases

    def drop(self, code: str, *like: str) -> list[tuple[int, str, int]]:
        """Remove cases of a code whose `like` begins with these words; return each one's place, message and count."""
        keys = [key for key in self._cases if key[: 1 + len(like)] == (code, *like)]
        return [self._cases.pop(key) for key in keys]

    def finish(self, place: Callable[[int], str]) -> list[Diagnostic]:
        """Return all diagnostics, ordered by code and place; `place` formats the place of a case."""
        found = [(key[0], *case) for key, case in self._cases.items()]
        cases = sorted(found, key=lambda case: (case[0], abs(case[1]), *case[2:]))  # places below 0 are times
        return [
            Diagnostic(code, severities()[code][0], place(where), message, count, explain(code).remedy)
            for code, where, message, count in cases
        ]
