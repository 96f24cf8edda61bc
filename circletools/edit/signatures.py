"""The signatures of an edit: add, rename and remove them, and change their entries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from circletools.edit.members import check_index
from circletools.errors import UsageError
from circletools.flatbuf.overlay import Overlay
from circletools.flatbuf.tables import NewTable, References
from circletools.model.model import Model

Direction = Literal["inputs", "outputs"]
SIDES: tuple[Direction, ...] = ("inputs", "outputs")
Ends = Sequence[tuple[str, int]]
"""Pairs of a name and a tensor, in order."""


@dataclass(slots=True)
class SignatureNow:
    """A signature, including changes by the edit."""

    key: str
    subgraph: int
    inputs: list[tuple[str, int]]
    outputs: list[tuple[str, int]]

    def side(self, side: Direction) -> list[tuple[str, int]]:
        """Return the inputs or the outputs."""
        return self.inputs if side == "inputs" else self.outputs


class Signatures:
    """The signatures of a model in an edit, by index; `now` has their current state."""

    def __init__(self, model: Model, overlay: Overlay) -> None:
        """Start with the signatures of the model."""
        self._overlay = overlay
        self.now: list[SignatureNow] = [
            SignatureNow(one.key, one.subgraph, list(one.inputs), list(one.outputs)) for one in model.signatures
        ]

    def _tables(self) -> References:
        return self._overlay.references(self._overlay.root, "signature_defs")

    def _table(self, index: int) -> NewTable:
        return self._overlay.element(self._tables(), "SignatureDef", index)

    def put(self, key: str, subgraph: int, inputs: Ends, outputs: Ends) -> None:
        """Replace all signatures that have this key with this one, unless it already exists unchanged."""
        wanted = SignatureNow(key, subgraph, list(inputs), list(outputs))
        if [one for one in self.now if one.key == key] == [wanted]:
            return
        self.remove(key)
        table = NewTable(self._overlay.schema.tables["SignatureDef"])
        table.set("signature_key", key)
        table.set("subgraph_index", subgraph or None)
        for side in SIDES:
            self._overlay.references(table, side)[:] = [self._entry(*end) for end in wanted.side(side)]
        self._tables().append(table)
        self.now.append(wanted)

    def remove(self, key: str) -> int:
        """Remove all signatures with this key; return the number removed."""
        same = [index for index, one in enumerate(self.now) if one.key == key]
        for index in reversed(same):
            del self._tables()[index]
            del self.now[index]
        return len(same)

    def add_entry(self, index: int, side: Direction, name: str, tensor: int) -> None:
        """Append an entry to the inputs or outputs of a signature."""
        self._overlay.references(self._table(index), side).append(self._entry(name, tensor))
        self.now[index].side(side).append((name, tensor))

    def _entry(self, name: str, tensor: int) -> NewTable:
        entry = NewTable(self._overlay.schema.tables["TensorMap"])
        entry.set("name", name)
        entry.set("tensor_index", tensor or None)
        return entry

    def rename(self, index: int, key: str) -> None:
        """Change the key of a signature."""
        if self.now[index].key != key:
            self._table(index).set("signature_key", key)
            self.now[index].key = key

    def set_entry(
        self, index: int, side: Direction, entry: int, *, tensor: int | None = None, name: str | None = None
    ) -> None:
        """Make an entry refer to another tensor, or rename the entry.

        Raises UsageError if the signature or entry does not exist.
        """
        check_index("signature", index, len(self.now))
        ends = self.now[index].side(side)
        if not 0 <= entry < len(ends):
            raise UsageError(f"signature {index} has no {side[:-1]} {entry}; the count is {len(ends)}")
        table = self._overlay.element(self._overlay.references(self._table(index), side), "TensorMap", entry)
        if tensor is not None:
            table.set("tensor_index", tensor)
        if name is not None:
            table.set("name", name)
        old_name, old_tensor = ends[entry]
        ends[entry] = (old_name if name is None else name, old_tensor if tensor is None else tensor)
