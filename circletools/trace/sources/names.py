"""The texts of begins: read once per distinct text, not once per event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def read_names(
    data: bytes, begins: npt.NDArray[np.bool_], starts: Numbers, ends: Numbers
) -> tuple[Numbers, list[bytes], Numbers]:
    """Read `PID|TEXT` of the events that are begins, each from `starts` to `ends`.

    Return for each event its text as an index into the names, -1 for an end; the names; and for each its process, -1
    for an end and for a begin without a process id or without a text.
    """
    raw = [data[start:end] for start, end in zip(starts[begins].tolist(), ends[begins].tolist(), strict=True)]
    numbers = {text: at for at, text in enumerate(dict.fromkeys(raw))}
    codes = np.fromiter(map(numbers.__getitem__, raw), np.int64, len(raw))
    names: dict[bytes, int] = {}
    texts, pids = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    found = np.full((2, len(begins)), -1, np.int64)
    for text, at in numbers.items():
        pid, bar, name = text.partition(b"|")
        pids[at] = int(pid) if bar and pid.isdigit() and len(pid) <= 10 else -1
        name = name.rstrip(b"\r\n").removesuffix(b"\\n\\")  # the second: a page that holds the lines as a string
        texts[at] = names.setdefault(name, len(names))
    found[:, begins] = texts[codes], pids[codes]
    return found[0], list(names), found[1]


_FEW = 1 << 20


def distinct(keys: Numbers) -> list[int]:
    """Return the distinct values, none of which is negative, in their order."""
    if len(keys) and keys.max() < _FEW:
        return np.flatnonzero(np.bincount(keys)).tolist()
    return np.unique(keys).tolist()  # type: ignore[no-any-return]


def sums(keys: Numbers, values: Numbers) -> list[tuple[int, int]]:
    """Return each key, none of which is negative, with the sum of its values, none of which is negative either."""
    if len(keys) and keys.max() < _FEW and values.sum(dtype=np.float64) < 1 << 52:  # exact as floats
        found = np.bincount(keys, values)
        known = np.flatnonzero(found)
        return list(zip(known.tolist(), found[known].astype(np.int64).tolist(), strict=True))
    known, inverse = np.unique(keys, return_inverse=True)
    totals = np.zeros(len(known), np.int64)
    np.add.at(totals, inverse, values)
    return list(zip(known.tolist(), totals.tolist(), strict=True))
