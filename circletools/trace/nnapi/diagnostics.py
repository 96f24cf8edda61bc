"""Diagnostics of a trace. The codes are in `circletools/codes.json`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circletools.codes import explain, severities
from circletools.findings import Finding


@dataclass(frozen=True, slots=True)
class Diagnostic(Finding):
    """A finding in a trace: the place of its first case, how many cases there are, and what to do about it."""

    count: int
    hint: str


class Collector:
    """Gathers diagnostics; cases that are alike become one, with a count."""

    def __init__(self) -> None:
        self._first: dict[tuple[str, ...], tuple[int, str]] = {}
        self._counts: dict[tuple[str, ...], int] = {}

    def add(self, code: str, where: int, message: str, *like: str, count: int = 1) -> None:
        """Note a case; those with one code and one `like` are alike."""
        key = (code, *like)
        if key not in self._first:
            self._first[key] = (where, message)
        self._counts[key] = self._counts.get(key, 0) + count

    def known(self, code: str, *like: str) -> bool:
        """Return whether a similar case was added before."""
        return (code, *like) in self._first

    def drop(self, code: str, *like: str) -> list[tuple[int, str, int]]:
        """Forget cases of a code whose `like` begins so; return the place, message and number of each."""
        keys = [key for key in self._first if key[: 1 + len(like)] == (code, *like)]
        return [(*self._first.pop(key), self._counts.pop(key)) for key in keys]

    def finish(self, place: Callable[[int], str]) -> list[Diagnostic]:
        """Return all, in the order of codes and places; `place` spells out where a case is."""
        cases = sorted((key[0], *self._first[key], self._counts[key]) for key in self._first)
        return [
            Diagnostic(code, severities()[code][0], place(where), message, count, explain(code).remedy)
            for code, where, message, count in cases
        ]
