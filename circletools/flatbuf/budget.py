"""What one piece of work may repeat of a file: objects may be shared, so a small file can describe gigabytes."""

from __future__ import annotations

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import OVERLAP, OVERLAP_BYTES, Wire


class Budget:
    """Counts bytes that are repeated from a file, as a name is for each use of it."""

    def __init__(self, wire: Wire) -> None:
        """Start with nothing."""
        self._left = OVERLAP * wire.size + OVERLAP_BYTES

    def charge(self, count: int) -> None:
        """Count bytes. Raises ModelFormatError where all together are more than the file justifies."""
        self._left -= count
        if self._left < 0:
            raise ModelFormatError("names are so long, and used so often, that the file does not justify it")
