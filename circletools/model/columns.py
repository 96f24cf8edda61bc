"""The tables of a model, and their fields as arrays: all tensors and operators, subgraph by subgraph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import OBJECT_BYTES, SUBGRAPH_BYTES, Tables, Vectors, Wire
from circletools.flatbuf.schema import Schema, load_roles
from circletools.flatbuf.verify import Reachable, walk
from circletools.model.options import OPTION_FIELDS, enum_names
from circletools.model.views import OperatorCode, text
from circletools.wording import Attributes, Items, one_of

Indices = NDArray[np.int32]
Mentions = Iterable[tuple[NDArray[np.int64], int]]

MOST_SUBGRAPHS = 1_500
"""The maximum number of subgraphs in a model, since each costs a fixed amount of time."""
_FORMAT = one_of("format", ("circle", "tflite"))
_DIMENSION = 8  # bytes charged for each dimension of a tensor, every time the tensor is used
_TABLE_BYTES = 16  # the fewest bytes per table, without weights, in real models; an operator counts as two
_HEAVY, _HEAVY_BYTES = ("Operator", "OperatorCode", "SignatureDef", "Metadata"), 1500  # memory in large commands
_OPERAND_TIMES = 15  # operand bytes are charged this many more times, because operands become Python objects


def scalars_column(name: str) -> cached_property[NDArray[Any]]:
    """Return a property: a scalar field of all tables, read on first use."""
    return cached_property(lambda columns: columns.tables.scalars(name))


def vectors_column(name: str) -> cached_property[Vectors]:
    """Return a property: a vector field of all tables, read on first use."""
    return cached_property(lambda columns: columns.tables.vectors(name))


class _Columns:
    def __init__(self, tables: Tables, rows: Vectors) -> None:
        self.tables = tables
        self.splits: NDArray[np.int64] = rows.splits()

    def rows_of(self, subgraph: int) -> range:
        return range(*self.splits[subgraph : subgraph + 2].tolist())

    def slice_of(self, subgraph: int) -> slice:
        return slice(*self.splits[subgraph : subgraph + 2].tolist())


class TensorColumns(_Columns):
    """The tensors of all subgraphs, one subgraph after the other; `splits[i]:splits[i + 1]` is subgraph i.

    `types` holds TensorType values; where `variable` is not 0, the runtime keeps the value between runs;
    a tensor without a shape signature has an empty one.
    """

    buffers = scalars_column("buffer")
    types = scalars_column("type")
    variable = scalars_column("is_variable")
    shapes = vectors_column("shape")
    shape_signatures = vectors_column("shape_signature")

    def __init__(self, tables: Tables, rows: Vectors, mentions: Callable[[], Mentions]) -> None:
        super().__init__(tables, rows)
        self._mentions = mentions

    @cached_property
    def names(self) -> list[bytes]:
        """The names, as bytes in the file. Raises ModelFormatError.

        Tensors are used by index, so a long name or shape may appear very often in the output. All these uses are
        charged to the budget here, once, on behalf of all readers.
        """
        lengths = self.tables.vectors("name").count
        dimensions = self.shapes.count + self.shape_signatures.count
        whole, shown = int(lengths.sum()), lengths + _DIMENSION * dimensions
        for rows, more in self._mentions():
            whole += int(shown[rows].sum()) + more
        self.tables.wire.budget.charge("all uses of the names and shapes of tensors", whole)
        return self.tables.strings("name")

    @cached_property
    def signed(self) -> NDArray[np.bool_]:
        """For each tensor, whether it has a shape signature."""
        return self.tables.has("shape_signature")


class OperatorColumns(_Columns):
    """The operators of all subgraphs, one subgraph after the other; `splits` is as in TensorColumns.

    `code_indices` are indices of operator codes; `inputs` and `outputs` are indices of tensors in the subgraph.
    """

    code_indices = scalars_column("opcode_index")
    inputs = vectors_column("inputs")
    outputs = vectors_column("outputs")

    @cached_property
    def first_outputs(self) -> NDArray[np.int64]:
        """The tensor index of each operator's output 0; -1 if it has no outputs."""
        return np.nan_to_num(self.outputs.element(0), nan=-1).astype(np.int64)


class ModelColumns(Attributes):
    """A model's tables by type; `Model` adds views of single objects.

    `root` is the Model table as a single row. Everything is read on first use and then cached.
    """

    def __init__(self, wire: Wire, schema: Schema, root: Tables) -> None:
        self.wire: Wire = wire
        self.schema: Schema = schema
        self._root: Tables = root
        self.graph: Any = None  # the graphs, once `graph.build.model_graph` is called

    @cached_property
    def reachable(self) -> Reachable:
        """All reachable objects in the file, after a check of its structure. Raises ModelFormatError."""
        return walk(self.wire, self.schema)

    @cached_property
    def root(self) -> Tables:
        """The Model table (a single row), from which all reading starts. Raises ModelFormatError.

        The data that the tables describe is charged to the budget here, once for all readers: since objects may be
        shared, a small file can describe gigabytes. Buffer data, in the flatbuffer or after it, counts once for each
        range of the file, since readers read each range once.
        """
        found = self.reachable
        data_bytes = self._data_bytes(found.tables["Buffer"]) if "Buffer" in found.tables else 0
        whole = data_bytes + sum(size for what, size in found.described.items() if what != "Buffer.data")
        whole += _OPERAND_TIMES * sum(found.described.get(f"Operator.{field}", 0) for field in ("inputs", "outputs"))
        for name, count in found.places.items():
            whole += (count - len(found.tables[name])) * (SUBGRAPH_BYTES if name == "SubGraph" else OBJECT_BYTES)
        counts = {name: len(rows) for name, rows in found.tables.items()}
        crowded = sum(counts.values()) + counts.get("Operator", 0) - (self.wire.size - data_bytes) // _TABLE_BYTES
        memory = _HEAVY_BYTES * sum(counts.get(name, 0) for name in _HEAVY) - 10 * self.wire.size - (200 << 20)
        whole += OBJECT_BYTES * max(0, crowded) + max(0, memory)
        self.wire.budget.charge("all uses of the file's objects", int(whole))
        return self._root

    def _data_bytes(self, buffers: Tables) -> int:
        """Return the number of bytes of buffer data; each range of the file counts once."""
        inside, far, sizes = buffers.vectors("data"), buffers.scalars("offset"), buffers.scalars("size")
        end = np.uint64(self.wire.size)
        behind = (far > 1) & (far <= end) & (sizes <= end - np.minimum(far, end))
        places = np.hstack(([inside.start, inside.count], [far[behind], sizes[behind]]))
        ordered = places[:, np.lexsort(places)]
        is_new = (ordered[:, 1:] != ordered[:, :-1]).any(axis=0)
        return int(ordered[1, :1].sum() + ordered[1, 1:][is_new].sum())

    @property
    def format(self) -> Literal["circle", "tflite"]:
        """The format of the file."""
        return _FORMAT("circle" if self.schema.format == "circle" else "tflite")

    @cached_property
    def operator_codes(self) -> tuple[OperatorCode, ...]:
        """The operator code list. Raises ModelFormatError if very many operators have long names."""
        tables, _ = self.root.children("operator_codes", self.schema)
        old = tables.scalars("deprecated_builtin_code").astype(np.int64)
        new = tables.scalars("builtin_code").astype(np.int64)
        # Codes from 127 on fit only into the new field, which old files lack; Circle-specific codes are negative.
        negative = (np.minimum(old, new) < 0) & (self.format == "circle")
        codes = np.where(negative, np.minimum(old, new), np.maximum(old, new)).tolist()
        names = enum_names(self.schema, "BuiltinOperator")
        custom = [text(raw) for raw in tables.strings("custom_code")]
        named = [names.get(code, f"UNKNOWN:{code}") for code in codes]
        found = Items(
            OperatorCode(index, code, own, version, f"CUSTOM:{own}" if name == "CUSTOM" else name)
            for index, (code, own, version, name) in enumerate(
                zip(codes, custom, tables.scalars("version").tolist(), named, strict=True)
            )
        )
        lengths = np.array([*(len(code.name) for code in found), 0], np.int64)
        uses = np.minimum(self.operator_columns.code_indices, len(found))
        self.wire.budget.charge("the names of operators", int(lengths.sum() + lengths[uses].sum()))
        return found

    @cached_property
    def subgraph_tables(self) -> Tables:
        """The SubGraph tables, by index."""
        tables, _ = self.root.children("subgraphs", self.schema)
        if len(tables) > MOST_SUBGRAPHS:
            raise ModelFormatError(f"{len(tables)} subgraphs", hint=f"{MOST_SUBGRAPHS} is the limit")
        return tables

    @cached_property
    def tensor_columns(self) -> TensorColumns:
        """The tensors of all subgraphs."""
        return TensorColumns(*self.subgraph_tables.children("tensors", self.schema), self._mentioned)

    @cached_property
    def operator_columns(self) -> OperatorColumns:
        """The operators of all subgraphs."""
        return OperatorColumns(*self.subgraph_tables.children("operators", self.schema))

    def _mentioned(self) -> Mentions:
        """Yield the rows of tensors that operators, subgraphs and signatures use, and the bytes to be charged."""
        splits, subgraphs = self.tensor_columns.splits, self.subgraph_tables
        firsts, counts = splits[:-1], np.diff(splits)
        operators = self.operator_columns
        owners = np.repeat(np.arange(len(subgraphs)), np.diff(operators.splits))
        signatures, _ = self.root.children("signature_defs", self.schema)
        named = signatures.scalars("subgraph_index").astype(np.int64)
        for field in ("inputs", "outputs"):
            slots, ends = operators.tables.vectors(field), subgraphs.vectors(field)
            many = OBJECT_BYTES * int(ends.count.sum())
            maps, of_signatures = signatures.children(field, self.schema)
            yield _rows(slots.flat(), np.repeat(owners, slots.count), firsts, counts), 0
            yield _rows(ends.flat(), np.repeat(np.arange(len(subgraphs)), ends.count), firsts, counts), many
            given = np.repeat(named, of_signatures.count)
            yield (
                _rows(maps.scalars("tensor_index"), given, firsts, counts),
                OBJECT_BYTES * int(of_signatures.count.sum()),
            )

    @property
    def callees(self) -> dict[int, dict[int, list[int]]]:
        """The subgraphs in operators' options (If, While, CallOnce, composites etc.), by subgraph and operator.

        Raises ModelFormatError.
        """
        return self._called[0]

    @property
    def patterns(self) -> frozenset[int]:
        """The subgraphs that options refer to but no runtime executes. Raises ModelFormatError."""
        return self._called[1]

    @cached_property
    def _called(self) -> tuple[dict[int, dict[int, list[int]]], frozenset[int]]:
        found: dict[int, dict[int, list[int]]] = {}
        patterns: set[int] = set()
        columns, roles = self.operator_columns, load_roles()
        for field in OPTION_FIELDS:
            for rows, options in columns.tables.members(field, self.schema):
                every = [(item, roles.get((options.type.name, item.name))) for item in options.type.fields]
                for item, role in every:
                    if role is None or role.kind != "subgraph":
                        continue
                    owners = np.searchsorted(columns.splits, rows, "right") - 1
                    places = list(zip(owners.tolist(), (rows - columns.splits[owners]).tolist(), strict=True))
                    for (owner, operator), named in zip(places, options.numbers(item), strict=True):
                        found.setdefault(owner, {}).setdefault(operator, []).extend(named)
                        patterns.update(named if role.pattern else ())
        return found, frozenset(patterns)

    def code_names(self, subgraph: int) -> list[str]:
        """Return the code name of each operator of a subgraph.

        Raises ModelFormatError if a code does not exist.
        """
        rows = self.operator_columns.slice_of(subgraph)
        indices = self.operator_columns.code_indices[rows]
        if indices.size and int(indices.max()) >= len(self.operator_codes):
            raise ModelFormatError(f"operator code {indices.max()} does not exist", location=f"subgraphs[{subgraph}]")
        return self._code_names[rows]

    @cached_property
    def _code_names(self) -> list[str]:
        """The code name of each operator of all subgraphs; empty if the code does not exist."""
        names = [*(str(code.name) for code in self.operator_codes), ""]  # plain strings compare faster
        indices = self.operator_columns.code_indices
        return [names[index] for index in np.minimum(indices, len(names) - 1).tolist()]

    def output_names(self, subgraph: int) -> list[tuple[bytes, ...]]:
        """Return the names of the output tensors of each operator of a subgraph; for -1, the name is empty.

        Raises ModelFormatError if a tensor does not exist.
        """
        names = [*self.tensor_columns.names[self.tensor_columns.slice_of(subgraph)], b""]
        outputs = self.operator_columns.outputs.take(self.operator_columns.slice_of(subgraph))
        tensors = outputs.flat()
        if tensors.size and (tensors.min() < -1 or tensors.max() >= len(names) - 1):
            raise ModelFormatError("an operator's output tensor does not exist", location=f"subgraphs[{subgraph}]")
        values = [names[tensor] for tensor in tensors.tolist()]
        if (outputs.count == 1).all():
            return list(zip(values, strict=True))
        return [tuple(values[start:stop]) for start, stop in pairwise(outputs.splits().tolist())]


def _rows(
    tensors: NDArray[Any], subgraphs: NDArray[np.int64], firsts: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the rows of tensors that are given by subgraph and index, without those that do not exist."""
    here = (subgraphs >= 0) & (subgraphs < len(firsts))
    indices, owners = tensors[here].astype(np.int64), subgraphs[here]
    there = (indices >= 0) & (indices < counts[owners])
    return indices[there] + firsts[owners[there]]
