"""Losses that a Perfetto trace reports: packets, kernel events, parts of its own buffers.

Fields, from protos/perfetto/: TracePacket { trusted_packet_sequence_id = 10; ftrace_stats = 34; trace_stats = 35;
previous_packet_dropped = 42 }; FtraceStats { phase = 1; cpu_stats = 2 { cpu = 1; overrun = 3; commit_overrun = 4;
dropped_events = 8 } }; TraceStats { buffer_stats = 1 { patches_failed = 6; abi_violations = 9;
trace_writer_packet_loss = 19 } }. A ring buffer that overwrites old events only shortens the trace.
"""

from __future__ import annotations

from circletools.trace.sources.batch import FaultKind, Trace
from circletools.trace.sources.packets import Field
from circletools.trace.sources.wire import CONTENT, BrokenMessage, contents, fields, number_in

SEQUENCE, FTRACE_STATS, TRACE_STATS, PREVIOUS_DROPPED = 10, 34, 35, 42
LOSSES = frozenset({SEQUENCE, FTRACE_STATS, TRACE_STATS, PREVIOUS_DROPPED})
"""The fields of packets that `Losses` processes."""

_PHASE, _CPU_STATS, _BUFFER_STATS = 1, 2, 1
_START, _END = 1, 2
_EVENTS = {3: "overrun", 4: "commit overrun", 8: "dropped"}
_BUFFER = {6: "patches failed", 9: "violations of the ABI", 19: "packets of writers lost"}


class Losses:
    """Records losses as faults of the trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._first: dict[int, bytes] = {}
        self._before: dict[tuple[int, int], int] = {}

    def add(self, field: Field) -> None:
        """Process a field of a packet."""
        try:
            if field.number == SEQUENCE:
                self._first.setdefault(field.value, field.packet.data)
            elif field.number == PREVIOUS_DROPPED:
                self._dropped(field)
            elif field.number == FTRACE_STATS and field.value == CONTENT:
                self._of_kernel(field)
            elif field.value == CONTENT:
                self._of_buffers(field)
        except BrokenMessage:
            self._trace.fault(FaultKind.MALFORMED, field.packet.where, b"broken statistics of the trace")

    def _dropped(self, field: Field) -> None:
        data = field.packet.data
        sequence = number_in(contents(data, 0, len(data)), SEQUENCE)
        # The first packet of a sequence has the flag, too, but there it means nothing.
        if field.value > 0 and (not sequence or self._first.get(sequence, data) is not data):
            self._note(field, "packets were dropped before this one")

    def _of_kernel(self, field: Field) -> None:
        """Compare the counters at the end with those at the start: the kernel does not reset them between traces."""
        data = field.packet.data
        parts = list(fields(data, field.start, field.end))
        phase = next((value for number, value, _, _ in parts if number == _PHASE), 0)
        for number, value, start, end in parts:
            if number != _CPU_STATS or value != CONTENT or phase not in (_START, _END):
                continue
            counters = contents(data, start, end)
            cpu = number_in(counters, 1)
            for counter, word in _EVENTS.items():
                count = number_in(counters, counter)
                before = self._before.get((cpu, counter), 0)
                if phase == _END and count > before:
                    self._note(field, f"CPU {cpu}, events {word}: {count - before}")
                self._before[cpu, counter] = count

    def _of_buffers(self, field: Field) -> None:
        data = field.packet.data
        for number, value, start, end in fields(data, field.start, field.end):
            counters = contents(data, start, end) if number == _BUFFER_STATS and value == CONTENT else {}
            for counter, word in _BUFFER.items():
                if count := number_in(counters, counter):
                    self._note(field, f"{word}: {count}")

    def _note(self, field: Field, text: str) -> None:
        self._trace.fault(FaultKind.LOST, field.packet.where, text.encode())
