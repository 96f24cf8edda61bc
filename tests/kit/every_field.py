"""A model in which every field of every table of the schema is set, and a reader that compares two of them.

The model is written by `flatbuffers.Builder` and read by `flatbuffers.table`, field by field, as the schema has
them: deprecated ones too, which the published object API leaves out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import flatbuffers
import flatbuffers.number_types as kinds
import flatbuffers.table
import numpy as np

from circletools.flatbuf.roles import Kind, fields_with_role
from circletools.flatbuf.schema import Field, Schema, load_schema

NUMBERS: Mapping[str, tuple[str, Any]] = {
    "u1": ("Uint8", kinds.Uint8Flags),
    "i1": ("Int8", kinds.Int8Flags),
    "u2": ("Uint16", kinds.Uint16Flags),
    "i2": ("Int16", kinds.Int16Flags),
    "u4": ("Uint32", kinds.Uint32Flags),
    "i4": ("Int32", kinds.Int32Flags),
    "u8": ("Uint64", kinds.Uint64Flags),
    "i8": ("Int64", kinds.Int64Flags),
    "f4": ("Float32", kinds.Float32Flags),
    "f8": ("Float64", kinds.Float64Flags),
}
OUTSIDE = bytes(range(1, 33))  # what stands behind the flatbuffer: a constant, then custom options
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
INDEX: tuple[Kind, ...] = (
    "tensor",
    "buffer",
    "operator_code",
    "subgraph",
    "external_buffer",
    "external_buffer_group",
)
"""What points at something by a number: at the second, unless `SENSIBLE` has it otherwise."""


@dataclass(slots=True)
class EveryField:
    """Writes the model. `unknown` are the table types that get a field which the schema does not have."""

    schema: Schema
    unknown: frozenset[str] = frozenset()
    outside: int = 1 << 20  # where the data behind the flatbuffer starts
    builder: Any = field(default_factory=lambda: flatbuffers.Builder(1 << 20))
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

    def table(self, name: str, number: int) -> int:
        """Write a table with all its fields; `number` chooses the members of its unions. Return its offset."""
        values: dict[int, tuple[Field, Any]] = {}
        codes: dict[int, int] = {}
        for item in self.schema.tables[name].fields:
            if item.kind == "union":
                members = sorted(self.schema.unions[str(item.target)])
                codes[item.type_slot] = members[number % len(members)]
                member = self.schema.unions[str(item.target)][codes[item.type_slot]]
                values[item.slot] = item, self.table(member, number)
            elif item.kind == "table":
                values[item.slot] = item, self.table(str(item.target), number)
            elif item.kind == "string":
                text = f"{name}.{item.name} {next(self.numbers)}"
                values[item.slot] = item, self.builder.CreateString(text)
            elif item.kind == "vector":
                values[item.slot] = item, self.vector(name, item)
            else:
                values[item.slot] = item, self.scalar(name, item)
        for slot, code in codes.items():
            values[slot] = values[slot][0], code
        return self.close(name, values)

    def close(self, name: str, values: Mapping[int, tuple[Field, Any]]) -> int:
        unknown = self.builder.CreateString(UNKNOWN_TEXT) if name in self.unknown else 0
        self.builder.StartObject(UNKNOWN_SLOT + 1 if unknown else max(values, default=0) + 1)
        for slot, (item, value) in values.items():
            if item.kind == "scalar":
                kind, _ = NUMBERS[item.dtype.str[1:]]
                getattr(self.builder, f"Prepend{kind}Slot")(slot, value, item.default)
            else:
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        if unknown:
            self.builder.PrependUOffsetTRelativeSlot(UNKNOWN_SLOT, unknown, 0)
        return int(self.builder.EndObject())

    def scalar(self, owner: str, item: Field) -> float:
        if item.name.endswith("offset") and owner in ("Buffer", "Operator"):
            return self.outside + (24 if owner == "Operator" else 0)
        if (owner, item.name) in SENSIBLE:
            return int(SENSIBLE[owner, item.name])
        if item in fields_with_role(self.schema.tables[owner], *INDEX):
            return 1
        if item.default:
            return 0  # any other number would be the same truth
        return next(self.numbers) + (0.5 if item.dtype.kind == "f" else 0)

    def vector(self, owner: str, item: Field) -> int:
        if item.target is not None:
            count = max(self.variants(item.target), 3)
            return self.references(item.target, [self.table(item.target, number) for number in range(count)])
        values = SENSIBLE.get((owner, item.name), [next(self.numbers), next(self.numbers)])
        if item in fields_with_role(self.schema.tables[owner], "subgraph"):
            values = [1, 0]
        return int(self.builder.CreateNumpyVector(np.array(values, item.dtype)))

    def references(self, target: str, offsets: list[int]) -> int:
        if target == "Buffer":
            offsets = [self.close(target, {}), *offsets]  # no data, as buffer 0 must be
        if target == "Tensor":
            fields = self.schema.tables["Tensor"].by_name
            shape, text = self.builder.CreateNumpyVector(np.array([2], np.int32)), self.builder.CreateString(PLAIN)
            offsets.append(self.close(target, {0: (fields["shape"], shape), 3: (fields["name"], text)}))
        self.builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            self.builder.PrependUOffsetTRelative(offset)
        return int(self.builder.EndVector())

    def file(self) -> bytes:
        """Return the flatbuffer alone."""
        self.builder.Finish(self.table(self.schema.root, 0), self.schema.identifier)
        return bytes(self.builder.Output())


def every_field(format_name: Any, unknown: frozenset[str] = frozenset()) -> bytes:
    """Return a file with every field of every table; the tables of `unknown` have one more."""
    schema = load_schema(format_name)
    length = len(EveryField(schema, unknown).file())
    return EveryField(schema, unknown, outside=length).file() + OUTSIDE


class Numbers(NamedTuple):
    """The numbers of a field: its table's type, and where the first of them stands."""

    owner: str
    field: Field
    at: int
    length: int


# --- the reader ---------------------------------------------------------------------------------------------


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
        present = {slot: table.Offset(4 + 2 * slot) for slot in range(slots)}
        self.values[path or "model"] = name
        for slot, offset in present.items():
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
            self.values[path] = table.Get(NUMBERS[item.dtype.str[1:]][1], at)
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
        """Note where a number, or each of a vector of them, stands."""
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
