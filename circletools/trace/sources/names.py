"""The texts of begins: read once per distinct text, not once per event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from circletools.trace.sources.digits import words_at

Numbers = npt.NDArray[np.int64]

_WORD, _MOST_WORDS = 8, 32
_SLOTS, _SLOT_SHIFT = 1 << 12, np.uint64(52)
_MIX, _MIX_LAST = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


def interned(data: bytes, starts: Numbers, ends: Numbers) -> tuple[Numbers, list[bytes]]:
    """Return for each stretch of the data its text as an index, and the texts, which are distinct.

    Stretches fall into slots by a few of their characters; those that equal the first of their slot, which most do,
    are not looked at one by one.
    """
    sizes = ends - starts
    like = np.flatnonzero((sizes >= _WORD) & (sizes <= _MOST_WORDS * _WORD))
    codes, texts = np.full(len(starts), -1, np.int64), dict[bytes, int]()
    if len(like):
        first, last, size = starts[like], ends[like] - _WORD, sizes[like]
        words = words_at(data)
        slots = (words[first] * _MIX + words[last] * _MIX_LAST ^ size.astype(np.uint64) * _MIX) >> _SLOT_SHIFT
        leaders = np.full(_SLOTS, -1)
        leaders[slots[::-1]] = np.arange(len(like))[::-1]
        leader = leaders[slots]
        equal = size == size[leader]
        same = np.flatnonzero(equal)
        begins, longest = first[same], size[same] - _WORD
        back = first[leader[same]] - begins
        good = np.ones(len(same), np.bool_)
        for offset in range(0, int(size.max()), _WORD):
            at = begins + np.minimum(offset, longest)
            good &= words[at] == words[at + back]
        equal[same] = good
        chosen = np.unique(leader)
        numbers = np.zeros(len(like), np.int64)
        numbers[chosen] = [
            texts.setdefault(data[start:end], len(texts))
            for start, end in zip(first[chosen].tolist(), (last[chosen] + _WORD).tolist(), strict=True)
        ]
        codes[like[equal]] = numbers[leader[equal]]
    others = np.flatnonzero(codes < 0)
    codes[others] = [
        texts.setdefault(data[start:end], len(texts))
        for start, end in zip(starts[others].tolist(), ends[others].tolist(), strict=True)
    ]
    return codes, list(texts)


def read_names(
    data: bytes, begins: npt.NDArray[np.bool_], starts: Numbers, ends: Numbers
) -> tuple[Numbers, list[bytes], Numbers]:
    """Read `PID|TEXT` of the events that are begins, each from `starts` to `ends`.

    Return for each event its text as an index into the names, -1 for an end; the names; and for each its process, -1
    for an end and for a begin without a process id or without a text.
    """
    codes, raw = interned(data, starts[begins], ends[begins])
    names: dict[bytes, int] = {}
    texts, pids = np.zeros(len(raw), np.int64), np.zeros(len(raw), np.int64)
    found = np.full((2, len(begins)), -1, np.int64)
    for at, text in enumerate(raw):
        pid, bar, name = text.partition(b"|")
        pids[at] = int(pid) if bar and pid.isdigit() and len(pid) <= 10 else -1
        name = name.rstrip(b"\r\n").removesuffix(b"\\n\\")  # the second: a page that holds the lines as a string
        texts[at] = names.setdefault(name, len(names))
    found[:, begins] = texts[codes], pids[codes]
    return found[0], list(names), found[1]


_FEW = 1 << 20


def by_thread(threads: Numbers) -> Numbers:
    """Return the order by threads, which are indices; those of one thread stay in their order."""
    most = int(threads.max(initial=0))
    # What has 8 or 16 bits is sorted by its digits.
    return np.argsort(threads.astype(np.min_scalar_type(most)), kind="stable")


def distinct(keys: Numbers) -> list[int]:
    """Return the distinct values, none of which is negative, in their order."""
    if len(keys) and keys.max() < _FEW:
        return np.flatnonzero(np.bincount(keys)).tolist()
    return np.unique(keys).tolist()  # type: ignore[no-any-return]


def sums(keys: Numbers, values: Numbers) -> list[tuple[int, int]]:
    """Return each key, none of which is negative, with the sum of its values, which are none either; no sum is 0."""
    if len(keys) and keys.max() < _FEW and values.sum(dtype=np.float64) < 1 << 52:  # exact as floats
        found = np.bincount(keys, values)
        known = np.flatnonzero(found)
        return list(zip(known.tolist(), found[known].astype(np.int64).tolist(), strict=True))
    known, inverse = np.unique(keys, return_inverse=True)
    totals = np.zeros(len(known), np.int64)
    np.add.at(totals, inverse, values)
    return [(key, total) for key, total in zip(known.tolist(), totals.tolist(), strict=True) if total]
