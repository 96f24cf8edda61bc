"""The precedence of entries that select the same operator.

The most specific entry applies: index before name before origin before op, a whole name before a glob before *, an
entry for one subgraph before an entry for all, the command line before a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from circletools.errors import UsageError
from circletools.graph.selectors import KINDS, Chooser, Selector
from circletools.wording import suggestion


class Entry(Protocol):
    """A setting for the operators that a selector chooses; errors name its location, `place`."""

    @property
    def selector(self) -> Selector:
        """Return the selector of the operators."""

    @property
    def place(self) -> str:
        """Return the location of the entry."""

    @property
    def from_command(self) -> bool:
        """Return whether the entry is from the command line."""

    @property
    def says(self) -> str:
        """Return the entry's value: entries with equal values do not contradict each other."""


E = TypeVar("E", bound=Entry)


def by_precedence(chooser: Chooser, entries: Sequence[E], *, any_code: bool = False) -> list[list[E | None]]:
    """Return the entry that applies to each operator of each subgraph.

    With `any_code`, an entry may name an operator code that the format has but the model does not use. Raises
    UsageError if an entry selects nothing, or two entries of equal rank contradict each other.
    """
    found: list[list[E | None]] = [[None] * len(subgraph) for subgraph in chooser.model.graphs]
    for entry in sorted(entries, key=_rank):
        for subgraph, operators in _choose(chooser, entry, any_code).items():
            row = found[subgraph]
            for operator in operators:
                other = row[operator]
                if other is None:
                    row[operator] = entry
                elif other.says != entry.says and _rank(other) == _rank(entry):
                    raise UsageError(
                        f"{entry.selector} assigns {entry.says} to subgraphs[{subgraph}].operators[{operator}], "
                        f"{other.selector} ({other.place}) assigns {other.says}",
                        location=entry.place,
                        hint="the more specific of two rules applies: index, name, origin, op; a name before a glob",
                    )
    return found


def _rank(entry: Entry) -> tuple[int, int, bool, bool]:
    selector = entry.selector
    breadth = 0 if selector.is_exact else 2 if selector.pattern == "*" else 1
    return KINDS.index(selector.kind), breadth, selector.subgraph is None, not entry.from_command


def _choose(chooser: Chooser, entry: Entry, any_code: bool) -> dict[int, list[int]]:
    selector = entry.selector
    try:
        return chooser.choose(selector)
    except UsageError as error:
        codes = chooser.model.schema.enums["BuiltinOperator"].values()
        if any_code and selector.kind == "op" and (selector.subgraph or 0) < len(chooser.model.graphs):
            if not selector.is_exact or selector.pattern in codes or selector.pattern.startswith("CUSTOM:"):
                return {}
            message, hint = f"{selector}: there is no such operator code", suggestion(selector.pattern, codes)
            raise UsageError(message, location=entry.place, hint=hint) from error
        raise UsageError(error.message, location=entry.place, hint=error.hint) from error
