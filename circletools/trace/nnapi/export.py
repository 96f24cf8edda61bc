"""A trace's marks as slices, for trace viewers: Chrome JSON and Perfetto.

Slices are strictly nested: an end without a begin is left out, and what is open at the end of the trace ends there.
Threads without NN marks are left out.
"""

from __future__ import annotations

import heapq
import json
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import BinaryIO, Literal

from circletools.trace.nnapi.analysis import Analysis, analyse, checked
from circletools.trace.nnapi.executions import Execution
from circletools.trace.nnapi.marks import Mark, classify
from circletools.trace.sources import BEGIN, Event, Trace, events, open_trace
from circletools.trace.sources.batch import TRACK_NAME
from circletools.trace.sources.wire import field_bytes, field_number

Target = Literal["chrome", "perfetto"]

_PART_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class ExportedTrace:
    """The pieces of a file for a trace viewer, and what was read."""

    pieces: list[bytes]
    analysis: Analysis


def export_trace(
    source: str | os.PathLike[str] | bytes | BinaryIO, to: Target, *, strict: bool = False
) -> ExportedTrace:
    """Turn an NNAPI trace into Chrome JSON or a Perfetto trace, with layers and phases as nested slices.

    Raises InvalidInputError for what is no trace, or a broken one; if `strict`, for the first diagnostic that is an
    error.
    """
    trace = open_trace(source)
    analysis = checked(analyse(trace), strict=strict)
    parts = chrome_parts if to == "chrome" else perfetto_parts
    return ExportedTrace(list(parts(trace, analysis)), analysis)


def _slices(trace: Trace, analysis: Analysis) -> Iterator[Event]:
    """Yield the begins and ends to be written, in the order of their times."""
    depths: dict[int, int] = defaultdict(int)
    for event in events(trace, ordered=analysis.ordered):
        if event.tid not in analysis.threads:
            continue
        if event.kind == BEGIN:
            depths[event.tid] += 1
        elif depths[event.tid]:
            depths[event.tid] -= 1
        else:
            continue
        yield event
    for tid, depth in depths.items():
        tgid = trace.processes.get(tid, 0)
        for _ in range(depth):
            yield Event(analysis.last_ns, tid, tgid, "E", b"", -1)


def _lanes(executions: list[Execution]) -> Iterator[tuple[int, Execution]]:
    """Give each execution a lane of its process, numbered from 0: those of a lane do not overlap."""
    free: dict[int, list[int]] = defaultdict(list)
    busy: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for execution in executions:
        mine, waiting = busy[execution.process], free[execution.process]
        while mine and mine[0][0] <= execution.start_ns:
            heapq.heappush(waiting, heapq.heappop(mine)[1])
        lane = heapq.heappop(waiting) if waiting else len(mine)
        heapq.heappush(mine, (execution.end_ns, lane))
        yield lane, execution


def _title(mark: Mark, text: bytes) -> str:
    return mark.name if mark.layer and mark.name else text.decode("utf-8", "backslashreplace")


def chrome_parts(trace: Trace, analysis: Analysis) -> Iterator[bytes]:
    """Yield the pieces of a Chrome JSON document; its order is that of the slices on their threads."""
    mark_of = cache(classify)
    yield b'{"displayTimeUnit": "ns", "traceEvents": [\n'
    lines = [
        _line(ph="M", pid=trace.processes.get(tid, 0), tid=tid, name="thread_name", args={"name": name})
        for tid, name in trace.thread_names.items()
        if tid in analysis.threads
    ]
    for event in _slices(trace, analysis):
        place = {"pid": max(event.tgid, 0), "tid": event.tid}
        if event.kind == BEGIN:
            mark = mark_of(event.text)
            text = event.text.decode("utf-8", "surrogateescape")
            where = {"layer": mark.layer, "phase": mark.phase} if mark.layer else {}
            lines.append(
                _line(event.t_ns, ph="B", **place, name=_title(mark, event.text), args=where | {"mark": text})
            )
        else:
            lines.append(_line(event.t_ns, ph="E", **place))
        if len(lines) >= 4096:
            yield ",\n".join(lines).encode() + b",\n"
            lines = []
    for execution in analysis.executions:
        one = {"pid": execution.process, "cat": "execution", "id": execution.number, "name": execution.kind}
        lines += [_line(execution.start_ns, ph="b", **one), _line(execution.end_ns, ph="e", **one)]
    yield ",\n".join([*lines, "{}"]).encode() + b"\n]}\n"


def _line(t_ns: int | None = None, **fields: object) -> str:
    text = json.dumps(fields)
    return text if t_ns is None else f'{{"ts": {t_ns // 1000}.{t_ns % 1000:03d}, {text[1:]}'


# TracePacket { timestamp = 8; trusted_packet_sequence_id = 10; track_event = 11; track_descriptor = 60 };
# TrackDescriptor { uuid = 1; name = 2; process = 3 { pid = 1 }; thread = 4 { pid = 1; tid = 2; thread_name = 5 };
# parent_uuid = 5 }; TrackEvent { debug_annotations = 4 { string_value = 6; name = 10 }; type = 9; track_uuid = 11;
# name = 23 }.
_BEGIN_TYPE, _END_TYPE = 1, 2
_PROCESS_TRACK, _LANE_TRACK = 1 << 40, 1 << 41


def perfetto_parts(trace: Trace, analysis: Analysis) -> Iterator[bytes]:
    """Yield the pieces of a Perfetto trace of track events; lanes of executions are tracks of their processes."""
    part = bytearray(b"".join(_descriptors(trace, analysis)))
    body_of = cache(_begin_body)
    for event in _slices(trace, analysis):
        body = body_of(event.text) if event.kind == BEGIN else b""
        part += _event_packet(event.t_ns, event.tid, event.kind == BEGIN, body)
        if len(part) > _PART_BYTES:
            yield bytes(part)
            part.clear()
    for lane, execution in _lanes(analysis.executions):
        track = _lane_track(execution.process, lane)
        part += _event_packet(execution.start_ns, track, True, field_bytes(23, execution.kind.encode()))
        part += _event_packet(execution.end_ns, track, False, b"")
    yield bytes(part)


def _descriptors(trace: Trace, analysis: Analysis) -> Iterator[bytes]:
    for tid in sorted(analysis.threads):
        name = trace.thread_names.get(tid, "").encode("utf-8", "surrogateescape")
        thread = field_number(1, trace.processes.get(tid, 0)) + field_number(2, tid) + field_bytes(5, name)
        yield _descriptor(field_number(1, tid) + field_bytes(2, TRACK_NAME) + field_bytes(4, thread))
    for process in sorted({execution.process for execution in analysis.executions}):
        yield _descriptor(field_number(1, _PROCESS_TRACK + process) + field_bytes(3, field_number(1, process)))
    for process, lane in sorted({(one.process, lane) for lane, one in _lanes(analysis.executions)}):
        parent = field_number(5, _PROCESS_TRACK + process)
        yield _descriptor(field_number(1, _lane_track(process, lane)) + field_bytes(2, b"executions") + parent)


def _lane_track(process: int, lane: int) -> int:
    return _LANE_TRACK + (process << 20) + lane


def _descriptor(body: bytes) -> bytes:
    return field_bytes(1, field_number(10, 1) + field_bytes(60, body))


def _begin_body(text: bytes) -> bytes:
    mark = classify(text)
    notes = {b"mark": text} | ({b"layer": mark.layer.encode(), b"phase": mark.phase.encode()} if mark.layer else {})
    body = field_bytes(23, _title(mark, text).encode("utf-8", "surrogateescape"))
    return body + b"".join(field_bytes(4, field_bytes(10, key) + field_bytes(6, note)) for key, note in notes.items())


def _event_packet(t_ns: int, track: int, begins: bool, body: bytes) -> bytes:
    event = field_number(9, _BEGIN_TYPE if begins else _END_TYPE) + field_number(11, track) + body
    return field_bytes(1, field_number(8, t_ns) + field_number(10, 1) + field_bytes(11, event))
