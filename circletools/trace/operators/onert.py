"""onert's `trace.chrome.json`: Chrome's trace event format, as written by ChromeTracingEventWriter.cc.

    {"name": "@3 Conv2D", "tid": "$0 sess, $0 subg, cpu", "ph": "B", "ts": "735165333", "args": {...}}
    {"name": "$0 subg",   "tid": "$0 sess, $0 subg",      "ph": "E", "ts": "735165690", "args": {...}}

All values are strings, times are in microseconds, and an empty object ends the array. Newer versions write `#0 model
$0 subg` for `$0 subg`. The recorders of the subgraphs are written one after another, so events are in time order
only within a subgraph. onert's other files are not exact: `trace.table.md` loses operators that begin in the
same microsecond, and `trace.json` holds averages cut to whole microseconds.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

from circletools.errors import InvalidInputError
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nanoseconds, nothing_found

_OPERATOR = re.compile(r"@(\d{1,9}) (.*)", re.DOTALL)
_TRACK = re.compile(r"\$(\d{1,9}) sess, (?:#(\d{1,9}) model )?\$(\d{1,9}) subg(?:, (.*))?", re.DOTALL)


_Event = tuple[str, str, str, str]
"""Name, track, phase, and time."""


class _Span(NamedTuple):
    """A pair of begin and end events; `begun` is how many runs of the session's main subgraph precede it in the file.

    The events of a whole subgraph have no backend.
    """

    session: int
    model: int
    subgraph: int
    backend: str | None
    name: str
    start_ns: int
    end_ns: int
    begun: int


def parse(data: bytes) -> OperatorTrace:
    """Parse the trace. Raises InvalidInputError."""
    spans, begins, incomplete = _spans(_load(data))
    if len({span.model for span in spans}) > 1:
        raise InvalidInputError("the trace is of a package with several models", hint="trace one model at a time")
    first = {}
    executions = 0
    for session, starts in sorted(begins.items()):
        first[session] = executions
        executions += max(1, len(starts))
        starts.sort()
    runs = []
    for span in spans:
        match = _OPERATOR.fullmatch(span.name)
        subgraph, session = span.subgraph, span.session
        if match is None or span.backend is None:
            continue
        # The main subgraph's own events are in order, but an inference may take less than a microsecond.
        begun = span.begun if subgraph == 0 else bisect_right(begins[session], span.start_ns)
        execution = first[session] + max(0, begun - 1)
        duration = span.end_ns - span.start_ns
        kind = subgraph, int(match[1]), match[2], span.backend
        runs.append(OperatorRun(*kind, span.start_ns, duration, execution, session))
    if not runs:
        raise nothing_found("the JSON document has no pair of onert's operator events (`@0 Conv2D`)")
    whole = Whole(elapsed_ns=_elapsed(spans) if len(first) == 1 else ())
    return OperatorTrace("onert", tuple(runs), executions, incomplete=incomplete, whole=whole)


def _load(data: bytes) -> list[_Event]:
    """Return the events with a phase B or E, in the order of the file."""
    events: list[_Event] = []
    known: dict[str, str] = {}

    def keep(fields: dict[str, Any]) -> None:
        """Reduce every object to the needed fields, to save memory with a large trace."""
        if fields.get("ph") in ("B", "E"):
            name, track, time = fields.get("name"), fields.get("tid"), fields.get("ts")
            if isinstance(name, str) and isinstance(track, str) and isinstance(time, str):
                events.append((known.setdefault(name, name), known.setdefault(track, track), fields["ph"], time))

    try:
        text = data.decode("utf-8-sig", "surrogateescape")
        json.loads(text, object_hook=keep, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        hint = "onert finishes the file when its session is closed" if error.pos >= len(text.rstrip()) else None
        raise InvalidInputError(f"not JSON: {error.msg}", location=str(error.lineno), hint=hint) from error
    except RecursionError as error:
        raise InvalidInputError("not a trace: JSON nested too deeply") from error
    return events


def _elapsed(spans: Sequence[_Span]) -> tuple[int, ...]:
    """Return the time of each run of the main subgraph."""
    whole = (span for span in spans if span.backend is None and span.subgraph == 0)
    return tuple(span.end_ns - span.start_ns for span in sorted(whole, key=lambda span: span.start_ns))


def _spans(events: list[_Event]) -> tuple[list[_Span], dict[int, list[int]], int]:
    """Pair begin and end events with the same track and name.

    Return the pairs, the starts of the main subgraph's runs (by session), and the number of unpaired events.
    """
    tracks: dict[str, re.Match[str] | None] = {}
    open_begins: dict[tuple[str, str], list[tuple[int, int]]] = {}
    spans: list[_Span] = []
    inferences: dict[int, list[int]] = {}
    unmatched = 0
    for name, track, phase, text in events:
        if track not in tracks:
            tracks[track] = _TRACK.fullmatch(track)
        match = tracks[track]
        if match is None:
            continue
        session, subgraph, backend = int(match[1]), int(match[3]), match[4]
        begins = open_begins.setdefault((track, name), [])
        time = nanoseconds(text, "microseconds")
        if phase == "B":
            begun = inferences.setdefault(session, [])
            if backend is None and subgraph == 0:
                begun.append(time)
            begins.append((time, len(begun)))
        elif not begins:
            unmatched += 1
        else:
            start, before = begins.pop()
            if time < start:
                raise InvalidInputError(f"{name!r} ends at {text} us, before it begins")
            spans.append(_Span(session, int(match[2] or 0), subgraph, backend, name, start, time, before))
    return spans, inferences, unmatched + sum(len(begins) for begins in open_begins.values())
