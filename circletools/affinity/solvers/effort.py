"""A bound on the work of growing partitions, which for some graphs is out of proportion to their size.

Where candidates overlap in ever new ways, every root grows through most of the graph, only to take nearly all of it
back. The graphs of networks do not; those that do are told in a few seconds, and not after hours.
"""

from __future__ import annotations

from circletools.errors import EditError

STEP = 10
"""What a step takes, in units: one is a look at one chain, about 0.15 us."""
_UNITS = 15_000_000
_UNITS_PER_OPERATOR = 2000
"""Ten times what graphs of networks need. Edges do not count: in a file they are cheap."""


class Effort:
    """What may still be spent on a graph."""

    def __init__(self, operators: int, share: float = 1.0) -> None:
        """Allow what a graph of so many operators should need, which are a share of those of the model."""
        self._operators = operators
        self.left: int = int(_UNITS * share) + _UNITS_PER_OPERATOR * operators

    def spend(self, units: int) -> None:
        """Take units away. Raises EditError when there are none left."""
        self.left -= units
        if self.left < 0:
            message = f"the graph of {self._operators} operators takes too many steps to grow partitions in"
            raise EditError(message, hint="`mode=min` takes any graph")
