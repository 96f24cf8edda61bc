"""Origins under rewrites: every rewrite preserves origin information.

    single      an operator with the origin of one source
    union       several operators fused into one, or absorbed by one
    inherit     an operator that replaces or continues others

An origin is a set of source ids; an empty set means an unknown origin, and has no entry in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Origin = frozenset[int]

UNKNOWN: Origin = frozenset()


def union(*origins: Origin) -> Origin:
    """Return the origin of an operator into which several were fused."""
    return UNKNOWN.union(*origins)


def inherit(operators: Mapping[int, Origin], parents: Iterable[int]) -> Origin:
    """Return the origin of an operator that replaces `parents`, by operator index."""
    return union(*(operators.get(parent, UNKNOWN) for parent in parents))
