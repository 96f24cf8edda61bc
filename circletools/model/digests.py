"""Digests of a model's contents, and attestations: equal contents have equal digests, whatever the files' layout.

A part is a tensor with its data, an operator with its code, a subgraph without its tensors and operators, a
signature, a metadata entry with its value, a file of the archive after the flatbuffer, or the rest of the model.
docs/digest.md defines the digested bytes. Other data after the flatbuffer, to which no table refers, belongs to no
part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from circletools.errors import ModelFormatError, UsageError
from circletools.flatbuf.columns import Tables, unknown_slots
from circletools.flatbuf.digest import Digests, digest
from circletools.flatbuf.schema import Field, Schema
from circletools.model.bundles import PACKED, archive_files
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.model.verify import place_of
from circletools.model.views import Metadata
from circletools.storage.zips import end_place
from circletools.wording import Attributes

_LEFT_OUT = {
    *(("Model", name) for name in ("operator_codes", "subgraphs", "buffers", "metadata", "metadata_buffer")),
    ("Model", "signature_defs"),
    ("Tensor", "buffer"),
    *(("Operator", name) for name in ("opcode_index", "large_custom_options_offset", "large_custom_options_size")),
}


@dataclass(frozen=True, slots=True)
class ContentDigests(Attributes):
    """The digests of a model and, by path, of each of its parts: 32 hexadecimal digits each."""

    format: str
    digest: str
    parts: Mapping[str, str]


def content_digests(model: Model) -> ContentDigests:
    """Return the digests of a model's contents.

    Raises ModelFormatError if the model is broken, or if a table has an unknown field, which a digest would omit.

    >>> with ct.open("in.tflite") as model, ct.open("compacted.tflite") as other:
    ...     assert ct.digests(model).digest == ct.digests(other).digest
    """
    parts = dict(_Parts(model).all())
    whole = digest(*(piece for label in sorted(parts) for piece in (label.encode(*_TEXT), parts[label])))
    return ContentDigests(model.format, whole.hex(), {label: part.hex() for label, part in parts.items()})


_UNLESS_EMPTY = {("SubGraph", "tensors"), ("SubGraph", "operators")}  # LiteRT refuses a subgraph without them
_MOST_AFTER_END = 0xFFFF - 4  # minizip (unzip.c) looks for an end record in the last 65,535 bytes
_TEXT = ("utf-8", "surrogateescape")


class _Parts:
    def __init__(self, model: Model) -> None:
        self.model = model
        for name, tables in model.reachable.tables.items():
            if what := _unknown_in(model.schema, tables):
                message = f"a table of type {name} has a {what} that the {model.format} schema does not know"
                hint = "the file was written with a newer schema; a digest would omit the unknown data"
                raise ModelFormatError(message, hint=hint)
        self.charge = model.wire.budget.tally("programs, large custom options and files of the archive")
        self.digests = Digests(model.wire, model.schema, _LEFT_OUT, self.instead, _UNLESS_EMPTY)
        self.values: dict[tuple[int, int, int], bytes] = {}
        self.has_data = model.buffers.tables.has("data")
        self.options: dict[bytes, bytes] = {}  # -> the options without the position of a compiled program
        self.programs: dict[int, list[bytes]] = {}
        self.large: dict[int, list[bytes | memoryview]] = {}
        memory, options = model.wire.memory, model.operator_columns.tables.vectors("custom_options")
        for data in external_data(model):
            places = zip(data.rows.tolist(), data.offsets.tolist(), data.sizes.tolist(), strict=True)
            for row, offset, size in places if data.kind != "Buffer" else ():
                if offset + size > len(memory):
                    raise ModelFormatError(f"data of operator {row} lies outside the file", offset=offset)
                if data.kind == "bytecode":
                    self.charge(size)
                    raw, position = options.row(row).tobytes(), offset.to_bytes(8, "little")
                    at = raw.find(position) if raw.count(position) == 1 else -1
                    self.options[raw] = raw if at < 0 else raw.replace(position, bytes(8))
                    self.programs[row] = [digest((at % 2**64).to_bytes(8, "little"), memory[offset : offset + size])]
                else:
                    # Empty options differ from absent ones, as they do in LiteRT.
                    self.large[row] = [memory[offset : offset + size]] if size else [b"", b""]

    def instead(self, table: str, item: Field, value: bytes) -> bytes | None:
        """Return a substitute for custom options that contain a position in the file."""
        return self.options.get(value) if (table, item.name) == ("Operator", "custom_options") else None

    def all(self) -> Iterator[tuple[str, bytes]]:
        """Yield each part with its digest."""
        model = self.model
        named = model.root.vectors("metadata_buffer").row(0).tolist()
        tables = model.root.children("operator_codes", model.schema)[0]
        codes = [self.digests.table("OperatorCode", at) for at in tables.at.tolist()]
        used = {codes[code] for code in model.operator_columns.code_indices.tolist() if code < len(codes)}
        unused = sorted(set(codes) - used)  # a runtime may refuse these too
        yield "model", digest(self.digests.table("Model", int(model.root.at[0])), *map(self.entry, named), *unused)
        for row, at in enumerate(model.subgraph_tables.at.tolist()):
            yield f"subgraphs[{row}]", self.digests.table("SubGraph", at)
        tensors, operators = model.tensor_columns, model.operator_columns
        for row, (at, buffer) in enumerate(zip(tensors.tables.at.tolist(), tensors.buffers.tolist(), strict=True)):
            place = place_of("tensors", tensors.splits, row)
            yield place, digest(self.digests.table("Tensor", at), self.value(buffer), *self.unread(buffer))
        for row, (at, code) in enumerate(
            zip(operators.tables.at.tolist(), operators.code_indices.tolist(), strict=True)
        ):
            place = place_of("operators", operators.splits, row)
            if code >= len(codes):
                raise ModelFormatError(f"operator code {code} does not exist", location=place)
            large, program = self.large.get(row, [b""]), self.programs.get(row, [])
            self.charge(sum(map(len, large)))
            yield place, digest(self.digests.table("Operator", at), codes[code], *large, *program)
        for row, at in enumerate(model.root.children("signature_defs", model.schema)[0].at.tolist()):
            yield f"signatures[{row}]", self.digests.table("SignatureDef", at)
        for label, entry in metadata_labels(model):
            yield f"metadata[{label}]", self.entry(entry.buffer)
        memory, files = model.wire.memory, list(archive_files(model.wire.memory))
        end = end_place(memory)
        if not files and end is not None:
            raise ModelFormatError("the ZIP archive appended to the model is empty or cannot be read")
        if end is not None and len(memory) - end > _MOST_AFTER_END:
            raise ModelFormatError("the ZIP archive ends too far from the end of the file; minizip does not find it")
        for label, (file, record) in zip(_numbered(file.name for file, _ in files), files, strict=True):
            if file.reason not in ("", PACKED) or file.entry[1]:
                reason = file.reason or "the archive's offsets are not relative to the start of the file"
                raise ModelFormatError(reason, location=f"files[{label}]")
            self.charge(file.end - file.head)
            head = memory[file.head : file.start]
            kept = record[:12] + record[16:42] + record[46:]  # without its time and its position
            yield f"files[{label}]", digest(kept, bytes(head[:10]) + bytes(head[14:]), memory[file.start : file.end])

    def value(self, buffer: int) -> bytes:
        """Return the digest of a buffer's data. An empty vector differs from an absent one, as it does in LiteRT."""
        buffers = self.model.buffers
        if not 0 <= buffer < len(buffers):
            return digest()
        has_inside = bool(self.has_data[buffer]) and bool(buffers.external[buffer] or not buffers.data.count[buffer])
        place = *buffers.place(buffer), int(buffers.data.start[buffer]) if has_inside else -1
        if place not in self.values:
            is_empty = bool(buffers.external[buffer]) and not buffers.sizes[buffer]  # LiteRT refuses these
            inside = [buffers.data.row(buffer).tobytes()] if has_inside else [b""] * is_empty
            self.values[place] = digest(buffers[buffer].data, *inside)
        return self.values[place]

    def entry(self, buffer: int) -> bytes:
        """Return the digest of metadata; the readers of TFLite and MediaPipe ignore data outside the flatbuffer."""
        is_inside = 0 <= buffer < len(self.model.buffers) and not self.model.buffers.external[buffer]
        return self.value(buffer) if is_inside else digest(self.value(buffer), b"", b"")

    def unread(self, buffer: int) -> list[bytes]:
        """Return a mark for data in buffer 0, since a runtime treats a tensor with buffer 0 as one without data."""
        return [b"0"] if buffer == 0 and self.value(0) not in (digest(), digest(b"")) else []


def _unknown_in(schema: Schema, tables: Tables) -> str:
    """Return "field" for a field outside the schema, "member of" a union field for an unknown member, or ""."""
    found = ["field"] if unknown_slots(tables).any() else []
    for item in (item for item in tables.type.fields if item.kind == "union"):
        codes = np.unique(tables.union_codes(item)[tables.has(item.name)]).tolist()
        found += [f"member of {item.name}" for code in codes if code not in schema.unions[str(item.target)]]
    return found[0] if found else ""


def metadata_labels(model: Model) -> Iterator[tuple[str, Metadata]]:
    """Yield the metadata entries, each with a unique name: the second entry called `note` is `note#2`.

    A `#` in a name is doubled. An entry without a name is `#absent`.
    """
    named = model.root.children("metadata", model.schema)[0].has("name").tolist()
    names = (entry.name if has else None for entry, has in zip(model.metadata, named, strict=True))
    yield from zip(_numbered(names), model.metadata, strict=True)


def _numbered(names: Iterable[str | None]) -> Iterator[str]:
    met: Counter[str | None] = Counter()
    for name in names:
        met[name] += 1
        label = "#absent" if name is None else name.replace("#", "##")
        yield f"{label}#{met[name]}" if met[name] > 1 else label


# --- a statement that two models are identical except for parts ------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartChange(Attributes):
    """The path of a part that changed, and its digests; a digest is None if the model lacks the part."""

    part: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Attestation(Attributes):
    """A statement that two models are equal except for `changes`, with digests and the number of equal parts."""

    format: str
    before: str
    after: str
    equal_parts: int
    changes: tuple[PartChange, ...]


def attest(before: Model, after: Model) -> Attestation:
    """Return a statement that two models are identical except for the parts it names.

    Raises UsageError if the formats differ, and the same errors as `digests`.

    >>> with ct.open("in.circle") as old, ct.open("out.circle") as new:
    ...     [change.part for change in ct.attest(old, new).changes]
    ['metadata[ONE_op_table]', 'metadata[ONE_source_table]']
    """
    if before.format != after.format:
        raise UsageError(f"one model is {before.format}, the other {after.format}", hint="`diff` compares them")
    old, new = content_digests(before), content_digests(after)
    pairs = [(part, old.parts.get(part), new.parts.get(part)) for part in sorted({*old.parts, *new.parts})]
    changes = tuple(PartChange(*pair) for pair in pairs if pair[1] != pair[2])
    return Attestation(old.format, old.digest, new.digest, len(pairs) - len(changes), changes)
