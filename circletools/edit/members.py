"""Indices and names that callers of an edit give."""

from __future__ import annotations

from collections.abc import Mapping

from circletools.errors import EditError, UsageError


def check_index(what: str, index: int, count: int) -> None:
    """Raise UsageError for an index that is not below `count`."""
    if not 0 <= index < count:
        raise UsageError(f"{what} {index} does not exist; there are {count}")


def member_number(members: Mapping[int, str], name: str, what: str) -> int:
    """Return the number of a member of an enum. Raises EditError where the format does not have it."""
    for value, known in members.items():
        if known == name:
            return value
    raise EditError(f"this format has no {what} {name}")
