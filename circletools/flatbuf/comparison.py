"""Compare two flatbuffers table by table; the schema lists the fields, so none is missed.

Like the reader, this works in columns: matched tables of one type are compared field by field, all rows at once, and
only rows that differ are examined one by one. The caller's rules match the elements of vectors of tables and
interpret numbers; without a rule, elements are matched by index and numbers are compared by value.

An absent number equals the schema's default, which is what readers see. An absent vector, string or table differs
from an empty one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Mask, Tables, Vectors, places_in_rows, vectors_at
from circletools.flatbuf.description import SHOWN_ELEMENTS, described, shortened, union_members
from circletools.flatbuf.schema import OFFSET, Field, Schema

Rows = NDArray[np.int64]
Elements = tuple[Rows, Rows]
"""The row of each element of some vectors, and its index within the row."""

Kind = Literal["added", "removed", "changed", "moved"]
Place = Callable[[int], tuple[str, str]]


class Difference(NamedTuple):
    """One difference. `path` is the location in the first file, and `path_after` the one in the second.

    An added object exists only in the second file and a removed one only in the first; both fields then hold its path
    in that file. Values are plain (numbers, text, lists, dicts); None means absent.
    """

    kind: Kind
    path: str
    path_after: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Pairs:
    """Tables of one type: row i of `before` is matched with row i of `after`; `place(i)` returns both paths.

    `owners` are the tables (of another type) that contain each row, for rules that need them.
    """

    before: Tables
    after: Tables
    place: Place
    owners: tuple[Rows, Rows] | None = None

    def take(self, rows: Rows) -> Pairs:
        """Return the pairs at these rows."""
        place, owners = self.place, self.owners
        return Pairs(
            self.before.take(rows),
            self.after.take(rows),
            lambda row: place(int(rows[row])),
            None if owners is None else (owners[0][rows], owners[1][rows]),
        )


Translation = Callable[[Pairs, Rows, NDArray[Any], NDArray[Any]], tuple[NDArray[Any], NDArray[Any]]]
"""Takes pairs, the row of each number, the numbers before and the numbers after; returns the numbers to compare."""


@dataclass(slots=True)
class Comparison:
    """Compares tables of two files, by the schema and by rules for some fields (table type, name).

    `rules` holds functions that compare a field, and `translations` those that translate a field's numbers before
    they are compared. `unknown` collects the paths of fields that neither schema has.
    """

    before: Schema
    after: Schema
    rules: Mapping[tuple[str, str], Callable[[Pairs], Iterator[Difference]]]
    translations: Mapping[tuple[str, str], Translation]
    unknown: list[str] = field(default_factory=list)

    def tables(self, pairs: Pairs) -> Iterator[Difference]:
        """Yield the differences between matched tables, field by field."""
        if not len(pairs.before):
            return
        fields = {**pairs.after.type.by_name, **pairs.before.type.by_name}
        codes = {item.type_slot for item in fields.values() if item.kind == "union"}
        for name, item in fields.items():
            rule = self.rules.get((pairs.before.type.name, name))
            if rule is not None:
                yield from rule(pairs)
            elif item.deprecated and item.kind != "scalar":
                continue  # the reference may lead anywhere: no program follows it, nor does the walk
            elif item.kind in ("table", "union"):
                yield from self._children(pairs, item)
            elif item.kind == "vector" and item.target is not None:
                yield from self._vectors_of_tables(pairs, item)
            elif item.kind != "scalar":
                yield from self.vectors(pairs, item)
            elif item.slot not in codes:
                yield from self._scalars(pairs, item)
        yield from self._unknown(pairs)

    def _scalars(self, pairs: Pairs, item: Field) -> Iterator[Difference]:
        before, after = (_scalars(tables, item) for tables in (pairs.before, pairs.after))
        differs = self._unequal(pairs, item, np.arange(len(before)), before, after)
        for row in np.flatnonzero(differs).tolist():
            yield _changed(_below(pairs.place(row), item.name), before[row].item(), after[row].item())

    def _unequal(
        self, pairs: Pairs, item: Field, rows: Rows, before: NDArray[Any], after: NDArray[Any]
    ) -> NDArray[np.bool_]:
        translate = self.translations.get((pairs.before.type.name, item.name))
        if translate is not None:
            before, after = translate(pairs, rows, before, after)
        elif before.dtype.kind == "f":  # compared by their bits, so that NaN equals itself
            before, after = (values.view(f"u{values.dtype.itemsize}") for values in (before, after))
        unequal: Mask = before != after
        return unequal

    # ------------------------------------------------------------------ strings and vectors of numbers

    def vectors(self, pairs: Pairs, item: Field) -> Iterator[Difference]:
        """Yield the differences in a field that is a string or a vector of numbers."""
        before, after, old, new = _vectors(pairs, item, item.element)
        one_sided = (before == 0) != (after == 0)
        resized = one_sided | (old.count != new.count)
        translated = (pairs.before.type.name, item.name) in self.translations
        differs = self._translated(pairs, item, old, new, ~resized) if translated else differing_vectors(old, new)
        for row in np.flatnonzero(differs | resized).tolist():
            place = _below(pairs.place(row), item.name)
            if item.kind == "string" or resized[row] or old.count[row] > SHOWN_ELEMENTS:
                yield _whole(place, item, (old, bool(before[row])), (new, bool(after[row])), row)
                continue
            elements = old.row(row), new.row(row)
            unequal = self._unequal(pairs, item, np.full(len(elements[0]), row), *elements)
            for index in np.flatnonzero(unequal).tolist():
                there = (f"{place[0]}[{index}]", f"{place[1]}[{index}]")
                yield _changed(there, *(values[index].item() for values in elements))

    def _translated(self, pairs: Pairs, item: Field, old: Vectors, new: Vectors, equal_length: Mask) -> Mask:
        """Return a mask of the vectors that differ after their numbers are translated; the lengths are equal."""
        differs = np.zeros(len(equal_length), np.bool_)
        rows = np.flatnonzero(equal_length)
        if rows.size:
            owner = np.repeat(rows, old.count[rows])
            unequal = self._unequal(pairs, item, owner, old.take(rows).flat(), new.take(rows).flat())
            differs[owner[unequal]] = True
        return differs

    # ------------------------------------------------------------------ tables in tables

    def _descend(
        self, pairs: Pairs, item: Field, target: str, before: Rows, after: Rows, rows: Rows
    ) -> Iterator[Difference]:
        if rows.size:
            old, new = self.before.tables[target], self.after.tables[target]
            below = pairs.take(rows)
            yield from self.tables(
                Pairs(
                    Tables(pairs.before.wire, old, before[rows]),
                    Tables(pairs.after.wire, new, after[rows]),
                    lambda row: _below(below.place(row), item.name),
                    below.owners,
                )
            )

    def _children(self, pairs: Pairs, item: Field) -> Iterator[Difference]:
        """Compare members of unions by name: the two formats may number them differently."""
        before, after = (_targets(tables, item) for tables in (pairs.before, pairs.after))
        old, old_names = union_members(pairs.before, item, self.before)
        new, new_names = union_members(pairs.after, item, self.after)
        both = (before != 0) & (after != 0)
        names = {name: number for number, name in enumerate(dict.fromkeys((*old_names, *new_names)))}
        old = np.array([names[name] for name in old_names], np.int64)[old]
        new = np.array([names[name] for name in new_names], np.int64)[new]
        other, listed = old != new, list(names)
        empty = other & (before == 0) & (after == 0)
        for row in np.flatnonzero(empty).tolist():
            code = pairs.before.type.by_slot[item.type_slot].name
            yield _changed(_below(pairs.place(row), code), listed[old[row]], listed[new[row]])
        yield from self._appeared(pairs, item, before, after, (other & ~empty) | ((before == 0) != (after == 0)))
        for kind in np.unique(old[both & ~other]).tolist():
            rows = np.flatnonzero(both & ~other & (old == kind))
            if listed[kind] in self.before.tables and listed[kind] in self.after.tables:
                yield from self._descend(pairs, item, listed[kind], before, after, rows)
            else:
                self.unknown.append(_below(pairs.place(int(rows[0])), item.name)[0])

    def _appeared(self, pairs: Pairs, item: Field, before: Rows, after: Rows, which: Mask) -> Iterator[Difference]:
        """Yield, as whole values, tables that exist on one side only or have different types."""
        rows = np.flatnonzero(which)
        if not rows.size:
            return
        sides = (pairs.before.take(rows), self.before), (pairs.after.take(rows), self.after)
        old, new = ([one.get(item.name) for one in described(tables, schema)] for tables, schema in sides)
        for index, row in enumerate(rows.tolist()):
            yield _changed(_below(pairs.place(row), item.name), old[index], new[index])

    def _vectors_of_tables(self, pairs: Pairs, item: Field) -> Iterator[Difference]:
        """Compare elements by index."""
        before, after, old, new = _vectors(pairs, item, OFFSET)
        one_sided = ((before == 0) != (after == 0)) & (old.count == new.count)
        for row in np.flatnonzero(one_sided).tolist():
            yield _changed(_below(pairs.place(row), item.name), _empty(before[row]), _empty(after[row]))
        common = np.minimum(old.count, new.count)
        yield from self.elements(pairs, item.name, _numbered(common), _numbered(common))
        for kind, count in (("removed", old.count), ("added", new.count)):
            rows, elements = _numbered(count)
            beyond = elements >= common[rows]
            yield from self.one_sided(pairs, item.name, kind, (rows[beyond], elements[beyond]))  # type: ignore[arg-type]

    def elements(
        self, pairs: Pairs, name: str, before: Elements, after: Elements, owners: tuple[Rows, Rows] | None = None
    ) -> Iterator[Difference]:
        """Match the elements of two vectors of tables in each pair of rows; yield the differences."""
        if not before[0].size:
            return
        place = pairs.place

        def there(row: int) -> tuple[str, str]:
            old, new = _below(place(int(before[0][row])), name)
            return f"{old}[{before[1][row]}]", f"{new}[{after[1][row]}]"

        if owners is None and pairs.owners is not None:
            owners = (pairs.owners[0][before[0]], pairs.owners[1][before[0]])
        yield from self.tables(
            Pairs(
                _elements(pairs.before, name, before, self.before),
                _elements(pairs.after, name, after, self.after),
                there,
                owners,
            )
        )

    def one_sided(
        self, pairs: Pairs, name: str, kind: Literal["added", "removed"], which: Elements
    ) -> Iterator[Difference]:
        """Yield, as whole values, elements that only one of the files has."""
        if not which[0].size:
            return
        added = kind == "added"
        tables, schema = (pairs.after, self.after) if added else (pairs.before, self.before)
        elements = _elements(tables, name, which, schema)
        values = described(elements, schema)
        for row, index, value in zip(which[0].tolist(), which[1].tolist(), values, strict=True):
            path = f"{_below(pairs.place(row), name)[added]}[{index}]"
            yield Difference(kind, path, path, None if added else value, value if added else None)

    def _unknown(self, pairs: Pairs) -> Iterator[Difference]:
        """Compare only the presence of fields outside the schema, since their contents are unknown."""
        most = max(int(tables.vtable_bytes.max(initial=0)) for tables in (pairs.before, pairs.after))
        for slot in range(min(pairs.before.type.slots, pairs.after.type.slots), (most - 4) // 2):
            old, new = (
                (slot >= tables.type.slots) & (tables.slot_positions(slot) != 0)
                for tables in (pairs.before, pairs.after)
            )
            for row in np.flatnonzero(old != new).tolist():
                yield _changed(_below(pairs.place(row), f"slot_{slot}"), *(_empty(side[row]) for side in (old, new)))
            if (old & new).any():
                self.unknown.append(_below(pairs.place(int(np.argmax(old & new))), f"slot_{slot}")[0])


def _changed(place: tuple[str, str], before: Any, after: Any) -> Difference:
    return Difference("changed", *place, before, after)


def _empty(present: Any) -> Any:
    return {} if present else None


def _below(place: tuple[str, str], name: str) -> tuple[str, str]:
    before, after = place
    return (f"{before}.{name}" if before else name), (f"{after}.{name}" if after else name)


def _whole(
    place: tuple[str, str], item: Field, before: tuple[Vectors, bool], after: tuple[Vectors, bool], row: int
) -> Difference:
    """Return the difference between two vectors as a whole; for long vectors, only the first difference."""
    values = [shortened(vectors, row, item) if present else None for vectors, present in (before, after)]
    if isinstance(values[0], dict) and isinstance(values[1], dict):
        index = first_difference(before[0], after[0], row)
        for value, (vectors, _) in zip(values, (before, after), strict=True):
            assert isinstance(value, dict)
            value["index"] = index
            value["value"] = vectors.row(row)[index].item() if index < vectors.count[row] else None
    return _changed(place, *values)


def _scalars(tables: Tables, item: Field) -> NDArray[Any]:
    """Return a scalar field; if this format lacks the field, return its default from the other format."""
    if item.name in tables.type.by_name:
        return tables.scalars(item.name)
    return np.full(len(tables), item.default, item.dtype)


def _targets(tables: Tables, item: Field) -> Rows:
    return tables.targets(item.name) if item.name in tables.type.by_name else np.zeros(len(tables), np.int64)


def _vectors(pairs: Pairs, item: Field, dtype: np.dtype[Any]) -> tuple[Rows, Rows, Vectors, Vectors]:
    """Return the positions and contents of the vectors of a field in both files."""
    before, after = (_targets(tables, item) for tables in (pairs.before, pairs.after))
    return before, after, vectors_at(pairs.before.wire, before, dtype), vectors_at(pairs.after.wire, after, dtype)


def _numbered(counts: Rows) -> Elements:
    """Return the row and index of each element, for vectors of these lengths."""
    return np.repeat(np.arange(len(counts)), counts), places_in_rows(counts)


def _elements(tables: Tables, name: str, which: Elements, schema: Schema) -> Tables:
    """Return the elements of vectors of tables with these rows and indices."""
    children, vectors = tables.children(name, schema)
    return children.take(vectors.splits()[which[0]] + which[1])


# --- strings and vectors of numbers, byte by byte, without copying them ---------------------------------------

_SMALL_BYTES = 1 << 10  # vectors up to this length are compared in batches
_CHUNK_BYTES = 1 << 20


def differing_vectors(before: Vectors, after: Vectors) -> NDArray[np.bool_]:
    """Return the rows in which the bytes differ; a pair that occurs in several rows is compared once.

    Raises ModelFormatError if rows overlap so much that the comparison would exceed the budget.
    """
    width = before.dtype.itemsize
    differs: NDArray[np.bool_] = before.count != after.count
    rows = np.flatnonzero(~differs & (before.count > 0))
    ends = before.start[rows] << 32 | after.start[rows]  # positions have 31 bits
    _, distinct, back = np.unique(ends, return_index=True, return_inverse=True)
    rows, every = rows[distinct], rows
    old, new = (_bytes_of(vectors, rows).check_total() for vectors in (before, after))
    unequal = np.zeros(len(rows), np.bool_)
    small = before.count[rows] * width <= _SMALL_BYTES
    unequal[small] = _small(*(_bytes_of(vectors, rows[small]) for vectors in (before, after)))
    for row in np.flatnonzero(~small).tolist():
        unequal[row] = first_difference(old, new, row) < old.count[row]
    differs[every] = unequal[back]
    return differs


def _bytes_of(vectors: Vectors, rows: NDArray[np.int64]) -> Vectors:
    bytes_each = vectors.count[rows] * vectors.dtype.itemsize
    return Vectors(vectors.wire, np.dtype("u1"), vectors.start[rows], bytes_each, vectors.what)


def _small(before: Vectors, after: Vectors) -> NDArray[np.bool_]:
    """Compare rows of equal, non-zero lengths."""
    if not len(before.count):
        return np.zeros(0, np.bool_)
    unequal: NDArray[np.bool_] = np.logical_or.reduceat(before.flat() != after.flat(), before.splits()[:-1])
    return unequal


def same_bytes(before: memoryview, after: memoryview) -> bool:
    """Return whether two ranges hold the same bytes, without copying them."""
    return len(before) == len(after) == first_differing_byte(before, after)


def first_difference(before: Vectors, after: Vectors, row: int) -> int:
    """Return the index of the first element that differs, or the length of the shorter vector."""
    return _first(before.row(row), after.row(row))


def first_differing_byte(before: memoryview, after: memoryview) -> int:
    """Return the first position at which the bytes differ, or the length of the shorter range."""
    return _first(np.frombuffer(before, np.uint8), np.frombuffer(after, np.uint8))


def _first(before: NDArray[Any], after: NDArray[Any]) -> int:
    length, step = min(len(before), len(after)), _CHUNK_BYTES // before.itemsize
    bits = np.dtype(f"u{before.itemsize}")  # compared as bits, so that NaN equals itself
    for at in range(0, length, step):
        end = min(at + step, length)
        unequal = before[at:end].view(bits) != after[at:end].view(bits)
        if unequal.any():
            return at + int(unequal.argmax())
    return length
