"""An excerpt, the request for a part, and its contents: operators of some subgraphs and everything that these use.

Tensors, buffers, operator codes and subgraphs get new indices, in their old order. The sections of an excerpt come
first, then the whole subgraphs that their operators call. An excerpt contains all constants that it reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from struct import pack
from typing import Literal

import numpy as np

from circletools.flatbuf.columns import grouped
from circletools.flatbuf.schema import Field, RoleKind, TableType
from circletools.flatbuf.tables import OldTables, Value
from circletools.graph.graph import ModelGraph
from circletools.model.indices import Indices, model_indices
from circletools.model.model import Model


@dataclass(frozen=True, slots=True)
class Section:
    """A selection from a subgraph: operators in ascending order, and the tensors that become inputs and outputs.

    `names` holds new names for tensors of the subgraph; `further` holds tensors to include although nothing here uses
    them; `real` holds the tensors that become FLOAT32, without quantization. An operator of the excerpt that calls
    the subgraph calls this section if `replaces` is set, and otherwise the whole subgraph.
    """

    subgraph: int
    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Mapping[int, bytes] = field(default_factory=dict)
    replaces: bool = False
    further: Sequence[int] = ()
    real: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class NewSignature:
    """A new signature for the first section of a subgraph: names, each with a tensor of the old subgraph."""

    key: bytes
    subgraph: int
    inputs: Sequence[tuple[bytes, int]]
    outputs: Sequence[tuple[bytes, int]]


@dataclass(frozen=True, slots=True)
class Excerpt:
    """The selection for a part: a section for each subgraph, except those included only because operators call them.

    `metadata` holds the entries to keep, by index in the old model, with a new value or None for the old one;
    `signatures` are those to keep, by index, or new ones. Signatures refer to the first section of their subgraph.
    `data` holds new contents for buffers. An `anonymous` part has no description and no names of the old model,
    except in signatures.
    """

    sections: Sequence[Section]
    metadata: Mapping[int, bytes | None]
    signatures: Sequence[int | NewSignature] = ()
    data: Mapping[int, bytes] = field(default_factory=dict)
    anonymous: bool = False


# --- the indices in tensors and operators, prepared for renumbering when tables move to another model ---------
# An operator refers to tensors and its code, and its options may refer to subgraphs; a tensor refers to its buffer,
# and its quantization may refer to other tensors (the scales of blocks). schema/roles.json lists these fields.


Owner = Literal["Operator", "Tensor"]
NewIndices = Mapping[RoleKind, Mapping[int, int]]
"""The new index for each old one, by kind; indices that are not listed do not change."""

_KINDS: tuple[RoleKind, ...] = ("tensor", "buffer", "operator_code", "subgraph")
_CODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "i8": "q", "u8": "Q"}
_OWNERS: tuple[Owner, ...] = ("Operator", "Tensor")


Way = tuple[tuple[str, TableType, int], ...]


@dataclass(frozen=True, slots=True)
class _Inner:
    """The indices in one field of a table below an operator or a tensor.

    `way` is the path from the operator or tensor to the table: the field, type and position of each table along it.
    """

    way: Way
    kind: RoleKind
    field: Field
    values: Sequence[int]


class References:
    """The indices in all operators and tensors of a model, by row; rows are counted across all subgraphs.

    `old` reads tables; `entries` holds the buffer of each metadata entry, and `always` the buffers that every part of
    the model contains.
    """

    def __init__(self, model: Model) -> None:
        """Read all indices. Raises ModelFormatError for a broken structure."""
        self.old = OldTables(model.wire, model.schema)
        self._splits: dict[Owner, list[int]] = {
            "Operator": model.operator_columns.splits.tolist(),
            "Tensor": model.tensor_columns.splits.tolist(),
        }
        old_metadata = model.root.vectors("metadata_buffer").row(0).tolist()  # the old way to store metadata
        self.entries: list[int] = [entry.buffer for entry in model.metadata]
        self.always: set[int] = {0, *old_metadata} if len(model.buffers) else set()
        self._columns: dict[Owner, list[tuple[RoleKind, Field, list[list[int]]]]] = {owner: [] for owner in _OWNERS}
        self._inner: dict[tuple[Owner, int], list[_Inner]] = {}
        for indices in model_indices(model, *_KINDS):
            owner = next((owner for owner in _OWNERS if indices.level.rows_of(owner) is not None), None)
            if owner == indices.key[0]:
                self._columns[owner].append((indices.role.kind, indices.field, _by_row(indices)))
            elif owner is not None:
                self._enter(owner, indices)

    def _enter(self, owner: Owner, indices: Indices) -> None:
        by_row = _by_row(indices)
        for row in np.unique(indices.rows).tolist():
            way = indices.level.way(row)
            top = next(step for step, (_, level, _) in enumerate(way) if level.tables.type.name == owner)
            steps = tuple((name, level.tables.type, int(level.tables.at[at])) for name, level, at in way[top + 1 :])
            inner = _Inner(steps, indices.role.kind, indices.field, by_row[row])
            self._inner.setdefault((owner, way[top][2]), []).append(inner)

    def rows(self, owner: Owner, subgraph: int, chosen: Iterable[int] | None = None) -> Sequence[int]:
        """Return the rows of the operators or tensors of a subgraph, or of the chosen ones."""
        first, end = self._splits[owner][subgraph : subgraph + 2]
        return range(first, end) if chosen is None else [first + index for index in chosen]

    def named(self, kind: RoleKind, owner: Owner, rows: Iterable[int]) -> set[int]:
        """Return the indices of one kind (-1 included) in these operators or tensors and in the tables below them."""
        found: set[int] = set()
        columns = [lists for of_kind, _, lists in self._columns[owner] if of_kind == kind]
        for row in rows:
            for lists in columns:
                found.update(lists[row])
            for inner in self._inner.get((owner, row), ()):
                if inner.kind == kind:
                    found.update(inner.values)
        return found

    def fields(self, owner: Owner, row: int, new: NewIndices) -> dict[str, Value | None]:
        """Return the fields to replace in an operator or tensor, by name, with their new values."""
        fields: dict[str, Value | None] = {
            item.name: _packed(item, lists[row], new[kind])
            for kind, item, lists in self._columns[owner]
            if kind in new and lists[row]
        }
        inner = [(one.way, one) for one in self._inner.get((owner, row), ()) if one.kind in new]
        return fields | _altered(self.old, inner, new)


def _by_row(indices: Indices) -> list[list[int]]:
    return grouped(len(indices.level.tables), indices.rows, indices.values.tolist())


def _altered(old: OldTables, inner: Sequence[tuple[Way, _Inner]], new: NewIndices) -> dict[str, Value | None]:
    """Return the changed tables that contain these indices, keyed by the field that leads to each."""
    found: dict[str, Value | None] = {}
    for name, table_type, at in {way[0][0]: way[0] for way, _ in inner}.values():
        inside = [(way[1:], one) for way, one in inner if way[0][0] == name]
        fields = _altered(old, [(way, one) for way, one in inside if way], new)
        fields |= {one.field.name: _packed(one.field, one.values, new[one.kind]) for way, one in inside if not way}
        table = found[name] = old.copy(table_type.name, at)
        table.update(fields)
    return found


def _packed(item: Field, values: Sequence[int], new: Mapping[int, int]) -> bytes:
    code = _CODES[item.dtype.str[1:]]
    return pack(f"<{len(values)}{code}", *(new.get(value, value) for value in values))


NewIndex = Mapping[int, int]
"""The new index for each old index, in ascending order."""


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of an excerpt: each section's operators (rows in the model) and tensors, and called subgraphs.

    `values` holds the buffer of each metadata entry with a new value; these buffers follow those of the old model.
    """

    operators: Sequence[Sequence[int]]
    tensors: Sequence[NewIndex]
    called: Sequence[int]
    rows: Sequence[int]
    subgraphs: NewIndex
    codes: NewIndex
    buffers: NewIndex
    values: NewIndex
    whole_tensors: int

    def sizes(self) -> dict[str, int]:
        """Return the numbers of subgraphs, operators, tensors, buffers and operator codes."""
        return {
            "subgraph": len(self.tensors) + len(self.called),
            "operator": len(self.rows),
            "tensor": sum(map(len, self.tensors)) + self.whole_tensors,
            "buffer": len(self.buffers) + len(self.values),
            "operator code": len(self.codes),
        }


def called_by(model: ModelGraph, sections: Iterable[Section]) -> list[int]:
    """Return the subgraphs that these sections call, directly or indirectly, in ascending order."""
    given = list(sections)
    called = set[int]().union(*(model.graphs[one.subgraph].called(one.operators) for one in given))
    return sorted(model.reached(called).difference(one.subgraph for one in given if one.replaces))


def contents_of(model: ModelGraph, references: References, excerpt: Excerpt) -> Contents:
    """Return the contents of an excerpt."""
    sections, called = excerpt.sections, called_by(model, excerpt.sections)
    operators = [references.rows("Operator", one.subgraph, one.operators) for one in sections]
    tensors = [_tensors(references, one) for one in sections]
    rows = [row for some in operators for row in some]
    rows += [row for index in called for row in references.rows("Operator", index)]
    whole = [row for index in called for row in references.rows("Tensor", index)]
    named = [references.rows("Tensor", one.subgraph, some) for one, some in zip(sections, tensors, strict=True)]
    kept = (entry for entry, value in excerpt.metadata.items() if value is None)
    buffers = references.named("buffer", "Tensor", chain(*named, whole)).union(
        (references.entries[entry] for entry in kept), references.always
    )
    given = [entry for entry, value in excerpt.metadata.items() if value is not None]
    new_buffers = _renumbered(buffers if references.always else ())
    replacing = {one.subgraph: index for index, one in enumerate(sections) if one.replaces}
    return Contents(
        operators,
        [_renumbered(some) for some in tensors],
        called,
        rows,
        {index: new for new, index in enumerate(called, len(sections))} | replacing,
        _renumbered(references.named("operator_code", "Operator", rows)),
        new_buffers,
        {entry: index for index, entry in enumerate(given, len(new_buffers))},
        len(whole),
    )


def _tensors(references: References, section: Section) -> list[int]:
    """Return the tensors of a section, including those that its tensors refer to, in ascending order."""
    found = set[int]()
    more = references.named("tensor", "Operator", references.rows("Operator", section.subgraph, section.operators))
    more = more.union(section.inputs, section.outputs, section.further) - {-1}
    while more:
        found |= more
        rows = references.rows("Tensor", section.subgraph, more)
        more = references.named("tensor", "Tensor", rows) - found - {-1}
    return sorted(found)


def _renumbered(indices: Iterable[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(sorted(set(indices)))}
