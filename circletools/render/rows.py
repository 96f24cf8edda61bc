"""Any tabular result as text and CSV, from its `to_rows` or a list in its JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from circletools.render.table import csv_text, number_columns, table_text
from circletools.wording import SCHEMA_VERSION, Tabular


def rows_csv(found: Tabular) -> str:
    """Return the rows as CSV."""
    return table_csv(found.to_rows())


def table_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Return rows as CSV, with one column for each field or only for the given fields.

    Values in a list are separated by spaces; operators are written as `SUBGRAPH/INDEX`.
    """
    rows = list(rows)
    names = columns or (list(rows[0]) if rows else ())
    return csv_text(names, ([_cell(row.get(name)) for name in names] for row in rows))


def rows_text(found: Tabular) -> Iterator[str]:
    """Yield the rows as a table with column names; nothing if there are no rows."""
    rows = found.to_rows()
    if rows:
        cells = [list(rows[0]), *([str(_cell(value)) for value in row.values()] for row in rows)]
        yield from table_text(cells, right=number_columns(cells), indent="")


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        return "/".join(map(str, value.values()))
    if isinstance(value, list | tuple):
        return " ".join(str(_cell(one)) for one in value)
    return "" if value is None else value


def entries_json(found: Tabular) -> dict[str, Any]:
    """Return the JSON document of `metadata list`."""
    return {"schema_version": SCHEMA_VERSION, "entries": found.to_rows()}
