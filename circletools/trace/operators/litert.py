"""Read LiteRT's events, as atrace marks, as JSON, or as label_image prints them.

An atrace mark is a begin event `TAG@<number>/<subgraph index>` and an end event, for every event of the interpreter.
For an operator, the tag is the name of its code (a custom operator's custom code, a delegate node's delegate name)
and the number is its operator index (tensorflow/lite/profiling/atrace_profiler.cc, and GetTFLiteOpName in
tensorflow/lite/core/subgraph.cc). Operators run within `Invoke`, of which the outermost is an inference; a subgraph
that an operator calls has its own `Invoke`. Marks inside an operator's mark are parts of the operator.

The JSON document has the fields of the events that `LiteRtGetProfilerEvents` returns:

    {"events": [{"tag": "CONV_2D", "event_type": 2, "start_timestamp_us": 12, "elapsed_time_us": 5,
                 "event_metadata1": 3, "event_metadata2": 0}, ...]}

The names are those of `ProfiledEventData` in litert/c/litert_profiler_event.h. LiteRT has no program that writes this
document; the program that records must do so (docs/trace.md shows how). Events are in the order of their starts. The
metadata of an operator are its index and its subgraph. A delegate's own operators follow the end of its run, with
durations but no start times. `end_mem_usage`, if present, holds memory figures in bytes at the end of an event.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from circletools.errors import InvalidInputError
from circletools.storage.documents import read_json
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nanoseconds, nothing_found
from circletools.trace.sources import BEGIN, Event

_MARK = re.compile(rb"(.+)@(\d{1,9})/(\d{1,9})", re.DOTALL)
_PRINTED = re.compile(r"(\d{1,9}\.\d{3}), (?:Subgraph +(\d{1,9}), )?Node +(\d{1,9}), OpCode +\d{1,9}, +(\w+)")
_INVOKE, _DEFAULT, _OPERATOR, _OF_DELEGATE = "Invoke", 1, 2, 8
_NUMBERS = ("event_type", "start_timestamp_us", "elapsed_time_us", "event_metadata1", "event_metadata2")
_LARGEST = 1 << 50
_FOOTPRINT = 2  # the last of the memory figures: total allocated, in use, used by the process (in 2.3.0)

_Mark = tuple[int, int, str]
"""The subgraph, the number, and the tag."""

_Open = tuple[_Mark | None, int, int | None, bool, str | None]
"""A begin event whose end has not been read: the mark, its start, the inference around it, whether an operator has
begun since the last `Invoke`, and the mark's role (`Invoke`, operator or part); None for other marks."""

_OUTSIDE: _Open = (None, 0, None, False, None)


def collect(events: Iterable[Event]) -> OperatorTrace:
    """Return the runs of operators among the marks of a trace. Raises InvalidInputError if there are no runs."""
    marks: dict[bytes, _Mark | None] = {}
    stacks: dict[int, list[_Open]] = {}
    found: dict[str, list[OperatorRun]] = {"operator": [], "part": []}
    executions, elapsed = 0, dict[int, int]()
    for event in events:
        stack = stacks.setdefault(event.tid, [])
        if event.kind == BEGIN:
            if event.text not in marks:
                match = _MARK.fullmatch(event.text)
                tag = match[1].decode("utf-8", "surrogateescape") if match else ""
                marks[event.text] = (int(match[3]), int(match[2]), tag) if match else None
            mark = marks[event.text]
            _, _, execution, operator, _ = stack[-1] if stack else _OUTSIDE
            role = None
            if mark is not None and mark[2] == _INVOKE:
                role, operator = _INVOKE, False
                if execution is None:
                    execution, executions = executions, executions + 1
            elif mark is not None and execution is not None:  # outside executions, the interpreter prepares to run
                role, operator = "part" if operator else "operator", True
            stack.append((mark, event.t_ns, execution, operator, role))
        elif stack:
            mark, start_ns, execution, _, role = stack.pop()
            duration = event.t_ns - start_ns
            if mark is None or execution is None or role is None:
                continue
            if role == _INVOKE and (not stack or stack[-1][2] is None):  # the outermost
                elapsed[execution] = duration
            elif role in found and duration >= 0:
                found[role].append(OperatorRun(*mark, "", start_ns, duration, execution, event.tid))
    if not found["operator"]:
        raise nothing_found("the trace has no marks of LiteRT's operators (`CONV_2D@0/0` within `Invoke@…`)")
    cut = sum(1 for stack in stacks.values() for *_, role in stack if role is not None)
    runs, parts = tuple(found["operator"]), tuple(found["part"])
    known = all(number in elapsed for number in range(executions))
    whole = Whole(elapsed_ns=tuple(elapsed[number] for number in range(executions)) if known else ())
    return OperatorTrace("litert", runs, executions, inside=parts, incomplete=cut, whole=whole)


def parse(data: bytes) -> OperatorTrace:
    """Parse events in JSON. Raises InvalidInputError."""
    document = read_json(data, "")
    found = document.get("events") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise InvalidInputError("the JSON document has no list of `events`")
    runs: list[OperatorRun] = []
    executions, end_ns = 0, -1  # the end of the outermost Invoke of the execution
    latest_ns = memory = 0
    invoked: list[int] = []
    for at, event in enumerate(found):
        kind, start, elapsed, *place = _numbers(event, at)
        start_ns, elapsed_ns = start * 1000, elapsed * 1000
        if kind == _DEFAULT and event["tag"] == _INVOKE and start_ns >= end_ns:
            executions, end_ns, latest_ns = executions + 1, start_ns + elapsed_ns, start_ns
            invoked.append(elapsed_ns)
            usage = event.get("end_mem_usage")
            size = usage[_FOOTPRINT] if isinstance(usage, list) and len(usage) > _FOOTPRINT else 0
            memory = max(memory, size if type(size) is int and 0 <= size < _LARGEST else 0)
        elif kind in (_OPERATOR, _OF_DELEGATE) and executions:
            of_delegate = kind == _OF_DELEGATE
            start_ns = latest_ns if of_delegate else start_ns
            latest_ns = start_ns + elapsed_ns if of_delegate else max(latest_ns, start_ns)
            number, subgraph = place
            run = OperatorRun(subgraph, number, event["tag"], "", start_ns, elapsed_ns, executions - 1)
            runs.append(run._replace(of_delegate=of_delegate))
    if not runs:
        raise nothing_found("the events contain no operator within `Invoke`")
    whole = Whole(elapsed_ns=tuple(invoked), memory_bytes=memory or None)
    return OperatorTrace("litert", tuple(runs), executions, whole=whole)


def printed(lines: Iterable[str]) -> tuple[tuple[OperatorRun, ...], int]:
    """Return all runs of each operator together, as `label_image -p 1` prints them, and the number of executions."""
    times: dict[tuple[int, int, str], list[int]] = {}
    for match in filter(None, map(_PRINTED.search, lines)):
        key = int(match[2] or 0), int(match[3]), match[4]
        times.setdefault(key, []).append(nanoseconds(match[1], "milliseconds"))
    first, *others = times.values() if times else ([],)
    count = max(map(len, others), default=len(first))
    if len(first) == 2 * count:  # newer versions print each execution, too, as if it were the first operator
        del first[::2]
    return tuple(OperatorRun(*key, "", 0, sum(some), 0, 0, len(some)) for key, some in times.items()), count


def _numbers(event: object, at: int) -> Sequence[int]:
    """Return the numbers of an event; only operators have the last two: other events may hold anything there."""
    if not isinstance(event, dict) or not isinstance(event.get("tag"), str):
        raise InvalidInputError(f"events[{at}] is not an event with a tag")
    count = len(_NUMBERS) if event.get("event_type") in (_OPERATOR, _OF_DELEGATE) else 3
    values = [event.get(name, 0) for name in _NUMBERS[:count]]
    for name, value in zip(_NUMBERS, values, strict=False):
        if type(value) is not int or not 0 <= value < _LARGEST:
            raise InvalidInputError(f"events[{at}].{name} is not a valid number")
    return values
