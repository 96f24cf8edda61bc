"""Track events of Perfetto, as `trace-export` writes them (its field numbers are there)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from circletools.trace.sources.batch import LATEST_NS, TRACK_NAME, Batch, FaultKind, Trace
from circletools.trace.sources.packets import Field
from circletools.trace.sources.wire import BrokenMessage, contents, fields

TRACK_EVENT, TRACK_DESCRIPTOR = 11, 60
_TIMESTAMP = 8


class TrackEvents:
    """Gathers the slices of tracks that hold marks; other tracks are left out."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._threads: dict[int, int] = {}
        self._names: dict[bytes, int] = {}
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, field: Field) -> None:
        """Take a track descriptor or an event."""
        data = field.packet.data
        try:
            if field.number == TRACK_DESCRIPTOR:
                self._describe(contents(data, field.start, field.end))
            else:
                self._add_event(field, list(fields(data, field.start, field.end)))
        except BrokenMessage:
            self._trace.fault(FaultKind.MALFORMED, field.packet.where, b"a broken track event")

    def _describe(self, parts: dict[int, tuple[int, bytes]]) -> None:
        if parts.get(2, (0, b""))[1] != TRACK_NAME or 4 not in parts:
            return
        thread = contents(parts[4][1], 0, len(parts[4][1]))
        tid = thread.get(2, (-1, b""))[0]
        if 0 <= tid < 1 << 32:
            self._threads[parts.get(1, (0, b""))[0]] = tid
            self._trace.processes[tid] = thread.get(1, (0, b""))[0]
            self._trace.thread_names[tid] = thread.get(5, (0, b""))[1].decode("utf-8", "backslashreplace")

    def _add_event(self, field: Field, found: list[tuple[int, int, int, int]]) -> None:
        data = field.packet.data
        values = {number: value for number, value, _, _ in found}
        tid, kind = self._threads.get(values.get(11, -1)), values.get(9)
        times = [value for number, value, _, _ in fields(data, 0, len(data)) if number == _TIMESTAMP]
        if tid is None or kind not in (1, 2) or not times or times[0] >= LATEST_NS:
            return
        text = -1
        if kind == 1:
            texts = [data[start:end] for number, _, start, end in found if number == 23]
            for number, _, start, end in found:
                note = contents(data, start, end) if number == 4 else {}
                if note.get(10, (0, b""))[1] == b"mark":
                    texts = [note.get(6, (0, b""))[1]]
            text = self._names.setdefault(texts[0] if texts else b"", len(self._names))
        self._rows.append((times[0], tid, text, field.packet.where))

    def finish(self) -> Iterator[Batch]:
        """Yield the events, if there are any."""
        if self._rows:
            times, threads, texts, places = (np.array(column, np.int64) for column in zip(*self._rows, strict=True))
            yield Batch(times, threads, texts, places, list(self._names))
