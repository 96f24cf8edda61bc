"""The metadata entries of an edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from circletools.edit.buffers import BufferPool
from circletools.errors import ModelFormatError
from circletools.findings import Finding
from circletools.flatbuf.overlay import NewTable, Overlay, References
from circletools.model.model import Model

_SHARING, _MANY = 16, 1 << 16  # one table may be several entries; with more, every change takes too long


@dataclass(slots=True)
class Entry:
    """The name of an entry, its buffer, and its table (in the file, or a new one)."""

    name: str
    buffer: int
    table: int | NewTable


class Entries:
    """Sets, removes and renames metadata entries; `now` are the current entries."""

    def __init__(self, model: Model, overlay: Overlay, original: Model) -> None:
        """Read the entries of the file; `original` is the model before any edit."""
        self._model, self._overlay, self._original = model, overlay, original
        tables = model.root.children("metadata", model.schema)[0].at.tolist()
        if len(tables) > _SHARING * len(set(tables)) + _MANY:
            message = f"{len(tables)} metadata entries share {len(set(tables))} tables"
            raise ModelFormatError(message, location="metadata")
        self.now = [Entry(one.name, one.buffer, at) for one, at in zip(model.metadata, tables, strict=True)]
        self._values: dict[str, bytes | None] = {}  # of entries that were set or removed

    @cached_property
    def pool(self) -> BufferPool:
        """The buffers."""
        return BufferPool(self._model, self._overlay, self._original)

    @property
    def put_back(self) -> set[int]:
        """The restored buffers of the original file whose tables hold a position in the file."""
        restored = self.pool.put_back if "pool" in self.__dict__ else set()
        return {index for index in restored if self._original.buffers.external[index]}

    def value(self, name: str) -> bytes | memoryview | None:
        """Return the value of an entry, or None."""
        return self._values[name] if name in self._values else self._model.metadata_value(name)

    def put(self, name: str, value: bytes) -> None:
        """Set the value of an entry, and remove others with its name; an entry with this value stays unchanged."""
        same = [entry for entry in self.now if entry.name == name]
        if len(same) == 1 and self.value(name) == value:
            return
        self._values[name] = value
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
        """Append an entry; an entry of the original file with this value returns to its old place."""
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
        """Remove all entries with this name; return their number."""
        same = [entry for entry in self.now if entry.name == name]
        self._values[name] = None
        self._drop(same)
        return len(same)

    def rename(self, index: int, name: str) -> None:
        """Rename an entry."""
        self._open(self.now[index]).set("name", name)
        self.now[index].name = name

    def store(self) -> None:
        """Write the entries into the root."""
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
        """Return a note for each changed or removed entry whose old value lies beyond `base`."""
        model, notes = self._model, []
        for entry in model.metadata:
            old = model.buffers[entry.buffer]
            written = not old.external and int(model.buffers.data.start[entry.buffer]) < base
            changed = entry.name in self._values and self.value(entry.name) != old.data
            if len(old.data) and not written and changed:
                message = "the old value is still in the file, unused; erase it if nobody should read it"
                notes.append(Finding("OLD_VALUE_REMAINS", "info", f"metadata {entry.name}", message))
        return tuple(notes)
