"""Traces in the JSON of Chrome's trace viewer, as `trace-export` writes them: begins and ends of slices.

`ts` is in microseconds; `args.mark` holds the text of a mark where the name is something shorter. An end without a
begin is an instant of that name (LONE_END): viewers complain of such ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np

from circletools.errors import InvalidInputError
from circletools.trace.sources.batch import LATEST_NS, Batch, Trace
from circletools.trace.sources.content import EXPECTED, Pieces

LONE_END = "end without a begin"
_MOST_BYTES = 512 << 20
_BATCH_EVENTS = 1 << 15


def read_chrome(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the begins and ends. Raises InvalidInputError for JSON that is broken, or something else."""
    columns: list[tuple[int, int, bytes | None, int]] = []
    for where, event in enumerate(_events(trace, pieces)):
        if not isinstance(event, dict):
            continue
        if event.get("ph") not in ("B", "E") and (event.get("ph"), event.get("name")) != ("i", LONE_END):
            continue
        tid, pid, time = event.get("tid"), event.get("pid"), event.get("ts")
        if type(tid) is not int or not 0 <= tid < 1 << 32 or type(time) not in (int, Decimal):
            continue
        assert isinstance(time, int | Decimal)
        if not 0 <= time < LATEST_NS // 1000:
            continue
        if type(pid) is int and 0 <= pid < 1 << 32:
            trace.processes.setdefault(tid, pid)
        columns.append((int(time * 1000), tid, _text(event) if event["ph"] == "B" else None, where))
        if len(columns) == _BATCH_EVENTS:
            yield _batch(columns)
            columns = []
    if columns:
        yield _batch(columns)


def _events(trace: Trace, pieces: Pieces) -> list[Any]:
    data = bytearray()
    for piece in pieces():
        data += piece
        if len(data) > _MOST_BYTES:
            raise InvalidInputError("more than 512 MiB of JSON", location=trace.name, hint=EXPECTED)
    try:
        document = json.loads(bytes(data), parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError, ArithmeticError) as error:
        raise InvalidInputError(f"invalid JSON: {error}", location=trace.name, hint=EXPECTED) from error
    found = document.get("traceEvents") if isinstance(document, dict) else document
    if not isinstance(found, list):
        raise InvalidInputError("JSON, but not a trace", location=trace.name, hint=EXPECTED)
    return found


def _text(event: dict[str, Any]) -> bytes:
    args = event.get("args")
    text = args.get("mark") if isinstance(args, dict) else None
    text = text if isinstance(text, str) else event.get("name")
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""


def _batch(columns: list[tuple[int, int, bytes | None, int]]) -> Batch:
    names: dict[bytes, int] = {}
    texts = [-1 if text is None else names.setdefault(text, len(names)) for _, _, text, _ in columns]
    times, threads, places = (np.array([row[at] for row in columns], np.int64) for at in (0, 1, 3))
    return Batch(times, threads, np.array(texts, np.int64), places, list(names))
