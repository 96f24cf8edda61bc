"""Where a finding is, and findings of one kind told together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding, Severity

SHOWN = 20  # findings of one kind that are told one by one


def place_of(field: str, splits: NDArray[np.int64], row: int) -> str:
    """Return the path of a row among all operators or tensors: `subgraphs[0].operators[5]`."""
    subgraph = int(np.searchsorted(splits, row, "right")) - 1
    return f"subgraphs[{subgraph}].{field}[{row - int(splits[subgraph])}]"


def told(
    code: str,
    rows: NDArray[np.int64],
    place: Callable[[int], str],
    message: Callable[[int], str],
    severity: Severity = "warning",
) -> Iterator[Finding]:
    """Yield a finding for each of the first rows, and one for the others together."""
    for row in rows[:SHOWN].tolist():
        yield Finding(code, severity, place(row), message(row))
    if len(rows) > SHOWN:
        yield Finding(code, severity, place(int(rows[SHOWN])), f"and {len(rows) - SHOWN} more like the one before")
