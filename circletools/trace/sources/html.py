"""Systrace HTML pages: the trace is the text of scripts of class `trace-data`, among much code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from circletools.errors import InvalidInputError
from circletools.trace.sources.batch import Batch, Trace
from circletools.trace.sources.content import Pieces, lines
from circletools.trace.sources.text import read_sections

_OPENINGS = (b'<script class="trace-data"', b"<script class='trace-data'", b"var linuxPerfData")
_CLOSING = b"</script>"
_MOST_SECTIONS = 100  # a page has one to three


def read_html(trace: Trace, pieces: Pieces) -> Iterator[Batch]:
    """Yield the events of a page. Raises InvalidInputError if none of its scripts contains ftrace lines."""
    return read_sections(trace, _sections(lines(pieces), trace.name))


def _sections(whole: Iterable[tuple[int, bytes]], name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines between the line that opens a script with a trace and the line that closes it."""
    inside, left_out, sections = False, 0, 0
    for before, data in whole:
        left_out += before
        at = start = 0  # text before `start` is counted
        while at < len(data):
            if inside:
                close = data.find(_CLOSING, at)
                end = len(data) if close < 0 else close
                if end > at:
                    yield left_out + data.count(b"\n", start, at), data[at:end]
                    left_out, start = 0, end if data[end - 1 : end] == b"\n" else _next_line(data, end)
                inside = close < 0
                at = len(data) if close < 0 else close + len(_CLOSING)
                continue
            opens = [place for opening in _OPENINGS if (place := data.find(opening, at)) >= 0]
            if not opens:
                break
            at, inside, sections = _next_line(data, min(opens)), True, sections + 1
            if sections > _MOST_SECTIONS:
                raise InvalidInputError(f"more than {_MOST_SECTIONS} scripts with a trace", location=name)
        left_out += data.count(b"\n", start)


def _next_line(data: bytes, at: int) -> int:
    end = data.find(b"\n", at)
    return len(data) if end < 0 else end + 1
