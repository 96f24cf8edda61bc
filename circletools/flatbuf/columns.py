"""The columnar reader: it reads a field of many tables at once, and checks the bounds of a whole array.

A Python loop over generated accessors takes microseconds per field. Here the unit is *all tables of one type*: their
positions are an array, one gather reads all vtables, and one gather reads one field of all tables.

    subgraph = Tables(wire, schema.tables["SubGraph"], positions)
    tensors, owner = subgraph.children("tensors", schema)
    buffers = tensors.scalars("buffer")

Positions are byte offsets from the start of the file (int64); 0, the position of the root offset, means absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from struct import Struct, unpack_from
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from circletools.errors import EditError, ModelFormatError
from circletools.flatbuf.schema import OFFSET, Field, Schema, TableType

REPEATS, REPEATED_BYTES = 2, 8 << 20  # limit of repeated reads: this many times the file size, plus this many bytes
OBJECT_BYTES = 256  # bytes charged for each repeated reference to a table, which may become a Python object
SUBGRAPH_BYTES = 32 << 10  # bytes charged for each repeated reference to a subgraph, which is processed again


class Budget:
    """The limit on repeated reads of an open file, shared by all its readers and by everything built from it.

    Each reader may read as many bytes as the file has; anything beyond that is repeated reading of shared objects.
    """

    def __init__(self, size: int, name: str = "") -> None:
        """Start with an unused budget for a file of `size` bytes; errors begin with `name`, if given."""
        self.size, self.name = size, name
        self.most: int = REPEATS * size + REPEATED_BYTES
        self._repeated: dict[str, int] = {}

    def charge(self, what: str, count: int) -> None:
        """Charge `count` bytes, the total of one reader; the same reader is charged only once.

        Raises ModelFormatError if all readers together exceed the budget.
        """
        if count - self.size <= self._repeated.get(what, 0):
            return
        repeated = self._repeated | {what: count - self.size}
        if sum(repeated.values()) > self.most:
            hint = "the file describes far more data than it contains, so it is not read"
            error = ModelFormatError(f"{what} total {count} bytes in a file of {self.size}", hint=hint)
            if self.name:
                error.name_file(self.name)
            raise error
        self._repeated = repeated

    def tally(self, what: str) -> Callable[[int], None]:
        """Return a function that charges the sum of the byte counts passed to it."""
        total = 0

        def add(count: int) -> None:
            nonlocal total
            total += count
            self.charge(what, total)

        return add


Positions = NDArray[np.int64]
Mask = NDArray[np.bool_]
T = TypeVar("T")

MAX_FLATBUFFER_BYTES = 2**31 - 1  # the format's own limit: offsets are below 2 GiB
_U2 = np.dtype("<u2")
_I4 = np.dtype("<i4")


def too_large() -> EditError:
    """Return the error for an edit whose flatbuffer would exceed 2 GiB."""
    return EditError(
        "the flatbuffer would exceed 2 GiB, the limit of the format",
        hint="keep the data of large buffers outside the flatbuffer (external buffers)",
    )


def places_in_rows(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each element within its row, for consecutive rows of these lengths."""
    ends = np.cumsum(counts)
    return np.arange(counts.sum(), dtype=np.int64) - np.repeat(ends - counts, counts)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct integers in ascending order, like `np.unique`, which imports `numpy.ma`."""
    ordered = np.sort(values)
    is_new = np.ones(len(ordered), np.bool_)
    is_new[1:] = ordered[1:] != ordered[:-1]
    return ordered[is_new]


def distinct_rows(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of the first of each distinct row of integers, and the number of each row's distinct row.

    Rows are compared by hash, and then with the first row that has this hash.
    """
    weights = np.arange(1, rows.shape[1] + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) | np.uint64(1)
    weights *= weights >> np.uint64(31) | np.uint64(1)
    _, first, number = np.unique(rows.astype(np.uint64) @ weights, return_index=True, return_inverse=True)
    if (rows[first].take(number, axis=0) != rows).any():
        _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, number


def row_numbers(flat: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number consecutive rows of integers, whose lengths are `counts`; equal rows get equal numbers."""
    found, used = np.zeros(len(counts), np.int64), 0
    starts, order = np.cumsum(counts) - counts, np.argsort(counts, kind="stable")
    lengths, begins = np.unique(counts[order], return_index=True)
    for length, rows in zip(lengths.tolist(), np.split(order, begins[1:]), strict=False):
        alone = len(lengths) == 1
        block = flat.reshape(len(rows), length) if alone else flat[starts[rows, None] + np.arange(length)]
        first, number = distinct_rows(block)
        found[rows] = used + number
        used += len(first)
    return found


def grouped(size: int, keys: NDArray[np.int64], items: list[T]) -> list[list[T]]:
    """Return a list of the items for each key from 0 to `size` - 1; `keys`, one per item, are in ascending order."""
    bounds = np.searchsorted(keys, np.arange(size + 1)).tolist()
    return [items[start:end] for start, end in pairwise(bounds)]


class Wire:
    """The bytes of a file: `size` is their number, and `limit` the end of the part that can hold FlatBuffers data."""

    __slots__ = ("address", "budget", "data", "limit", "memory", "size")

    def __init__(self, data: Any, name: str = "") -> None:
        """Wrap `data`, any object with the buffer protocol, without a copy; `name` is for errors of the budget."""
        self.memory: memoryview = memoryview(data).cast("B")
        self.data: NDArray[np.uint8] = np.frombuffer(self.memory, np.uint8)
        self.address: int = int(self.data.__array_interface__["data"][0])
        self.size: int = len(self.memory)
        self.limit: int = min(self.size, MAX_FLATBUFFER_BYTES)
        self.budget: Budget = Budget(self.size, name)

    def gather(self, positions: Positions, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Read one value of `dtype` at each position, aligned or not. Raises ModelFormatError past the file's end."""
        width = dtype.itemsize
        if positions.size == 0:
            return np.zeros(positions.shape, dtype)
        bits = int(np.bitwise_or.reduce(positions, axis=None))  # negative if any position is negative
        if bits < 0 or positions.max() > self.limit - width:
            bad = (positions < 0) | (positions > self.limit - width)
            raise ModelFormatError(f"a {width}-byte value lies outside the flatbuffer", offset=int(positions[bad][0]))
        if self.address % width == 0 and not bits & (width - 1):
            aligned = self.data[: self.limit // width * width].view(dtype)
            values: NDArray[Any] = aligned.take(positions >> width.bit_length() - 1)
            return values
        # A view in which an element starts at every byte: it reads unaligned values without copying the file.
        every_byte = np.ndarray((self.limit - width + 1,), dtype, cast(Any, self.memory), 0, (1,))
        return every_byte[positions]

    def gather_present(self, positions: Positions, dtype: np.dtype[Any], absent: Any = 0) -> NDArray[Any]:
        """Read one value of `dtype` at each position, or `absent` where the position is 0."""
        present = positions != 0
        if present.all():
            return self.gather(positions, dtype)
        values = np.full(len(positions), absent, dtype)
        values[present] = self.gather(positions[present], dtype)
        return values

    def one(self, position: int, dtype: np.dtype[Any]) -> int:
        """Read a single integer."""
        return int(self.gather(np.array([position], np.int64), dtype)[0])


@dataclass(frozen=True, slots=True)
class Vectors:
    """One vector (or none) for each row: the start and number of its elements; `what` names the vectors in errors."""

    wire: Wire
    dtype: np.dtype[Any]
    start: Positions
    count: NDArray[np.int64]
    what: str = "vectors"

    def row(self, index: int) -> NDArray[Any]:
        """Return the elements of one row, as a view of the file."""
        start, count = int(self.start[index]), int(self.count[index])
        return np.frombuffer(self.wire.memory, self.dtype, count, start if count else 0)

    def take(self, rows: NDArray[Any] | slice) -> Vectors:
        """Return the vectors of these rows."""
        return Vectors(self.wire, self.dtype, self.start[rows], self.count[rows], self.what)

    def element(self, at: int) -> NDArray[np.float64]:
        """Return element `at` of each row, counted from the end if negative; NaN for rows without it."""
        found = np.full(len(self.count), np.nan)
        places = at if at >= 0 else self.count + at
        there = (places < self.count) & (places >= 0)
        positions = (self.start + places * self.dtype.itemsize)[there]
        found[there] = self.wire.gather(positions, self.dtype)
        return found

    def element_positions(self) -> Positions:
        """Return the positions of all elements, row by row; see `check_total`."""
        self.check_total()
        ends, width = np.cumsum(self.count), self.dtype.itemsize
        begins = np.repeat(self.start - (ends - self.count) * width, self.count)
        positions: Positions = begins + np.arange(len(begins)) * width
        return positions

    def check_total(self) -> Vectors:
        """Charge the vectors to the budget of the file and return them. Raises ModelFormatError."""
        self.wire.budget.charge(self.what, int(self.count.sum()) * self.dtype.itemsize)
        return self

    def flat(self) -> NDArray[Any]:
        """Return the elements of all rows, concatenated; `splits` returns the row bounds."""
        return self.wire.gather(self.element_positions(), self.dtype)

    def lists(self) -> list[list[Any]]:
        """Return the elements of each row."""
        flat = self.flat().tolist()
        return [flat[start:end] for start, end in pairwise(self.splits().tolist())]

    def splits(self) -> NDArray[np.int64]:
        """Return n + 1 bounds: row i is `flat()[splits[i]:splits[i + 1]]`."""
        return np.concatenate(([0], np.cumsum(self.count)))

    def rows_where(self, mask: Mask) -> NDArray[np.int64]:
        """Return the rows that have a true element in `mask` (a mask over `flat()`), without duplicates."""
        return distinct(np.searchsorted(self.splits(), np.flatnonzero(mask), "right") - 1)


class Tables:
    """Tables of one type at given positions; their vtables have been checked."""

    __slots__ = ("_vectors", "at", "type", "vtable", "vtable_bytes", "wire")

    def __init__(self, wire: Wire, table_type: TableType, at: Positions) -> None:
        """Read the vtables of the tables at `at`. Raises ModelFormatError if a vtable is outside the file."""
        self._vectors: dict[str, Vectors] = {}
        self.wire: Wire = wire
        self.type: TableType = table_type
        self.at: Positions = at
        self.vtable: Positions = at - wire.gather(at, _I4)
        self.vtable_bytes: NDArray[np.int64] = wire.gather(self.vtable, _U2).astype(np.int64)
        bad = self.vtable + self.vtable_bytes > wire.limit
        if bad.any():
            raise ModelFormatError(f"the vtable of {table_type.name} ends outside the file", offset=int(at[bad][0]))

    def __len__(self) -> int:
        return len(self.at)

    def take(self, rows: NDArray[Any] | slice) -> Tables:
        """Return the tables at these rows."""
        picked = object.__new__(Tables)
        picked._vectors = {}
        picked.wire, picked.type = self.wire, self.type
        picked.at, picked.vtable, picked.vtable_bytes = self.at[rows], self.vtable[rows], self.vtable_bytes[rows]
        return picked

    def slot_positions(self, slot: int) -> Positions:
        """Return the position of the field in `slot` for each table, 0 where it is absent."""
        entry = 4 + 2 * slot
        has = self.vtable_bytes > entry + 1
        if not has.any():
            return np.zeros(len(self.at), np.int64)
        offset = self.wire.gather_present(np.where(has, self.vtable + entry, 0), _U2)
        positions = self.at + offset
        return positions if offset.all() else np.where(offset != 0, positions, 0)

    def field(self, name: str) -> Field:
        """Return the schema's description of a field."""
        return self.type.by_name[name]

    def has(self, name: str) -> NDArray[np.bool_]:
        """Return a mask of the tables that have the field in the file."""
        written: NDArray[np.bool_] = self.slot_positions(self.field(name).slot) != 0
        return written

    def scalars(self, name: str) -> NDArray[Any]:
        """Return a scalar field of every table, with the schema's default where it is absent."""
        field = self.field(name)
        return self.wire.gather_present(self.slot_positions(field.slot), field.dtype, field.default)

    def union_codes(self, field: Field) -> NDArray[np.uint8]:
        """Return the member code of a union field for every table."""
        return self.scalars(next(other.name for other in self.type.fields if other.slot == field.type_slot))

    def targets(self, name: str) -> Positions:
        """Return the position of the object that a reference field refers to, 0 where the field is absent."""
        positions = self.slot_positions(self.field(name).slot)
        targets: Positions = positions + self.wire.gather_present(positions, OFFSET)
        return targets

    def vectors(self, name: str) -> Vectors:
        """Return a vector (or string) field of every table; an absent vector is empty."""
        found = self._vectors.get(name)
        if found is None:
            element, what = self.field(name).element, f"{self.type.name}.{name}"
            found = self._vectors[name] = vectors_at(self.wire, self.targets(name), element, what)
        return found

    def numbers(self, field: Field) -> list[list[int]]:
        """Return the numbers in a field of every table: one for a scalar, all elements for a vector."""
        if field.kind == "scalar":
            return [[number] for number in self.scalars(field.name).tolist()]
        return self.vectors(field.name).check_total().lists()

    def strings(self, name: str) -> list[bytes]:
        """Return a string field of every table without the NUL at its end; an absent string is empty."""
        vectors = self.vectors(name).check_total()
        memory, steps = self.wire.memory, np.diff(vectors.start)
        bounds = zip(vectors.start.tolist(), (vectors.start + vectors.count).tolist(), strict=True)
        if (steps > 0).all() or (steps < 0).all():
            return [memory[start:end].tobytes() for start, end in bounds]
        known: dict[int, bytes] = {}  # shared strings become one object
        found = []
        for start, end in bounds:
            text = known.get(start)
            if text is None:
                text = known[start] = memory[start:end].tobytes()
            found.append(text)
        return found

    def children(self, name: str, schema: Schema) -> tuple[Tables, Vectors]:
        """Return the tables in a vector-of-tables field, row by row, and the vectors."""
        vectors = self.vectors(name)
        at = vectors.element_positions()
        target = schema.tables[str(self.field(name).target)]
        return Tables(self.wire, target, at + self.wire.gather(at, OFFSET)), vectors

    def members(self, name: str, schema: Schema) -> Iterator[tuple[NDArray[np.int64], Tables]]:
        """Yield the tables of known types that a union field refers to, type by type, with the referring rows.

        A format may lack the field.
        """
        if name in self.type.by_name:
            field, targets = self.field(name), self.targets(name)
            codes = self.union_codes(field)
            for code in distinct(codes[targets != 0]).tolist():
                target = schema.tables.get(schema.unions[str(field.target)].get(code, ""))
                if target is not None:
                    rows = np.flatnonzero((codes == code) & (targets != 0))
                    yield rows, Tables(self.wire, target, targets[rows])

    def child(self, name: str, schema: Schema) -> tuple[Tables, NDArray[np.int64]]:
        """Return the tables in a table field, and the rows that have the field."""
        targets = self.targets(name)
        rows = np.flatnonzero(targets)
        return Tables(self.wire, schema.tables[str(self.field(name).target)], targets[rows]), rows


def vectors_at(wire: Wire, positions: Positions, dtype: np.dtype[Any], what: str = "vectors") -> Vectors:
    """Read the vector headers at these positions (0: no vector). Raises ModelFormatError past the file's end."""
    count = wire.gather_present(positions, OFFSET).astype(np.int64)
    start = np.where(positions != 0, positions + 4, 0)
    bad = start + count * dtype.itemsize > wire.limit
    if bad.any():
        raise ModelFormatError("a vector ends outside the file", offset=int(positions[bad][0]))
    return Vectors(wire, dtype, start, count, what)


def unknown_slots(tables: Tables) -> NDArray[np.bool_]:
    """Return a mask of the tables that have a field outside the schema."""
    unknown = np.zeros(len(tables), np.bool_)
    known_bytes = 4 + 2 * tables.type.slots
    long = np.flatnonzero(tables.vtable_bytes > known_bytes + 1)
    if long.size:  # tables may share a vtable
        vtables, first, which = np.unique(tables.vtable[long], return_index=True, return_inverse=True)
        entries = (tables.vtable_bytes[long[first]] - known_bytes) // 2
        beyond = Vectors(tables.wire, _U2, vtables + known_bytes, entries)
        some = np.logical_or.reduceat(beyond.flat() != 0, beyond.splits()[:-1])
        unknown[long] = some[which]
    return unknown


_TABLE, _VTABLE = Struct("<i"), Struct("<H")


def field_offsets(memory: memoryview, at: int) -> dict[int, int]:
    """Return the offsets of the fields of the table at `at`, by slot; the whole vtable must lie in the file."""
    vtable = at - _TABLE.unpack_from(memory, at)[0]
    slots = _VTABLE.unpack_from(memory, vtable)[0] // 2 - 2
    entries = unpack_from(f"<{slots}H", memory, vtable + 4) if slots > 0 else ()
    return {slot: offset for slot, offset in enumerate(entries) if offset}
