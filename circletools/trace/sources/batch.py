"""The values that readers of all encodings produce, and sorting by time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.names import Numbers
from circletools.trace.sources.wire import CONTENT, bytes_in, contents, fields, number_in
from circletools.wording import Word

BEGIN: Literal["B"] = "B"
END: Literal["E"] = "E"
NO_PROCESS = -1
_MOST_FAULTS = 1000
_BATCH_EVENTS = 1 << 15
LATEST_NS = 1 << 62

_Column = npt.NDArray[Any]


def place_at(times: Numbers) -> Numbers:
    """Return places, all below -1, for events that are identified only by their times (see `Trace.place`)."""
    return -2 - times


class Event(NamedTuple):
    """A begin or end event on a thread.

    `tgid` is the process, or -1 if the trace does not record it; `text` is the text of a begin event without the
    process id, or empty for an end event; `where` is a line number or a byte offset (see `Trace.place`).
    """

    t_ns: int
    tid: int
    tgid: int
    kind: Literal["B", "E"]
    text: bytes
    where: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order of the trace, as columns of the same length.

    `texts` holds an index into `names` for begin events, and -1 for end events. Names are distinct within a batch.
    """

    times: Numbers
    threads: Numbers
    texts: Numbers
    places: Numbers
    names: list[bytes]

    def __len__(self) -> int:
        return len(self.times)


class FaultKind(Word):
    """The kinds of faults in the trace itself, found before its marks are interpreted."""

    LOST = "lost"
    MALFORMED = "malformed"
    OTHER_MACHINE = "other machine"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the trace itself, with its place and text."""

    kind: FaultKind
    where: int
    text: str


@dataclass(slots=True)
class Trace:
    """A trace that can be read several times.

    `processes` maps threads to their processes and `thread_names` to their names, as far as the trace has been read;
    `faults` holds the first thousand faults of each kind and `fault_counts` their numbers. Compressed packets may
    unpack to at most `most_unpacked` bytes in total.
    """

    name: str
    encoding: str
    place_kind: Literal["line", "byte"]
    read: Callable[[Trace], Iterator[Batch]]
    most_unpacked: int
    processes: dict[int, int] = field(default_factory=dict)
    thread_names: dict[int, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    fault_counts: Counter[FaultKind] = field(default_factory=Counter)

    def batches(self) -> Iterator[Batch]:
        """Read the trace from its start, in batches of bounded size. Raises InvalidInputError."""
        self.faults.clear()
        self.fault_counts.clear()
        return self.read(self)

    def place(self, where: int) -> str:
        """Return a place in words: `name:line`, `name: byte offset` or a time; for the whole trace (-1), the name."""
        if where < -1:
            return f"{self.name}: at {(-2 - where) / 1e9:.6f} s"
        if where < 0:
            return self.name
        return f"{self.name}:{where}" if self.place_kind == "line" else f"{self.name}: byte {where}"

    def add_processes(self, data: bytes, first: int, stop: int) -> None:
        """Add the processes and threads of a process tree in a Perfetto trace. Raises BrokenMessage."""
        for number, value, start, end in fields(data, first, stop):
            if number in (1, 2) and value == CONTENT:
                found = contents(data, start, end)
                tid = number_in(found, 1)
                self.processes[tid] = tid if number == 1 else number_in(found, 3)
                name = bytes_in(found, 3 if number == 1 else 2)
                self.thread_names[tid] = name.decode("utf-8", "backslashreplace")

    def fault(self, kind: FaultKind, where: int, text: bytes) -> None:
        """Record a fault."""
        self.fault_counts[kind] += 1
        if self.fault_counts[kind] <= _MOST_FAULTS:
            self.faults.append(Fault(kind, where, text[:200].decode("utf-8", "backslashreplace")))


def merged(batches: Iterable[Batch]) -> Iterator[Batch]:
    """Yield all events, sorted by time with a stable sort."""
    numbers: dict[bytes, int] = {}
    columns: list[list[_Column]] = [[], [], [], []]
    for batch in batches:
        shared = np.array([numbers.setdefault(name, len(numbers)) for name in batch.names] + [-1], np.int64)
        threads, texts = batch.threads.astype(np.uint32), shared[batch.texts].astype(np.int32)
        parts: tuple[_Column, ...] = (batch.times, threads, texts, batch.places)
        for at, part in enumerate(parts):
            columns[at].append(part)
    if not columns[0]:
        return
    # One column at a time, to avoid two copies of all data.
    times, tids, codes, places = (np.concatenate(columns.pop(0)) for _ in range(4))
    order = np.argsort(times, kind="stable")
    names = list(numbers)
    for at in range(0, len(order), _BATCH_EVENTS):
        chosen = order[at : at + _BATCH_EVENTS]
        used, local = np.unique(codes[chosen], return_inverse=True)
        if used[0] < 0:
            used, local = used[1:], local - 1
        some = [names[at] for at in used.tolist()]
        yield Batch(times[chosen], tids[chosen].astype(np.int64), local, places[chosen], some)
