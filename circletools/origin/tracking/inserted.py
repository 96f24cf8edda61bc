"""Inserted conversions of type or layout get the origin of the operator that they continue."""

from __future__ import annotations

from circletools.graph.algorithms import rows_by_key
from circletools.origin.tracking.evidence import Evidence, Found, grounds
from circletools.origin.tracking.side import CONVERSIONS, NONE, Side

LAYOUT_OPS = frozenset({"EXPAND_DIMS", "RESHAPE", "SQUEEZE", "TRANSPOSE"})
"""Operators that only change the shape or order of elements; consecutive ones count as one."""

INSERTED = CONVERSIONS | LAYOUT_OPS | {"CAST", "CONCATENATION"}
"""Operators that tools insert to change the type or layout of a value."""

_MOST_STEPS = 64


def continue_inserted(after: Side, opaque: set[int], found: list[Found]) -> None:
    """Give inserted operators the origin of what they continue; after an input or constant, of the reader."""
    direct = [bool(entry) for entry in found]
    rows = [row for row, code in enumerate(after.codes) if code in INSERTED and not direct[row]]
    if not rows:
        return
    main, producer, readers = after.main.tolist(), after.graph.producer.tolist(), after.graph.readers
    made = rows_by_key(len(after), *after.graph.definitions)
    for row in rows:
        heir = row
        for _ in range(_MOST_STEPS):
            if heir == NONE or direct[heir] or heir in opaque:
                break
            value = main[heir] if after.codes[heir] in INSERTED else NONE
            heir = producer[value] if value != NONE else NONE
        if heir == NONE:
            heir = _first_fed(row, made, readers, direct, after.codes)
        if heir != NONE and direct[heir]:
            found[row] = dict.fromkeys(found[heir], grounds(Evidence.CONTINUED))


def _first_fed(
    row: int, made: list[list[int]], readers: list[list[int]], direct: list[bool], codes: list[str]
) -> int:
    """Return the first operator that an inserted one feeds, skipping other inserted ones, or -1."""
    for _ in range(_MOST_STEPS):
        fed = sorted({reader for value in made[row] for reader in readers[value]})
        if not fed:
            return NONE
        row = next((reader for reader in fed if direct[reader]), fed[0])
        if direct[row]:
            return row
        if codes[row] not in INSERTED:
            return NONE
    return NONE
