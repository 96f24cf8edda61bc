"""Open a trace; its format is recognized by its first bytes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal, NamedTuple

from circletools.errors import InvalidInputError
from circletools.storage.files import open_source
from circletools.trace.sources.batch import BEGIN, END, NO_PROCESS, Batch, Event, Trace, merged
from circletools.trace.sources.content import EXPECTED, Pieces, head, inflated, most_unpacked, pieces_of
from circletools.trace.sources.perfetto import read_perfetto
from circletools.trace.sources.text import read_chrome, read_html, read_text

_HEAD_BYTES = 4096
_GZIP, _ZSTD, _ZIP = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
_IDLE = (b"<idle>", b"<...>")  # task names in ftrace text


def open_trace(source: str | os.PathLike[str] | bytes | memoryview | BinaryIO) -> Trace:
    """Open a trace; `-` is standard input. Raises InvalidInputError if it is not a trace or cannot be read."""
    file = open_source(source)
    memory = file.octets
    file.close()  # the mapping stays open as long as something refers to it
    most = most_unpacked(len(memory))
    pieces, packing = unpacked(pieces_of(memory), file.name, most)
    start = head(pieces, _HEAD_BYTES)
    shell = start.find(b"TRACE:")
    if shell >= 0 and not start[:shell].strip(b"\r\n").count(b"\n") and b"|" not in start[:shell]:
        body = len(start) - len(start[shell + len(b"TRACE:") :].lstrip(b"\r\n"))
        mark = start[body : body + 2]
        if len(mark) == 2 and mark[0] & 0x0F == 8 and int.from_bytes(mark, "big") % 31 == 0:
            pieces, packing = inflated(pieces, file.name, 15, most, body), "zlib"
            start = head(pieces, _HEAD_BYTES)
    if not start:
        raise InvalidInputError("the trace is empty", location=file.name, hint="did the recording end early?")
    opening = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    encoding = next((one for one in ENCODINGS if one.fits(start, opening)), None)
    if encoding is None:
        raise InvalidInputError("not a known trace format", location=file.name, hint=EXPECTED)
    encoded_as = f"{encoding.name} in {packing}" if packing else encoding.name
    return Trace(file.name, encoded_as, encoding.place, lambda trace: encoding.read(trace, pieces), most)


def events(trace: Trace, *, ordered: bool = True) -> Iterator[Event]:
    """Yield the events of a trace in time order; sort them unless they are `ordered`. Raises InvalidInputError."""
    for batch in trace.batches() if ordered else merged(trace.batches()):
        columns = (batch.times.tolist(), batch.threads.tolist(), batch.texts.tolist(), batch.places.tolist())
        for t_ns, tid, text, where in zip(*columns, strict=True):
            tgid = trace.processes.get(tid, NO_PROCESS)
            kind, name = (END, b"") if text < 0 else (BEGIN, batch.names[text])
            yield Event(t_ns, tid, tgid, kind, name, where)


def unpacked(pieces: Pieces, name: str, most: int) -> tuple[Pieces, str]:
    """Return the content of a file, and the name of the compression, if any. Raises InvalidInputError."""
    start = head(pieces, 4)
    if start.startswith(_GZIP):
        pieces = inflated(pieces, name, 31, most)
        if head(pieces, 2) == _GZIP:
            raise InvalidInputError("compressed with gzip twice", location=name, hint="decompress it once")
        return pieces, "gzip"
    if start.startswith(_ZSTD):
        hint = "install zstd and pipe the file in: zstd -dc FILE | circletool ... -"
        raise InvalidInputError("zstd compression is not supported", location=name, hint=hint)
    if start.startswith(_ZIP):
        raise InvalidInputError("this is a ZIP archive, not a trace", location=name, hint="extract the trace from it")
    return pieces, ""


def _is_perfetto(start: bytes) -> bool:
    """Return whether the data begins like a packet and is not text with an empty first line."""
    return start[0] == 0x0A and any(byte < 32 and byte not in b"\t\n\r" for byte in start[1:])


class Encoding(NamedTuple):
    """An encoding of traces: the unit of its places, how to recognize it (`fits`), and how to read it.

    The arguments of `fits` are the start of the trace, both as it is and without its byte order mark and white space.
    """

    name: str
    place: Literal["line", "byte"]
    fits: Callable[[bytes, bytes], bool]
    read: Callable[[Trace, Pieces], Iterator[Batch]]


ENCODINGS = (
    # Perfetto is tested first, because the length of a packet may look like a bracket.
    Encoding("Perfetto", "byte", lambda start, _: _is_perfetto(start), read_perfetto),
    Encoding("systrace HTML", "line", lambda _, text: text[:1] == b"<" and not text.startswith(_IDLE), read_html),
    Encoding("Chrome JSON", "line", lambda _, text: text[:1] in (b"{", b"["), read_chrome),
    Encoding("ftrace text", "line", lambda start, _: b"\0" not in start, read_text),
)
"""All encodings in the order in which they are tested; the fuzz targets have seeds for each (`fuzz/seeds.py`)."""
