"""A newer schema of a format, as `flatc --schema --binary` writes it: what it has beyond the known one.

Format: flatbuffers/reflection/reflection.fbs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np

from circletools.errors import InvalidInputError
from circletools.flatbuf.columns import Tables, Wire
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType, load_schema, table_type
from circletools.flatbuf.verify import walk

STRING = "(string)"
"""The target of a vector of strings."""

_SCALARS = ("", "u1", "u1", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
_INTEGERS = range(3, 11)  # the kinds that can be indices: no types of unions, no bool
_STRING, _VECTOR, _OBJECT, _UNION = 13, 14, 15, 16
_ALIGNMENTS = (1, 2, 4, 8, 16)  # a struct that needs more is not written anew


@dataclass(frozen=True, slots=True)
class _Struct:
    dtype: np.dtype[np.void]
    alignment: int
    number: bool


@dataclass(frozen=True, slots=True)
class _Type:
    base: int
    element: int
    index: int

    @property
    def number(self) -> bool:
        """Whether it is an integer of no enum, or something that can have one."""
        return (self.base in _INTEGERS and self.index < 0) or self.base > len(_SCALARS)


@lru_cache(maxsize=4)
def newer_schema(known: Schema, data: bytes) -> Schema:
    """Return a format's schema with what a newer one adds to it: fields, tables, members of unions.

    Raises InvalidInputError where `data` is no binary schema, or contradicts the known schema.
    """
    return replace(known, newer=_Newer(known, data).schema())


class _Newer:
    def __init__(self, known: Schema, data: bytes) -> None:
        wire, self.reflection, self.known = Wire(data), load_schema("reflection"), known
        root = walk(wire, self.reflection).tables["Schema"]
        top, _ = root.child("root_table", self.reflection)
        names = _texts(top, "name")
        if [*map(_last, names)] != [known.root] or root.strings("file_ident")[0] != known.identifier:
            raise _refused(f"it is not of {known.format} models")
        self.space = names[0][: -len(known.root)]
        objects, _ = root.children("objects", self.reflection)
        enums, _ = root.children("enums", self.reflection)
        self.names, self.enums = ([*map(self.short, _texts(one, "name"))] for one in (objects, enums))
        fields, vectors = objects.children("fields", self.reflection)
        if fields.scalars("offset64").any():
            raise _refused("it has references of 64 bits")
        rows = zip(fields.scalars("id").tolist(), _texts(fields, "name"), self.types(fields, "type"), strict=True)
        listed = list(rows)
        self.fields = [listed[start:end] for start, end in pairwise(vectors.splits().tolist())]
        self.structs = self.read_structs(objects)
        self.unions = self.read_unions(enums)

    def short(self, name: str) -> str:
        return name.removeprefix(self.space)

    def types(self, tables: Tables, field: str) -> list[_Type]:
        found, rows = tables.child(field, self.reflection)
        if len(rows) < len(tables):
            raise _refused("a type is missing")
        columns = (found.scalars(name).tolist() for name in ("base_type", "element", "index"))
        return [_Type(*one) for one in zip(*columns, strict=True)]

    def read_structs(self, objects: Tables) -> dict[int, _Struct]:
        structs = {}
        sizes, alignments = objects.scalars("bytesize").tolist(), objects.scalars("minalign").tolist()
        for row in np.flatnonzero(objects.scalars("is_struct")).tolist():
            size, alignment = sizes[row], alignments[row]
            if not 0 < size < 1 << 16 or alignment not in _ALIGNMENTS or size % alignment:
                raise _refused(f"{self.names[row]} has {size} bytes, aligned to {alignment}")
            number = any(kind.number for _, _, kind in self.fields[row])
            structs[row] = _Struct(np.dtype((np.void, size)), alignment, number)
        return structs

    def read_unions(self, enums: Tables) -> dict[str, Mapping[int, str]]:
        values, vectors = enums.children("values", self.reflection)
        codes, bounds = values.scalars("value").tolist(), vectors.splits().tolist()
        unions: dict[str, Mapping[int, str]] = {}
        for row in np.flatnonzero(enums.scalars("is_union")).tolist():
            start, end = bounds[row : row + 2]
            kinds = self.types(values.take(slice(start, end)), "union_type")
            found = {
                code: self.name(kind.index) if kind.base == _OBJECT else STRING
                for code, kind in zip(codes[start:end], kinds, strict=True)
                if kind.base
            }
            older = self.known.unions.get(self.enums[row], {})
            for code in older.keys() & found.keys():
                if older[code] != found[code]:
                    raise _refused(f"{code} is {found[code]} in {self.enums[row]}, not {older[code]}")
            unions[self.enums[row]] = {**older, **found}
        return unions

    def name(self, index: int) -> str:
        return _at(self.names, index)

    def schema(self) -> Schema:
        """Return the known schema with what is new."""
        tables = dict(self.known.tables)
        for row, (name, fields) in enumerate(zip(self.names, self.fields, strict=True)):
            if row not in self.structs:
                tables[name] = self.table(name, {slot: self.field(slot, label, kind) for slot, label, kind in fields})
        return replace(self.known, tables=tables, unions={**self.known.unions, **self.unions}, order=())

    def table(self, name: str, fields: dict[int, Field]) -> TableType:
        older = self.known.tables.get(name)
        for slot, item in older.by_slot.items() if older else ():
            new = fields.get(slot, item)
            if (new.kind, new.dtype, new.target, new.type_slot) != (
                item.kind,
                item.dtype,
                item.target,
                item.type_slot,
            ):
                raise _refused(f"{name}.{new.name} is not {item.name} of the {self.known.format} schema")
            fields[slot] = item
        slots = max(older.slots if older else 0, *(slot + 1 for slot in fields), 0)
        return table_type(name, slots, [fields[slot] for slot in sorted(fields)])

    def field(self, slot: int, name: str, kind: _Type) -> Field:
        many = kind.base == _VECTOR
        one = _Type(kind.element, 0, kind.index) if many else kind
        plain = Field(name, slot, "vector" if many else "scalar", OFFSET, newer=True, number=one.number)
        if 0 < one.base < len(_SCALARS):
            return replace(plain, dtype=np.dtype(_SCALARS[one.base]))
        if one.base == _STRING:
            return (
                replace(plain, target=STRING, number=False) if many else replace(plain, kind="string", number=False)
            )
        if one.base == _OBJECT and one.index in self.structs:
            struct = self.structs[one.index]
            return replace(plain, dtype=struct.dtype, align=struct.alignment, number=struct.number)
        if one.base == _OBJECT:
            return replace(plain, kind="vector" if many else "table", target=self.name(one.index), number=False)
        if one.base == _UNION and slot:
            union = _at(self.enums, one.index)
            return replace(plain, kind="vector" if many else "union", target=union, type_slot=slot - 1, number=False)
        raise _refused(f"{name} is of a kind that is not known")


def may_hold_indices(schema: Schema, item: Field) -> bool:
    """Return whether integers are in a field of a newer schema, or in what it leads to."""
    met: set[str] = set()
    pending = [item]
    while pending:
        one = pending.pop()
        if one.number or not one.newer:  # a field of the known schema: most lead to indices
            return True
        if one.target in schema.unions or one.target in schema.tables:
            names: Sequence[str] = schema.targets(replace(one, kind="union") if one.type_slot >= 0 else one)
            for name in names:
                if name not in met and name in schema.tables:
                    met.add(name)
                    pending += schema.tables[name].fields
    return False


def _texts(tables: Tables, field: str) -> list[str]:
    return [raw.decode("utf-8", "surrogateescape") for raw in tables.strings(field)]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _at(names: Sequence[str], index: int) -> str:
    if not 0 <= index < len(names):
        raise _refused(f"there is no type {index}")
    return names[index]


def _refused(message: str) -> InvalidInputError:
    return InvalidInputError(f"the schema does not fit: {message}", hint="`flatc --schema --binary` writes one")
