"""A limit on repeated reads of shared objects, since a small file can describe gigabytes."""

from __future__ import annotations

from collections.abc import Callable

from circletools.errors import ModelFormatError

REPEATS, REPEATED_BYTES = 2, 8 << 20  # repeated reads by all readers: this many times the file, plus this many bytes
OBJECT_BYTES = 256  # bytes charged for each further reference to a table, which may become a Python object
SUBGRAPH_BYTES = 32 << 10  # and for each further reference to a subgraph, which is processed again


class Budget:
    """The budget of an open file, charged by all its readers and for everything built from it.

    Each reader may read as many bytes as the file has; the excess is repeated reading of shared objects.
    """

    def __init__(self, size: int) -> None:
        """Start with an unused budget for a file of `size` bytes."""
        self.size: int = size
        self.most: int = REPEATS * size + REPEATED_BYTES
        self._repeated: dict[str, int] = {}

    def charge(self, what: str, count: int) -> None:
        """Charge a reader's total of `count` bytes; the same reader is charged only once.

        Raises ModelFormatError if all readers together exceed the budget.
        """
        if count - self.size <= self._repeated.get(what, 0):
            return
        repeated = self._repeated | {what: count - self.size}
        if sum(repeated.values()) > self.most:
            raise ModelFormatError(
                f"{what} have {count} bytes together, in a file of {self.size}",
                hint="it describes far more data than it contains, so it is not read",
            )
        self._repeated = repeated

    def tally(self, what: str) -> Callable[[int], None]:
        """Return a function that charges the sum of the byte counts passed to it."""
        total = 0

        def add(count: int) -> None:
            nonlocal total
            total += count
            self.charge(what, total)

        return add
