"""Diagnostics of a trace. The codes are in `circletools/codes.json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circletools.codes import explain, severities
from circletools.findings import Finding


@dataclass(frozen=True, slots=True)
class Diagnostic(Finding):
    """A finding in a trace: the place of its first occurrence, the number of occurrences, and a remedy."""

    count: int
    hint: str


class Collector:
    """Collects diagnostics; equal cases become one diagnostic with a count."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[int, str]] = {}
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, code: str, where: int, message: str, *like: str, count: int = 1) -> None:
        """Record a case; cases are equal if they have the same code and the same `like`."""
        key = (code, *like)
        if key not in self._first:
            self._first[key] = (where, message)
        self._counts[key] = self._counts.get(key, 0) + count

    def known(self, code: str, *like: str) -> bool:
        """Return whether an equal case was added before."""
        return (code, *like) in self._first

    def drop(self, code: str, *like: str) -> list[tuple[int, str, int]]:
        """Remove cases of a code whose `like` starts with these; return the place, message and number of each."""
        keys = [key for key in self._first if key[: 1 + len(like)] == (code, *like)]
        return [(*self._first.pop(key), self._counts.pop(key)) for key in keys]

    def finish(self, place: Callable[[int], str]) -> list[Diagnostic]:
        """Return all diagnostics, in the order of codes and places; `place` formats the place of a case."""
        found = [(key[0], *self._first[key], self._counts[key]) for key in self._first]
        cases = sorted(found, key=lambda case: (case[0], abs(case[1]), *case[2:]))  # times are negative places
        return [
            Diagnostic(code, severities()[code][0], place(where), message, count, explain(code).remedy)
            for code, where, message, count in cases
        ]
