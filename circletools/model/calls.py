"""Which subgraphs operators call: If, While, CallOnce, composites and the like name them in their options."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Field, TableType
from circletools.model.model import Model

_UNIONS = ("builtin_options", "builtin_options_2")


@dataclass(frozen=True, slots=True)
class Call:
    """Options that name subgraphs: the operator's union field, the table and its place, indices by field name.

    Of a vector all indices are given; -1 names none.
    """

    union: str
    type: TableType
    at: int
    subgraphs: Mapping[str, tuple[int, ...]]

    def named(self) -> set[int]:
        """Return the subgraphs."""
        return {index for indices in self.subgraphs.values() for index in indices if index >= 0}


def call_fields(table_type: TableType) -> list[Field]:
    """Return the fields of a table that are indices of subgraphs."""
    return [
        item
        for item in table_type.fields
        if item.target is None and ("subgraph" in item.name or item.name == "called_computations")
    ]


class Calls:
    """The calls of a model. `by_row` has those of each operator that makes any, by row among all operators."""

    def __init__(self, model: Model) -> None:
        """Read the options of all operators."""
        self.by_row: dict[int, list[Call]] = {}
        for row, call in _calls(model):
            self.by_row.setdefault(row, []).append(call)
        rows = sorted(self.by_row)
        owners = np.searchsorted(model.operator_columns.splits, rows, "right") - 1
        self._from: dict[int, set[int]] = {}
        for row, owner in zip(rows, owners.tolist(), strict=True):
            self._from.setdefault(owner, set()).update(self.named(row))

    def named(self, row: int) -> set[int]:
        """Return the subgraphs that an operator names."""
        return set().union(*(call.named() for call in self.by_row.get(row, ())))

    def reached(self, rows: Iterable[int]) -> list[int]:
        """Return the subgraphs that these operators call, and those that are called from there, ascending."""
        pending = [subgraph for row in rows if row in self.by_row for subgraph in self.named(row)]
        found: set[int] = set()
        while pending:
            subgraph = pending.pop()
            if subgraph not in found:
                found.add(subgraph)
                pending += self._from.get(subgraph, ())
        return sorted(found)

    def reaching(self, subgraphs: Iterable[int]) -> set[int]:
        """Return these subgraphs, and those from which one of them is called, however indirectly."""
        callers: dict[int, list[int]] = {}
        for caller, called in self._from.items():
            for subgraph in called:
                callers.setdefault(subgraph, []).append(caller)
        pending, found = list(subgraphs), set[int]()
        while pending:
            subgraph = pending.pop()
            if subgraph not in found:
                found.add(subgraph)
                pending += callers.get(subgraph, ())
        return found


def _calls(model: Model) -> Iterator[tuple[int, Call]]:
    operators = model.operator_columns.tables
    for union in _UNIONS:
        field = operators.field(union)
        codes, targets = operators.union_codes(field), operators.targets(union)
        for code in np.unique(codes[targets != 0]).tolist():
            name = model.schema.unions[str(field.target)].get(code)
            fields = [] if name is None else call_fields(model.schema.tables[name])
            for row in np.flatnonzero((codes == code) & (targets != 0)).tolist() if fields else ():
                table = Tables(model.wire, model.schema.tables[str(name)], targets[row : row + 1])
                subgraphs = {item.name: _values(table, item) for item in fields}
                yield row, Call(union, table.type, int(targets[row]), subgraphs)


def _values(table: Tables, item: Field) -> tuple[int, ...]:
    values = table.scalars(item.name) if item.kind == "scalar" else table.vectors(item.name).row(0)
    return tuple(values.tolist())
