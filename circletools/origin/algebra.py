"""Origins under rewrites. One principle: preserve origin information.

    single      an operator as it came from its source
    union       several operators fused into one, or absorbed by one
    inherit     an operator that replaces or continues others

An origin is a set of source ids; the empty set means that nothing is known, and has no entry in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Origin = frozenset[int]

UNKNOWN: Origin = frozenset()


def union(*origins: Origin) -> Origin:
    """Return the origin of an operator that several were fused into."""
    return UNKNOWN.union(*origins)


def inherit(operators: Mapping[int, Origin], parents: Iterable[int]) -> Origin:
    """Return the origin of an operator that takes the place of `parents`, by operator index."""
    return union(*(operators.get(parent, UNKNOWN) for parent in parents))
