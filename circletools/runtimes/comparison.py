"""Compare the results of two runs bit by bit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from circletools.runtimes.protocol import Array


def same(first: Sequence[Array], second: Sequence[Array]) -> str | None:
    """Return None if two lists of arrays are equal in every bit, or else a description of the first difference."""
    if len(first) != len(second):
        return f"{len(first)} and {len(second)} outputs"
    for index, (one, two) in enumerate(zip(first, second, strict=True)):
        if one.dtype != two.dtype or one.shape != two.shape:
            return f"output {index}: {one.dtype}{list(one.shape)} and {two.dtype}{list(two.shape)}"
        if one.dtype.kind == "O":
            if one.tolist() != two.tolist():
                return f"output {index}: the strings differ"
        elif one.tobytes() != two.tobytes():
            ours, theirs = (np.frombuffer(array.tobytes(), np.uint8).reshape(array.size, -1) for array in (one, two))
            count = int((ours != theirs).any(axis=1).sum())
            return f"output {index}: {count} of {one.size} values differ"
    return None
