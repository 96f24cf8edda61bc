"""A model in which every field of every table of the schema is set, and a reader that compares two of them.

The model is written by the builder of `tests.kit.build` and read by `flatbuffers.table`, field by field, as
the schema has them: deprecated ones too, which the published object API leaves out.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, NamedTuple

import flatbuffers.number_types as kinds
import flatbuffers.table
import numpy as np

from circletools.flatbuf.schema import Field, RoleKind, Schema, fields_with_role, load_schema
from tests.kit.build import Packer, Table

NUMBERS: Mapping[str, Any] = {
    "u1": kinds.Uint8Flags,
    "i1": kinds.Int8Flags,
    "u2": kinds.Uint16Flags,
    "i2": kinds.Int16Flags,
    "u4": kinds.Uint32Flags,
    "i4": kinds.Int32Flags,
    "u8": kinds.Uint64Flags,
    "i8": kinds.Int64Flags,
    "f4": kinds.Float32Flags,
    "f8": kinds.Float64Flags,
}
OUTSIDE = bytes(range(1, 33))  # data after the flatbuffer: a constant, then custom options
CUSTOM_AT, SOMEWHERE = 24, 0x5EED_0FA1_1000  # where those are in it; where it is, as long as that is not known
UNKNOWN_SLOT, UNKNOWN_TEXT = 40, b"from a newer schema"
PLAIN = b"plain"  # the last tensor of each subgraph, which is its input and twice its output: nothing special
SENSIBLE: Mapping[tuple[str, str], Any] = {
    ("Model", "version"): 3,
    ("Model", "metadata_buffer"): [1, 1],
    ("Tensor", "type"): 9,
    ("OperatorCode", "deprecated_builtin_code"): 1,
    ("OperatorCode", "builtin_code"): 2,
    ("Operator", "inputs"): [0, -1, 1],
    ("Operator", "outputs"): [2],
    ("Operator", "intermediates"): [-1, 1],
    ("Operator", "large_custom_options_size"): 8,
    ("SubGraph", "inputs"): [3],
    ("SubGraph", "outputs"): [3, 3],
    ("TensorMap", "tensor_index"): 3,
    ("Buffer", "size"): 24,
    ("ExternalBuffer", "id"): 1,
}
"""What a field must hold so that the model makes sense; all else is any value but the default."""
INDEX: tuple[RoleKind, ...] = (
    "tensor",
    "buffer",
    "operator_code",
    "subgraph",
    "external_buffer",
    "external_buffer_group",
)
"""What points at something by a number: at the second, unless `SENSIBLE` has it otherwise."""

SOME = (
    "circle/mlp_external",
    "circle/while_loop",
    "circle/quantized_linear",
    "tflite/sparse",
    "tflite/two_signatures",
)
"""Models of testdata that between them have external data, subgraphs, quantization, sparsity and signatures."""


@dataclass(slots=True)
class EveryField:
    """Makes the model; data behind the flatbuffer is `SOMEWHERE`."""

    schema: Schema
    numbers: Iterator[int] = field(default_factory=lambda: itertools.cycle(range(1, 120)))

    def variants(self, name: str) -> int:
        """Return how many tables of a type show all members of all unions below, outside vectors of tables."""
        counts = [1]
        for item in self.schema.tables[name].fields:
            if item.kind == "union":
                members = self.schema.unions[str(item.target)].values()
                counts += [len(members), *map(self.variants, members)]
            elif item.kind == "table":
                counts.append(self.variants(str(item.target)))
        return max(counts)

    def table(self, name: str, number: int) -> Table:
        """Return a table with all its fields; `number` chooses the members of its unions."""
        made = Table(name)
        codes = {item.type_slot for item in self.schema.tables[name].fields if item.kind == "union"}
        for item in self.schema.tables[name].fields:
            if item.slot not in codes:  # the writer knows the member
                setattr(made, item.name, self.value(name, item, number))
        return made

    def value(self, owner: str, item: Field, number: int) -> Any:
        if item.kind == "union":
            members = self.schema.unions[str(item.target)]
            return self.table(members[sorted(members)[number % len(members)]], number)
        if item.kind == "table":
            return self.table(str(item.target), number)
        if item.kind == "string":
            return f"{owner}.{item.name} {next(self.numbers)}"
        return self.vector(owner, item) if item.kind == "vector" else self.scalar(owner, item)

    def scalar(self, owner: str, item: Field) -> float:
        if item.name.endswith("offset") and owner in ("Buffer", "Operator"):
            return SOMEWHERE + (CUSTOM_AT if owner == "Operator" else 0)
        if (owner, item.name) in SENSIBLE:
            return int(SENSIBLE[owner, item.name])
        if item in fields_with_role(self.schema.tables[owner], *INDEX):
            return 1
        if item.default:
            return 0  # any other number would be the same truth
        return next(self.numbers) + (0.5 if item.dtype.kind == "f" else 0)

    def vector(self, owner: str, item: Field) -> list[Any]:
        if item.target is not None:
            tables = [self.table(item.target, number) for number in range(max(self.variants(item.target), 3))]
            if item.target == "Buffer":
                return [Table("Buffer"), *tables]  # no data, as buffer 0 must be
            return [*tables, Table("Tensor", shape=[2], name=PLAIN)] if item.target == "Tensor" else tables
        if item in fields_with_role(self.schema.tables[owner], "subgraph"):
            return [1, 0]
        return list(SENSIBLE.get((owner, item.name), [next(self.numbers), next(self.numbers)]))


@lru_cache(100)
def every_field(format_name: Any, unknown: frozenset[str] = frozenset()) -> bytes:
    """Return a file with every field of every table; the tables of `unknown` have one more."""
    packer = Packer(load_schema(format_name), dict.fromkeys(unknown, (UNKNOWN_SLOT, UNKNOWN_TEXT)))
    data = packer.finish(packer.write(_every_table(format_name)), packer.schema.identifier)
    for more in (0, CUSTOM_AT):  # known now is what is outside
        assert data.count(struct.pack("<Q", SOMEWHERE + more)) > 0
        data = data.replace(struct.pack("<Q", SOMEWHERE + more), struct.pack("<Q", len(data) + more))
    return data + OUTSIDE


@cache
def _every_table(format_name: Any) -> Table:
    schema = load_schema(format_name)
    return EveryField(schema).table(schema.root, 0)


class Numbers(NamedTuple):
    """The numbers of a field: its table's type, and the position of the first."""

    owner: str
    field: Field
    at: int
    length: int


@dataclass(slots=True)
class Reader:
    """Reads a file to path -> value; a path is `subgraphs[0].operators[1].builtin_options.axis`.

    A table's value is its type, that of a vector of tables their count. Places in the file become the bytes there.
    `seen` collects (table type, field) of all that was present, `numbers` where scalars and vectors of them stand.
    """

    schema: Schema
    data: bytes
    values: dict[str, Any] = field(default_factory=dict)
    seen: set[tuple[str, str]] = field(default_factory=set)
    numbers: dict[str, Numbers] = field(default_factory=dict)

    def table(self, name: str, at: int, path: str) -> None:
        table = flatbuffers.table.Table(self.data, at)
        known = {item.slot: item for item in self.schema.tables[name].fields}
        vtable = at - table.Get(kinds.Int32Flags, at)
        slots = (table.Get(kinds.Uint16Flags, vtable) - 4) // 2
        self.values[path or "model"] = name
        for slot, offset in enumerate(struct.unpack_from(f"<{slots}H", self.data, vtable + 4)):
            if not offset:
                continue
            place = f"{path}.{known[slot].name if slot in known else f'slot {slot}'}".lstrip(".")
            if slot not in known:
                self.values[place] = bytes(table.String(offset + at))
                continue
            self.seen.add((name, known[slot].name))
            self.field(table, known[slot], offset + at, place)
            self.number(name, known[slot], offset + at, place, table)
        self.resolve(path)

    def field(self, table: Any, item: Field, at: int, path: str) -> None:
        if item.kind == "scalar":
            self.values[path] = table.Get(NUMBERS[item.dtype.str[1:]], at)
        elif item.kind == "string":
            self.values[path] = bytes(table.String(at))
        elif item.kind == "vector":
            start, count = table.Vector(at - table.Pos), table.VectorLen(at - table.Pos)
            if item.target is None:
                self.values[path] = np.frombuffer(self.data, item.dtype, count, start).tolist()
                return
            self.values[path] = count
            for index in range(count):
                self.table(item.target, table.Indirect(start + 4 * index), f"{path}[{index}]")
        else:
            target = str(item.target)
            if item.kind == "union":
                code = table.Get(kinds.Uint8Flags, table.Offset(4 + 2 * item.type_slot) + table.Pos)
                target = self.schema.unions[target][code]
            self.table(target, table.Indirect(at), path)

    def number(self, owner: str, item: Field, at: int, path: str, table: Any) -> None:
        """Note the position of a number, or of each in a vector."""
        if item.kind == "scalar":
            self.numbers[path] = Numbers(owner, item, at, 1)
        elif item.kind == "vector" and item.target is None:
            start, count = table.Vector(at - table.Pos), table.VectorLen(at - table.Pos)
            self.numbers[path] = Numbers(owner, item, start, count)

    def resolve(self, path: str) -> None:
        """Put the bytes in the place of a position in the file."""
        pairs = (("offset", "size"), ("large_custom_options_offset", "large_custom_options_size"))
        for offset, size in pairs:
            start = self.values.get(f"{path}.{offset}", 0)
            if start and f"{path}.{size}" in self.values:
                self.values[f"{path}.{offset}"] = self.data[start : start + self.values[f"{path}.{size}"]]


@lru_cache(10)
def reader(data: bytes) -> Reader:
    """Read a whole file."""
    schema = load_schema("circle" if data[4:8] == b"CIR0" else "tflite")
    result = Reader(schema, data)
    result.table(schema.root, int.from_bytes(data[:4], "little"), "")
    return result


def difference(before: bytes, after: bytes) -> dict[str, tuple[Any, Any]]:
    """Return path -> (value before, value after) of all that differs; None where it is absent."""
    old, new = reader(before).values, reader(after).values
    return {
        path: (old.get(path), new.get(path))
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path) or (path in old) != (path in new)
    }
