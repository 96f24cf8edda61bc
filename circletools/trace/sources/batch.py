"""The values that readers of all encodings produce, and sorting by time.

Machine counters are frequencies of CPUs and energy of power rails, from Perfetto traces. Fields, from
protos/perfetto/: FtraceEvent { cpu_frequency = 11 { state = 1 (kHz); cpu_id = 2 } }; TracePacket { power_rails = 40
{ rail_descriptor = 1 { index = 1; rail_name = 2 }; energy_data = 2 { index = 1; timestamp_ms = 2; energy = 3
(microjoules since boot) } } }.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.names import Numbers
from circletools.trace.sources.wire import CONTENT, BrokenMessage, bytes_in, contents, fields, number_in

BEGIN: Literal["B"] = "B"
END: Literal["E"] = "E"
NO_PROCESS = -1
_MOST_FAULTS, _MOST_COUNTED = 1000, 1 << 53
_BATCH_EVENTS = 1 << 15
LATEST_NS = 1 << 62
FAULTS = b"circletool faults"  # the name of the record of an exported trace's faults

_FREQUENCY, _FREQUENCY_TAG = 11, 0x5A
MOST_CPUS = 256  # and rails; devices have far fewer, and each is summed over all executions
_NS_PER_MS = 1_000_000
Samples = list[tuple[int, int]]
"""The times in nanoseconds, and the values."""

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


LOST, MALFORMED = "T003", "T004"
FAULT_CODES = (LOST, MALFORMED, "T005")
"""The codes of faults in the trace itself, found before its marks are interpreted; the last is for other machines."""


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault in the trace itself, with its code, place and text."""

    code: str
    where: int
    text: str


@dataclass(slots=True)
class Counters:
    """Samples of the frequency of each CPU in kHz, and of the energy of each rail in microjoules."""

    frequencies: dict[int, Samples] = field(default_factory=lambda: defaultdict(list))
    energies: dict[int, Samples] = field(default_factory=lambda: defaultdict(list))
    rails: dict[int, str] = field(default_factory=dict)

    def add_rails(self, data: bytes, start: int, end: int) -> None:
        """Add the rails of a packet. Raises BrokenMessage."""
        for number, value, first, stop in fields(data, start, end):
            parts = contents(data, first, stop) if value == CONTENT else {}
            if number == 1 and parts:
                self.rails[number_in(parts, 1)] = bytes_in(parts, 2).decode("utf-8", "backslashreplace")
            elif number == 2 and parts:
                sample, rail = (number_in(parts, 2) * _NS_PER_MS, number_in(parts, 3)), number_in(parts, 1)
                if rail in self.energies or len(self.energies) < MOST_CPUS:
                    self.energies[rail].append(sample)

    def add_frequencies(self, data: bytes, times: Numbers, at: Numbers, ends: Numbers) -> None:
        """Add the frequency changes among ftrace events; `at` holds the positions at which their types begin."""
        kinds = np.frombuffer(data, np.uint8)[at]
        chosen = np.flatnonzero((kinds == _FREQUENCY_TAG) & (times >= 0) & (times < LATEST_NS) & (at < ends))
        for t_ns, first, stop in zip(*(column[chosen].tolist() for column in (times, at, ends)), strict=True):
            try:
                message = bytes_in(contents(data, first, stop), _FREQUENCY)
                change = contents(message, 0, len(message))
                cpu = number_in(change, 2)
                if cpu in self.frequencies or len(self.frequencies) < MOST_CPUS:
                    self.frequencies[cpu].append((t_ns, number_in(change, 1)))
            except BrokenMessage:
                continue


@dataclass(slots=True)
class Trace:
    """A trace that can be read several times.

    `processes` maps threads to their processes and `thread_names` to their names, as far as the trace has been read;
    `counters` holds samples of machine counters; `faults` holds the first thousand faults of each code and
    `fault_counts` their numbers. Compressed packets may unpack to at most `most_unpacked` bytes in total.
    """

    name: str
    encoding: str
    place_kind: Literal["line", "byte"]
    read: Callable[[Trace], Iterator[Batch]]
    most_unpacked: int
    processes: dict[int, int] = field(default_factory=dict)
    thread_names: dict[int, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    fault_counts: Counter[str] = field(default_factory=Counter)
    counters: Counters = field(default_factory=Counters)

    def batches(self) -> Iterator[Batch]:
        """Read the trace from its start, in batches of bounded size. Raises InvalidInputError."""
        self.faults.clear()
        self.fault_counts.clear()
        self.counters = Counters()
        return self.read(self)

    def place(self, where: int) -> str:
        """Return a place as text: `name:line`, `name: byte offset` or a time; for the whole trace (-1), the name."""
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

    def fault(self, code: str, where: int, text: bytes) -> None:
        """Record a fault."""
        self.fault_counts[code] += 1
        if self.fault_counts[code] <= _MOST_FAULTS:
            self.faults.append(Fault(code, where, text[:200].decode("utf-8", "backslashreplace")))

    def faults_json(self) -> bytes:
        """Return the number of faults of each code, and the text of the first one, as a JSON object for an export."""
        return json.dumps({one.code: (self.fault_counts[one.code], one.text) for one in self.faults[::-1]}).encode()

    def add_faults(self, data: bytes, first: int, stop: int) -> None:
        """Add the faults of the original trace from metadata of a Perfetto trace. Raises BrokenMessage."""
        metadata = bytes_in(contents(data, first, stop), 2)
        parts = contents(metadata, 0, len(metadata))
        if bytes_in(parts, 1) == FAULTS:
            self.add_faults_json(bytes_in(parts, 2))

    def add_faults_json(self, record: bytes) -> None:
        """Add the faults of the original trace (see `faults_json`)."""
        try:
            for code, (count, text) in json.loads(record).items():
                self.fault(FAULT_CODES[FAULT_CODES.index(code)], -1, text.encode())
                self.fault_counts[code] += min(max(0, int(count) - 1), _MOST_COUNTED)
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            self.fault(MALFORMED, -1, b"a broken record of faults")


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


@dataclass(frozen=True, slots=True)
class MachineUse:
    """The mean frequency of a CPU in MHz, or the energy of a rail in millijoules, over time intervals."""

    name: str
    unit: str
    value: float


def machine_in(counters: Counters, starts: Numbers, ends: Numbers) -> list[MachineUse]:
    """Return the machine's frequencies and energy in these intervals, as far as the samples cover them."""
    found = []
    for cpu, samples in sorted(counters.frequencies.items()):
        times, khz = (np.array(column, np.float64) for column in zip(*sorted(samples), strict=True))
        last = max(float(ends.max(initial=0)), times[-1])
        times, khz = np.append(times, last), np.append(khz, khz[-1])
        passed = np.append(0, np.cumsum(np.diff(times) * khz[:-1]))  # the integral is linear between samples
        known = (np.clip(ends, times[0], last) - np.clip(starts, times[0], last)).sum()
        if known > 0:
            total = (np.interp(ends, times, passed) - np.interp(starts, times, passed)).sum()
            found.append(MachineUse(f"CPU {cpu}", "MHz", float(total / known / 1000)))
    for rail, samples in sorted(counters.energies.items()):
        times, energy = (np.array(column, np.float64) for column in zip(*sorted(samples), strict=True))
        used = (np.interp(ends, times, energy) - np.interp(starts, times, energy)).sum()
        found.append(MachineUse(counters.rails.get(rail, f"rail {rail}"), "mJ", float(used / 1000)))
    return found
