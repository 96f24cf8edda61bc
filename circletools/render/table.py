"""Format tables and tabular results as text and CSV, and the fields of results as JSON."""

from __future__ import annotations

import csv
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import chain, groupby, repeat
from types import SimpleNamespace
from typing import Any

from circletools.errors import UsageError
from circletools.wording import SCHEMA_VERSION, Tabular, ranges

Rows = Sequence[Sequence[str]]

_CRLF = "\r\n"
_NO_CHARACTER = "\udfff"  # no text contains it; without an escape character, Python 3.10 uses NUL
_LEAST = 4  # the minimum width of a column that is cut


def table_text(
    rows: Iterable[Sequence[str]], *, right: Container[int] = (), indent: str = "  ", widest: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table, with two spaces between columns; all rows must have the same number of cells.

    Each loop over `rows` may create the rows again. `right` holds the columns to align right. Columns are padded to
    their longest cell, but to at most `widest` characters; the last column is not padded, so its labels may have any
    length.

    >>> list(table_text([["operator", "code"], ["0", "ADD"]], right=(0,)))
    ['  operator  code', '         0  ADD']
    """
    longest: list[int] = []
    for row in rows:
        longest = [*map(max, longest or repeat(0), map(len, row))]
    widths = longest if widest is None else [min(width, widest) for width in longest]
    layout, table = _layout(widths, right, indent), (longest, right, indent)
    for row in rows:
        line = TableLine((layout % tuple(row)).rstrip())
        line.cells, line.table = row, table
        yield line


def _layout(widths: Sequence[int], right: Container[int], indent: str) -> str:
    last = len(widths) - 1
    cells = [f"%{width}s" if at in right else f"%-{width}s" if at < last else "%s" for at, width in enumerate(widths)]
    return indent + "  ".join(cells)


class TableLine(str):
    """A line of a table, which `fitted` can make narrower.

    A line holds its cells, and values that all lines of a table share: the length of each column's longest cell, the
    right-aligned columns, and the indentation.
    """

    __slots__ = ("cells", "table")
    cells: Sequence[str]
    table: tuple[Sequence[int], Container[int], str]

    def fitted(self, width: int) -> str:
        """Return the line with its cells cut, so that no line of the table is longer than `width` characters."""
        longest, right, indent = self.table
        free = width - len(indent) - 2 * (len(longest) - 1)
        if sum(longest) <= free:
            return self
        widths = [min(one, _most(longest, free)) for one in longest]
        cells = [shorter(cell, most) for cell, most in zip(self.cells, widths, strict=True)]
        return shorter((_layout(widths, right, indent) % tuple(cells)).rstrip(), width)


def _most(longest: Sequence[int], free: int) -> int:
    """Return the maximum width of a column such that all columns together take at most `free` characters."""
    ordered = sorted(longest)
    while ordered[0] <= free // len(ordered):
        free -= ordered.pop(0)
    return max(free // len(ordered), _LEAST)


def shorter(text: str, most: int) -> str:
    """Cut a string to at most `most` characters and mark the cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def fitted(line: str, width: int) -> str:
    """Return a line for a terminal of `width` columns; lines of tables are cut, but others are unchanged."""
    return line.fitted(width) if isinstance(line, TableLine) else line


def filled(rows: Rows) -> list[list[str]]:
    """Return the rows without the columns that have no value below the header."""
    known = [any(cell not in ("", "-") for cell in column[1:]) for column in zip(*rows, strict=True)]
    return [[cell for cell, is_known in zip(row, known, strict=True) if is_known] for row in rows]


def number_columns(rows: Rows) -> frozenset[int]:
    """Return the columns in which every cell below the header is a number or empty."""
    return frozenset(at for at, column in enumerate(zip(*rows[1:], strict=True)) if _are_numbers(column))


def _are_numbers(cells: Iterable[str]) -> bool:
    digits = "".join(cells).replace(",", "").replace(".", "").replace("-", "")
    return not digits or digits.isdigit()


def csv_text(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    r"""Return a table as CSV (RFC 4180), except that each line ends with a plain newline.

    >>> csv_text(["name", "runs"], [["a,b", 2], [None, 1]])
    'name,runs\n"a,b",2\n,1\n'
    """
    return "".join(csv_lines(head, rows))


def csv_lines(head: Iterable[object], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Yield the lines of `csv_text`, each with its newline."""
    # With this line end, the writer quotes cells that contain part of it; a newline replaces it.
    ended = SimpleNamespace(write=lambda line: line.removesuffix(_CRLF) + "\n")
    return map(csv.writer(ended, lineterminator=_CRLF, escapechar=_NO_CHARACTER).writerow, chain([head], rows))


def rows_csv(found: Tabular) -> str:
    """Return the rows as CSV."""
    return table_csv(found.to_rows())


def table_csv(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> str:
    """Return rows as CSV, with a column for each field, or only for the given fields.

    The values in a list are separated by spaces; operators are written as `SUBGRAPH/INDEX`.
    """
    rows = list(rows)
    names = columns or (list(rows[0]) if rows else ())
    return csv_text(names, ([_cell(row.get(name)) for name in names] for row in rows))


def rows_text(found: Tabular) -> Iterator[str]:
    """Yield the lines of a table of the rows, with column names; none if there are no rows."""
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


def document_json(value: Any) -> dict[str, Any]:
    """Return the JSON document of a dataclass: the schema version, followed by its fields."""
    if not is_dataclass(value):
        raise UsageError(f"{type(value).__name__} is not a result", hint="write ct.render.cost_json(ct.cost(model))")
    return {"schema_version": SCHEMA_VERSION} | fields_json(value)


def fields_json(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass in order; nested ones become objects, lists and plain values."""
    return {name: plain_json(getattr(value, name)) for name in value.__dataclass_fields__}


def places_json(operators: Iterable[tuple[int, int]]) -> list[dict[str, Any]]:
    """Return operators, given as (subgraph, index), as JSON objects; negative indices are unknown."""
    return [{"subgraph": subgraph, "operator_index": index if index >= 0 else None} for subgraph, index in operators]


def places_text(operators: Iterable[tuple[int, int]], several: bool = False) -> str:
    """Format operators (subgraph, index) as ranges: `0-3 1/2`, or `0/0-3 1/2` if a table has `several` subgraphs."""
    return " ".join(
        (f"{subgraph}/" if subgraph or several else "") + ranges(index for _, index in group)
        for subgraph, group in groupby(operators, lambda place: place[0])
    )


def plain_json(value: Any) -> Any:
    """Return a value for JSON: tuples as lists, dataclasses as objects, infinities and NaN as strings."""
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return fields_json(value) if hasattr(value, "__dataclass_fields__") else value
