"""The origin of an operator: a set of source ids; an operator that replaces several others has the ids of all.

An empty set means that the origin is unknown; it has no entry in a table.
"""

from __future__ import annotations

Origin = frozenset[int]

UNKNOWN: Origin = frozenset()
