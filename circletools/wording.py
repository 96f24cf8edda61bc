"""Format words and numbers for people; the schema version of documents for programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from html import escape
from itertools import islice
from typing import Any

from circletools.calls import Attributes

SCHEMA_VERSION = 1
"""`schema_version` of every JSON document that circletools writes, and of those that it reads."""

_LONGEST_COMPARED = 200  # comparison takes time quadratic in the length
_LISTED = 8
_MOST_ROWS = 200  # rows of an HTML table


class Word(str, Enum):
    """An enum whose members print as their values (Python 3.10 has no StrEnum)."""

    def __str__(self) -> str:
        return str.__str__(self)


def milliseconds(time_ns: int) -> str:
    """Write a time in milliseconds, to the microsecond."""
    if -500 < time_ns < 0:  # not -0.000
        return "0.000"
    return f"{time_ns / 1e6:,.3f}"


def microseconds(time_ns: int) -> str:
    """Write a time in microseconds, to the nanosecond."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' * (time_ns < 0)}{whole}.{rest:03}"


def counted(count: int, what: str, many: str | None = None) -> str:
    """Write a count with its noun, as in `1 run` and `2,000 runs`; `many` is an irregular plural."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"


def ranges(numbers: Iterable[int]) -> str:
    """Write ascending numbers as in `0-3,7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def numbered(numbers: Sequence[int], what: str) -> str:
    """Write a noun with ascending numbers, as in `tensor 3` and `tensors 0-3,7`."""
    return f"{what if len(numbers) == 1 else what + 's'} {ranges(numbers)}"


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'npu'?` with the nearest known word, ignoring case; empty if no word is near.

    If none is near, the only word that contains the given one counts.
    """
    folded: dict[str, str] = {}
    for name in sorted(known):
        folded.setdefault(name.casefold(), name)
    given = word.casefold()[:_LONGEST_COMPARED]
    near = get_close_matches(given, folded, 1) or [name for name in folded if len(given) > 2 and given in name]
    return f"did you mean {folded[near[0]]!r}?" if len(near) == 1 else ""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a hint: the known word that was probably meant, or else a list of known words."""
    names = sorted(known)
    listed = ", ".join(names[:_LISTED])
    return did_you_mean(word, names) or f"there are {listed}{', …' if len(names) > _LISTED else ''}"


class Tabular(Attributes):
    """A value that can be shown as a table: rows for dataframes, HTML for notebooks, one line in a terminal."""

    __slots__ = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a dict of plain values for each row, all with the same keys, as for `pandas.DataFrame`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {counted(len(self.to_rows()), 'row')}>"

    def _repr_html_(self) -> str:
        rows = self.to_rows()
        return html_table(rows, len(rows))


def html_table(rows: Iterable[Mapping[str, object]], count: int) -> str:
    """Write the first 200 of `count` rows as an HTML table; all rows have the same keys."""
    rows = list(islice(rows, _MOST_ROWS))
    lines = [rows[0], *(row.values() for row in rows)] if rows else []
    tags = ["th", *["td"] * len(rows)] if rows else []
    cells = (
        "".join(f"<{tag}>{escape('' if cell is None else str(cell))}</{tag}>" for cell in line)
        for tag, line in zip(tags, lines, strict=True)
    )
    rest = f"<p>{counted(count - len(rows), 'more row')}</p>" if count > len(rows) else ""
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>{rest}"
