"""Read Chrome's trace viewer JSON as written by `trace-export`, with one event per line, in fixed columns.

    {"ph":"B","ts":         1234567.890,"tid":      5143,"pid":      5143,"name":"f","args":{"mark":"[NN_LR_PE]f"}},

`ts` is in microseconds; `args.mark` holds the text of a mark. An unmatched end event is an instant event, because
viewers would reject it otherwise. All other lines serve only the viewers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np

from circletools.errors import InvalidInputError
from circletools.trace.sources.batch import LATEST_NS, Batch, FaultKind, Trace
from circletools.trace.sources.content import EXPECTED, Pieces, lines
from circletools.trace.sources.names import blocks, interned

HEAD = '{"ph":"%s","ts":%16d.%03d,"tid":%10d,"pid":%10d'
"""The start of a line: phase, microseconds and nanoseconds, thread, process."""

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
        line += left_out
        batch = _read(trace, data, line)
        line, known = line + data.count(b"\n"), known or len(batch) > 0 or b'"traceEvents": [' in data
        if len(batch):
            yield batch
    if not known:
        raise InvalidInputError("this JSON is not an exported trace", location=trace.name, hint=EXPECTED)


def _read(trace: Trace, data: bytes, line: int) -> Batch:
    characters = np.frombuffer(data, np.uint8)
    ends = np.append(np.flatnonzero(characters == ord("\n")), len(data))
    starts = np.append(0, ends[:-1] + 1)
    index = np.flatnonzero(ends - starts > _WIDTH)
    heads = blocks(data, starts[index], _WIDTH)
    digits = np.where(heads[:, _DIGITS] == ord(" "), 0, heads[:, _DIGITS] - np.uint8(ord("0")))
    good = (heads[:, _FIXED] == _COLUMNS[_FIXED]).all(axis=1) & (digits <= 9).all(axis=1)
    good &= np.isin(heads[:, _KIND], np.frombuffer(b"BEi", np.uint8))
    times, threads, processes = (digits.astype(np.int64) @ _WEIGHTS).T
    good &= (times >= 0) & (times < LATEST_NS) & (threads < 1 << 32)
    begins = heads[:, _KIND] == ord("B")
    chosen = index[good & begins]
    codes, raw = interned(data, starts[chosen] + _WIDTH, ends[chosen])
    names: dict[bytes, int] = {}
    found = np.array([_name(text, names) for text in raw], np.int64)
    texts = np.full(len(index), -1)
    texts[good & begins] = found[codes]
    for at in np.flatnonzero(good & begins & (texts < 0)).tolist():
        trace.fault(FaultKind.MALFORMED, line + int(index[at]), data[starts[index[at]] : ends[index[at]]])
    good &= ~begins | (texts >= 0)
    for tid, process in dict(zip(threads[good][::-1].tolist(), processes[good][::-1].tolist(), strict=True)).items():
        trace.processes.setdefault(tid, process)
    return Batch(times[good], threads[good], texts[good], index[good] + line, list(names))


def _name(text: bytes, names: dict[bytes, int]) -> int:
    """Return the number of a mark's text, parsed from the end of its line, or -1 if it is corrupt or truncated."""
    try:
        mark = json.loads(b'{"":0' + text.rstrip(b"\r,"))["args"]["mark"].encode("utf-8", "surrogateescape")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return -1
    return names.setdefault(mark, len(names))
