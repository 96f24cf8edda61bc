"""Helpers of an edit: check models, indices and names, change options and tensors, open tables with positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.errors import EditError, ModelFormatError, UsageError
from circletools.flatbuf.columns import Wire
from circletools.flatbuf.overlay import Overlay, find_base
from circletools.flatbuf.schema import Schema
from circletools.flatbuf.tables import FieldValue, NewTable, References
from circletools.flatbuf.verify import walk
from circletools.model.arrays import DTYPES
from circletools.model.external import external_data
from circletools.model.model import Model
from circletools.model.options import OPTION_FIELDS, enum_of_field
from circletools.model.rows import Subgraph
from circletools.model.sizes import element_count
from circletools.model.verify import check_model, is_dangling
from circletools.wording import did_you_mean, numbered, suggestion

PLACEHOLDER_CODE = 127
"""The value of deprecated_builtin_code (a byte) for every operator code from 127 on."""


def check_index(what: str, index: int, count: int) -> None:
    """Raise UsageError for an index outside 0 to `count` - 1."""
    if not 0 <= index < count:
        raise UsageError(f"{what} {index} does not exist; the count is {count} (indices start at 0)")


def check_tensors(place: str, tensors: Iterable[int], lowest: int, count: int) -> None:
    """Raise UsageError for an index outside `lowest` to `count` - 1."""
    for tensor in (one for one in tensors if not lowest <= one < count):
        message = f"tensor {tensor} does not exist; the count is {count} (indices start at 0)"
        raise UsageError(message, location=place)


def has_empty_data(model: Model, buffer: int) -> bool:
    """Return whether a buffer has a data vector without elements."""
    has_data = model.buffers.tables.take(slice(buffer, buffer + 1)).has("data")
    return bool(has_data.any() and not model.buffers.data.count[buffer])


def member_number(members: Mapping[int, str], name: str, what: str) -> int:
    """Return the value of an enum member. Raises EditError if the format lacks the member."""
    for value, known in members.items():
        if known == name:
            return value
    few = f"write {' or '.join(map(repr, members.values()))}" if len(members) < 4 else ""
    raise EditError(f"this format has no {what} {name!r}", hint=few or did_you_mean(name, members.values()))


def _operator(overlay: Overlay, operators: References, index: int) -> NewTable:
    check_index("operator", index, len(operators))
    return overlay.own(operators, "Operator", index)


def change_operands(overlay: Overlay, operators: References, index: int, tensors: Sequence[int]) -> None:
    """Set the inputs of an operator. Raises UsageError if the operator does not exist."""
    _operator(overlay, operators, index).set("inputs", np.array(tensors, np.int32))


def change_option(overlay: Overlay, operators: References, index: int, name: str, value: FieldValue) -> None:
    """Set a field in the options of an operator. Raises UsageError if the options lack the field."""
    operator = _operator(overlay, operators, index)
    for field in OPTION_FIELDS:
        item = operator.type.by_name.get(field)
        if item is not None and operator[field] is not None:
            code = operator.fields[item.type_slot]
            assert isinstance(code, bytes)
            member = overlay.schema.member(operator.type, item, int.from_bytes(code, "little"))
            table = overlay.below(operator, field, member)
            if table is not None:
                known = table.type.by_name
                if name not in known:
                    raise UsageError(f"{member} has no option {name!r}", hint=suggestion(name, known))
                if isinstance(value, str) and known[name].kind == "scalar":
                    members = overlay.schema.enums.get(enum_of_field(member, name))
                    if members is None:
                        raise UsageError(f"{member}.{name} is a number, not {value!r}", hint="write, for example, 2")
                    value = member_number(members, value, name)
                table.set(name, value)
                operator.set(field, table)
                return
    raise UsageError(f"operator {index} has no options")


def options_member(schema: Schema, member: str, fields: Iterable[str]) -> tuple[str, int]:
    """Return the operator's union field for an options table, and the table's union code.

    Raises UsageError if the format does not have the table or a field.
    """
    fields_of = dict(zip(("BuiltinOptions", "BuiltinOptions2"), OPTION_FIELDS, strict=True))
    union = next((name for name in fields_of if member in schema.unions[name].values()), None)
    if union is None:
        tables = (one for name in fields_of for one in schema.unions[name].values())
        raise UsageError(f"this format has no options table {member}", hint=did_you_mean(member, tables))
    unknown = next((name for name in fields if name not in schema.tables[member].by_name), None)
    if unknown is not None:
        raise UsageError(f"{member} has no field {unknown}", hint=suggestion(unknown, schema.tables[member].by_name))
    return fields_of[union], member_number(schema.unions[union], member, "options table")


def number(table: NewTable, name: str) -> int:
    """Return a numeric field of a new table, 0 if absent."""
    value = table[name] or b""
    assert isinstance(value, bytes)
    return int.from_bytes(value, "little", signed=True)


def original_tensor(original: Model, overlay: Overlay, subgraph: int, index: int) -> NewTable | None:
    """Return the table of a tensor in the original file, or None if the tensor is new."""
    columns = original.tensor_columns
    if subgraph >= len(columns.splits) - 1 or index >= len(columns.rows_of(subgraph)):
        return None
    return overlay.copy("Tensor", int(columns.tables.at[columns.rows_of(subgraph)[index]]) + overlay.base)


def resize(
    table: NewTable, before: NewTable | None, shape: Sequence[int], shape_signature: Sequence[int] | None
) -> None:
    """Set the shape of a tensor, and its shape signature, if any.

    `before` is the tensor in the original file; it decides whether an empty vector is written or left out.
    """
    shape, shape_signature = list(shape), None if shape_signature is None else list(shape_signature)
    table.set("shape", None if before is not None and not shape and before["shape"] is None else shape)
    kept = bool(shape_signature) or (before is not None and before["shape_signature"] is not None)
    table.set("shape_signature", shape_signature if kept else None)


def change_quantized_dimension(overlay: Overlay, table: NewTable, axis: int) -> None:
    """Set the quantized dimension of a tensor. Raises UsageError if the tensor is not quantized."""
    quantization = overlay.below(table, "quantization", "QuantizationParameters")
    if quantization is None:
        raise UsageError("the tensor is not quantized")
    quantization.set("quantized_dimension", axis or None)
    table.set("quantization", quantization)


def constant_bytes(overlay: Overlay, table: NewTable, data: bytes | NDArray[Any]) -> bytes:
    """Return the bytes of a tensor's new data, as stored in a buffer.

    Raises UsageError if the array has another type or shape, and EditError if the tensor's data is in another file.
    """
    if "external_buffer" in table.type.by_name and number(table, "external_buffer"):
        raise EditError("the values are in another file (external_buffer)", hint="change that file")
    if isinstance(data, bytes):
        return data
    kind = overlay.schema.enums["TensorType"].get(number(table, "type"), "")
    if data.dtype.name.upper() != kind:
        hint = f"write array.astype({kind.lower()!r})" if kind in DTYPES else "give bytes, as the file stores them"
        if data.dtype.kind == "f" and np.dtype(DTYPES.get(kind, "f4")).kind in "iu":
            limits = np.iinfo(DTYPES[kind])
            hint = f"write array.round().clip({limits.min}, {limits.max}).astype({kind.lower()!r}); for real values, "
            hint += "first array = array / scale + zero_point of tensor.quantization, along its axis"
        raise UsageError(f"the tensor is {kind}, not {data.dtype.name.upper()}", hint=hint)
    if list(data.shape) != (shape := np.frombuffer(overlay.text(table, "shape"), "<i4").tolist()):
        message = f"the tensor has the shape {shape}, the array {[*data.shape]}"
        ways = "write array.reshape(tensor.shape)", f"give an array like numpy.zeros({shape}, {kind.lower()!r})"
        raise UsageError(message, hint=ways[data.size != element_count(shape)])
    return data.astype(data.dtype.newbyteorder("<")).tobytes()


def check_constant(graph: Subgraph, tensor: int, inputs: Sequence[int]) -> None:
    """Raise UsageError for an input of a subgraph, or a tensor that an operator computes."""
    title, producer = f"tensor {tensor} ({graph.tensors[tensor].name!r})", graph.producer_of(tensor)
    if tensor in inputs:
        rest = [one for one in inputs if one != tensor]
        hint = f"the caller sets its value; first write edit.set_inputs({graph.index}, {rest})"
        raise UsageError(f"{title} is an input of the subgraph, not a constant", hint=hint)
    if producer is not None:
        known = [one for one in map(int, producer.inputs) if one >= 0 and graph.tensors[one].is_constant]
        hint = f"set the constants that this operator reads: {numbered(known, 'tensor') or 'none'}"
        raise UsageError(f"{title} is computed by operator {producer.index}, not a constant", hint=hint)


def open_file_offsets(model: Model, overlay: Overlay, root: NewTable, put_back: Iterable[int]) -> None:
    """Open for changes each table that contains a file position, since the file is about to move.

    `put_back` holds the buffers of the original file that the model lacks but the edit restored.
    """
    splits = model.operator_columns.splits
    buffers = set(put_back)
    operators: list[int] = []
    for data in external_data(model):
        (buffers.update if data.kind == "Buffer" else operators.extend)(data.rows.tolist())
    for row in sorted(buffers):
        references = overlay.references(root, "buffers")
        if row < len(references):  # an earlier edit may have removed it
            overlay.element(references, "Buffer", row)
    for row in operators:
        index = int(np.searchsorted(splits, row, "right")) - 1
        subgraph = overlay.element(overlay.references(root, "subgraphs"), "SubGraph", index)
        overlay.element(overlay.references(subgraph, "operators"), "Operator", row - int(splits[index]))


def check_editable(model: Model) -> None:
    """Raise ModelFormatError for a broken structure, and EditError for an index or a file position out of range.

    New entries could make such an index valid, and moving the file could make such a position valid.
    """
    broken = next(filter(is_dangling, check_model(model)), None)
    if broken is not None:
        message = f"{broken.message}; new objects could make this reference valid"
        hint = "`circletool check --structure-only` lists all such places"
        raise EditError(message, location=broken.location, hint=hint)


def original_start(model: Model) -> int:
    """Return the length of the prefix that edits wrote; 0 if there is none or the original file depends on it."""
    base = find_base(model.wire, model.schema)
    if base:
        try:
            walk(Wire(model.wire.memory[base:]), model.schema)
        except ModelFormatError:
            return 0
        for tables in model.reachable.tables.values():
            if (tables.vtable[tables.at >= base] < base).any():
                return 0
        for data in external_data(model):
            tables = model.buffers.tables if data.kind == "Buffer" else model.operator_columns.tables
            if (tables.at[data.rows] >= base).any() or (data.offsets < base).any():
                return 0  # an edit would have written such a table into the prefix
    return base
