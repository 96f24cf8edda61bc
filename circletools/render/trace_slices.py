"""Export a trace's marks for viewers, as slices in Chrome JSON or as `ftrace/print` events in a Perfetto trace.

Threads without NN marks are omitted. Marks still open at the end of the trace stay open, and unmatched end events are
kept, so that the analysis of an export equals that of the original trace. Faults of the trace itself, such as lost
events, are recorded along with the events.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import BinaryIO, Literal

from circletools.trace.nnapi.analysis import Analysis, analyse, checked
from circletools.trace.nnapi.marks import classify
from circletools.trace.sources import BEGIN, Event, Trace, events, open_trace
from circletools.trace.sources.batch import FAULTS
from circletools.trace.sources.text import HEAD
from circletools.trace.sources.wire import field_bytes, field_number, number_bytes

Target = Literal["chrome", "perfetto"]

_BUNDLE_BYTES, _REMEMBERED = 1 << 16, 1 << 12


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """The pieces of a file for a trace viewer, and the trace's analysis."""

    pieces: list[bytes]
    analysis: Analysis


def export_trace(
    source: str | os.PathLike[str] | bytes | BinaryIO, to: Target, *, strict: bool = False
) -> ExportedTrace:
    """Convert an NNAPI trace to Chrome JSON or a Perfetto trace, with layers and phases as nested slices.

    Raises InvalidInputError if the input is broken or not a trace; if `strict`, also for the first diagnostic that is
    an error.
    """
    trace = open_trace(source)
    analysis = checked(analyse(trace), strict=strict)
    parts = chrome_parts if to == "chrome" else perfetto_parts
    return ExportedTrace(list(parts(trace, analysis)), analysis)


def _events(trace: Trace, analysis: Analysis) -> Iterator[tuple[Event, bool]]:
    """Yield the events to write in time order, each with a flag: false for an end event without a begin event.

    If the trace begins before its marks or ends after them, placeholder marks record its start and end.
    """
    depths: dict[int, int] = defaultdict(int)
    last = Event(-1, min(analysis.marked, default=0), 0, "E", b"", -1)
    for event in events(trace, ordered=analysis.ordered):
        if event.tid not in analysis.marked:
            continue
        if analysis.first_ns < event.t_ns and last.t_ns < 0:
            yield from _meaningless(event, analysis.first_ns, b"start of trace")
        last = event
        paired = event.kind == BEGIN or depths[event.tid] > 0
        depths[event.tid] += (1 if event.kind == BEGIN else -1) * paired
        yield event, paired
    if analysis.marked and last.t_ns < analysis.last_ns:
        yield from _meaningless(last, analysis.last_ns, b"end of trace")


def _meaningless(near: Event, t_ns: int, text: bytes) -> Iterator[tuple[Event, bool]]:
    yield near._replace(t_ns=t_ns, kind="B", text=text), True
    yield near._replace(t_ns=t_ns, kind="E", text=b""), True


def chrome_parts(trace: Trace, analysis: Analysis) -> Iterator[bytes]:
    """Yield the pieces of a Chrome JSON document, with the slices of each thread in order."""
    lines = [
        json.dumps({"ph": "M", "pid": trace.processes.get(tid, 0), "tid": tid, "name": "thread_name"} | args)
        for tid, name in trace.thread_names.items()
        if tid in analysis.marked
        for args in ({"args": {"name": name}},)
    ]
    faults = b'"otherData": {"faults": %b}, ' % trace.faults_json() if trace.faults else b""
    yield b'{"displayTimeUnit": "ns", %b"traceEvents": [\n' % faults
    comma, named = b"", cache(_named)
    for event, paired in _events(trace, analysis):
        kind, rest = ("E", "}") if paired else ("i", ',"s":"t","name":"end without a begin"}')
        if event.kind == BEGIN:
            kind, rest = "B", named(event.text)
        lines.append(HEAD % (kind, *divmod(event.t_ns, 1000), event.tid, max(event.tgid, 0)) + rest)
        if len(lines) >= 4096:
            yield comma + ",\n".join(lines).encode()
            comma, lines = b",\n", []
    for execution in analysis.executions:
        for phase, t_ns in (("b", execution.start_ns), ("e", execution.end_ns)):
            one = {"ph": phase, "pid": execution.process, "cat": "execution", "id": execution.number}
            time = f'{{"ts":{t_ns // 1000}.{t_ns % 1000:03d},'
            lines.append(time + json.dumps(one | {"name": execution.kind})[1:])
    yield (comma * bool(lines) + ",\n".join(lines).encode()) + b"\n]}\n"


def _named(text: bytes) -> str:
    """Return the end of the line for a begin event, with the name, layer and phase of its mark."""
    mark = classify(text)
    name = mark.name if mark.layer and mark.name else text.decode("utf-8", "backslashreplace")
    where = {"layer": mark.layer, "phase": mark.phase} if mark.layer else {}
    args = where | {"mark": text.decode("utf-8", "surrogateescape")}
    return "," + json.dumps({"name": name, "args": args})[1:]


def perfetto_parts(trace: Trace, analysis: Analysis) -> Iterator[bytes]:
    """Yield the pieces of a Perfetto trace with the marks in the form in which the kernel records them.

    Executions become asynchronous slices of their processes. `sources.perfetto` lists the field numbers.
    """
    tree = b"".join(
        field_bytes(2, field_number(1, tid) + field_bytes(2, name) + field_number(3, trace.processes[tid]))
        for tid in sorted(analysis.marked & trace.processes.keys())
        for name in (trace.thread_names.get(tid, "").encode("utf-8", "surrogateescape"),)
    )
    yield _packet(field_bytes(2, tree))
    if trace.faults:
        faults = field_bytes(1, FAULTS) + field_bytes(2, trace.faults_json())
        yield _packet(field_bytes(5, field_bytes(2, faults)))
    part = bytearray()
    for event, _ in _events(trace, analysis):
        process = max(event.tgid, 0)
        text = b"B|%d|%s\n" % (process, event.text) if event.kind == BEGIN else b"E|%d\n" % process
        part += _print(event.t_ns, event.tid, text)
        if len(part) > _BUNDLE_BYTES:
            yield _packet(field_bytes(1, field_number(1, 0) + bytes(part)))
            part.clear()
    for one in analysis.executions:
        process = max(one.process, 0)
        for kind, t_ns in ((b"S", one.start_ns), (b"F", one.end_ns)):
            part += _print(t_ns, process, b"%s|%d|%s|%d\n" % (kind, process, one.kind.encode(), one.number))
    yield _packet(field_bytes(1, field_number(1, 0) + bytes(part)))


def _print(t_ns: int, tid: int, text: bytes) -> bytes:
    # Only the three lowest bytes of the time change often.
    low = t_ns & 127 | 128, t_ns >> 7 & 127 | 128, t_ns >> 14 & 127 | 128
    body = b"\x08%c%c%c%b%b" % (*low, _high(t_ns >> 21), _rest(tid, text))
    return b"\x12%b%b" % (_high(len(body)), body)


_high = lru_cache(maxsize=_REMEMBERED)(number_bytes)


@lru_cache(maxsize=_REMEMBERED)
def _rest(tid: int, text: bytes) -> bytes:
    return field_number(2, tid) + field_bytes(3, field_bytes(2, text))


def _packet(body: bytes) -> bytes:
    return field_bytes(1, body + field_number(10, 1))
