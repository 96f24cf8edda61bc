"""Paths of findings, and a limit on how many findings of one kind are listed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding, Severity

SHOWN = 20  # findings of one kind that are listed individually


def place_of(field: str, splits: NDArray[np.int64], row: int) -> str:
    """Return the path of a row among all operators or tensors: `subgraphs[0].operators[5]`."""
    subgraph = int(np.searchsorted(splits, row, "right")) - 1
    return f"subgraphs[{subgraph}].{field}[{row - int(splits[subgraph])}]"


def findings_at(
    code: str,
    rows: NDArray[np.int64],
    place: Callable[[int], str],
    message: Callable[[int], str],
    severity: Severity = "warning",
) -> Iterator[Finding]:
    """Yield a finding for each of the first 20 rows, and one with the number of further rows."""
    for row in rows[:SHOWN].tolist():
        yield Finding(code, severity, place(row), message(row))
    if len(rows) > SHOWN:
        yield Finding(code, severity, place(int(rows[SHOWN])), f"and {len(rows) - SHOWN} more like the last one")
