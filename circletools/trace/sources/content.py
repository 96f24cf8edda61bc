"""The bytes of a trace, unpacked piece by piece, so that a small file cannot exhaust memory."""

from __future__ import annotations

import mmap
import zlib
from collections.abc import Callable, Iterator

from circletools.errors import InvalidInputError

EXPECTED = (
    "expected systrace HTML, ftrace text, atrace -z, a Perfetto trace, or an export of this program; "
    "for operator times, use `attribute`, `trace-compare --operators` or ct.read_profile(path)"
)

PIECE_BYTES = 3 << 20
_UNPACKED_FREE, _UNPACKED_RATIO = 4 << 20, 100
_SLICE, _LONGEST_LINE = 64 << 10, 8 << 20

Pieces = Callable[[], Iterator[memoryview | bytes]]
"""A function that yields the content, each time from the start."""


def pieces_of(memory: memoryview) -> Pieces:
    """Return the content of a file that is mapped or in memory, in pieces."""
    whole = memory.obj

    def read() -> Iterator[memoryview]:
        for at in range(0, len(memory), PIECE_BYTES):
            yield memory[at : at + PIECE_BYTES]
            if isinstance(whole, mmap.mmap) and len(memory) == len(whole) and hasattr(mmap, "MADV_DONTNEED"):
                # Release the pages, so that a long trace does not fill memory.
                begin = at - at % mmap.PAGESIZE
                whole.madvise(mmap.MADV_DONTNEED, begin, min(at + PIECE_BYTES, len(memory)) - begin)

    return read


def most_unpacked(file_bytes: int) -> int:
    """Return how many bytes the compressed content of a file may unpack to.

    Traces compress to between a tenth and a thirtieth of their size, decompression bombs to a thousandth.
    """
    return _UNPACKED_FREE + _UNPACKED_RATIO * file_bytes


def inflated(packed: Pieces, name: str, window_bits: int, most: int, skipped: int = 0) -> Pieces:
    """Unpack zlib (15) or gzip (31) content after `skipped` bytes; gzip may have several members.

    For truncated content, the available part is returned, because traces may be truncated. Reading raises
    InvalidInputError for corrupt content, and for more than `most` bytes.
    """

    def read() -> Iterator[bytes]:
        engine, left, begun, before = zlib.decompressobj(window_bits), most, True, skipped
        # In small slices, because the remainder is copied after each member, and there may be many members.
        for piece in (whole[at : at + _SLICE] for whole in packed() for at in range(0, len(whole), _SLICE)):
            rest, before = bytes(piece[before:]), max(0, before - len(piece))
            while rest:
                if not begun and rest[:1] != b"\x1f":
                    return  # padding, or bytes that a shell appended
                begun = True
                try:
                    unpacked = engine.decompress(rest, PIECE_BYTES)
                except zlib.error as error:
                    message = f"corrupt compressed data: {error}"
                    raise InvalidInputError(message, location=name, hint="copy the file again") from error
                left -= len(unpacked)
                if left < 0:
                    raise too_large(name)
                yield unpacked
                rest = engine.unconsumed_tail
                if engine.eof:
                    if window_bits != 31:
                        return
                    rest, engine, begun = engine.unused_data, zlib.decompressobj(window_bits), False

    return lambda: _joined(read())


def too_large(name: str) -> InvalidInputError:
    """Return the error for a decompression bomb."""
    hint = "decompress it first if you trust the file"
    return InvalidInputError("it decompresses to far more than its size", location=name, hint=hint)


def _joined(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join pieces into larger ones, since each piece costs readers time, and members of gzip may be very small."""
    held, size = list[bytes](), 0
    for piece in pieces:
        if size and size + len(piece) > PIECE_BYTES:
            yield b"".join(held)
            held, size = [], 0
        held.append(piece)
        size += len(piece)
    if size:
        yield b"".join(held)


def head(pieces: Pieces, count: int) -> bytes:
    """Return the first bytes."""
    found = b""
    for piece in pieces():
        found += bytes(piece[:count])
        if len(found) >= count:
            break
    return found[:count]


def lines(pieces: Pieces) -> Iterator[tuple[int, bytes]]:
    """Yield the content in pieces of whole lines, each with the number of lines dropped before it.

    The last piece may lack a newline at its end. Lines of more than eight megabytes are dropped.
    """
    carry, left_out, skipping = b"", 0, False
    for piece in map(bytes, pieces()):
        cut = piece.rfind(b"\n") + 1
        if not cut:
            skipping = skipping or len(carry) + len(piece) > _LONGEST_LINE
            carry = b"" if skipping else carry + piece
            continue
        data, carry = b"".join((carry, memoryview(piece)[:cut])), piece[cut:]
        start = 0
        if skipping:
            start, left_out, skipping = data.find(b"\n") + 1, left_out + 1, False
        if len(data) > start:
            yield left_out, data[start:]
            left_out = 0
    if carry and not skipping:
        yield left_out, carry
