"""Read a model into the values that parts are made from. Only this module uses a `Model`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from struct import pack

import numpy as np

from circletools.edit.members import check_editable
from circletools.findings import Finding
from circletools.flatbuf.schema import RoleKind
from circletools.flatbuf.tables import NewTable, Value
from circletools.flatbuf.tables import References as Tables
from circletools.flatbuf.writer import Writer
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.graph.offline import OFFLINE_PLAN, PlannedTensors, edited_plan
from circletools.graph.resources import Resources
from circletools.model.external import FILE_OFFSETS, external_ranges
from circletools.model.model import Model
from circletools.parts.contents import Contents, Excerpt, NewIndex, NewSignature, Owner, References, contents_of
from circletools.parts.metadata import (
    Annotations,
    Entries,
    SubgraphSelection,
    new_values,
    read_annotations,
    whole_model_notes,
)
from circletools.storage.files import Part, Range, Source
from circletools.storage.zips import directory_start

# --- the bytes of an excerpt: its objects, as ranges of the old file, under new indices -----------------------
# Data outside the flatbuffer stays outside: each range is copied once after the new flatbuffer, aligned to 16 bytes
# or to its old alignment.


_LEAST_ALIGNMENT, _MOST_ALIGNMENT = 16, 64  # alignment of external data
_OFFSETS = {"large_custom_options": "large_custom_options_offset", "bytecode": "custom_options"}

Ranges = Mapping[tuple[str, int], tuple[int, int]]
"""A piece of data outside the flatbuffer: its kind and row, and its start and end in the file."""

Moves = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of one excerpt; `moves` holds the distance by which each piece of external data moves."""

    old: Whole
    excerpt: Excerpt
    contents: Contents
    moves: Moves

    def altered(self, name: str, at: int, /, **fields: Value | None) -> NewTable:
        """Return the table of the old file at `at` (0: none) with some fields replaced; None removes a field."""
        old = self.old.references.old
        table = old.copy(name, at) if at else NewTable(old.schema.tables[name])
        table.update(fields)
        return table

    def root(self) -> NewTable:
        old, contents, root = self.old, self.contents, self.old.model.root
        further = root.vectors("metadata_buffer").row(0).tolist()  # an old form of metadata
        subgraphs: Tables = [*map(self.section, range(len(contents.tensors))), *map(self.callee, contents.called)]
        entries = [(entry, old.references.entries[entry]) for entry in self.excerpt.metadata]
        buffers = {entry: contents.buffers.get(buffer, -1) for entry, buffer in entries} | dict(contents.values)
        fields: dict[str, Value | None] = {
            "subgraphs": subgraphs,
            "operator_codes": [old.tables["OperatorCode"][code] for code in contents.codes],
            "buffers": self.buffers(),
            "metadata": [
                self.altered("Metadata", old.tables["Metadata"][entry], buffer=_u4(buffer))
                for entry, buffer in buffers.items()
            ],
            "signature_defs": [*map(self.signature, self.excerpt.signatures)] or None,
        }
        if self.excerpt.anonymous:
            fields["description"] = None
        elif further:
            fields["metadata_buffer"] = _i4s(contents.buffers[buffer] for buffer in further)
        return self.altered("Model", int(root.at[0]), **fields)

    def section(self, index: int) -> NewTable:
        section, new = self.excerpt.sections[index], self.contents.tensors[index]
        rows = self.old.references.rows("Tensor", section.subgraph, new)
        tensors: Tables = [
            self.tensor(row, new, section.names.get(tensor), real=tensor in section.real)
            for tensor, row in zip(new, rows, strict=True)
        ]
        operators: Tables = [self.operator(row, new) for row in self.contents.operators[index]]
        inputs, outputs = (_i4s(new[tensor] for tensor in some) for some in (section.inputs, section.outputs))
        return self.subgraph(section.subgraph, tensors=tensors, operators=operators, inputs=inputs, outputs=outputs)

    def callee(self, subgraph: int) -> NewTable:
        """Return a called subgraph: it keeps its tensors and their indices."""
        rows = self.old.references.rows
        tensors: Tables = [self.tensor(row, None) for row in rows("Tensor", subgraph)]
        operators: Tables = [self.operator(row, None) for row in rows("Operator", subgraph)]
        return self.subgraph(subgraph, tensors=tensors, operators=operators)

    def subgraph(self, index: int, **fields: Value | None) -> NewTable:
        nameless: dict[str, Value | None] = {"name": None} if self.excerpt.anonymous else {}
        return self.altered("SubGraph", self.old.tables["SubGraph"][index], **fields, **nameless)

    def fields(self, owner: Owner, row: int, tensors: NewIndex | None) -> dict[str, Value | None]:
        contents = self.contents
        new: dict[RoleKind, NewIndex] = {
            "buffer": contents.buffers, "operator_code": contents.codes, "subgraph": contents.subgraphs
        }  # fmt: skip
        return self.old.references.fields(owner, row, new if tensors is None else {**new, "tensor": tensors})

    def tensor(
        self, row: int, tensors: NewIndex | None, name: bytes | None = None, *, real: bool = False
    ) -> NewTable:
        name = b"%d" % row if self.excerpt.anonymous else name
        fields = self.fields("Tensor", row, tensors) | ({} if name is None else {"name": name})
        fields |= {"type": None, "quantization": None} if real else {}  # FLOAT32 is the default of the schema
        return self.altered("Tensor", self.old.tables["Tensor"][row], **fields)

    def operator(self, row: int, tensors: NewIndex | None) -> NewTable:
        fields = self.fields("Operator", row, tensors)
        for kind, name in _OFFSETS.items():
            if (kind, row) in self.moves:
                one = self.old.model.operator_columns.tables.take(slice(row, row + 1))
                old = one.vectors(name).row(0) if kind == "bytecode" else one.scalars(name)
                fields[name] = FILE_OFFSETS["Operator", name](old.tobytes(), self.moves[kind, row])
        return self.altered("Operator", self.old.tables["Operator"][row], **fields)

    def buffers(self) -> Tables:
        old, offsets = self.old.tables["Buffer"], self.old.model.buffers.offsets
        buffers: Tables = [old[row] for row in self.contents.buffers]
        for row, index in self.contents.buffers.items():
            if ("Buffer", row) in self.moves:
                offset = FILE_OFFSETS["Buffer", "offset"](offsets[row].tobytes(), self.moves["Buffer", row])
                buffers[index] = self.altered("Buffer", old[row], offset=offset)
        for row, data in self.excerpt.data.items():
            buffers[self.contents.buffers[row]] = self.altered("Buffer", 0, data=data)
        values = (self.excerpt.metadata[entry] for entry in self.contents.values)
        return [*buffers, *(self.altered("Buffer", 0, data=value) for value in values)]

    def signature(self, one: int | NewSignature) -> NewTable:
        """Return a signature of a section; its tensors are all in the section."""
        if isinstance(one, NewSignature):
            new = self.section_of(one.subgraph)
            sides = {"inputs": self.new_maps(new, one.inputs), "outputs": self.new_maps(new, one.outputs)}
            return self.altered("SignatureDef", 0, signature_key=one.key, subgraph_index=_u4(new), **sides)
        schema = self.old.model.schema
        row = self.old.model.root.children("signature_defs", schema)[0].take(slice(one, one + 1))
        new = self.section_of(int(row.scalars("subgraph_index")[0]))
        fields: dict[str, Value | None] = {"subgraph_index": _u4(new)}
        for name in ("inputs", "outputs"):
            entries = row.children(name, schema)[0]
            fields[name] = [
                self.altered("TensorMap", at, tensor_index=_u4(self.contents.tensors[new][tensor]))
                for at, tensor in zip(entries.at.tolist(), entries.scalars("tensor_index").tolist(), strict=True)
            ]
        return self.altered("SignatureDef", int(row.at[0]), **fields)

    def section_of(self, subgraph: int) -> int:
        return next(index for index, section in enumerate(self.excerpt.sections) if section.subgraph == subgraph)

    def new_maps(self, section: int, side: Iterable[tuple[bytes, int]]) -> Tables:
        new = self.contents.tensors[section]
        return [self.altered("TensorMap", 0, name=name, tensor_index=_u4(new[tensor])) for name, tensor in side]


def _placed(source: Source, ranges: Ranges, at: int) -> tuple[Moves, list[Part]]:
    """Return the distance by which each range moves, and the bytes to write at `at`; overlaps are preserved."""
    merged: list[list[int]] = []
    for start, end in sorted(set(ranges.values())):
        if merged and start < merged[-1][1]:
            merged[-1][1] = max(end, merged[-1][1])
        else:
            merged.append([start, end])
    parts: list[Part] = []
    starts, distances = [], []
    for start, end in merged:
        alignment = min(max(start & -start, _LEAST_ALIGNMENT), _MOST_ALIGNMENT)
        padding = -at % alignment
        parts += (bytes(padding), Range(source, start, end))
        starts.append(start)
        distances.append(at + padding - start)
        at += padding + end - start
    where = np.searchsorted(starts, [start for start, _ in ranges.values()], "right") - 1
    return {key: distances[index] for key, index in zip(ranges, where.tolist(), strict=True)}, parts


def _u4(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _i4s(values: Iterable[int]) -> bytes:
    given = list(values)
    return pack(f"<{len(given)}i", *given)


@dataclass(frozen=True)
class Whole:
    """A model that passed `check_editable`: its graphs, and the indices in its tables."""

    graph: ModelGraph
    references: References

    @property
    def model(self) -> Model:
        """The model."""
        return self.graph.source

    @cached_property
    def names(self) -> list[str]:
        """The names of the metadata entries."""
        return [entry.name for entry in self.model.metadata]

    @cached_property
    def resources(self) -> Resources:
        """The resources that a runtime keeps, and the operators that use them."""
        return Resources(self.graph)

    @cached_property
    def annotations(self) -> Annotations:
        """The metadata that refers to operators. Raises TableFormatError if the metadata cannot be decoded."""
        return read_annotations(self.graph)

    @cached_property
    def tables(self) -> dict[str, list[int]]:
        """The positions of the tables in the file, by type."""
        model, schema = self.model, self.model.schema
        at = {
            "Operator": model.operator_columns.tables,
            "Tensor": model.tensor_columns.tables,
            "SubGraph": model.subgraph_tables,
            "Buffer": model.buffers.tables,
            "OperatorCode": model.root.children("operator_codes", schema)[0],
            "Metadata": model.root.children("metadata", schema)[0],
        }
        return {name: tables.at.tolist() for name, tables in at.items()}

    @cached_property
    def external(self) -> Ranges:
        """The data outside the flatbuffer."""
        return external_ranges(self.model)

    def contents(self, excerpt: Excerpt) -> Contents:
        """Return everything that an excerpt needs."""
        return contents_of(self.graph, self.references, excerpt)

    def bytes_of(self, excerpt: Excerpt) -> list[Part]:
        """Return the file of an excerpt, as bytes and ranges of the old file."""
        excerpt = self._planned(excerpt)
        contents = self.contents(excerpt)
        parts = self._flatbuffer(excerpt, contents, {})
        named = [("Buffer", row) for row in contents.buffers if self.external and row not in excerpt.data]
        named += [(kind, row) for kind in _OFFSETS for row in contents.rows if self.external]
        ranges = {key: self.external[key] for key in named if key in self.external}
        if not ranges:
            return parts
        # Only now is the position of external data known; the fields for it in the flatbuffer have a fixed width.
        moves, behind = _placed(self.model.source, ranges, sum(map(len, parts)))
        return [*self._flatbuffer(excerpt, contents, moves), *behind]

    def _planned(self, excerpt: Excerpt) -> Excerpt:
        """Return the excerpt with the offsets of its tensors; new inputs and outputs, and FLOAT32 ones, have none."""
        at = next((entry for entry in excerpt.metadata if self.names[entry] == OFFLINE_PLAN), None)
        if at is None:
            return excerpt
        contents, kept = self.contents(excerpt), list[PlannedTensors]()
        for section, tensors in zip(excerpt.sections, contents.tensors, strict=True):
            graph = self.graph.graphs[section.subgraph]
            moved = {*section.inputs, *section.outputs}.difference(graph.inputs.tolist(), graph.outputs.tolist())
            kept.append(PlannedTensors(section.subgraph, tensors, moved.union(section.real), section.operators))
        kept += [PlannedTensors(index, range(len(self.graph.graphs[index].values))) for index in contents.called]
        return replace(excerpt, metadata={**excerpt.metadata, at: edited_plan(self.model, kept)})

    def _flatbuffer(self, excerpt: Excerpt, contents: Contents, moves: Moves) -> list[Part]:
        root = _Tables(self, excerpt, contents, moves).root()
        return self.model.source.parts(Writer(self.references.old).write(root))

    def entries(self, kept: SubgraphSelection, *, same_ends: bool) -> tuple[Entries, tuple[Finding, ...]]:
        """Return the metadata of a model with these subgraphs, and notes on dropped entries.

        With `same_ends`, the subgraphs have their old inputs and outputs. If all subgraphs are kept with all their
        operators, the tables are copied without being read.
        """
        counts = list(map(len, self.graph.graphs))
        moved = any(index != subgraph for index, (subgraph, _) in enumerate(kept))
        fewer = any(chosen is not None and len(chosen) < counts[subgraph] for subgraph, chosen in kept)
        gone = whole_model_notes(self.names, same_order=not (moved or fewer), same_ends=same_ends and not moved)
        left = [(index, name) for index, name in enumerate(self.names) if name not in gone]
        notes = tuple(gone.values())
        if not moved and not fewer and len(kept) == len(counts):
            return {index: None for index, _ in left}, notes
        values = new_values(self.annotations, kept)
        entries = {index: values.get(name) for index, name in left if name not in self.annotations.stale}
        return entries, (*notes, *self.annotations.notes)

    def notes(self, kept: SubgraphSelection) -> Iterator[Finding]:
        """Yield notes if a model with these subgraphs lacks attached files, or operators that set its resources."""
        used = set[str]()
        for index, chosen in kept:
            used |= self.resources.named(index, chosen)
        left_out = set(range(len(self.graph.graphs))).difference(index for index, _ in kept) if used else ()
        for index in sorted(left_out):
            for name in sorted(self.resources.state(index).users.keys() & used):
                message = f"subgraph {index}, which is left out, also sets {name}"
                yield Finding("STATE_APART", "warning", f"subgraphs[{index}]", message)
        if directory_start(self.model.wire.memory) is not None:
            message = "the archive of associated files appended to the model is left out"
            yield Finding("ARCHIVE_LEFT_OUT", "info", "", message)


def read_whole(model: Model) -> Whole:
    """Read a model. Raises the errors of `check_editable`."""
    check_editable(model)
    return Whole(model_graph(model), References(model))
