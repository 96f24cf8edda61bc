"""Read Perfetto traces: the `ftrace/print` events, in bundles of one CPU each, merged by time.

Packets of other machines are dropped, because their thread ids may clash. A ring buffer that overwrites old events
only shortens the trace; other losses are faults.

Fields, from https://android.googlesource.com/platform/external/perfetto/+/refs/heads/main/protos/perfetto/trace/:
Trace { repeated TracePacket packet = 1 }; TracePacket { ftrace_events = 1; process_tree = 2; chrome_events = 5
{ metadata = 2 { name = 1; string_value = 2 } }; trusted_packet_sequence_id = 10; ftrace_stats = 34; trace_stats = 35;
previous_packet_dropped = 42; compressed_packets = 50; machine_id = 98 }; FtraceEventBundle { event = 2;
lost_events = 3 }; FtraceEvent { timestamp = 1; pid = 2; print = 3 }; PrintFtraceEvent { ip = 1; buf = 2 };
ProcessTree { processes = 1 { pid = 1; cmdline = 3 }; threads = 2 { tid = 1; name = 2; tgid = 3 } }; FtraceStats
{ phase = 1; cpu_stats = 2 { cpu = 1; overrun = 3; commit_overrun = 4; dropped_events = 8 } }; TraceStats
{ buffer_stats = 1 { patches_failed = 6; abi_violations = 9; trace_writer_packet_loss = 19 } }.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from circletools.errors import InvalidInputError
from circletools.trace.sources.batch import LATEST_NS, LOST, MALFORMED, MOST_CPUS, Batch, Trace, merged, place_at
from circletools.trace.sources.content import Pieces, inflated, pieces_of, too_large
from circletools.trace.sources.names import Columns, Numbers, read_names
from circletools.trace.sources.wire import CONTENT, FIXED, BrokenMessage, contents, fields, number_in, varint, varints

_COMPRESSED, _COMPRESSED_ZSTD = 50, 133
_MACHINE, _MACHINE_TAG = 98, b"\x90\x06"
_HEADER_BYTES = 20
_PACKET_BYTES = 16  # charged to the bytes that may be unpacked, since each packet takes time

_FTRACE_EVENTS, _PROCESS_TREE, _CHROME_EVENTS, _POWER_RAILS = 1, 2, 5, 40
_SEQUENCE, _FTRACE_STATS, _TRACE_STATS, _PREVIOUS_DROPPED = 10, 34, 35, 42
_NUMBERS = (_SEQUENCE, _PREVIOUS_DROPPED)
_USED = {_FTRACE_EVENTS, _PROCESS_TREE, _CHROME_EVENTS, _POWER_RAILS, _COMPRESSED, _COMPRESSED_ZSTD}
_USED |= {_SEQUENCE, _FTRACE_STATS, _TRACE_STATS, _PREVIOUS_DROPPED}
_PHASE, _CPU_STATS, _BUFFER_STATS = 1, 2, 1
_START, _END = 1, 2
_EVENTS = {3: "overrun", 4: "commit overrun", 8: "dropped"}
_BUFFER = {6: "patches failed", 9: "violations of the ABI", 19: "packets lost by trace writers"}


class Field(NamedTuple):
    """A field of a packet, with the packet and its offset in the trace.

    A packet inside a compressed packet has the offset of the compressed one.
    """

    data: bytes
    where: int
    number: int
    value: int
    start: int
    end: int


def packet_fields(trace: Trace, pieces: Pieces) -> Iterator[Field]:
    """Yield the fields of all packets that are used here, including compressed packets. Raises InvalidInputError."""
    left = trace.most_unpacked

    def unpacked(content: memoryview, name: str) -> Iterator[memoryview | bytes]:
        nonlocal left
        for piece in inflated(pieces_of(content), name, 15, left)():
            left -= len(piece)
            yield piece

    for data, where in _framed(trace, pieces):
        left -= _PACKET_BYTES
        for field in _fields(trace, data, where):
            if field.number == _COMPRESSED and field.value == CONTENT:
                content = memoryview(data)[field.start : field.end]
                for inner, _ in _framed(trace, partial(unpacked, content, trace.place(where))):
                    left -= _PACKET_BYTES
                    if left < 0:
                        raise too_large(trace.place(where))
                    yield from _fields(trace, inner, where)
            elif field.number == _COMPRESSED_ZSTD and field.value == CONTENT:
                message, hint = "zstd compression of packets is not supported", "decompress them with "
                hint += "`traceconv decompress_packets IN OUT`"
                raise InvalidInputError(message, location=trace.place(where), hint=hint)
            else:
                yield field
        if left < 0:
            raise too_large(trace.place(where))


def _fields(trace: Trace, data: bytes, where: int) -> Iterator[Field]:
    try:
        if _MACHINE_TAG in data and (machine := number_in(contents(data, 0, len(data)), _MACHINE)):
            trace.fault("T005", where, b"machine %d" % machine)
            return
        for number, value, start, end in fields(data, 0, len(data)):
            if number in _USED:
                yield Field(data, where, number, value, start, end)
    except BrokenMessage:
        trace.fault(MALFORMED, where, b"a corrupt or truncated packet")


def _framed(trace: Trace, pieces: Pieces) -> Iterator[tuple[bytes, int]]:
    """Yield each packet with its offset; for a packet truncated at the end, the available part is yielded."""
    held, base, source = bytearray(), 0, pieces()
    at = 0
    needed = _HEADER_BYTES
    ended = False
    while True:
        while not ended and len(held) - at < needed:
            piece = next(source, None)
            ended = piece is None
            if piece is not None:
                del held[:at]
                base, at = base + at, 0
                held += piece
        if at >= len(held):
            return
        try:
            tag, content = held[at], at + 1
            size, start = varint(held, content, len(held))
        except BrokenMessage:
            if ended:
                trace.fault(MALFORMED, base + at, b"the trace ends within a packet")
                return
            tag, size, start = 0, 0, at
        if tag != 0x0A:
            raise InvalidInputError("no packet begins here", location=trace.place(base + at), hint="copy it again")
        needed = start - at + size
        if not ended and len(held) - at < needed:
            continue
        if start + size > len(held):
            trace.fault(MALFORMED, base + at, b"the trace ends within a packet")
        if size:
            yield bytes(held[start : start + size]), base + at
        at, needed = start + size, _HEADER_BYTES


def _within(note: Callable[[bytes, int, int], object]) -> Callable[[Field], object]:
    return lambda field: note(field.data, field.start, field.end)


class _Notes:
    """Records processes, machine counters and losses: of packets, kernel events and parts of Perfetto's own buffers.

    `of` holds the handler of each field of a packet, and the fault if the field is broken.
    """

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._first: dict[int, bytes] = {}
        self._before: dict[tuple[int, int], int] = {}
        self._packet, self._sequence = b"", 0  # a packet may repeat the flag
        statistics = b"broken statistics of the trace"
        self.of: dict[int, tuple[Callable[[Field], object], bytes]] = {
            _PROCESS_TREE: (_within(trace.add_processes), b"a broken process tree"),
            _CHROME_EVENTS: (_within(trace.add_faults), b"broken metadata"),
            _SEQUENCE: (lambda one: self._first.setdefault(one.value, one.data), b""),
            _FTRACE_STATS: (self._of_kernel, statistics),
            _TRACE_STATS: (self._of_buffers, statistics),
            _POWER_RAILS: (_within(trace.counters.add_rails), b"broken power rails"),
            _PREVIOUS_DROPPED: (self._dropped, statistics),
        }

    def _dropped(self, field: Field) -> None:
        data = field.data
        if data is not self._packet:
            self._packet, self._sequence = data, number_in(contents(data, 0, len(data)), _SEQUENCE)
        sequence = self._sequence
        # The first packet of a sequence also has the flag, where it means nothing.
        if field.value > 0 and (not sequence or self._first.get(sequence, data) is not data):
            self._note(field, "packets were dropped before this one")

    def _of_kernel(self, field: Field) -> None:
        """Compare the counters at the end with those at the start: the kernel does not reset them between traces."""
        data = field.data
        parts = list(fields(data, field.start, field.end))
        phase = next((value for number, value, _, _ in parts if number == _PHASE), 0)
        for number, value, start, end in parts:
            if number != _CPU_STATS or value != CONTENT or phase not in (_START, _END):
                continue
            counters = contents(data, start, end)
            cpu = number_in(counters, 1)
            if cpu >= MOST_CPUS:
                continue
            for counter, word in _EVENTS.items():
                count = number_in(counters, counter)
                before = self._before.get((cpu, counter), 0)
                if phase == _END and count > before:
                    self._note(field, f"CPU {cpu}, events {word}: {count - before}")
                self._before[cpu, counter] = count

    def _of_buffers(self, field: Field) -> None:
        data = field.data
        for number, value, start, end in fields(data, field.start, field.end):
            counters = contents(data, start, end) if number == _BUFFER_STATS and value == CONTENT else {}
            for counter, word in _BUFFER.items():
                if count := number_in(counters, counter):
                    self._note(field, f"{word}: {count}")

    def _note(self, field: Field, text: str) -> None:
        self._trace.fault(LOST, field.where, text.encode())


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
    notes, block = _Notes(trace).of, _Block(trace)
    for field in packet_fields(trace, pieces):
        if field.number == _FTRACE_EVENTS and field.value == CONTENT:
            block.add_bundle(field)
            if block.size >= _BLOCK_BYTES:
                yield block.read(marked)
                block = _Block(trace)
        elif field.number in notes and (field.value == CONTENT or field.number in _NUMBERS):
            note, broken = notes[field.number]
            try:
                note(field)
            except BrokenMessage:
                trace.fault(MALFORMED, field.where, broken)
    if block.parts:
        yield block.read(marked)
    for tid, process in marked.items():
        trace.processes.setdefault(tid, process)


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
                    self.trace.fault(LOST, field.where, b"events were lost before this bundle")
                at = end
        except BrokenMessage:
            self.trace.fault(MALFORMED, field.where, b"a corrupt or truncated bundle of events")
        self.parts.append(data[field.start : field.end])
        self.size += field.end - field.start

    def read(self, marked: dict[int, int]) -> Batch:
        data = b"".join(self.parts) + bytes(_PADDING)
        starts, ends = np.array(self.starts, np.int64), np.array(self.ends, np.int64)
        characters = np.frombuffer(data, np.uint8)
        heads = _heads(characters, starts, ends)
        self.trace.counters.add_frequencies(data, heads[0], heads[2], ends)
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
        places = place_at(prints.times)
        for at in np.flatnonzero(begins & (pids < 0)).tolist():
            text = data[int(prints.start[at]) : int(prints.stop[at])]
            self.trace.fault(MALFORMED, int(places[at]), text)
        known = np.flatnonzero(pids >= 0)[::-1]
        marked |= dict(zip(prints.threads[known].tolist(), pids[known].tolist(), strict=True)) | marked
        return Batch(prints.times, prints.threads, texts, places, names)

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
