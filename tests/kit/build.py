"""The one builder of test models: tables by the names of the schema, and raw ones for what no schema has.

    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (1, 4))
    graph.ends([x], [graph.compute("TANH", [x], "y", (1, 4))])
    data = build.to_bytes("circle")

Only flatbuffers, NumPy and the schema are needed. Tables are written in the order of the published object API: what
a table refers to comes before it, by field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.schema import Field, Schema, TableType, load_schema

_PREPEND = {"i1": "Int8", "u1": "Uint8", "i2": "Int16", "u2": "Uint16", "i4": "Int32", "u4": "Uint32", "i8": "Int64"}
_PREPEND |= {"u8": "Uint64", "f4": "Float32", "f8": "Float64"}
_RAW = {"u8": "Uint8", "i8": "Int8", "u32": "Uint32", "i32": "Int32", "u64": "Uint64"}
_WITHOUT_OPTIONS = {"RESHAPE"}  # runtimes would take an empty new_shape for the shape


@cache
def schema_of(kind: str) -> Schema:
    """Return the schema of `tflite` or `circle`."""
    return load_schema("circle" if kind == "circle" else "tflite")


CODES = {name: value for value, name in schema_of("circle").enums["BuiltinOperator"].items()}
"""The operator codes of both formats; Circle has all of TFLite's."""
ENUMS = {"type": "TensorType", "fused_activation_function": "ActivationFunctionType", "padding": "Padding"}
"""By field: the enum whose names it may have for a value. The numbers are not the same in both formats."""


# --- raw tables ---------------------------------------------------------------------------------------------


class Raw:
    """A thin layer over `flatbuffers.Builder`, by slots: for hostile files, and for what no schema has."""

    def __init__(self) -> None:
        self.builder = flatbuffers.Builder(1024)
        self.builder.ForceDefaults(True)

    def string(self, value: bytes | str) -> int:
        """Write a string."""
        return int(self.builder.CreateString(value))

    def data(self, value: bytes) -> int:
        """Write a vector of bytes."""
        return int(self.builder.CreateByteVector(value))

    def ints(self, values: Sequence[int]) -> int:
        """Write a vector of i32."""
        return int(self.builder.CreateNumpyVector(np.array(values, np.int32)))

    def refs(self, offsets: Sequence[int]) -> int:
        """Write a vector of references; an offset may stand in it any number of times, also by the million."""
        builder, count = self.builder, len(offsets)
        builder.StartVector(4, count, 4)
        here = builder.Offset() + 4 * count - 4 * np.arange(count, dtype=np.int64)
        raw = (here - np.array(offsets, np.int64)).astype("<u4").tobytes()
        builder.head = builder.Head() - len(raw)
        builder.Bytes[builder.head : builder.head + len(raw)] = raw
        return int(builder.EndVector())

    def table(self, fields: Mapping[int, int | tuple[str, int]] | None = None) -> int:
        """Write a table: by slot the offset of an object, or a number with its type, as ("u32", 3)."""
        fields = fields or {}
        self.builder.StartObject(max(fields, default=0) + 1)
        for slot, value in fields.items():
            if isinstance(value, tuple):
                getattr(self.builder, f"Prepend{_RAW[value[0]]}Slot")(slot, value[1], 0)
            else:
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        return int(self.builder.EndObject())

    def finish(self, root: int, identifier: bytes = b"TFL3") -> bytes:
        """Return the file."""
        self.builder.Finish(root, identifier)
        return bytes(self.builder.Output())


# --- tables of the schema -----------------------------------------------------------------------------------


class Table:
    """A table in the making. Its attributes are its fields in the schema of either format, None unless set.

    The values are numbers, bytes or text, sequences of numbers, tables and lists of tables; of ENUMS also names. The
    member of a union is a table of that type. A table that stands in several places is written once.
    """

    def __init__(self, table_type: str, /, **fields: Any) -> None:
        self.__dict__.update(table_type=table_type, fields={})
        for name, value in fields.items():
            setattr(self, name, value)

    def __getattr__(self, name: str) -> Any:
        """Return a field, None when it is not set."""
        if name.startswith("_"):
            raise AttributeError(name)
        _check(self.table_type, name)
        return self.fields.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set a field."""
        _check(self.table_type, name)
        self.fields[name] = value


@cache
def _check(table_type: str, name: str) -> None:
    known = [schema_of(kind).tables.get(table_type) for kind in ("tflite", "circle")]
    if not any(name in found.by_name for found in known if found):
        raise AttributeError(f"{table_type} has no field {name}")


class Shared(NamedTuple):
    """A string or a vector of numbers that is written once, wherever it is used."""

    value: Any


class Packer(Raw):
    """Writes tables of the schema."""

    def __init__(self, schema: Schema, unknown: Mapping[str, tuple[int, bytes]] | None = None) -> None:
        """Start a file; `unknown` gives the tables of some types a string in a slot that the schema does not have."""
        super().__init__()
        self.builder.ForceDefaults(False)
        self.schema, self.unknown = schema, unknown or {}
        self._written: dict[int, int] = {}

    def write(self, table: Table) -> int:
        """Write a table and what it refers to; return its offset."""
        key = id(table)
        if key not in self._written:
            self._written[key] = self._table(self.schema.tables[table.table_type], table.fields)
        return self._written[key]

    def _table(self, known: TableType, fields: Mapping[str, Any]) -> int:
        values: dict[int, tuple[Field, Any]] = {}
        for field in known.fields:
            value: Any = fields.get(field.name)
            if value is None:
                continue
            if field.kind == "scalar" and isinstance(value, str):
                value = self.schema.enum_value(ENUMS[field.name], value)
            if field.kind == "union":
                code = _key_of(self.schema.unions[str(field.target)], value.table_type)
                values.setdefault(field.type_slot, (known.by_slot[field.type_slot], code))
            values[field.slot] = field, value if field.kind == "scalar" else self._reference(field, value)
        unknown = self.unknown.get(known.name)
        text = self.string(unknown[1]) if unknown else 0
        self.builder.StartObject(unknown[0] + 1 if unknown else known.slots)
        for slot, (field, value) in sorted(values.items()):
            if field.kind == "scalar":
                prepend = getattr(self.builder, f"Prepend{_PREPEND[field.dtype.str[1:]]}Slot")
                prepend(slot, value, field.default)
            else:
                self.builder.PrependUOffsetTRelativeSlot(slot, value, 0)
        if unknown:
            self.builder.PrependUOffsetTRelativeSlot(unknown[0], text, 0)
        return int(self.builder.EndObject())

    def _reference(self, field: Field, value: Any) -> int:
        if isinstance(value, Shared):
            if id(value) not in self._written:
                self._written[id(value)] = self._reference(field, value.value)
            return self._written[id(value)]
        if field.kind == "string":
            return self.string(value)
        if field.kind in ("table", "union"):
            return self.write(value)
        if field.target is not None:
            return self.refs([self.write(item) for item in value])
        numbers = np.frombuffer(value, np.uint8) if isinstance(value, bytes) else np.array(value, field.dtype)
        return int(self.builder.CreateNumpyVector(numbers))


def _key_of(members: Mapping[int, str], name: str) -> int:
    return next(code for code, member in members.items() if member == name)


@cache
def options_of(code: str) -> str | None:
    """Return the type of an operator's options, where it has the operator's name."""
    wanted = code.replace("_", "").lower() + "options"
    unions = [schema_of(kind).unions[name] for kind in ("tflite", "circle") for name in _UNIONS]
    found = (name for members in unions for name in members.values() if name.lower() == wanted)
    return None if code in _WITHOUT_OPTIONS else next(found, None)


_UNIONS = {"BuiltinOptions": "builtin_options", "BuiltinOptions2": "builtin_options_2"}


# --- models -------------------------------------------------------------------------------------------------


class Code(NamedTuple):
    """An operator code."""

    name: str
    version: int = 1
    custom: str | None = None


class Build:
    """A model in the making; `model` is its root table."""

    def __init__(self, description: str | None = None) -> None:
        self.model = Table("Model", description=description)
        self.model.operator_codes, self.model.subgraphs, self.model.buffers = [], [], [Table("Buffer")]
        self._codes: list[Code] = []

    def graph(self, name: str = "main") -> Graph:
        """Append a subgraph."""
        return Graph(self, name)

    def signature(
        self, key: str, inputs: Iterable[tuple[str, int]], outputs: Iterable[tuple[str, int]], subgraph: int = 0
    ) -> None:
        """Append a signature: names and tensors."""
        sides = ([Table("TensorMap", name=name, tensor_index=at) for name, at in side] for side in (inputs, outputs))
        entry = Table("SignatureDef", signature_key=key, subgraph_index=subgraph)
        entry.inputs, entry.outputs = sides
        self.model.signature_defs = [*(self.model.signature_defs or ()), entry]

    def code(self, code: str | Code) -> int:
        """Return the index of an operator code, appended if there is none like it."""
        wanted = Code(code) if isinstance(code, str) else code
        if wanted not in self._codes:
            number = CODES[wanted.name]
            table = Table("OperatorCode", builtin_code=number, version=wanted.version, custom_code=wanted.custom)
            table.deprecated_builtin_code = min(number, 127)
            self._codes.append(wanted)
            self.model.operator_codes.append(table)
        return self._codes.index(wanted)

    def buffer(self, data: bytes | None = None, **fields: Any) -> int:
        """Append a buffer; `fields` are those of the schema, such as offset and size."""
        self.model.buffers.append(Table("Buffer", data=data, **fields))
        return len(self.model.buffers) - 1

    def metadata(self, name: str | None, data: bytes) -> None:
        """Append a metadata entry with a buffer of its own."""
        entry = Table("Metadata", name=name, buffer=self.buffer(data))
        self.model.metadata = [*(self.model.metadata or ()), entry]

    def to_bytes(self, kind: str = "tflite") -> bytes:
        """Return the file in a format."""
        schema = schema_of(kind)
        packer = Packer(schema)
        if "version" not in self.model.fields:
            self.model.version = 3
        self.model.version = self.model.version if kind == "tflite" else 0
        return packer.finish(packer.write(self.model), schema.identifier)


class Graph:
    """A subgraph in the making; `table` is its table."""

    def __init__(self, build: Build, name: str | None) -> None:
        self.build, self.table = build, Table("SubGraph", name=name)
        self.table.tensors, self.table.operators, self.table.inputs, self.table.outputs = [], [], [], []
        self.index = len(build.model.subgraphs)
        build.model.subgraphs.append(self.table)

    def tensor(
        self,
        name: str | bytes | None,
        shape: Sequence[int] = (2, 2),
        type: str = "FLOAT32",  # noqa: A002 - the schema's word
        *,
        data: bytes | None = None,
        **fields: Any,
    ) -> int:
        """Append a tensor; with `data`, a constant. More `fields` as the schema has them, such as shape_signature."""
        fields = {"buffer": 0 if data is None else self.build.buffer(data), "has_rank": True, **fields}
        self.table.tensors.append(Table("Tensor", name=name, shape=list(shape), type=type, **fields))
        return len(self.table.tensors) - 1

    def constant(self, name: str, value: NDArray[Any]) -> int:
        """Append a constant of float32, int32 and the like."""
        return self.tensor(name, value.shape, value.dtype.name.upper(), data=value.tobytes())

    def operator(
        self,
        code: str | Code,
        inputs: Sequence[int],
        outputs: Sequence[int],
        /,
        table: str | None = "",
        **options: Any,
    ) -> Table:
        """Append an operator and return its table; `table` is its type of options, unless the name implies it."""
        operator = Table("Operator", opcode_index=self.build.code(code), inputs=list(inputs), outputs=list(outputs))
        kind = options_of(code if isinstance(code, str) else code.name) if table == "" else table
        if kind is not None:
            union = next(name for name in _UNIONS if kind in _union_members(name))
            setattr(operator, _UNIONS[union], Table(kind, **options))
        self.table.operators.append(operator)
        return operator

    def compute(self, code: str | Code, inputs: Sequence[int], name: str, shape: Sequence[int] = (2, 2)) -> int:
        """Append an operator and the float tensor that it computes."""
        output = self.tensor(name, shape)
        self.operator(code, inputs, [output])
        return output

    def ends(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Say what goes in and comes out."""
        self.table.inputs, self.table.outputs = list(inputs), list(outputs)


def row(*steps: str | tuple[str, str], shape: Sequence[int] = (2, 2)) -> Build:
    """Return x -> t0 -> t1 ... by operators of these codes; a pair is a code and a name for its result."""
    build = Build()
    graph = build.graph()
    last = first = graph.tensor("x", shape)
    for number, step in enumerate(steps):
        code, name = (step, f"t{number}") if isinstance(step, str) else step
        last = graph.compute(code, [last], name, shape)
    graph.ends([first], [last])
    return build


@cache
def _union_members(name: str) -> frozenset[str]:
    return frozenset(member for kind in ("tflite", "circle") for member in schema_of(kind).unions[name].values())


def unranked(graph: Graph, tensor: int) -> None:
    """Write the tensor as older converters do when they do not know its rank."""
    graph.table.tensors[tensor].shape, graph.table.tensors[tensor].has_rank = [], False


def quantization(scales: Sequence[float], zero_points: Sequence[int] = (), axis: int = 0) -> Table:
    """Return quantization by one scale, or by one for each element of an axis."""
    zeros = list(zero_points or [0] * len(scales))
    return Table("QuantizationParameters", scale=list(scales), zero_point=zeros, quantized_dimension=axis)


# --- values -------------------------------------------------------------------------------------------------


def floats(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Return some values that are all different."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def strings(*values: bytes) -> bytes:
    """Return the data of a constant of strings."""
    places = np.cumsum([0, *map(len, values)]) + 4 * (len(values) + 2)
    return np.array([len(values), *places], "<i4").tobytes() + b"".join(values)
