"""The result of an edit: the operators that it appended, and lines that describe its changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from circletools.findings import Finding
from circletools.wording import Attributes, Tabular


@dataclass(frozen=True, slots=True)
class AddedOperator(Attributes):
    """An operator that an edit appended. `inherits` lists the operators whose work it continues."""

    subgraph: int
    index: int
    code_name: str
    output_names: tuple[bytes, ...]
    inherits: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexMap(Attributes):
    """The operators that an edit added; the indices of existing operators never change."""

    added: tuple[AddedOperator, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class RewriteResult(Tabular):
    """The changes of a rewrite, one line each (none if the output equals the input), and notes for the user."""

    changes: tuple[str, ...]
    notes: tuple[Finding, ...] = ()

    def to_rows(self) -> list[dict[str, Any]]:
        """Return one row for each change."""
        return [{"change": change} for change in self.changes]
