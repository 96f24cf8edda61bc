"""Any result that is a table, as text and CSV: what its `to_rows` gives."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from circletools.render.table import csv_text, number_columns, table_text
from circletools.wording import SCHEMA_VERSION, Tabular


def rows_csv(found: Tabular) -> str:
    """Return the rows as CSV; a list in a cell is written with blanks between its values."""
    rows = found.to_rows()
    return csv_text(rows[0] if rows else (), (map(_cell, row.values()) for row in rows))


def rows_text(found: Tabular) -> Iterator[str]:
    """Yield the rows as a table with the names of the columns; nothing where there are no rows."""
    rows = found.to_rows()
    if rows:
        cells = [list(rows[0]), *([str(_cell(value)) for value in row.values()] for row in rows)]
        yield from table_text(cells, right=number_columns(cells), indent="")


def _cell(value: object) -> object:
    return "" if value is None else " ".join(map(str, value)) if isinstance(value, list | tuple) else value


def entries_json(found: Tabular) -> dict[str, Any]:
    """Return the JSON document of `metadata list`."""
    return {"schema_version": SCHEMA_VERSION, "entries": found.to_rows()}
