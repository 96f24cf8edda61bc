"""The origin of an operator: a set of source ids; an operator that stands for several has the ids of all.

An empty set means an unknown origin, and has no entry in a table.
"""

from __future__ import annotations

Origin = frozenset[int]

UNKNOWN: Origin = frozenset()
