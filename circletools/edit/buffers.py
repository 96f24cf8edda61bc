"""The buffers of an edit: which are named, which can be used again."""

from __future__ import annotations

import numpy as np

from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, Tables, too_large
from circletools.flatbuf.overlay import NewTable, Overlay
from circletools.model.indices import model_indices
from circletools.model.model import Model


class BufferPool:
    """Adds, replaces and releases buffers without ever moving one to another index.

    The first buffers, `original`, belong to the file before any edit. Behind them a buffer that nothing names and
    that holds nothing is a free place: it is filled first, and dropped when it stands at the end.
    """

    def __init__(self, model: Model, overlay: Overlay, original: Tables) -> None:
        """Count how often each buffer is named."""
        self._overlay, self._original, self._before = overlay, len(original), original
        self._buffers = overlay.references(overlay.root, "buffers")
        named = np.zeros(len(model.buffers), np.int64)
        for indices in model_indices(model, "buffer"):
            named += np.bincount(indices.values, minlength=len(named))[: len(named)]
        self._named: list[int] = named.tolist()
        # Only what an edit wrote, in front of the original file, can be a place that an edit left free.
        written = model.buffers.tables.at < overlay.base
        self._external = model.buffers.external.tolist()
        self._empty = ((model.buffers.data.count == 0) & written).tolist()

    @property
    def count(self) -> int:
        """How many buffers there are."""
        return len(self._buffers)

    def add(self, data: bytes) -> int:
        """Store `data` in a free place or a new one; return its index. It counts as named once."""
        if not self._buffers:
            self._append(None)  # buffer 0 is the sentinel
        free = (index for index in range(self._original, len(self._buffers)) if self._is_free(index))
        index = next(free, None)
        if index is None or index == 0:
            return self._append(data)
        self.replace(index, data)
        self._named[index] = 1
        return index

    def restore(self, index: int, data: bytes) -> int | None:
        """Give a buffer back the data that it had in the original file; None where that is other, or it is named."""
        if index >= self._original or not self._is_free(index):
            return None
        before = self._before.take(slice(index, index + 1))
        if before.has("offset")[0] or before.vectors("data").row(0).tobytes() != data:
            return None
        self.replace(index, data)
        self._named[index] = 1
        return index

    def _append(self, data: bytes | None) -> int:
        self._buffers.append(self._table(data))
        self._named.append(1)
        self._empty.append(data is None)
        return len(self._buffers) - 1

    def _table(self, data: bytes | None) -> NewTable:
        if data is not None and len(data) > MAX_FLATBUFFER_BYTES:
            raise too_large()
        table = NewTable(self._overlay.schema.tables["Buffer"])
        table.set("data", data)
        return table

    def _is_free(self, index: int) -> bool:
        return self._empty[index] and not self._named[index]

    def shared(self, index: int) -> bool:
        """Return whether more than one tensor or metadata entry names this buffer."""
        return self._named[index] > 1

    def replace(self, index: int, data: bytes | None) -> None:
        """Give a buffer other data, or none.

        Other fields of its table are kept, so that the old data gives the old table.
        """
        table, old = self._table(data), self._buffers[index]
        if isinstance(old, int):
            copy = self._overlay.copy("Buffer", old)
            if not self._external[index]:
                copy.set("data", data)
                table = copy
        self._buffers[index] = table
        self._empty[index] = data is None

    def release(self, index: int) -> None:
        """Take one name away; the data goes with the last."""
        self._named[index] -= 1
        if not self._named[index] and index:
            self.replace(index, None)

    def trim(self) -> None:
        """Drop free places at the end."""
        # Alone, a sentinel that was added is not needed either.
        while len(self._buffers) > self._original and (
            self._is_free(len(self._buffers) - 1) or len(self._buffers) == 1
        ):
            self._buffers.pop()
            self._named.pop()
            self._empty.pop()
