"""A metadata entry as it stands in an edit."""

from __future__ import annotations

from dataclasses import dataclass

from circletools.flatbuf.overlay import NewTable


@dataclass(slots=True)
class Entry:
    """The name of an entry, its buffer, and its table: one of the file, or a new one."""

    name: str
    buffer: int
    table: int | NewTable
