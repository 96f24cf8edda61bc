"""Read onert's `trace.chrome.json`, Chrome's trace event format as written by ChromeTracingEventWriter.cc.

    {"name": "@3 Conv2D", "tid": "$0 sess, $0 subg, cpu", "ph": "B", "ts": "735165333", "args": {...}}
    {"name": "$0 subg",   "tid": "$0 sess, $0 subg",      "ph": "E", "ts": "735165690", "args": {...}}

All values are strings, times are in microseconds, and an empty object ends the array. Newer versions write `#0 model
$0 subg` for `$0 subg`. The subgraphs are written one after another, so events are in time order only within a
subgraph. onert's other files, `trace.table.md` and `trace.json`, are inexact.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from typing import Any

from circletools.errors import InvalidInputError
from circletools.storage.documents import EXCESSIVE, is_excessive
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nanoseconds, nothing_found

_OPERATOR = re.compile(r"@(\d{1,9}) (.*)", re.DOTALL)
_TRACK = re.compile(r"\$(\d{1,9}) sess, (?:#(\d{1,9}) model )?\$(\d{1,9}) subg(?:, (.*))?", re.DOTALL)

_Event = tuple[str, str, str, str]  # the name, the track, the phase, and the time


def parse(data: bytes) -> OperatorTrace:
    """Parse the trace. Raises InvalidInputError."""
    runs, begins, elapsed, incomplete = _paired(_load(data))
    if not runs:
        raise nothing_found("no pair of onert's events (`@0 Conv2D`); `profile` records with -o, not --json")
    first, executions = dict[int, int](), 0
    for session, starts in sorted(begins.items()):
        first[session] = executions
        executions += max(1, len(starts))
        starts.sort()
    for at, run in enumerate(runs):
        # The events of the main subgraph are in order, but an inference may take less than a microsecond.
        begun = run.execution if run.subgraph == 0 else bisect_right(begins[run.lane], run.start_ns)
        runs[at] = run._replace(execution=first[run.lane] + max(0, begun - 1))
    whole = Whole(elapsed_ns=tuple(duration for _, duration in sorted(elapsed)) if len(first) == 1 else ())
    return OperatorTrace("onert", tuple(runs), executions, incomplete=incomplete, whole=whole)


def _load(data: bytes) -> list[_Event]:
    """Return the events with phase B or E, in file order."""
    events: list[_Event] = []
    known: dict[str, str] = {}

    def keep(fields: dict[str, Any]) -> None:
        """Reduce every object to the fields needed, to save memory with large traces."""
        if fields.get("ph") in ("B", "E"):
            name, track, time = fields.get("name"), fields.get("tid"), fields.get("ts")
            if isinstance(name, str) and isinstance(track, str) and isinstance(time, str):
                events.append((known.setdefault(name, name), known.setdefault(track, track), fields["ph"], time))

    try:
        text = data.decode("utf-8-sig", "surrogateescape")
        if is_excessive(text):
            raise InvalidInputError(f"not a trace: {EXCESSIVE}")
        json.loads(text, object_hook=keep, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        hint = "onert finishes the file when its session is closed" if error.pos >= len(text.rstrip()) else None
        raise InvalidInputError(f"not JSON: {error.msg}", location=str(error.lineno), hint=hint) from error
    except RecursionError as error:
        raise InvalidInputError("not a trace: the JSON is nested too deeply") from error
    return events


def _paired(events: list[_Event]) -> tuple[list[OperatorRun], dict[int, list[int]], list[tuple[int, int]], int]:
    """Pair begin and end events with the same track and name.

    Return the runs of operators, the starts of the main subgraph's runs by session, the starts and durations of those
    that end, and the number of unpaired events. The execution to which a run belongs is the number of preceding runs,
    in the file, of its session's main subgraph.
    """
    tracks: dict[str, re.Match[str] | None] = {}
    open_begins: dict[tuple[str, str], list[tuple[int, int]]] = {}
    inferences: dict[int, list[int]] = {}
    runs, elapsed, models, unmatched = list[OperatorRun](), list[tuple[int, int]](), set[int](), 0
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
            models.add(int(match[2] or 0))
            if backend is None and subgraph == 0:
                elapsed.append((start, time - start))
            elif backend is not None and (operator := _OPERATOR.fullmatch(name)):
                place = subgraph, int(operator[1]), operator[2], backend
                runs.append(OperatorRun(*place, start, time - start, before, session))
    if len(models) > 1:
        raise InvalidInputError("the trace is from a package with several models", hint="trace one model at a time")
    return runs, inferences, elapsed, unmatched + sum(len(begins) for begins in open_begins.values())
