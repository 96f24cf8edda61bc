"""Models from nothing, as no converter writes them: any number of references to one table, vectors that overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kit.support import Objects

Fields = dict[int, Any]
"""By slot: ("u32", value) for a number, else the offset of an object."""


class Build(Objects):
    """Models and their tables, by slot numbers."""

    def data(self, value: bytes) -> int:
        """Write a vector of bytes."""
        return int(self.builder.CreateByteVector(value))

    def table(self, fields: Fields) -> int:
        """Write a table."""
        self.builder.StartObject(max(fields, default=-1) + 1)
        for slot, value in fields.items():
            if isinstance(value, tuple):
                kind, number = value
                prepend = {"u8": "Uint8", "i8": "Int8", "u32": "Uint32", "i32": "Int32", "u64": "Uint64"}[kind]
                getattr(self.builder, f"Prepend{prepend}Slot")(slot, number, 0)
            else:
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(self.builder.EndObject())

    def model(self, subgraphs: Sequence[int], buffers: Sequence[int], codes: Sequence[int], **more: int) -> bytes:
        """Write the root; `more` may have `metadata` and `signatures`, vectors of references."""
        slots = {"metadata": 6, "signatures": 7}
        fields: Fields = {1: self.refs(codes), 2: self.refs(subgraphs), 4: self.refs(buffers)}
        self.builder.Finish(self.table({**fields, **{slots[name]: at for name, at in more.items()}}), b"CIR0")
        return bytes(self.builder.Output())

    def code(self, number: int = 0) -> int:
        """Write an operator code; ADD unless told."""
        return self.table({0: ("i8", number), 3: ("i32", number)})

    def tensor(self, name: bytes | int, shape: Sequence[int] | int = (1,), buffer: int = 0) -> int:
        """Write a tensor; name and shape may be offsets of what is there."""
        at = shape if isinstance(shape, int) else self.ints(shape)
        text = name if isinstance(name, int) else self.string(name)
        return self.table({0: at, 2: ("u32", buffer), 3: text})

    def operator(self, inputs: Sequence[int] | int, outputs: Sequence[int] | int) -> int:
        """Write an operator of code 0; its vectors may be offsets of what is there."""
        sides = [side if isinstance(side, int) else self.ints(side) for side in (inputs, outputs)]
        return self.table({0: ("u32", 0), 1: sides[0], 2: sides[1]})

    def subgraph(
        self,
        tensors: Sequence[int],
        operators: Sequence[int],
        inputs: Sequence[int] = (),
        outputs: Sequence[int] = (),
    ) -> int:
        """Write a subgraph."""
        sides = {1: self.ints(inputs), 2: self.ints(outputs)}
        return self.table({0: self.refs(tensors), **sides, 3: self.refs(operators)})

    def metadata(self, names: Sequence[bytes], buffer: int) -> int:
        """Write metadata entries that all name one buffer."""
        return self.refs([self.table({0: self.string(name), 1: ("u32", buffer)}) for name in names])
