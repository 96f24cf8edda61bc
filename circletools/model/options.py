"""The options of operators, as named values and as numbers, and the quantization of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Field, Schema, load_roles, load_schema
from circletools.model.views import Quantization, text
from circletools.wording import EnumName, Named

OPTION_ENUMS = {
    "fused_activation_function": "ActivationFunctionType",
    "padding": "Padding",
    "weights_format": "FullyConnectedOptionsWeightsFormat",
    "kernel_type": "LSTMKernelType",
}
"""The enum types of option fields; a field whose name also belongs to another enum in the format is not listed."""


def enum_of(path: str) -> str:
    """Return the enum type of a field, such as `subgraphs[0].tensors[1].type`; empty if it has none."""
    owner, _, field = path.rpartition(".")
    if field == "type" and "tensors[" not in owner.rpartition(".")[2]:  # options have other enums of this name
        return ""
    if any(name == field and role.kind == "tensor_type" for (_, name), role in load_roles().items()):
        return "TensorType"
    return OPTION_ENUMS.get(field, "")


def enum_of_field(table: str, field: str) -> str:
    """Return the enum type of an options table's field; empty if none is known."""
    role = load_roles().get((table, field))
    return "TensorType" if role is not None and role.kind == "tensor_type" else OPTION_ENUMS.get(field, "")


_NOUNS = {"BuiltinOperator": "operator name", "TensorType": "tensor type"}


@cache
def enum_names(schema: Schema, enum: str) -> Mapping[int, str]:
    """Return the names in an enum by number; comparing a name with an unknown word causes a warning."""
    noun, known = _NOUNS.get(enum, enum), partial(_members, schema, enum)
    return {number: EnumName.of(name, noun, known) for number, name in schema.enums.get(enum, {}).items()}


@cache
def _members(schema: Schema, enum: str, every: bool) -> Mapping[object, str]:
    schemas = [schema, load_schema("tflite"), load_schema("circle")] if every else [schema]
    members: dict[object, str] = {}
    for one in schemas:
        for number, name in one.enums[enum].items():
            members[number] = members[name] = name
    return members


OPTION_FIELDS = ("builtin_options", "builtin_options_2")


Members = list[tuple[NDArray[np.int64], Tables]]
"""The options tables of operators, type by type, with the operators' rows."""


def members_of(operators: Tables, schema: Schema) -> Members:
    """Return the options tables of operators."""
    return [pair for field in OPTION_FIELDS for pair in operators.members(field, schema)]


def options_of(members: Members, count: int, name: str) -> NDArray[np.float64]:
    """Return an option of each of `count` operators; 0 if its options table has no field with this name."""
    values = np.zeros(count)
    for rows, chosen in members:
        option = chosen.type.by_name.get(name)
        if option is not None and option.kind in {"scalar", "string"}:
            is_text = option.kind == "string"
            values[rows] = [*map(text_number, chosen.strings(name))] if is_text else chosen.scalars(name)
    return values


def named_options(operators: Tables, schema: Schema) -> list[dict[str, Any]]:
    """Return the options of each operator by name; see `named_fields`."""
    found: list[dict[str, Any]] = [{} for _ in range(len(operators))]
    for field in OPTION_FIELDS:
        for rows, tables in operators.members(field, schema):
            for row, values in zip(rows.tolist(), named_fields(tables, schema), strict=True):
                found[row] |= values
    return [*map(Options, found)]


class Options(Named):
    """The options of an operator, by name."""

    change = (
        "write with ct.edit(model) as edit: "
        "edit.set_option(operator.subgraph, operator.index, name, value); edit.save(target)"
    )


def named_fields(tables: Tables, schema: Schema) -> list[dict[str, Any]]:
    """Return the plain fields of each table by name: numbers, bools, strings, lists of numbers, and enum members."""
    columns = {field.name: _column(tables, field, schema) for field in tables.type.fields if field.target is None}
    return [{name: column[row] for name, column in columns.items()} for row in range(len(tables))]


def _column(tables: Tables, field: Field, schema: Schema) -> list[Any]:
    if field.kind == "string":
        return [text(raw) for raw in tables.strings(field.name)]
    if field.kind == "vector":
        vectors = tables.vectors(field.name)
        return [vectors.row(row).tolist() for row in range(len(tables))]
    values = tables.scalars(field.name)
    if values.dtype == np.uint8:  # no table of options or details has unsigned 8-bit or 16-bit numbers
        return list((values != 0).tolist())
    members = enum_names(schema, enum_of_field(tables.type.name, field.name))
    return [members.get(value, value) for value in values.tolist()]


def text_number(text: bytes) -> float:
    """Return a number that represents an option's string; it is never 0."""
    return float(int.from_bytes(blake2b(text, digest_size=6).digest(), "big")) if text else 0.0


def quantizations(tensors: Tables, schema: Schema) -> dict[int, Quantization]:
    """Return the quantization of each quantized tensor, by its row in `tensors`."""
    tables, owners = tensors.child("quantization", schema)
    details: dict[int, tuple[str, dict[str, Any]]] = {}
    for rows, some in tables.members("details", schema):
        values = [(some.type.name, fields) for fields in named_fields(some, schema)]
        details |= dict(zip(rows.tolist(), values, strict=True))
    scales, zeros, lowest, highest = (tables.vectors(name) for name in ("scale", "zero_point", "min", "max"))
    axes = tables.scalars("quantized_dimension").tolist()
    found = {}
    for row, owner in enumerate(owners.tolist()):
        quantization = Quantization(
            tuple(scales.row(row).tolist()),
            tuple(zeros.row(row).tolist()),
            axes[row],
            tuple(lowest.row(row).tolist()),
            tuple(highest.row(row).tolist()),
            *details.get(row, ("", {})),
        )
        if quantization:  # converters also write empty tables
            found[owner] = quantization
    return found
