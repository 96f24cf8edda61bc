"""The writer of tables: as text for people, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable, Iterator, Sequence
from types import SimpleNamespace

Rows = Sequence[Sequence[str]]

_CRLF = "\r\n"
_NO_CHARACTER = "\udfff"  # which no text has; without an escape character, Python 3.10 takes zero for it
_LEAST = 4  # characters of a column that was cut


def table_text(
    rows: Rows, *, right: Container[int] = (), indent: str = "  ", widest: int | None = None
) -> Iterator[str]:
    """Yield the lines of a table whose columns are two blanks apart; all rows have the same number of cells.

    `right` are the columns to be flush right. A column is padded to its longest cell, or to `widest` characters; the
    last one is not padded, so a label in it may be of any length.

    >>> list(table_text([["operator", "code"], ["0", "ADD"]], right=(0,)))
    ['  operator  code', '         0  ADD']
    """
    longest = [max(map(len, column)) for column in zip(*rows, strict=True)]
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

    It has its cells, and what the lines of a table share: how long the longest cell of each column is, which columns
    are flush right, and the indentation.
    """

    __slots__ = ("cells", "table")
    cells: Sequence[str]
    table: tuple[Sequence[int], Container[int], str]

    def fitted(self, width: int) -> str:
        """Return the line, with cells cut so that no line of the table is longer than `width` characters."""
        longest, right, indent = self.table
        free = width - len(indent) - 2 * (len(longest) - 1)
        if sum(longest) <= free:
            return self
        widths = [min(one, _most(longest, free)) for one in longest]
        cells = [shorter(cell, most) for cell, most in zip(self.cells, widths, strict=True)]
        return shorter((_layout(widths, right, indent) % tuple(cells)).rstrip(), width)


def _most(longest: Sequence[int], free: int) -> int:
    """Return the width that columns may have so that all together take at most `free`, short ones leaving theirs."""
    ordered = sorted(longest)
    while ordered[0] <= free // len(ordered):
        free -= ordered.pop(0)
    return max(free // len(ordered), _LEAST)


def shorter(text: str, most: int) -> str:
    """Cut a text that is longer than `most`; a mark stands for the rest."""
    return text if len(text) <= most else text[: most - 1] + "…"


def fitted(line: str, width: int) -> str:
    """Return a line as a terminal of so many columns shows it: lines of tables are cut, others stay."""
    return line.fitted(width) if isinstance(line, TableLine) else line


def number_columns(rows: Rows) -> frozenset[int]:
    """Return the columns in which all cells below the head are numbers, or empty."""
    return frozenset(at for at, column in enumerate(zip(*rows[1:], strict=True)) if _are_numbers(column))


def _are_numbers(cells: Iterable[str]) -> bool:
    digits = "".join(cells).replace(",", "").replace(".", "").replace("-", "")
    return not digits or digits.isdigit()


def csv_text(head: Iterable[object], rows: Iterable[Iterable[object]]) -> str:
    r"""Return a table as CSV (RFC 4180), with a plain newline at the end of each line.

    >>> csv_text(["name", "runs"], [["a,b", 2], [None, 1]])
    'name,runs\n"a,b",2\n,1\n'
    """
    lines: list[str] = []
    # With this line end the writer quotes a cell that holds any part of it; the lines get a plain one below.
    writer = csv.writer(SimpleNamespace(write=lines.append), lineterminator=_CRLF, escapechar=_NO_CHARACTER)
    writer.writerow(head)
    writer.writerows(rows)
    return "".join(line.removesuffix(_CRLF) + "\n" for line in lines)
