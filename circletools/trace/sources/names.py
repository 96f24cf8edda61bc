"""The texts of begins: read once per distinct text, not once per event."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


def read_names(data: bytes, starts: list[int], ends: list[int]) -> tuple[Numbers, list[bytes], Numbers]:
    """Read `PID|TEXT` from each span; return index into the names, the distinct names, and process id of each span.

    A span without a process id or without a text has the process -1.
    """
    raw = [data[start:end] for start, end in zip(starts, ends, strict=True)]
    numbers = {text: at for at, text in enumerate(dict.fromkeys(raw))}
    codes = np.fromiter(map(numbers.__getitem__, raw), np.int64, len(raw))
    names: dict[bytes, int] = {}
    texts, pids = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    for text, at in numbers.items():
        pid, bar, name = text.partition(b"|")
        pids[at] = int(pid) if bar and pid.isdigit() and len(pid) <= 10 else -1
        name = name.rstrip(b"\r\n").removesuffix(b"\\n\\")  # the second: a page that holds the lines as a string
        texts[at] = names.setdefault(name, len(names))
    return texts[codes], list(names), pids[codes]


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
