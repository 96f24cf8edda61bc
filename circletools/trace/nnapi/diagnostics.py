"""What is wrong with a trace, or worth knowing about it. The codes are stable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from circletools.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of diagnostic."""

    severity: Severity
    meaning: str
    hint: str


KINDS = {
    "T001": Kind(
        "error",
        "no NN marks",
        "was the trace recorded while a model ran, with the nnapi and hal tags on?"
        " times of operators are for `attribute` and `trace-compare --operators`",
    ),
    "T002": Kind("warning", "application marks but no runtime marks", "was the nnapi tag on?"),
    "T003": Kind("error", "events were lost", "record with a larger buffer; times around the gap are wrong"),
    "T004": Kind("error", "a mark that does not parse", "the event was cut or overwritten; its name is unknown"),
    "T010": Kind("warning", "an end without a begin", "the scope began before the trace did; its time is missing"),
    "T011": Kind("warning", "a begin without an end", "the trace was cut; the scope is closed where the trace ends"),
    "T012": Kind("error", "[SW] with nothing to switch", "the mark counts as if it had no [SW]"),
    "T020": Kind("error", "a phase inside one that does not hold it", "correct one of the two marks"),
    "T021": Kind("error", "a layer inside one that does not hold it", "correct one of the two marks, or use [SUB]"),
    "T022": Kind("error", "an unknown layer or phase", "the mark adds no time"),
    "T023": Kind("error", "a malformed tag", "write it as in [NN_LR_PE]name; the mark adds no time"),
    "T024": Kind("warning", "phase PU with no phase around it", "the mark adds no time"),
    "T030": Kind("info", "[SUB] without an enclosing scope of its layer", "all that could not hold it is paused"),
    "T031": Kind("info", "an application phase was repaired", "warm-up and benchmark belong into a run, one by one"),
    "T032": Kind("warning", "only warm-up or only benchmark in a run", "mark both, to tell first executions apart"),
    "T040": Kind("warning", "a start without a wait, or a wait without a start", "that execution is left out"),
    "T041": Kind("warning", "several client processes", "driver time belongs to the run that began last"),
    "T050": Kind("warning", "calls of the HAL but no driver process", "was the hal tag on, for all processes?"),
}


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
        """Say whether there is a case like it."""
        return (code, *like) in self._first

    def drop(self, code: str, *like: str) -> list[tuple[int, str, int]]:
        """Forget cases of a code whose `like` begins so; return the place, message and number of each."""
        keys = [key for key in self._first if key[: 1 + len(like)] == (code, *like)]
        return [(*self._first.pop(key), self._counts.pop(key)) for key in keys]

    def finish(self, place: Callable[[int], str]) -> list[Diagnostic]:
        """Return all, in the order of codes and places; `place` spells out where a case is."""
        cases = sorted((key[0], *self._first[key], self._counts[key]) for key in self._first)
        return [
            Diagnostic(code, KINDS[code].severity, place(where), message, count, KINDS[code].hint)
            for code, where, message, count in cases
        ]
