"""The events of LiteRT's profiler as JSON: the fields of the events that `LiteRtGetProfilerEvents` returns.

    {"events": [{"tag": "CONV_2D", "event_type": 2, "start_timestamp_us": 12, "elapsed_time_us": 5,
                 "event_metadata1": 3, "event_metadata2": 0}, ...]}

The names are those of `ProfiledEventData` in litert/c/litert_profiler_event.h. LiteRT has no program that writes this
document; the recording program has to do it (docs/trace.md shows how). Events are in the order of their begins. An
operator's numbers are its index and its subgraph. A delegate's own operators follow the end of its run, with their
times but without their starts. `end_mem_usage`, if present, is the memory in bytes at the end of an event.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from circletools.errors import InvalidInputError
from circletools.storage.strict_json import read_json
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, Whole, nothing_found

_DEFAULT, _OPERATOR, _OF_DELEGATE = 1, 2, 8
_INVOKE = "Invoke"
_NUMBERS = ("event_type", "start_timestamp_us", "elapsed_time_us", "event_metadata1", "event_metadata2")
_LARGEST = 1 << 50
_FOOTPRINT = 2  # the memory usages: allocated in total, in use, and of the process (seen in 2.3.0)


def is_events(head: bytes) -> bool:
    """Return whether this is the beginning of such a document."""
    return b'"elapsed_time_us"' in head


def parse(data: bytes) -> OperatorTrace:
    """Parse the events. Raises InvalidInputError."""
    document = read_json(data, "")
    found = document.get("events") if isinstance(document, dict) else None
    if not isinstance(found, list):
        raise InvalidInputError("the JSON document has no list of `events`")
    runs: list[OperatorRun] = []
    executions, end_ns = 0, -1  # when the outermost Invoke of the execution ends
    latest_ns = memory = 0
    invoked: list[int] = []
    for at, event in enumerate(found):
        kind, start, elapsed, *place = _numbers(event, at)
        start_ns, elapsed_ns = start * 1000, elapsed * 1000
        if kind == _DEFAULT and event["tag"] == _INVOKE and start_ns >= end_ns:
            executions, end_ns, latest_ns = executions + 1, start_ns + elapsed_ns, start_ns
            invoked.append(elapsed_ns)
            memory = max(memory, _resident(event))
        elif kind in (_OPERATOR, _OF_DELEGATE) and executions:
            of_delegate = kind == _OF_DELEGATE
            start_ns = latest_ns if of_delegate else start_ns
            latest_ns = start_ns + elapsed_ns if of_delegate else max(latest_ns, start_ns)
            number, subgraph = place
            run = OperatorRun(subgraph, number, event["tag"], "", start_ns, elapsed_ns, executions - 1)
            runs.append(run._replace(of_delegate=of_delegate))
    if not runs:
        raise nothing_found("the events have no operator within `Invoke`")
    whole = Whole(elapsed_ns=tuple(invoked), memory_bytes=memory or None)
    return OperatorTrace("litert", tuple(runs), executions, whole=whole)


def _resident(event: Mapping[str, object]) -> int:
    """Return the bytes that the process used at the end of an event, 0 if that is not known."""
    usage = event.get("end_mem_usage")
    size = usage[_FOOTPRINT] if isinstance(usage, list) and len(usage) > _FOOTPRINT else 0
    return size if type(size) is int and 0 <= size < _LARGEST else 0


def _numbers(event: object, at: int) -> Sequence[int]:
    """Return the numbers of an event, without the last two (which may be anything) if it is not an operator."""
    if not isinstance(event, dict) or not isinstance(event.get("tag"), str):
        raise InvalidInputError(f"events[{at}] is not an event with a tag")
    count = len(_NUMBERS) if event.get("event_type") in (_OPERATOR, _OF_DELEGATE) else 3
    values = [event.get(name, 0) for name in _NUMBERS[:count]]
    for name, value in zip(_NUMBERS, values, strict=False):
        if type(value) is not int or not 0 <= value < _LARGEST:
            raise InvalidInputError(f"events[{at}].{name} is not a valid number")
    return values
