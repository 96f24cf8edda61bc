"""The buffers of an edit, with reference counts and reuse of free indices."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from circletools.edit.members import check_index
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, too_large
from circletools.flatbuf.overlay import NewTable, Overlay
from circletools.model.indices import model_indices
from circletools.model.model import Model


def _names(model: Model) -> list[int]:
    """Return the number of references to each buffer of a model."""
    named = np.zeros(len(model.buffers), np.int64)
    for indices in model_indices(model, "buffer"):
        named += np.bincount(indices.values, minlength=len(named))[: len(named)]
    return list(named.tolist())


class BufferPool:
    """Adds, replaces and releases buffers without ever moving one to another index.

    The first buffers, `original`, belong to the file before any edit. After them, an empty unreferenced buffer is a
    free place: it is filled first, and dropped if it is at the end.
    """

    def __init__(self, model: Model, overlay: Overlay, original: Model) -> None:
        """Count the references to each buffer; `original` is the model before any edit."""
        self._overlay, self._original, self._before, self._model = overlay, len(original.buffers), original, model
        self._buffers = overlay.references(overlay.root, "buffers")
        self._named = _names(model)
        self._reserved: set[int] = set()  # added and counted as referenced, but not referenced yet
        self.put_back: set[int] = set()  # restored to the original file's buffers in this edit
        # Only buffers that an edit wrote, in front of the original file, can be free places.
        written = model.buffers.tables.at < overlay.base
        self._external = model.buffers.external.tolist()
        self._empty = ((model.buffers.data.count == 0) & written).tolist()

    @property
    def count(self) -> int:
        """The number of buffers."""
        return len(self._buffers)

    def add(self, data: bytes) -> int:
        """Store `data` in a free place or a new one; return its index. It gets one reference."""
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
        """Restore a buffer's data from the original file; None if that data differs, or the buffer is referenced."""
        if index >= self._original or not self._is_free(index):
            return None
        if self._before.buffers.external[index] or self._before.buffers[index].data != data:
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
        """Return whether more than one tensor or metadata entry refers to this buffer."""
        return self._named[index] > 1

    def replace(self, index: int, data: bytes | None) -> None:
        """Replace the data of a buffer, or remove it.

        Other fields of its table are kept, so restoring the old data restores the old table.
        """
        table, old = self._table(data), self._buffers[index]
        if isinstance(old, int):
            copy = self._overlay.copy("Buffer", old)
            if not self._external[index]:
                copy.set("data", data)
                table = copy
        self._buffers[index] = table
        self._empty[index] = data is None

    @cached_property
    def _named_before(self) -> list[int]:
        """The number of references to each buffer in the original file."""
        return _names(self._before)

    def reserve(self, data: bytes) -> int:
        """Store `data` for a future reference; return its index."""
        index = self.add(data)
        self._reserved.add(index)
        return index

    def name(self, index: int) -> None:
        """Add a reference to a buffer. Raises UsageError if the buffer does not exist."""
        check_index("buffer", index, self.count)
        if index in self._reserved:
            self._reserved.remove(index)
        else:
            self._named[index] += 1

    def assign(self, index: int, data: bytes, original: int | None) -> int:
        """Store `data` for a single tensor that refers to buffer `index`; return the buffer that it must refer to.

        `original` is the tensor's buffer in the original file, None if the tensor is new. A buffer with several
        references there keeps its data, so a tensor can return to it.
        """
        if index < len(self._buffers) and self._data(index) == data:
            return index
        alone = index == original and self._named_before[index] == 1
        alone = self._named[index : index + 1] == [1] and index > 0 and (alone or index >= self._original)
        if original is not None and original < self._original and self._before.buffers[original].data == data:
            if alone and index == original:
                self._buffers[index], self._empty[index] = (
                    int(self._before.buffers.tables.at[index]) + self._overlay.base,
                    False,
                )
                self.put_back.add(index)
                return index
            if self._data(original) == data:
                self._leave(index)
                self._named[original] += 1
                return original
        if alone:
            self.replace(index, data or None)
            return index
        self._leave(index)
        if data:
            return self.add(data)
        if self._named:
            self._named[0] += 1
        return 0

    def _data(self, index: int) -> bytes | memoryview:
        """Return the current data of a buffer in the edit."""
        table = self._buffers[index]
        if isinstance(table, NewTable):
            return self._overlay.text(table, "data")
        return (self._before if index in self.put_back else self._model).buffers[index].data

    def _leave(self, index: int) -> None:
        """Remove one reference; a buffer of the original file keeps its data."""
        if index >= self._original:
            self.release(index)
        elif index < len(self._named):
            self._named[index] -= 1

    def release(self, index: int) -> None:
        """Remove one reference; the last removal also removes the data."""
        self._named[index] -= 1
        if not self._named[index] and index:
            self.replace(index, None)

    def trim(self) -> None:
        """Drop free places at the end."""
        # An added sentinel is not needed either if it is alone.
        while len(self._buffers) > self._original and (
            self._is_free(len(self._buffers) - 1) or len(self._buffers) == 1
        ):
            self._buffers.pop()
            self._named.pop()
            self._empty.pop()
