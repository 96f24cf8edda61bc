"""Read traces in lines of text: ftrace text, including HTML pages, and JSON for Chrome's trace viewer.

Ftrace text is as written by the kernel, `trace_pipe`, `atrace` and `trace-cmd report`:

    TASK-TID (TGID) [CPU] FLAGS SECONDS.FRACTION: tracing_mark_write: B|PID|TEXT

In systrace HTML, the trace is the text of scripts of class `trace-data`, surrounded by other code.

Lines in the kernel's own columns are parsed many at a time; all other lines are parsed one by one with a regular
expression that covers all variants.

JSON is as written by `trace-export`, with one event per line, in fixed columns:

    {"ph":"B","ts":         1234567.890,"tid":      5143,"pid":      5143,"name":"f","args":{"mark":"[NN_LR_PE]f"}},

`ts` is in microseconds; `args.mark` holds the text of a mark. An unmatched end event is an instant event, because
viewers would reject it otherwise. Faults of the original trace are in `otherData`, in the first line; all other lines
serve only the viewers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from circletools.errors import InvalidInputError
from circletools.trace.sources import names as parsing
from circletools.trace.sources.batch import LATEST_NS, LOST, MALFORMED, Batch, Trace
from circletools.trace.sources.content import EXPECTED, Pieces, lines
from circletools.trace.sources.names import Columns, Numbers, words_in

_HEADER = re.compile(
    rb"\s*(?P<task>(?:\S.*?)??)-(?P<tid>\d{1,10})\s+(?:\(\s*(?P<tgid>\d{1,10}|-+)\)\s+)?"
    rb"\[\d+\]\s+(?:[^\s\d]\S{0,7}\s+|\S{4,8}\s+)?(?P<seconds>\d{1,11})\.(?P<fraction>\d{1,9}):\s+",
    re.DOTALL,
)
_MARK = re.compile(
    rb"(?:(?:tracing_mark_write|0):\s*|print:\s*(?:[^\s|:]+:\s+)?)(?P<kind>[BE])(?:\||\s*$)", re.DOTALL
)
_LOST = re.compile(rb"^CPU:\s*\d+ \[(?:LOST \d+ EVENTS|\d+ EVENTS DROPPED)\]|\[LOST \d+ EVENTS\]\s*$", re.MULTILINE)
# A row of the list of processes that systrace puts in the page; the kernel truncates the names of tasks.
_PROCESS = re.compile(rb"^\S+ +(\d{1,9}) +\d+ +\d+ +\d+ +\S+ +\S+ [A-Z] ([^\s\[]\S*)", re.MULTILINE)
_WRITTEN = re.compile(rb"^# entries-in-buffer/entries-written: (\d{1,18})/(\d{1,18})", re.MULTILINE)

# The end of a line's head in the kernel's columns, as words for comparison.
_NAME = (parsing.word(b"_write: "), parsing.word(b"ing_mark"), parsing.word(b": trac"))
_WRITES = b": tracing_mark_write: "
_BEGINS, _ENDS, _THREE = (np.uint32(parsing.word(one)) for one in (b" B|", b" E|", b"\xff" * 3))
_TASK_COLUMNS = 16
_FIRST_FAST = 64
_HEAD_BYTES = 4096
_OPENINGS = (b'<script class="trace-data"', b"<script class='trace-data'", b"var linuxPerfData")
_CLOSING = b"</script>"
_MOST_SECTIONS = 100  # pages have one to three sections


def read_text(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the events of ftrace text. Raises InvalidInputError if it is not ftrace text."""
    return _read_sections(trace, lines(pieces))


def read_html(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the events of a page. Raises InvalidInputError if none of its scripts contains ftrace lines."""
    return _read_sections(trace, _sections(lines(pieces), trace))


def _read_sections(trace: Trace, sections: Iterable[tuple[int, bytes]]) -> Iterator[Batch]:
    """Yield the events in sections of whole lines; each section comes with the number of lines dropped before it."""
    known, first, line = False, None, 1
    for left_out, data in sections:
        line += left_out
        if first is None:
            first = data[:_HEAD_BYTES]
        if data.startswith(b"PROCESS DUMP"):
            names = {int(pid): name.decode("utf-8", "backslashreplace") for pid, name in _PROCESS.findall(data)}
            trace.thread_names.update(names)
        reader = _Reader(trace, data, line)
        batch = reader.read()
        line += len(reader.ends)
        known = known or batch is not None
        if batch is not None and len(batch):
            yield batch
    if not known and not re.search(rb"^# tracer:|^[^\S\n]*\S.*-\d+ .*\[\d+\]", first or b"", re.MULTILINE):
        raise InvalidInputError("the text contains no ftrace lines", location=trace.name, hint=EXPECTED)


def _sections(whole: Iterable[tuple[int, bytes]], trace: Trace) -> Iterator[tuple[int, bytes]]:
    """Yield the lines between the line that opens a script with a trace and the line that closes it."""
    inside, left_out, sections = False, 0, 0
    for before, data in whole:
        left_out += before
        at = start = 0  # the lines before `start` are already counted
        while at < len(data):
            if inside:
                close = data.find(_CLOSING, at)
                end = len(data) if close < 0 else close
                if end > at:
                    yield left_out + data.count(b"\n", start, at), data[at:end]
                    left_out = 0
                    start = end if data[end - 1 : end] == b"\n" else data.find(b"\n", end) + 1 or len(data)
                inside = close < 0
                at = len(data) if close < 0 else close + len(_CLOSING)
                continue
            opens = [place for opening in _OPENINGS if (place := data.find(opening, at)) >= 0]
            if not opens:
                break
            at, inside = data.find(b"\n", min(opens)) + 1 or len(data), True
            sections += 1
            if sections > _MOST_SECTIONS:
                raise InvalidInputError(f"more than {_MOST_SECTIONS} scripts with a trace", location=trace.name)
        left_out += data.count(b"\n", start)
    if inside:
        trace.fault(LOST, -1, b"the page ends inside the trace")


def _note_losses(trace: Trace, data: bytes, line: int, count_lost: bool) -> None:
    if count_lost:
        at = number = 0
        for match in _LOST.finditer(data):
            at, number = match.start(), number + data.count(b"\n", at, match.start())
            trace.fault(LOST, line + number, match[0].strip())
    if line == 1 or data.startswith(b"#"):  # the head of the trace, or of a section of a page
        for match in _WRITTEN.finditer(data, 0, _HEAD_BYTES):
            if int(match[2]) > int(match[1]) > 0:
                trace.fault(LOST, line + data.count(b"\n", 0, match.start()), match[0])


def _first_bars(text: bytes, ends: Numbers) -> tuple[Numbers, Numbers]:
    """Return the lines that may contain a mark, and the position of the first bar (`|`) in each."""
    data = np.frombuffer(text, np.uint8)
    bars = np.flatnonzero(data == ord(b"|"))
    bars = bars[bars > 2]
    kind = data[bars - 1]
    bars = bars[((kind == ord(b"B")) | (kind == ord(b"E"))) & (data[bars - 2] == ord(b" "))]
    bare = ends[ends > 3]
    bare = bare - (data[bare - 1] == ord(b"\r"))
    bare = bare[(data[bare - 1] == ord(b"E")) & (data[bare - 2] == ord(b" ")) & (data[bare - 3] == ord(b":"))]
    if len(bare):
        bars = np.sort(np.concatenate((bars, bare)))
    index = np.searchsorted(ends, bars)
    first = np.diff(index, prepend=-1) != 0
    return index[first], bars[first]


@dataclass(frozen=True, slots=True)
class _Lines(Columns):
    """Lines that may contain a mark: where each starts and ends, and where its bar is (for a bare E, the end)."""

    index: Numbers
    start: Numbers
    end: Numbers
    bar: Numbers
    begins: npt.NDArray[np.bool_]


class _Reader:
    """Parses one piece of whole lines."""

    def __init__(self, trace: Trace, data: bytes, line: int) -> None:
        self.trace, self.data, self.line = trace, data, line
        self.bytes = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self.bytes == ord(b"\n"))
        self.ends = ends if len(ends) and ends[-1] == len(data) - 1 else np.append(ends, len(data))

    def read(self) -> Batch | None:
        """Return the events, or None if no line has a mark."""
        found, others = self._candidates()
        _note_losses(self.trace, self.data, self.line, b" EVENTS" in others)
        count = len(found.index)
        if not count:
            return None
        times, threads = np.zeros(count, np.int64), np.zeros(count, np.int64)
        quick = self._in_columns(found, times, threads)
        keep = quick.copy()
        for at in np.flatnonzero(~quick).tolist():
            keep[at] = self._one(found, at, times, threads)
        if not keep.all():
            found = found.only(keep)
            times, threads = times[keep], threads[keep]
        texts, names, pids = parsing.read_names(self.data, found.begins, found.bar + 1, found.end)
        for at in np.flatnonzero(found.begins & (pids < 0)).tolist():
            self._malformed(int(found.index[at]), int(found.start[at]), int(found.end[at]))
        self._note_processes(found, threads, pids)
        return Batch(times, threads, texts, found.index + self.line, names)

    def _candidates(self) -> tuple[_Lines, bytes]:
        """Return the lines that contain ` B|` or ` E|`, or end with ` E`, each once, and all other lines."""
        starts = np.append(0, self.ends[:-1] + 1)
        bars = self._in_one_column(starts)
        rest = np.flatnonzero(bars < 0)
        others = self._joined(bars < 0)
        lengths = self.ends[rest] - starts[rest]
        ends = np.cumsum(lengths + 1) - 1
        at, found = _first_bars(others, ends)
        if len(at):
            bars[rest[at]] = found - ends[at] + self.ends[rest[at]]
            others = self._joined(bars < 0)
        index = np.flatnonzero(bars >= 0)
        bars = bars[index]
        return _Lines(index, starts[index], self.ends[index], bars, self.bytes[bars - 1] == ord(b"B")), others

    def _in_one_column(self, starts: Numbers) -> Numbers:
        """Return each line's bar if the line has ` B|` or ` E|` in the column of the first mark, or else -1."""
        first = self.data.find(_WRITES)
        if first < 0:
            return np.full(len(starts), -1)
        bars = starts + (first + len(_WRITES) + 1 - self.data.rfind(b"\n", 0, first) - 1)
        good = np.flatnonzero(bars < np.minimum(self.ends, len(self.data) - len(_WRITES)))
        near = parsing.blocks(self.data, bars[good] - 2, 4).view("<u4")[:, 0] & _THREE
        found = np.full(len(starts), -1)
        good = good[(near == _BEGINS) | (near == _ENDS)]
        found[good] = bars[good]
        return found

    def _joined(self, chosen: npt.NDArray[np.bool_]) -> bytes:
        """Return the chosen lines, concatenated."""
        bounds = np.append(0, self.ends + 1)
        changes = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
        stretches = zip(bounds[changes[::2]].tolist(), bounds[changes[1::2]].tolist(), strict=True)
        return b"".join([self.data[start:end] for start, end in stretches])

    def _in_columns(self, found: _Lines, times: Numbers, threads: Numbers) -> npt.NDArray[np.bool_]:
        """Parse the lines whose columns are laid out as the kernel prints them; return a mask of these lines."""
        quick = (found.bar >= _FIRST_FAST) & (found.bar - found.start >= _FIRST_FAST)
        if not quick.any():
            return quick
        before = parsing.blocks(self.data, found.bar[quick] - _FIRST_FAST, _FIRST_FAST)
        good = (words_in(before, _FIRST_FAST - 9) == _NAME[0]) & (words_in(before, _FIRST_FAST - 17) == _NAME[1])
        good &= words_in(before, _FIRST_FAST - 25) >> np.uint64(16) == _NAME[2]
        times[quick], stamped = parsing.stamps(before, _FIRST_FAST - 23)
        start = parsing.blocks(self.data, found.start[quick], _FIRST_FAST // 2)
        threads[quick], dropped = parsing.leading(start, _TASK_COLUMNS + 1)
        near, far = start[:, 23], start[:, 25]
        opens = (near == ord(b"(")) | (near == ord(b"[")) | (far == ord(b"(")) | (far == ord(b"["))
        good &= stamped & (start[:, _TASK_COLUMNS] == ord(b"-")) & (dropped > 0) & (dropped < 8) & opens
        quick[quick] = good
        return quick

    def _one(self, found: _Lines, at: int, times: Numbers, threads: Numbers) -> bool:
        """Parse a line with other columns; return whether it is a mark."""
        start, end = int(found.start[at]), int(found.end[at])
        header = _HEADER.match(self.data, start, end)
        mark = header and _MARK.match(self.data, header.end(), end)
        if header is None or mark is None:
            if b"tracing_mark_write: B|" in self.data[start:end]:
                self._malformed(int(found.index[at]), start, end)
            return False
        fraction = header["fraction"]
        t_ns = int(header["seconds"]) * 1_000_000_000 + int(fraction) * 10 ** (9 - len(fraction))
        tid = int(header["tid"])
        if t_ns >= LATEST_NS or tid >= 1 << 32:
            self._malformed(int(found.index[at]), start, end)
            return False
        times[at], threads[at] = t_ns, tid
        found.begins[at] = mark["kind"] == b"B"
        found.bar[at] = mark.end("kind")
        return True

    def _malformed(self, index: int, start: int, end: int) -> None:
        self.trace.fault(MALFORMED, self.line + index, self.data[start:end])

    def _note_processes(self, found: _Lines, threads: Numbers, pids: Numbers) -> None:
        """Record each new thread's process, from its first line's TGID or, without one, its first begin event."""
        trace = self.trace
        if trace.processes.keys() >= set(parsing.distinct(threads)):
            return
        known = np.flatnonzero(pids >= 0)
        process = dict(zip(threads[known][::-1].tolist(), pids[known][::-1].tolist(), strict=True))
        for tid, line in zip(*(array.tolist() for array in np.unique(threads, return_index=True)), strict=True):
            if tid in trace.processes:
                continue
            header = _HEADER.match(self.data, int(found.start[line]), int(found.end[line]))
            if header is not None:
                trace.thread_names.setdefault(tid, header["task"].decode("utf-8", "backslashreplace"))
            if header is not None and header["tgid"] and header["tgid"].isdigit():
                trace.processes[tid] = int(header["tgid"])
            elif tid in process:
                trace.processes[tid] = process[tid]


_FAULTS = re.compile(rb'\{"displayTimeUnit": "ns", "otherData": \{"faults": (.*)\}, "traceEvents": \[$', re.MULTILINE)
HEAD = '{"ph":"%s","ts":%16d.%03d,"tid":%10d,"pid":%10d'
"""The start of a line: phase, microseconds and nanoseconds, thread and process."""

_COLUMNS = np.frombuffer((HEAD % ("#", 0, 0, 0, 0)).replace(" ", "0").encode(), np.uint8)
_KIND, _WIDTH = 7, len(_COLUMNS)
_IS_DIGIT = np.equal(_COLUMNS, ord("0"))
_DIGITS, _FIXED = np.flatnonzero(_IS_DIGIT), np.flatnonzero(~_IS_DIGIT & (np.arange(_WIDTH) != _KIND))
_WEIGHTS = np.zeros((len(_DIGITS), 3), np.int64)  # numbers of digits in time, thread and process
for _number, (_first, _last) in enumerate(((0, 19), (19, 29), (29, 39))):
    _WEIGHTS[_first:_last, _number] = 10 ** np.arange(_last - _first)[::-1]


def read_chrome(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the begin and end events. Raises InvalidInputError for JSON that is not such an export."""
    line, known = 1, False
    for left_out, data in lines(pieces):
        if line == 1 and (faults := _FAULTS.match(data)):
            trace.add_faults_json(faults[1])
        line += left_out
        batch = _read_slices(trace, data, line)
        line, known = line + data.count(b"\n"), known or len(batch) > 0 or b'"traceEvents": [' in data
        if len(batch):
            yield batch
    if not known:
        raise InvalidInputError("this JSON is not an exported trace", location=trace.name, hint=EXPECTED)


def _read_slices(trace: Trace, data: bytes, line: int) -> Batch:
    characters = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(characters == ord("\n")), len(data))
    starts = np.append(0, ends[:-1] + 1)
    index = np.flatnonzero(ends - starts > _WIDTH)
    heads = parsing.blocks(data, starts[index], _WIDTH)
    digits = np.where(heads[:, _DIGITS] == ord(" "), 0, heads[:, _DIGITS] - np.uint8(ord("0")))
    good = (heads[:, _FIXED] == _COLUMNS[_FIXED]).all(axis=1) & (digits <= 9).all(axis=1)
    good &= np.isin(heads[:, _KIND], np.frombuffer(b"BEi", np.uint8))
    times, threads, processes = (digits.astype(np.int64) @ _WEIGHTS).T
    good &= (times >= 0) & (times < LATEST_NS) & (threads < 1 << 32)
    begins = heads[:, _KIND] == ord("B")
    chosen = index[good & begins]
    codes, raw = parsing.interned(data, starts[chosen] + _WIDTH, ends[chosen])
    names: dict[bytes, int] = {}
    found = np.array([_name(text, names) for text in raw], np.int64)
    texts = np.full(len(index), -1)
    texts[good & begins] = found[codes]
    for at in np.flatnonzero(good & begins & (texts < 0)).tolist():
        trace.fault(MALFORMED, line + int(index[at]), data[starts[index[at]] : ends[index[at]]])
    good &= ~begins | (texts >= 0)
    for tid, process in dict(zip(threads[good][::-1].tolist(), processes[good][::-1].tolist(), strict=True)).items():
        trace.processes.setdefault(tid, process)
    return Batch(times[good], threads[good], texts[good], index[good] + line, list(names))


def _name(text: bytes, names: dict[bytes, int]) -> int:
    """Return the number of a mark's text, parsed from the end of its line, or -1 if that is corrupt or truncated."""
    try:
        mark = json.loads(b'{"":0' + text.rstrip(b"\r,"))["args"]["mark"].encode("utf-8", "surrogateescape")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return -1
    return names.setdefault(mark, len(names))
