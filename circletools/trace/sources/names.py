"""The texts of begins, parsed once for each distinct text and not for each event."""

from __future__ import annotations

from functools import reduce
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.digits import blocks

Numbers = npt.NDArray[np.int64]
_Rows = TypeVar("_Rows", bound="Columns")


class Columns:
    """Base class of slotted dataclasses whose fields are columns of the same length."""

    __slots__: tuple[str, ...] = ()

    def only(self: _Rows, keep: npt.NDArray[np.bool_] | Numbers) -> _Rows:
        """Return some of the rows, selected by a mask or by their places."""
        at = np.flatnonzero(keep) if keep.dtype == np.bool_ else keep
        return type(self)(*(getattr(self, name).take(at) for name in self.__slots__))


_WORD, _MOST_WORDS = 8, 32
_SLOTS, _SLOT_SHIFT = 1 << 12, np.uint64(52)
_MIX = np.uint64(0x9E3779B97F4A7C15) ** np.arange(1, _MOST_WORDS + 1, dtype=np.uint64)
_MASKS = np.tri(_MOST_WORDS * _WORD + 1, _MOST_WORDS * _WORD, -1, np.bool_).astype(np.uint8) * np.uint8(0xFF)
_MASKS = _MASKS.view(np.uint64)


def interned(data: bytes, starts: Numbers, ends: Numbers) -> tuple[Numbers, list[bytes]]:
    """Return each range's text as an index, and the distinct texts.

    Ranges of limited length are compared as rows of words that are hashed into slots; only ranges that differ from
    the first one of their slot, which are few, are processed one by one.
    """
    sizes = ends - starts
    width = min(-(-int(sizes.max(initial=1)) // _WORD), _MOST_WORDS)
    like = np.flatnonzero((sizes <= width * _WORD) & (starts <= len(data) - width * _WORD))
    codes, texts = np.full(len(starts), -1, np.int64), dict[bytes, int]()

    def read(at: Numbers) -> list[int]:
        stretches = zip(starts[at].tolist(), ends[at].tolist(), strict=True)
        return [texts.setdefault(data[start:end], len(texts)) for start, end in stretches]

    if len(like):
        rows = blocks(data, starts[like], width * _WORD).view("<u8")
        rows &= _MASKS.take(sizes[like], axis=0)[:, :width]
        leaders = np.full(_SLOTS, -1)
        slots = rows @ _MIX[:width] >> _SLOT_SHIFT
        leaders[slots[::-1]] = np.arange(len(like))[::-1]
        chosen = np.sort(leaders[leaders >= 0])
        numbers = np.zeros(len(like), np.int64)
        numbers[chosen] = read(like[chosen])
        leader = leaders[slots]
        equal = reduce(np.bitwise_or, (rows ^ rows.take(leader, axis=0)).T) == 0
        codes[like[equal]] = numbers[leader[equal]]
    others = np.flatnonzero(codes < 0)
    codes[others] = read(others)
    return codes, list(texts)


def read_names(
    data: bytes, begins: npt.NDArray[np.bool_], starts: Numbers, ends: Numbers
) -> tuple[Numbers, list[bytes], Numbers]:
    """Parse `PID|TEXT` of the events that are begins, each from `starts` to `ends`.

    Return for each event its text as an index into the names, -1 for an end; the names; and for each event its
    process, -1 for an end and for a begin without a process id or text.
    """
    codes, raw = interned(data, starts[begins], ends[begins])
    names: dict[bytes, int] = {}
    texts, pids = np.zeros(len(raw), np.int64), np.zeros(len(raw), np.int64)
    found = np.full((2, len(begins)), -1, np.int64)
    for at, text in enumerate(raw):
        pid, bar, name = text.partition(b"|")
        pids[at] = int(pid) if bar and pid.isdigit() and len(pid) <= 10 else -1
        name = name.rstrip(b"\r\n").removesuffix(b"\\n\\")  # in the second case, a page holds the lines as a string
        texts[at] = names.setdefault(name, len(names))
    found[:, begins] = texts[codes], pids[codes]
    return found[0], list(names), found[1]


_FEW = 1 << 20


def small(values: Numbers) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Return non-negative values in the smallest type that holds them."""
    return values.astype(np.min_scalar_type(int(values.max(initial=0))))


def by_thread(threads: Numbers) -> Numbers:
    """Return the stable order by thread index; keys of 8 or 16 bits use a radix sort."""
    return np.argsort(small(threads), kind="stable")


def distinct(keys: Numbers) -> list[int]:
    """Return the distinct values (all non-negative), sorted."""
    most = keys.max(initial=0)
    if most < _FEW:
        seen = np.zeros(most + 1, np.bool_)
        seen[keys] = True
        return np.flatnonzero(seen).tolist()
    return np.unique(keys).tolist()  # type: ignore[no-any-return]


def sums(keys: Numbers, values: Numbers) -> tuple[Numbers, Numbers]:
    """Sum `values` by key (all non-negative); return the keys, ascending, and their sums, without sums of 0."""
    if len(keys) and keys.max() < _FEW and values.sum(dtype=np.float64) < 1 << 52:  # exact as floats
        totals = np.bincount(keys, values)
        known = np.flatnonzero(totals)
        return known, totals[known].astype(np.int64)
    known, inverse = np.unique(keys, return_inverse=True)
    found = np.zeros(len(known), np.int64)
    np.add.at(found, inverse, values)
    return known[found != 0], found[found != 0]
