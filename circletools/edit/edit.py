"""The editing interface: changes are collected, then written as a small prefix in front of the old file.

Existing indices never change: tensors, operators, operator codes and buffers are only appended. `index_map` lists the
added operators, each with those whose work it continues, so that tables that refer to operators can be updated.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.calls import explained
from circletools.edit import members
from circletools.edit.archive import has_file, move_archive, with_files
from circletools.edit.compact import compact, tail_start
from circletools.edit.entries import Entries, PlannedOffsets
from circletools.edit.results import AddedOperator, IndexMap
from circletools.edit.signatures import Direction, Ends, Signatures
from circletools.errors import UsageError
from circletools.findings import Finding
from circletools.flatbuf.overlay import Overlay, write_prefix
from circletools.flatbuf.tables import FieldValue, NewTable, References
from circletools.model.external import FILE_OFFSETS
from circletools.model.model import Model, open_model
from circletools.model.verify import OPTIONAL
from circletools.model.views import OperatorCode
from circletools.storage.files import Part, Progress, check_target, view, write
from circletools.wording import Attributes


@explained
class ModelEdit(Attributes):
    """An edit of one model; `save` writes all changes so far, and unsaved ones cause a CallWarning.

    Raises ModelFormatError if the file's structure is broken, and EditError if an index in it is out of range, since
    appended entries could make that index valid.
    """

    def __init__(self, model: Model) -> None:
        """Check the model and open its root table."""
        self.model = model
        members.check_editable(model)
        self._base = members.original_start(model)
        root = int(model.root.at[0])
        self._overlay = Overlay(model.wire, model.schema, root, self._base, FILE_OFFSETS, lambda: model.reachable)
        self._original = open_model(model.wire.memory[self._base :]) if self._base else model
        self._entries = Entries(model, self._overlay, self._original)
        self._codes = list(model.operator_codes)
        self._code_at = {(one.code, one.version, one.custom_code): one.index for one in reversed(self._codes)}
        self._new_tensors: Counter[int] = Counter()  # subgraph -> number of added tensors
        self._offsets = PlannedOffsets(model, self._entries)
        self._added: list[AddedOperator] = []
        self.renamed: dict[tuple[int, int], bytes] = {}  # (subgraph, tensor) -> the new name
        self.new_names: dict[tuple[int, int], bytes] = {}  # the same, including appended tensors
        self._ends: dict[tuple[int, Direction], list[int]] = {}  # the inputs and outputs that were set
        self._files: dict[str, bytes] = {}
        self._end: int | None = None  # the end of the part of the file that is kept
        self._followers: list[Callable[[ModelEdit], None]] = []

    def __enter__(self) -> ModelEdit:
        """Return the edit. Leaving the block does not write anything; only `save` does."""
        return self

    def __exit__(self, kind: object, *_error: object) -> None:
        """Warn about changes that were not written, unless there was an error."""
        self._overlay.abandon(is_meant=kind is not None)

    @property
    def index_map(self) -> IndexMap:
        """The operators added so far."""
        return IndexMap(tuple(self._added))

    def before_save(self, follower: Callable[[ModelEdit], None]) -> None:
        """Register `follower(edit)`, which is called before writing and can update tables by `index_map`."""
        self._followers.append(follower)

    def metadata_value(self, name: str) -> bytes | memoryview | None:
        """Return the value of a metadata entry, including changes by this edit, or None."""
        return self._entries.value(name)

    def set_metadata(self, name: str, value: bytes) -> None:
        """Set the value of the metadata entry `name`; a missing entry is appended.

        Other entries with the same name are removed. Raises UsageError for a name that cannot be encoded.
        """
        if not (isinstance(name, str) and isinstance(value, bytes)):
            raise TypeError("the name of an entry must be a str, and its value bytes")
        self._entries.put(name, value)

    def remove_metadata(self, name: str) -> int:
        """Remove all entries with this name, and data that only they use; return the number of entries removed."""
        return self._entries.remove(name)

    @property
    def metadata_names(self) -> list[str]:
        """The names of the metadata entries, including changes by this edit."""
        return [entry.name for entry in self._entries.now]

    def rename_metadata(self, index: int, name: str) -> None:
        """Rename a metadata entry, given by its index in `metadata_names`."""
        members.check_index("metadata entry", index, len(self._entries.now))
        self._entries.rename(index, name)

    def associate(self, name: str, data: bytes) -> bool:
        """Add or replace a file in the ZIP archive appended to the model; return whether this changes the archive."""
        if changed := not has_file(self.model, name, data):
            self._files[name] = data
        return changed

    def drop_associated(self) -> None:
        """Remove the ZIP archive and any other data appended to the model."""
        self._end = tail_start(self.model)

    def add_buffer(self, data: bytes) -> int:
        """Append a buffer and return its index. Buffers freed by earlier edits are reused first."""
        return self._entries.pool.reserve(bytes(memoryview(data)))

    def drop_empty_data(self, buffer: int) -> bool:
        """Remove the data vector of a buffer if it exists but is empty; return whether it was removed."""
        if is_empty := members.has_empty_data(self.model, buffer):
            self._entries.pool.replace(buffer, None)
        return is_empty

    def _subgraph(self, index: int) -> NewTable:
        members.check_index("subgraph", index, len(self.model.subgraphs))
        return self._overlay.element(self._overlay.references(self._overlay.root, "subgraphs"), "SubGraph", index)

    def _list(self, subgraph: int, field: str) -> References:
        return self._overlay.references(self._subgraph(subgraph), field)

    def add_tensor(
        self,
        subgraph: int,
        name: str,
        *,
        type: str,  # noqa: A002 - the schema's word
        shape: Sequence[int],
        shape_signature: Sequence[int] | None = None,
        buffer: int = 0,
    ) -> int:
        """Append a tensor and return its index. `type` is the name of a TensorType; buffer 0 means no data."""
        if buffer:
            self._entries.pool.name(buffer)
        kind = members.member_number(self.model.schema.enums["TensorType"], type, "tensor type")
        fields = {"shape": shape, "shape_signature": shape_signature, "type": kind, "buffer": buffer, "name": name}
        return self._append_tensor(subgraph, self._table("Tensor", **fields, has_rank=True))

    def add_tensor_like(self, subgraph: int, like: int, name: str) -> int:
        """Append a tensor with the type, shape and quantization of `like`, but without data; return its index.

        The shape and quantization are shared with the original, not duplicated.
        """
        self._check_tensors(subgraph, [like])
        known = self._list(subgraph, "tensors")[like]
        source = self._overlay.open("Tensor", known) if isinstance(known, int) else known
        table = NewTable(source.type)
        for field in ("shape", "shape_signature", "type", "quantization", "has_rank"):
            table.share(field, source)
        table.set("name", name)
        return self._append_tensor(subgraph, table)

    def _table(self, type_name: str, /, **fields: FieldValue) -> NewTable:
        """Return a new table with the given fields, except those that are None."""
        table = NewTable(self.model.schema.tables[type_name])
        for name, value in fields.items():
            table.set(name, value)
        return table

    def _append_tensor(self, subgraph: int, table: NewTable) -> int:
        self._new_tensors[subgraph] += 1
        (tensors := self._list(subgraph, "tensors")).append(table)
        self.new_names[subgraph, len(tensors) - 1] = self._overlay.text(table, "name")
        return len(tensors) - 1

    def add_operator_code(self, name: str, version: int = 1, custom_code: str = "") -> int:
        """Return the index of this operator code, which is appended if the model does not have it."""
        code = members.member_number(self.model.schema.enums["BuiltinOperator"], name, "operator code")
        index = self._code_at.setdefault((code, version, custom_code), len(self._codes))
        if index < len(self._codes):
            return index
        table = self._table("OperatorCode", builtin_code=code, version=version, custom_code=custom_code or None)
        table.set("deprecated_builtin_code", min(code, members.PLACEHOLDER_CODE))
        self._overlay.references(self._overlay.root, "operator_codes").append(table)
        self._codes.append(OperatorCode(index, code, custom_code, version, name))
        return index

    @property
    def operator_codes(self) -> tuple[OperatorCode, ...]:
        """The operator codes, including changes by this edit."""
        return tuple(self._codes)

    def set_operator_version(self, code: int, version: int) -> None:
        """Set the version of an operator code, given by index. Raises UsageError if the code does not exist."""
        members.check_index("operator code", code, len(self._codes))
        codes = self._overlay.references(self._overlay.root, "operator_codes")
        self._overlay.own(codes, "OperatorCode", code).set("version", version)
        self._codes[code] = replace(self._codes[code], version=version)

    def add_operator(
        self,
        subgraph: int,
        code: int,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        options: tuple[str, Mapping[str, float]] | None = None,
        inherits: Sequence[int] = (),
    ) -> int:
        """Append an operator and return its index.

        `options` holds an options table's name and fields. The operator gets the origins and devices of `inherits`.
        """
        members.check_index("operator code", code, len(self._codes))
        self._check_tensors(subgraph, (*inputs, *outputs), OPTIONAL)
        self._offsets.append(subgraph, (*inputs, *outputs))
        count = len(self._list(subgraph, "operators"))
        for parent in inherits:
            members.check_index("operator", parent, count)
        ends = {"inputs": np.array(inputs, np.int32), "outputs": np.array(outputs, np.int32)}
        table = self._table("Operator", opcode_index=code, **ends)
        if options is not None:
            member, fields = options
            field, number_of_member = members.options_member(self.model.schema, member, fields)
            table.set(f"{field}_type", number_of_member)
            table.set(field, self._table(member, **fields))
        self._list(subgraph, "operators").append(table)
        names = tuple(self._tensor_name(subgraph, tensor) for tensor in outputs)
        self._added.append(AddedOperator(subgraph, count, self._codes[code].name, names, tuple(inherits)))
        return count

    def set_option(self, subgraph: int, operator: int, name: str, value: FieldValue) -> None:
        """Set an option of an operator. Raises UsageError if the operator or option does not exist."""
        members.change_option(self._overlay, self._list(subgraph, "operators"), operator, name, value)

    def set_operands(self, subgraph: int, operator: int, tensors: Sequence[int]) -> None:
        """Set the inputs of an operator. Raises UsageError if the operator or a tensor does not exist."""
        self._check_tensors(subgraph, tensors, OPTIONAL)
        members.change_operands(self._overlay, self._list(subgraph, "operators"), operator, tensors)

    def _check_tensors(self, subgraph: int, tensors: Sequence[int], lowest: int = 0) -> None:
        members.check_index("subgraph", subgraph, len(self.model.subgraphs))
        count = len(self.model.subgraphs[subgraph].tensors) + self._new_tensors[subgraph]
        members.check_tensors(f"subgraphs[{subgraph}]", tensors, lowest, count)

    def _tensor_name(self, subgraph: int, index: int) -> bytes:
        if index == OPTIONAL:
            return b""
        tensor = self._list(subgraph, "tensors")[index]
        if isinstance(tensor, int):
            return self.model.tensor_columns.names[int(self.model.tensor_columns.splits[subgraph]) + index]
        return self._overlay.text(tensor, "name")

    def set_inputs(self, subgraph: int, tensors: Sequence[int]) -> None:
        """Set the inputs of a subgraph. Raises UsageError for a tensor that does not exist."""
        self._set_ends(subgraph, "inputs", tensors)

    def set_outputs(self, subgraph: int, tensors: Sequence[int]) -> None:
        """Set the outputs of a subgraph. Raises UsageError for a tensor that does not exist."""
        self._set_ends(subgraph, "outputs", tensors)

    def _set_ends(self, subgraph: int, side: Direction, tensors: Sequence[int]) -> None:
        self._check_tensors(subgraph, tensors)
        self._offsets.drop(subgraph, tensors, self.ends(subgraph, side))
        self._subgraph(subgraph).set(side, np.array(tensors, np.int32))
        self._ends[subgraph, side] = list(tensors)

    def ends(self, subgraph: int, side: Direction) -> list[int]:
        """Return the inputs or outputs of a subgraph, including changes by this edit."""
        return list(self._ends.get((subgraph, side), getattr(self.model.subgraphs[subgraph], side).tolist()))

    def rename_tensor(self, subgraph: int, tensor: int, name: str | None) -> None:
        """Rename a tensor; None removes its name. Raises UsageError for a missing tensor or an invalid name."""
        self._check_tensors(subgraph, [tensor])
        if name is not None and (not name or "\0" in name):
            raise UsageError(f"{name!r} is not a valid name", hint="a name has at least one character and no NUL")
        if self._tensor_name(subgraph, tensor) != (name or "").encode("utf-8", "surrogateescape"):
            self._tensor(subgraph, tensor).set("name", name)
            self.renamed[subgraph, tensor] = self.new_names[subgraph, tensor] = self._tensor_name(subgraph, tensor)

    def _tensor(self, subgraph: int, index: int) -> NewTable:
        self._check_tensors(subgraph, [index])
        return self._overlay.own(self._list(subgraph, "tensors"), "Tensor", index)

    def set_shape(
        self, subgraph: int, tensor: int, shape: Sequence[int], shape_signature: Sequence[int] | None = None
    ) -> None:
        """Set a tensor's shape and shape signature, not its data. Raises UsageError for a size beyond 32 bits."""
        members.resize(self._tensor(subgraph, tensor), self._before(subgraph, tensor), shape, shape_signature)
        self._offsets.drop(subgraph, [tensor])

    def set_quantized_dimension(self, subgraph: int, tensor: int, axis: int) -> None:
        """Set the quantized dimension of a tensor. Raises UsageError if it is not quantized."""
        members.change_quantized_dimension(self._overlay, self._tensor(subgraph, tensor), axis)

    def set_constant(self, subgraph: int, tensor: int, data: bytes | NDArray[Any]) -> None:
        """Set a tensor's data; empty `data` removes it. Tensors and metadata that shared the old data keep it.

        An array is written unchanged. Raises UsageError if the tensor does not exist or is computed, or the array has
        another type or shape, and EditError if the tensor's data is in another file.
        """
        table, before = self._tensor(subgraph, tensor), self._before(subgraph, tensor)
        raw = members.constant_bytes(self._overlay, table, data)
        if len(raw) and before is not None and not self.model.subgraphs[subgraph].has_data(tensor):
            members.check_constant(self.model.subgraphs[subgraph], tensor, self.ends(subgraph, "inputs"))
        buffer = None if before is None else members.number(before, "buffer")
        table.set("buffer", self._entries.pool.assign(members.number(table, "buffer"), raw, buffer) or None)
        if before is not None and members.number(table, "buffer") == buffer:
            table.share("buffer", before)

    def _before(self, subgraph: int, tensor: int) -> NewTable | None:
        return members.original_tensor(self._original, self._overlay, subgraph, tensor)

    @cached_property
    def signatures(self) -> Signatures:
        """The signatures, including changes by this edit."""
        return Signatures(self.model, self._overlay)

    def set_signature(self, key: str, inputs: Ends, outputs: Ends, subgraph: int = 0) -> None:
        """Write a signature, which gives names to tensors. A signature with the same key is replaced.

        Raises UsageError for a tensor that does not exist.
        """
        self._check_tensors(subgraph, [tensor for _, tensor in (*inputs, *outputs)])
        self.signatures.put(key, subgraph, inputs, outputs)

    def set_signature_entry(self, signature: int, direction: Direction, entry: int, tensor: int) -> None:
        """Change the tensor of an entry of a signature; the signature and the entry are given by index.

        Raises UsageError if the signature, entry or tensor does not exist.
        """
        members.check_index("signature", signature, len(self.signatures.now))
        self._check_tensors(self.signatures.now[signature].subgraph, [tensor])
        self.signatures.set_entry(signature, direction, entry, tensor=tensor)

    def parts(self) -> list[Part]:
        """Return the bytes of the result: the prefix, if one is needed, and the original file."""
        try:
            for follower in self._followers:
                follower(self)
            self._offsets.store(self._new_tensors)
            self._entries.store()
            root, prefix = self._overlay.settle(), b""
            if root is not None:
                members.open_file_offsets(self.model, self._overlay, root, self._entries.put_back)
                prefix = write_prefix(self._overlay, root, self.model.reachable.end)
            rest = move_archive(self.model, self._base, len(prefix) - self._base, self._end, self._files)
            return with_files([prefix, *rest] if prefix else rest, self._files)
        finally:
            self._overlay.unsaved = False

    def to_bytes(self) -> bytes:
        """Return the resulting file."""
        return b"".join(map(view, self.parts()))

    def save(
        self,
        target: str | os.PathLike[str],
        *,
        in_place: bool = False,
        erase: bool = False,
        progress: Progress | None = None,
    ) -> None:
        """Write the result to `target` (`-`: standard output), as a whole or not at all.

        With `erase`, the result is a minimal file, as `compact` writes it, without the values of removed metadata.

        Raises UsageError if the target is the file being read and `in_place` is not set, or if the model is closed;
        EditError if the target cannot be written, or an old value is not in the flatbuffer and cannot be erased; and
        InvalidInputError if the file has changed since it was opened.
        """
        self._overlay.unsaved = False
        self.check_target(target, in_place=in_place)
        if not erase:
            write(target, self.parts(), source=self.model.source, progress=progress)
            return
        self._entries.check_erasable()
        folder = None if os.fspath(target) == "-" else Path(target).absolute().parent
        with TemporaryDirectory(dir=folder, prefix=".circletools-") as scratch:
            write(whole := Path(scratch) / "whole", self.parts(), source=self.model.source)
            with open_model(whole) as model:
                compact(model, target, progress=progress)

    def remaining(self) -> tuple[Finding, ...]:
        """Return a note for each metadata entry whose old value stays in the file if it is saved without `erase`."""
        return self._entries.remaining(self._base)

    def check_target(self, target: str | os.PathLike[str], *, in_place: bool = False) -> None:
        """Raise the errors of `save` that can be detected without writing."""
        self.model.source.check_other(target, in_place=in_place)
        check_target(target)
