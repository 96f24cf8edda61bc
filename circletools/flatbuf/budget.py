"""A limit on reading shared objects again: a small file can describe gigabytes."""

from __future__ import annotations

from collections.abc import Callable

from circletools.errors import ModelFormatError

REPEATS, REPEATED_BYTES = 2, 8 << 20  # what is shared, over all readers: so many times the file, and so many bytes
OBJECT_BYTES = 256  # what each further place of one table counts for, as it may become an object of ours
SUBGRAPH_BYTES = 32 << 10  # and each further place of a subgraph: it is looked at as one


class Budget:
    """The one budget of an open file, charged by all that read it and all that is made of it.

    Each reader may look at as many bytes as the file has; what is more is looked at again, as it is shared.
    """

    def __init__(self, size: int) -> None:
        """Start with nothing, for a file of so many bytes."""
        self.size: int = size
        self.most: int = REPEATS * size + REPEATED_BYTES
        self._repeated: dict[str, int] = {}

    def charge(self, what: str, count: int) -> None:
        """Note that a reader looks at `count` bytes in all; the same reader again costs nothing more.

        Raises ModelFormatError where all readers together repeat more than the file justifies.
        """
        if count - self.size <= self._repeated.get(what, 0):
            return
        repeated = self._repeated | {what: count - self.size}
        if sum(repeated.values()) > self.most:
            raise ModelFormatError(
                f"{what} have {count} bytes together, in a file of {self.size}",
                hint="it describes so much more than it holds that reading all of it is refused",
            )
        self._repeated = repeated

    def tally(self, what: str) -> Callable[[int], None]:
        """Return a function that is given the bytes one by one, and charges them all."""
        total = 0

        def add(count: int) -> None:
            nonlocal total
            total += count
            self.charge(what, total)

        return add
