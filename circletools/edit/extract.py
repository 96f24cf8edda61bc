"""Some operators of subgraphs as a model of their own, with everything that they use and nothing else.

Tensors, buffers, operator codes and subgraphs get new indices, in their old order. The sections of an excerpt come
first; the subgraphs that their operators call stand behind them, whole. Constants go along with each excerpt that
reads them. Data outside the flatbuffer stays outside: each range is copied once behind the new flatbuffer, aligned to
16 bytes or what it was aligned to. All data is copied from the old file as ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from struct import pack

import numpy as np

from circletools.edit.editable import check_editable
from circletools.edit.renumber import NewIndices, Renumbering
from circletools.flatbuf.transplant import Altered, References, Value, transplant
from circletools.model.calls import Calls
from circletools.model.external import FILE_OFFSETS, external_data
from circletools.model.model import Model
from circletools.storage.files import Part, Range

_LEAST_ALIGNMENT, _MOST_ALIGNMENT = 16, 64  # of external data


@dataclass(frozen=True, slots=True)
class Section:
    """What to take of a subgraph: operators, ascending, and the tensors that become inputs and outputs.

    `names` gives tensors of the subgraph other names, `further` are tensors that go along though nothing here uses
    them. Where an operator of the excerpt calls the subgraph, it calls
    all of it, or this section where that `replaces` it.
    """

    subgraph: int
    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Mapping[int, bytes] = field(default_factory=dict)
    replaces: bool = False
    further: Sequence[int] = ()


Named = Sequence[tuple[bytes, int]]
"""Names in a signature, each with the tensor of the old subgraph that it stands for."""


@dataclass(frozen=True, slots=True)
class NewSignature:
    """A signature to be written, of the first section of a subgraph."""

    key: bytes
    subgraph: int
    inputs: Named
    outputs: Named


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What to take: a section for each subgraph that is not taken because it is called.

    `metadata` are the entries (by index in the old model) that go along, with another value or, for None, with their
    own; `signatures` are those that do, by index, or new ones. They are about the first section of their subgraph.
    """

    sections: Sequence[Section]
    metadata: Mapping[int, bytes | None]
    signatures: Sequence[int | NewSignature] = ()


class Excerpts:
    """Takes excerpts from one model. Raises what `check_editable` does."""

    def __init__(self, model: Model) -> None:
        """Look up once what all excerpts need."""
        check_editable(model)
        self.model, self.schema = model, model.schema
        operators, tensors = model.operator_columns, model.tensor_columns
        self.calls = Calls(model)
        self.operators_of, self.tensors_of = operators.rows_of, tensors.rows_of
        self.operator_at: list[int] = operators.tables.at.tolist()
        self.tensor_at: list[int] = tensors.tables.at.tolist()
        self.indices = Renumbering(model)
        self.buffer_at: list[int] = model.buffers.tables.at.tolist()
        self.code_at: list[int] = model.root.children("operator_codes", model.schema)[0].at.tolist()
        self.metadata_at: list[int] = model.root.children("metadata", model.schema)[0].at.tolist()
        self.further: list[int] = model.root.vectors("metadata_buffer").row(0).tolist()  # an old way to name metadata
        self.external = _External(model)

    def called(self, sections: Iterable[Section]) -> list[int]:
        """Return the subgraphs that go along with these sections because they are called, ascending."""
        given = list(sections)
        replaced = {section.subgraph for section in given if section.replaces}
        rows = (self.operators_of(section.subgraph)[operator] for section in given for operator in section.operators)
        return [subgraph for subgraph in self.calls.reached(rows) if subgraph not in replaced]

    def tensors(self, section: Section) -> list[int]:
        """Return the tensors of the subgraph that the section has, ascending: also those that its tensors name."""
        operator_rows, rows = self.operators_of(section.subgraph), self.tensors_of(section.subgraph)
        reading = (operator_rows[operator] for operator in section.operators)
        found: set[int] = set()
        ends = section.inputs, section.outputs, section.further
        more = self.indices.named("tensor", "Operator", reading).union(*ends) - {-1}
        while more:
            found |= more
            more = self.indices.named("tensor", "Tensor", (rows[tensor] for tensor in more)) - found - {-1}
        return sorted(found)

    def sizes(self, excerpt: Excerpt) -> dict[str, int]:
        """Return how many subgraphs, operators, tensors, buffers and operator codes an excerpt has."""
        build, whole = _Build(self, excerpt), (len(self.tensors_of(index)) for index in self.called(excerpt.sections))
        return {
            "subgraph": len(build.rows) + len(build.called),
            "operator": len(build.all_rows),
            "tensor": sum(map(len, build.tensors)) + sum(whole),
            "buffer": len(build.new_buffer) + len(build.given),
            "operator code": len(build.new_code),
        }

    def take(self, excerpt: Excerpt) -> list[Part]:
        """Return the file of an excerpt."""
        build = _Build(self, excerpt)
        parts = self._parts(build.model({}))
        ranges = build.external()
        if not ranges:
            return parts
        # Only now is it known where external data goes. The positions in the flatbuffer have a fixed width.
        moves, behind = self.external.place(ranges, sum(map(len, parts)))
        return [*self._parts(build.model(moves)), *behind]

    def _parts(self, root: Altered) -> list[Part]:
        return self.model.source.parts(transplant(self.model.wire, self.schema.whole, root))


class _Build:
    """The tables of one excerpt."""

    def __init__(self, source: Excerpts, excerpt: Excerpt) -> None:
        self.source, self.excerpt, self.schema = source, excerpt, source.schema
        self.called = source.called(excerpt.sections)
        self.rows = [
            [source.operators_of(section.subgraph)[operator] for operator in section.operators]
            for section in excerpt.sections
        ]
        self.tensors = [source.tensors(section) for section in excerpt.sections]
        self.new_tensor = [{tensor: index for index, tensor in enumerate(tensors)} for tensors in self.tensors]
        self.all_rows = [row for rows in self.rows for row in rows]
        self.all_rows += [row for subgraph in self.called for row in source.operators_of(subgraph)]
        self.new_code = _renumbered(source.indices.named("operator_code", "Operator", self.all_rows))
        self.new_buffer = _renumbered(self.used_buffers())
        replacing = {section.subgraph: index for index, section in enumerate(excerpt.sections) if section.replaces}
        self.new: NewIndices = {  # called subgraphs keep their tensors
            "buffer": self.new_buffer,
            "operator_code": self.new_code,
            "subgraph": {
                **{subgraph: index for index, subgraph in enumerate(self.called, len(excerpt.sections))},
                **replacing,
            },
        }
        self.moves: Mapping[tuple[str, int], int] = {}  # of external data, see `model`
        given = [entry for entry, value in excerpt.metadata.items() if value is not None]
        self.given = {entry: index for index, entry in enumerate(given, len(self.new_buffer))}

    def used_buffers(self) -> set[int]:
        """Return the buffers that the excerpt has; the first is there in every model that has any."""
        source, rows = self.source, list[int]()
        for section, tensors in zip(self.excerpt.sections, self.tensors, strict=True):
            here = source.tensors_of(section.subgraph)
            rows += [here[tensor] for tensor in tensors]
        rows += [row for subgraph in self.called for row in source.tensors_of(subgraph)]
        kept = {
            source.model.metadata[entry].buffer for entry, value in self.excerpt.metadata.items() if value is None
        }
        used = source.indices.named("buffer", "Tensor", rows).union(kept, source.further, [0])
        return used if source.buffer_at else set()

    def external(self) -> dict[tuple[str, int], tuple[int, int]]:
        """Return the external data that the excerpt names."""
        known = self.source.external.known
        if not known:
            return {}
        named = [("Buffer", row) for row in self.new_buffer]
        named += [(kind, row) for kind in ("large_custom_options", "bytecode") for row in self.all_rows]
        return {key: known[key] for key in named if key in known}

    # ------------------------------------------------------------------ tables

    def altered(self, name: str, at: int, /, **fields: Value) -> Altered:
        table_type = self.schema.tables[name]
        return Altered(table_type, at, {table_type.by_name[field].slot: value for field, value in fields.items()})

    def model(self, moves: Mapping[tuple[str, int], int]) -> Altered:
        """Return the root; `moves` is by how much each piece of external data moves in the file."""
        self.moves, source = moves, self.source
        subgraphs: References = [*map(self.section, range(len(self.rows))), *map(self.callee, self.called)]
        fields: dict[str, Value] = {
            "subgraphs": subgraphs,
            "operator_codes": [source.code_at[code] for code in self.new_code],
            "buffers": self.buffers(),
            "metadata": [
                self.altered("Metadata", source.metadata_at[entry], buffer=_u4(self.metadata_buffer(entry)))
                for entry in self.excerpt.metadata
            ],
            "signature_defs": [*map(self.signature, self.excerpt.signatures)] or None,
        }
        if source.further:
            fields["metadata_buffer"] = _i4s(self.new_buffer[buffer] for buffer in source.further)
        return self.altered("Model", int(source.model.root.at[0]), **fields)

    def section(self, index: int) -> Altered:
        section, new_tensor = self.excerpt.sections[index], self.new_tensor[index]
        rows, new = self.source.tensors_of(section.subgraph), {**self.new, "tensor": new_tensor}
        tensors: References = [
            self.tensor(rows[tensor], new, section.names.get(tensor)) for tensor in self.tensors[index]
        ]
        ends = [_i4s(new_tensor[tensor] for tensor in some) for some in (section.inputs, section.outputs)]
        operators: References = [self.operator(row, new) for row in self.rows[index]]
        return self.subgraph(section.subgraph, tensors=tensors, operators=operators, inputs=ends[0], outputs=ends[1])

    def callee(self, subgraph: int) -> Altered:
        tensors: References = [self.tensor(row, self.new) for row in self.source.tensors_of(subgraph)]
        operators: References = [self.operator(row, self.new) for row in self.source.operators_of(subgraph)]
        return self.subgraph(subgraph, tensors=tensors, operators=operators)

    def subgraph(self, index: int, /, **fields: Value) -> Altered:
        return self.altered("SubGraph", int(self.source.model.subgraph_tables.at[index]), **fields)

    def tensor(self, row: int, new: NewIndices, name: bytes | None = None) -> Altered:
        fields = self.source.indices.fields("Tensor", row, new)
        if name is not None:
            fields["name"] = name
        return self.altered("Tensor", self.source.tensor_at[row], **fields)

    def operator(self, row: int, new: NewIndices) -> Altered:
        fields = self.source.indices.fields("Operator", row, new)
        tables = self.source.model.operator_columns.tables
        for kind, name in (("large_custom_options", "large_custom_options_offset"), ("bytecode", "custom_options")):
            if (kind, row) in self.moves:
                one = tables.take(slice(row, row + 1))
                old = one.scalars(name).tobytes() if kind != "bytecode" else one.vectors(name).row(0).tobytes()
                fields[name] = FILE_OFFSETS["Operator", name](old, self.moves[kind, row])
        return self.altered("Operator", self.source.operator_at[row], **fields)

    def metadata_buffer(self, entry: int) -> int:
        return self.given[entry] if entry in self.given else self.new_buffer[self.source.model.metadata[entry].buffer]

    def buffers(self) -> References:
        offsets = self.source.model.buffers.offsets
        buffers: References = [self.source.buffer_at[row] for row in self.new_buffer]
        for row, index in self.new_buffer.items():
            if ("Buffer", row) in self.moves:
                offset = FILE_OFFSETS["Buffer", "offset"](offsets[row].tobytes(), self.moves["Buffer", row])
                buffers[index] = self.altered("Buffer", self.source.buffer_at[row], offset=offset)
        return [*buffers, *(self.altered("Buffer", 0, data=self.excerpt.metadata[entry]) for entry in self.given)]

    def signature(self, one: int | NewSignature) -> Altered:
        """Return a signature of a section; its tensors are all in the section."""
        if isinstance(one, NewSignature):
            new = self.section_of(one.subgraph)
            sides = {
                name: self.new_maps(new, side) for name, side in (("inputs", one.inputs), ("outputs", one.outputs))
            }
            return self.altered("SignatureDef", 0, signature_key=one.key, subgraph_index=_u4(new), **sides)
        model, schema = self.source.model, self.schema
        row = model.root.children("signature_defs", schema)[0].take(slice(one, one + 1))
        new = self.section_of(int(row.scalars("subgraph_index")[0]))
        fields: dict[str, Value] = {"subgraph_index": _u4(new)}
        for name in ("inputs", "outputs"):
            entries = row.children(name, schema)[0]
            fields[name] = [
                self.altered("TensorMap", at, tensor_index=_u4(self.new_tensor[new][tensor]))
                for at, tensor in zip(entries.at.tolist(), entries.scalars("tensor_index").tolist(), strict=True)
            ]
        return self.altered("SignatureDef", int(row.at[0]), **fields)

    def section_of(self, subgraph: int) -> int:
        return next(index for index, section in enumerate(self.excerpt.sections) if section.subgraph == subgraph)

    def new_maps(self, section: int, side: Named) -> References:
        return [
            self.altered("TensorMap", 0, name=name, tensor_index=_u4(self.new_tensor[section][tensor]))
            for name, tensor in side
        ]


class _External:
    """The data outside the flatbuffer of a model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.known = {
            (data.kind, row): (offset, offset + size)
            for data in external_data(model)
            for row, offset, size in zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True)
        }

    def place(
        self, ranges: Mapping[tuple[str, int], tuple[int, int]], at: int
    ) -> tuple[dict[tuple[str, int], int], list[Part]]:
        """Return by how much each moves, and what to write from byte `at` on; overlapping ranges stay so."""
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
            parts += (bytes(padding), Range(self.model.source, start, end))
            starts.append(start)
            distances.append(at + padding - start)
            at += padding + end - start
        where = np.searchsorted(starts, [start for start, _ in ranges.values()], "right") - 1
        return {key: distances[index] for key, index in zip(ranges, where.tolist(), strict=True)}, parts


def _renumbered(indices: Iterable[int]) -> dict[int, int]:
    return {old: new for new, old in enumerate(sorted(set(indices)))}


def _u4(value: int) -> bytes:
    return value.to_bytes(4, "little")


def _i4s(values: Iterable[int]) -> bytes:
    given = list(values)
    return pack(f"<{len(given)}i", *given)
