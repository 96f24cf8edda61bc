"""Which subgraphs operators call: If, While, CallOnce, composites and the like name them in their options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Field, TableType
from circletools.model.model import Model

UNIONS = ("builtin_options", "builtin_options_2")


@dataclass(frozen=True, slots=True)
class Call:
    """Options that name subgraphs: the operator's union field, the table and its place, indices by field name.

    Of a vector all indices are given; -1 names none.
    """

    union: str
    type: TableType
    at: int
    subgraphs: Mapping[str, tuple[int, ...]]


def call_fields(table_type: TableType) -> list[Field]:
    """Return the fields of a table that are indices of subgraphs."""
    return [
        item
        for item in table_type.fields
        if item.target is None and ("subgraph" in item.name or item.name == "called_computations")
    ]


def operator_calls(model: Model) -> dict[int, list[Call]]:
    """Return the calls of the operators that make any, by row among the operators of all subgraphs."""
    operators = model.operator_columns.tables
    found: dict[int, list[Call]] = {}
    for union in UNIONS:
        field = operators.field(union)
        codes, targets = operators.union_codes(field), operators.targets(union)
        for code in np.unique(codes[targets != 0]).tolist():
            name = model.schema.unions[str(field.target)].get(code)
            fields = [] if name is None else call_fields(model.schema.tables[name])
            rows = np.flatnonzero((codes == code) & (targets != 0)) if fields else np.zeros(0, np.int64)
            for row in rows.tolist():
                table = Tables(model.wire, model.schema.tables[str(name)], targets[row : row + 1])
                call = Call(
                    union, table.type, int(targets[row]), {item.name: _values(table, item) for item in fields}
                )
                found.setdefault(row, []).append(call)
    return found


def called_from(model: Model, calls: Mapping[int, list[Call]], rows: Iterable[int]) -> list[int]:
    """Return the subgraphs that these operators call, and those that are called from there, ascending."""
    splits = model.operator_columns.splits.tolist()
    inside: dict[int, list[int]] = {}
    for row in calls:
        inside.setdefault(int(np.searchsorted(splits, row, "right")) - 1, []).append(row)
    found: set[int] = set()
    pending = [row for row in rows if row in calls]
    while pending:
        call_lists = calls[pending.pop()]
        named = {index for call in call_lists for values in call.subgraphs.values() for index in values if index >= 0}
        for subgraph in named - found:
            found.add(subgraph)
            pending += inside.get(subgraph, ())
    return sorted(found)


def _values(table: Tables, item: Field) -> tuple[int, ...]:
    values = table.scalars(item.name) if item.kind == "scalar" else table.vectors(item.name).row(0)
    return tuple(values.tolist())
