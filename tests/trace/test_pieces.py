"""Pieces that a trace is read in: a mapping is let go behind them, and lines that are too long are left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from mmap import mmap

import pytest

from circletools.trace.sources import content
from circletools.trace.sources.content import lines, pieces_of

# --- pieces ---------------------------------------------------------------------------------------------------


class Mapping(mmap):
    """A file in memory that notes what it is told to let go."""

    told: list[tuple[int, int]]

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        """Note the place and the length."""
        assert option == 4  # MADV_DONTNEED
        self.told.append((start, length))
        super().madvise(option, start, length)


def test_a_mapping_is_let_go_page_by_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "PIECE_BYTES", 6000)
    mapped = Mapping(-1, 10_000)
    mapped.told = []
    assert [len(piece) for piece in pieces_of(memoryview(mapped))()] == [6000, 4000]
    assert mapped.told == [(0, 6000), (4096, 5904)]
    mapped.told = []
    assert [len(piece) for piece in pieces_of(memoryview(mapped)[5:])()] == [6000, 3995]
    assert mapped.told == []


def given(*pieces: bytes) -> Callable[[], Iterator[bytes]]:
    return lambda: iter(pieces)


def test_a_line_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content, "_LONGEST_LINE", 3)
    assert list(lines(given(b"ab", b"c", b"d\n"))) == [(0, b"abcd\n")]  # three bytes are none too many
    assert list(lines(given(b"ab", b"cd", b"e\nf\ng"))) == [(1, b"f\n"), (0, b"g")]
    assert list(lines(given(b"abcd", b"\n", b"efgh", b"\n", b"i\n"))) == [(2, b"i\n")]
    assert list(lines(given(b"a\n", b"bcde", b"f"))) == [(0, b"a\n")]
    assert list(lines(given(b"a\nb", b"\n"))) == [(0, b"a\n"), (0, b"b\n")]


# --- traces ---------------------------------------------------------------------------------------------------
