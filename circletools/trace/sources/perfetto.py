"""Read Perfetto traces: the `ftrace/print` events, in bundles of one CPU each, merged by time.

Fields, from https://android.googlesource.com/platform/external/perfetto/+/refs/heads/main/protos/perfetto/trace/:
TracePacket { ftrace_events = 1; process_tree = 2; compressed_packets = 50 }; FtraceEventBundle { event = 2;
lost_events = 3 }; FtraceEvent { timestamp = 1; pid = 2; print = 3 }; PrintFtraceEvent { ip = 1; buf = 2 };
ProcessTree { processes = 1 { pid = 1; cmdline = 3 }; threads = 2 { tid = 1; name = 2; tgid = 3 } }.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.batch import LATEST_NS, Batch, FaultKind, Trace, merged, place_at
from circletools.trace.sources.content import Pieces
from circletools.trace.sources.counters import POWER_RAILS, note_frequencies
from circletools.trace.sources.names import Columns, Numbers, read_names
from circletools.trace.sources.packets import LOSSES, Field, Losses, packet_fields
from circletools.trace.sources.wire import (
    CONTENT,
    FIXED,
    BrokenMessage,
    bytes_in,
    contents,
    fields,
    number_in,
    varints,
)

_FTRACE_EVENTS, _PROCESS_TREE = 1, 2
_BLOCK_BYTES = 2 << 20
_TIME_TAG, _PID_TAG, _PRINT_TAG, _IP_TAG, _BUF_TAG = 0x08, 0x10, 0x1A, 0x08, 0x12
_PADDING = 32
_FIELDS_BEFORE_PRINT = 6


def read_perfetto(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the events in time order. Raises InvalidInputError."""
    return merged(_blocks(trace, pieces))


def _blocks(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the events of many bundles at a time."""
    marked: dict[int, int] = {}  # the process of each thread, as named by its marks
    losses, block = Losses(trace), _Block(trace)
    for field in packet_fields(trace, pieces):
        if field.number in LOSSES:
            losses.add(field)
        if field.number == _FTRACE_EVENTS and field.value == CONTENT:
            block.add_bundle(field)
            if block.size >= _BLOCK_BYTES:
                yield block.read(marked)
                block = _Block(trace)
        elif field.number in _NOTED and field.value == CONTENT:
            note, broken = _NOTED[field.number]
            try:
                note(trace, field.data, field.start, field.end)
            except BrokenMessage:
                trace.fault(FaultKind.MALFORMED, field.where, broken)
    if block.parts:
        yield block.read(marked)
    for tid, process in marked.items():
        trace.processes.setdefault(tid, process)


def _note_processes(trace: Trace, data: bytes, first: int, stop: int) -> None:
    for number, value, start, end in fields(data, first, stop):
        if number in (1, 2) and value == CONTENT:
            found = contents(data, start, end)
            tid = number_in(found, 1)
            trace.processes[tid] = tid if number == 1 else number_in(found, 3)
            name = bytes_in(found, 3 if number == 1 else 2)
            trace.thread_names[tid] = name.decode("utf-8", "backslashreplace")


_NOTED: dict[int, tuple[Callable[[Trace, bytes, int, int], None], bytes]] = {
    _PROCESS_TREE: (_note_processes, b"a broken process tree"),
    POWER_RAILS: (lambda trace, *where: trace.counters.add_rails(*where), b"broken power rails"),
}
"""The handlers of packet fields, each with the diagnostic for a broken field."""


class _Block:
    """Events of many bundles."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parts: list[bytes] = []
        self.size = 0
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add_bundle(self, field: Field) -> None:
        """Find the events of a bundle."""
        data, at, stop = field.data, field.start, field.end
        shift = self.size - at
        try:
            while at < stop:
                if data[at] == 0x12 and at + 1 < stop and data[at + 1] < 0x80:  # an event of fewer than 128 bytes
                    number, value, content, end = 2, CONTENT, at + 2, at + 2 + data[at + 1]
                    if end > stop:
                        raise BrokenMessage(at)
                else:
                    number, value, content, end = next(fields(data, at, stop))
                if number == 2 and value == CONTENT:
                    self.starts.append(content + shift)
                    self.ends.append(end + shift)
                elif number == 3 and value > 0:
                    self.trace.fault(FaultKind.LOST, field.where, b"events were lost before this bundle")
                at = end
        except BrokenMessage:
            self.trace.fault(FaultKind.MALFORMED, field.where, b"a corrupt or truncated bundle of events")
        self.parts.append(data[field.start : field.end])
        self.size += field.end - field.start

    def read(self, marked: dict[int, int]) -> Batch:
        """Return the events."""
        data = b"".join(self.parts) + bytes(_PADDING)
        starts, ends = np.array(self.starts, np.int64), np.array(self.ends, np.int64)
        characters = np.frombuffer(data, np.uint8)
        heads = _heads(characters, starts, ends)
        note_frequencies(self.trace.counters, data, heads[0], heads[2], ends)
        prints = _find_prints(characters, starts, ends, heads)
        for at in np.flatnonzero(prints.irregular).tolist():
            self._one(data, int(starts[at]), int(ends[at]), prints, at)
        keep = (prints.stop > prints.start) & (prints.times < LATEST_NS)
        prints = prints.only(keep)
        kinds, following = characters[prints.start], characters[prints.start + 1]
        alone = (prints.stop == prints.start + 1) | (following == ord(b"\n"))
        begins = (kinds == ord(b"B")) & (following == ord(b"|")) & ~alone
        keep = begins | ((kinds == ord(b"E")) & (alone | (following == ord(b"|"))))
        prints, begins = prints.only(keep), begins[keep]
        texts, names, pids = read_names(data, begins, prints.start + 2, prints.stop)
        for at in np.flatnonzero(begins & (pids < 0)).tolist():
            text = data[int(prints.start[at]) : int(prints.stop[at])]
            self.trace.fault(FaultKind.MALFORMED, place_at(int(prints.times[at])), text)
        for tid in set(prints.threads[begins].tolist()) - self.trace.processes.keys() - marked.keys():
            known = pids[(prints.threads == tid) & (pids >= 0)]
            if len(known):
                marked[tid] = int(known[0])
        return Batch(prints.times, prints.threads, texts, place_at(prints.times), names)

    def _one(self, data: bytes, start: int, end: int, prints: _Prints, at: int) -> None:
        """Parse an event whose fields are in an unusual order."""
        try:
            found = {number: (value, first, stop) for number, value, first, stop in fields(data, start, end)}
            (time, *_), (thread, *_), (kind, *content) = (found.get(number, (FIXED,)) for number in (1, 2, 3))
            if kind != CONTENT:
                return
            parts = {number: (value, first, stop) for number, value, first, stop in fields(data, *content)}
        except BrokenMessage:
            return
        kind, *text = parts.get(2, (FIXED,))
        if kind == CONTENT and 0 <= time < LATEST_NS and 0 <= thread < 1 << 32:
            prints.times[at], prints.threads[at] = time, thread
            prints.start[at], prints.stop[at] = text


@dataclass(slots=True)
class _Prints(Columns):
    """The positions of the texts of print events; for other events, `stop` is not above `start`."""

    times: Numbers
    threads: Numbers
    start: Numbers
    stop: Numbers
    irregular: npt.NDArray[np.bool_]


def _heads(data: npt.NDArray[np.uint8], starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return each event's time, its thread (or -1), and the end of the numbers that begin it."""
    times, at = varints(data, starts + 1)
    threads = np.full(len(starts), -1, np.int64)
    for _ in range(_FIELDS_BEFORE_PRINT):
        tag = data[at]
        numbers = np.flatnonzero((tag & 7 == 0) & (tag < 0x80) & (at < ends))
        if not len(numbers):
            break
        values, after = varints(data, at[numbers] + 1)
        is_thread = tag[numbers] == _PID_TAG
        threads[numbers[is_thread]] = values[is_thread]
        at[numbers] = after
    times[data[starts] != _TIME_TAG] = -1
    return times, threads, at


def _find_prints(data: npt.NDArray[np.uint8], starts: Numbers, ends: Numbers, heads: tuple[Numbers, ...]) -> _Prints:
    """Find print events among those whose fields are in the usual order: those in `heads`, then the event itself."""
    times, threads, at = heads
    found = (times >= 0) & (at < ends)
    irregular = ~found | (threads < 0) | (threads >= 1 << 32)
    irregular |= data[at] & 7 == 0  # more numbers than were parsed, or a two-byte field number
    is_print = found & (data[at] == _PRINT_TAG)
    size, inner = varints(data, at + 1)
    stop = np.minimum(inner + size, ends)
    has_ip = is_print & (data[inner] == _IP_TAG)
    inner[has_ip] = varints(data, inner[has_ip] + 1)[1]
    size, text = varints(data, inner + 1)
    good = is_print & (data[inner] == _BUF_TAG) & (text + size <= stop)
    irregular |= is_print & ~good
    good &= ~irregular
    return _Prints(times, threads, text, np.where(good, text + size, text), irregular)
