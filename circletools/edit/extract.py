"""Some operators of a subgraph as a model of their own, with everything that they use and nothing else.

Tensors, buffers, operator codes and subgraphs get new indices, in their old order; the excerpt is subgraph 0, and the
subgraphs that its operators call stand behind it, whole. Constants go along with each excerpt that reads them. Data
outside the flatbuffer stays outside: each range is copied once behind the new flatbuffer, aligned to 16 bytes or what
it was aligned to. All data is copied from the old file as ranges.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
class Excerpt:
    """What to take: operators of a subgraph, ascending, and the tensors that become inputs and outputs.

    `names` gives tensors of the subgraph other names. `metadata` are the entries (by index in the old model) that go
    along, with another value or, for None, with their own; `signatures` are those that do, by index.
    """

    subgraph: int
    operators: Sequence[int]
    inputs: Sequence[int]
    outputs: Sequence[int]
    names: Mapping[int, bytes]
    metadata: Mapping[int, bytes | None]
    signatures: Sequence[int] = ()


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

    def called(self, subgraph: int, operators: Iterable[int]) -> list[int]:
        """Return the subgraphs that go along with these operators, ascending."""
        rows = self.operators_of(subgraph)
        return self.calls.reached(rows[operator] for operator in operators)

    def tensors(self, excerpt: Excerpt) -> list[int]:
        """Return the tensors of the subgraph that the excerpt has, ascending: also those that its tensors name."""
        operator_rows, rows = self.operators_of(excerpt.subgraph), self.tensors_of(excerpt.subgraph)
        reading = (operator_rows[operator] for operator in excerpt.operators)
        found: set[int] = set()
        more = self.indices.named("tensor", "Operator", reading).union(excerpt.inputs, excerpt.outputs) - {-1}
        while more:
            found |= more
            more = self.indices.named("tensor", "Tensor", (rows[tensor] for tensor in more)) - found - {-1}
        return sorted(found)

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
        return self.model.source.parts(transplant(self.model.wire, self.schema, root))


class _Build:
    """The tables of one excerpt."""

    def __init__(self, source: Excerpts, excerpt: Excerpt) -> None:
        self.source, self.excerpt, self.schema = source, excerpt, source.schema
        rows = source.operators_of(excerpt.subgraph)
        self.rows = [rows[operator] for operator in excerpt.operators]
        self.called = source.called(excerpt.subgraph, excerpt.operators)
        self.tensors = source.tensors(excerpt)
        self.new_tensor = {tensor: index for index, tensor in enumerate(self.tensors)}
        self.all_rows = [*self.rows, *(row for subgraph in self.called for row in source.operators_of(subgraph))]
        self.new_code = _renumbered(source.indices.named("operator_code", "Operator", self.all_rows))
        self.new_buffer = _renumbered(self.used_buffers())
        self.new: NewIndices = {
            "buffer": self.new_buffer,
            "operator_code": self.new_code,
            "subgraph": {subgraph: index for index, subgraph in enumerate(self.called, 1)},
        }
        self.new_here: NewIndices = {**self.new, "tensor": self.new_tensor}  # called subgraphs keep their tensors
        self.moves: Mapping[tuple[str, int], int] = {}  # of external data, see `model`
        given = [entry for entry, value in excerpt.metadata.items() if value is not None]
        self.given = {entry: index for index, entry in enumerate(given, len(self.new_buffer))}

    def used_buffers(self) -> set[int]:
        """Return the buffers that the excerpt has; the first is there in every model that has any."""
        source = self.source
        here = source.tensors_of(self.excerpt.subgraph)
        rows = [here[tensor] for tensor in self.tensors]
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
        subgraphs: References = [self.main(), *map(self.callee, self.called)]
        fields: dict[str, Value] = {
            "subgraphs": subgraphs,
            "operator_codes": [source.code_at[code] for code in self.new_code],
            "buffers": self.buffers(),
            "metadata": [
                self.altered("Metadata", source.metadata_at[entry], buffer=_u4(self.metadata_buffer(entry)))
                for entry in self.excerpt.metadata
            ],
            "signature_defs": [self.signature(index) for index in self.excerpt.signatures] or None,
        }
        if source.further:
            fields["metadata_buffer"] = _i4s(self.new_buffer[buffer] for buffer in source.further)
        return self.altered("Model", int(source.model.root.at[0]), **fields)

    def main(self) -> Altered:
        excerpt, rows = self.excerpt, self.source.tensors_of(self.excerpt.subgraph)
        tensors: References = [
            self.tensor(rows[tensor], self.new_here, excerpt.names.get(tensor)) for tensor in self.tensors
        ]
        ends = [_i4s(self.new_tensor[tensor] for tensor in some) for some in (excerpt.inputs, excerpt.outputs)]
        operators: References = [self.operator(row, self.new_here) for row in self.rows]
        return self.subgraph(excerpt.subgraph, tensors=tensors, operators=operators, inputs=ends[0], outputs=ends[1])

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

    def signature(self, index: int) -> Altered:
        """Return a signature of the excerpt's subgraph; its tensors are all in the excerpt."""
        model, schema = self.source.model, self.schema
        row = model.root.children("signature_defs", schema)[0].take(slice(index, index + 1))
        fields: dict[str, Value] = {"subgraph_index": _u4(0)}
        for name in ("inputs", "outputs"):
            entries = row.children(name, schema)[0]
            fields[name] = [
                self.altered("TensorMap", at, tensor_index=_u4(self.new_tensor[tensor]))
                for at, tensor in zip(entries.at.tolist(), entries.scalars("tensor_index").tolist(), strict=True)
            ]
        return self.altered("SignatureDef", int(row.at[0]), **fields)


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
