"""The metadata entries and buffers of an edit, and TFLM's offline plan of memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from circletools.edit.members import check_index
from circletools.errors import EditError, ModelFormatError
from circletools.findings import Finding
from circletools.flatbuf.columns import MAX_FLATBUFFER_BYTES, too_large
from circletools.flatbuf.overlay import Overlay
from circletools.flatbuf.tables import NewTable, References
from circletools.graph.offline import OFFLINE_PLAN, PlannedTensors, edited_plan
from circletools.model.indices import model_indices
from circletools.model.model import Model
from circletools.model.views import Buffer, Metadata


def _names(model: Model) -> list[int]:
    """Return the number of references to each buffer of a model."""
    named = np.zeros(len(model.buffers), np.int64)
    for indices in model_indices(model, "buffer"):
        named += np.bincount(indices.values, minlength=len(named))[: len(named)]
    return list(named.tolist())


class BufferPool:
    """Adds, replaces and releases buffers without ever moving one to another index.

    The first buffers belong to the original file. An empty buffer after them that nothing refers to is free: it is
    filled before new ones are appended, and removed if it is at the end.
    """

    def __init__(self, model: Model, overlay: Overlay, original: Model) -> None:
        """Count the references to each buffer; `original` is the model before any edit."""
        self._overlay, self._original, self._before, self._model = overlay, len(original.buffers), original, model
        self._buffers = overlay.references(overlay.root, "buffers")
        self._named = _names(model)
        self.put_back: set[int] = set()  # buffers of the original file that this edit restored
        # Only buffers that an edit wrote, in front of the original file, can be free.
        written = model.buffers.tables.at < overlay.base
        self._external = model.buffers.external.tolist()
        self._empty = ((model.buffers.data.count == 0) & written).tolist()

    def add(self, data: bytes) -> int:
        """Store `data` in a free or new buffer, which gets one reference; return the buffer's index."""
        if not self._buffers:
            self._append(None)  # buffer 0 represents no data
        free = (index for index in range(self._original, len(self._buffers)) if self._is_free(index))
        index = next(free, None)
        if index is None or index == 0:
            return self._append(data)
        self.replace(index, data)
        self._named[index] = 1
        return index

    def restore(self, index: int, data: bytes) -> int | None:
        """Restore an unreferenced buffer that had this data in the original file; return its index, or None."""
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
        """Replace the data of a buffer; None removes it.

        Other fields of the buffer's table are kept, so restoring the old data restores the old table.
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
        """Store `data` for a reference to be added later; return the buffer's index."""
        index = self.add(data)
        self._named[index] = 0
        return index

    def name(self, index: int) -> None:
        """Add a reference to a buffer. Raises UsageError if the buffer does not exist."""
        check_index("buffer", index, len(self._buffers))
        self._named[index] += 1

    def assign(self, index: int, data: bytes, original: int | None) -> int:
        """Store `data` for a tensor that refers to buffer `index`; return the buffer that it must refer to instead.

        `original` is the tensor's buffer in the original file, None if the tensor is new. A buffer with several
        references in the original file keeps its data, so a tensor can refer to it again later.
        """
        if index < len(self._buffers) and self._data(index) == data:
            return index
        alone = index == original and self._named_before[index] == 1
        alone = self._named[index : index + 1] == [1] and index > 0 and (alone or index >= self._original)
        if original is not None and original < self._original and self._before.buffers[original].data == data:
            if alone and index == original:
                self._buffers[index] = int(self._before.buffers.tables.at[index]) + self._overlay.base
                self._empty[index] = False
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
        """Remove free buffers at the end."""
        # If only buffer 0 remains and an edit added it, it is not needed either.
        while (last := len(self._buffers) - 1) >= self._original and (self._is_free(last) or last == 0):
            for column in (self._buffers, self._named, self._empty):
                column.pop()


_SHARING, _MANY = 16, 1 << 16  # entries may share a table, but if too many do, every change takes too long


@dataclass(slots=True)
class Entry:
    """A metadata entry: its name, its buffer, and its table (an index in the file, or a new table)."""

    name: str
    buffer: int
    table: int | NewTable


class Entries:
    """Sets, removes and renames metadata entries; `now` lists the current ones."""

    def __init__(self, model: Model, overlay: Overlay, original: Model) -> None:
        """Read the entries of the file; `original` is the model before any edit."""
        self._model, self._overlay, self._original = model, overlay, original
        tables = model.root.children("metadata", model.schema)[0].at.tolist()
        if len(tables) > _SHARING * len(set(tables)) + _MANY:
            message = f"too many metadata entries share tables: {len(tables)} entries share {len(set(tables))}"
            raise ModelFormatError(message, location="metadata")
        self.now = [Entry(one.name, one.buffer, at) for one, at in zip(model.metadata, tables, strict=True)]
        self._values: dict[str, bytes | None] = {}  # values of entries that were set or removed

    @cached_property
    def pool(self) -> BufferPool:
        """The buffers."""
        return BufferPool(self._model, self._overlay, self._original)

    @property
    def put_back(self) -> set[int]:
        """The restored buffers of the original file whose tables contain a file position."""
        restored = self.pool.put_back if "pool" in self.__dict__ else set()
        return {index for index in restored if self._original.buffers.external[index]}

    def value(self, name: str) -> bytes | memoryview | None:
        """Return the value of an entry, or None."""
        return self._values[name] if name in self._values else self._model.metadata_value(name)

    def put(self, name: str, value: bytes) -> None:
        """Set the value of an entry and remove others with this name; a single entry that has the value is kept."""
        same = [entry for entry in self.now if entry.name == name]
        if len(same) == 1 and self.value(name) == value:
            return
        self._values[name], self._overlay.unsaved = value, True
        if not same:
            self._add(name, value)
            return
        entry = same[0]
        if entry.buffer and not self.pool.shared(entry.buffer):
            self.pool.replace(entry.buffer, value)
        else:
            self.pool.release(entry.buffer)
            entry.buffer = self.pool.add(value)
            self._open(entry).set("buffer", entry.buffer)
        self._drop(same[1:])

    def _add(self, name: str, value: bytes) -> None:
        """Append an entry, or restore one of the original file with this value in its old place."""
        known = {entry.name: entry.index for entry in reversed(self._original.metadata)}
        at, buffer = len(self.now), None
        if name in known:
            buffer = self.pool.restore(self._original.metadata[known[name]].buffer, value)
        if buffer is None:
            buffer = self.pool.add(value)
        else:
            later = (index for index, entry in enumerate(self.now) if known.get(entry.name, len(known)) > known[name])
            at = next(later, at)
        table = NewTable(self._model.schema.tables["Metadata"])
        table.set("name", name)
        table.set("buffer", buffer)
        self.now.insert(at, Entry(name, buffer, table))

    def remove(self, name: str) -> int:
        """Remove all entries with this name; return the number of entries removed."""
        same = [entry for entry in self.now if entry.name == name]
        self._values[name] = None
        self._overlay.unsaved = self._overlay.unsaved or bool(same)
        self._drop(same)
        return len(same)

    def rename(self, index: int, name: str) -> None:
        """Rename an entry."""
        self._overlay.unsaved = True
        self._open(self.now[index]).set("name", name)
        self.now[index].name = name

    def store(self) -> None:
        """Write the entries into the root table."""
        if "pool" in self.__dict__:
            self.pool.trim()
        tables: References = [entry.table for entry in self.now]
        if tables or self._model.metadata:
            self._overlay.references(self._overlay.root, "metadata")[:] = tables

    def _open(self, entry: Entry) -> NewTable:
        if isinstance(entry.table, int):
            entry.table = self._overlay.open("Metadata", entry.table)
        return entry.table

    def _drop(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.pool.release(entry.buffer)
        gone = set(map(id, entries))
        self.now = [entry for entry in self.now if id(entry) not in gone]

    def remaining(self, base: int) -> tuple[Finding, ...]:
        """Return a note for each changed or removed entry whose old value is in the original file, after `base`."""
        message = "the old value is still in the file, unused; erase it if nobody should read it"
        starts = self._model.buffers.data.start
        return tuple(
            Finding("OLD_VALUE_REMAINS", "info", f"metadata {entry.name}", message)
            for entry, old in self._changed()
            if old.external or int(starts[entry.buffer]) >= base
        )

    def check_erasable(self) -> None:
        """Raise EditError if a changed or removed value lies after the flatbuffer, where data is kept unchanged."""
        for entry, old in self._changed():
            if old.external:
                message = "the old value lies outside the flatbuffer and cannot be erased"
                raise EditError(message, location=f"metadata {entry.name}", hint="save without erasing it")

    def _changed(self) -> Iterator[tuple[Metadata, Buffer]]:
        """Yield each entry of the original whose value was changed or removed, with its buffer, unless empty."""
        for entry in self._model.metadata:
            old = self._model.buffers[entry.buffer]
            if len(old.data) and entry.name in self._values and self.value(entry.name) != old.data:
                yield entry, old


# --- keep TFLM's offline plan of memory valid ------------------------------------------------------------------


class PlannedOffsets:
    """The offsets of tensors in an edit; a plan that the edit itself sets or removes is left alone."""

    def __init__(self, model: Model, entries: Entries) -> None:
        """Start with the offsets of the model."""
        self._model, self._entries = model, entries
        self._plan: bytes | memoryview | None = model.metadata_value(OFFLINE_PLAN)
        self._moved = defaultdict[int, set[int]](set)

    def drop(self, subgraph: int, tensors: Iterable[int], kept: Iterable[int] = ()) -> None:
        """Drop the offsets of tensors that get another size or lifetime, except those in `kept`."""
        if self._plan is not None:
            self._moved[subgraph].update(set(tensors).difference(kept))

    def append(self, subgraph: int, tensors: Iterable[int]) -> None:
        """Drop the offsets of the tensors of an appended operator; outputs live until the end anyway."""
        if self._plan is not None:
            self.drop(subgraph, tensors, self._model.subgraphs[subgraph].outputs.tolist())

    def store(self, added: Mapping[int, int]) -> None:
        """Write the plan; `added` holds the number of added tensors of each subgraph."""
        if self._plan is None or self._entries.value(OFFLINE_PLAN) != self._plan:
            return
        kept = (
            PlannedTensors(
                subgraph.index,
                range(len(subgraph.tensors) + added.get(subgraph.index, 0)),
                self._moved[subgraph.index],
                range(len(subgraph.operators)),
            )
            for subgraph in self._model.subgraphs
        )
        plan = edited_plan(self._model, kept) or self._model.metadata_value(OFFLINE_PLAN)
        if plan != self._plan:
            self._plan = plan
            self._entries.put(OFFLINE_PLAN, bytes(plan or b""))
