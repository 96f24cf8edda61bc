"""The operator properties that capability tables distinguish, as columns, since most operators are alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.comparison import Measures, Show, Term, plain
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Vectors, distinct_rows
from circletools.graph.columns import Slots, Values, alike
from circletools.graph.graph import Graph

HAS_OPTIONS = "has_options"
"""The name of a term that is 1 if the operator has an options table, and 0 otherwise."""
QUANTIZATIONS = ("unquantized", "per_tensor", "per_channel", "blockwise", "custom")
QUANTIZABLE = frozenset(("INT2", "INT4", "INT8", "INT16", "INT32", "INT64", "UINT4", "UINT8"))
"""The types for which quantization matters; a scale has no effect on a tensor of another type."""

Key = tuple[int, int, bytes, bytes]
_Bits = dict[Term, NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class TensorTraits:
    """A tensor's properties, as tables describe them. `quantization` is empty for types without quantization.

    An empty `type` matches any type, quantization and rank. A constant has data in the file, or is unpacked from
    another constant. `dynamic` indicates the unknown dimensions: none (0), only the first one (1), or others (2).
    """

    type: str
    quantization: str
    rank: int
    dynamic: int
    constant: bool

    def __str__(self) -> str:
        """Return the description of the tensor in the syntax of tables."""
        return " ".join(filter(None, (self.type, self.quantization, "constant" if self.constant else "computed")))


@dataclass(frozen=True, slots=True)
class OperatorTraits:
    """An operator's properties, as tables describe them; an omitted input is None.

    `settings` holds its options and the values that comparisons read; a missing option is 0. `show` converts these
    values to text.
    """

    code: str
    version: int
    inputs: tuple[TensorTraits | None, ...]
    outputs: tuple[TensorTraits | None, ...]
    settings: Mapping[Term, float]
    show: Show = plain

    @property
    def is_mixed(self) -> bool:
        """Whether some computed inputs and outputs are quantized, and others are not."""
        tensors = (
            tensor for tensor in (*self.inputs, *self.outputs) if tensor and tensor.type and not tensor.constant
        )
        return len({tensor.quantization in ("", "unquantized") for tensor in tensors}) > 1


class SubgraphTraits:
    """The operators of one subgraph; `terms` returns the properties to read, by operator code name."""

    def __init__(self, facts: Graph, terms: Callable[[str], tuple[Term, ...]]) -> None:
        """Read the columns. Raises ModelFormatError if an operator refers to something that does not exist."""
        self._facts = facts
        self._codes = facts.operators.code_indices
        facts.operators.is_code()  # checks the codes
        if facts not in _READ:
            _READ[facts] = _Once(*_tensor_classes(facts.values), Measures(ref(facts)))
        self._once = _READ[facts]
        # Index -1 (no tensor) refers to the extra last element.
        self._constant = np.append(facts.values.is_constant, False)
        self._classes = np.append(self._once.classes, -1)
        self._unpacks = False
        self.inputs, self.outputs = self._checked(facts.operands), self._checked(facts.results)
        self._traits: dict[tuple[int, bool], TensorTraits] = {}
        self._settings: list[dict[Term, float]] = [{}]
        self._is_split = False  # whether operators of one code differ in their terms
        self._setting_of = self._read_terms(terms)

    def __len__(self) -> int:
        return len(self._facts)

    def _checked(self, slots: Slots) -> Slots:
        if slots.values.size and (slots.values.min() < -1 or slots.values.max() >= len(self._facts.values)):
            raise ModelFormatError("an operator's tensor does not exist", location=self._facts.place())
        return slots

    def with_codes(self, wanted: Callable[[str], bool]) -> list[int]:
        """Return the operators with a code name that is wanted."""
        names = {code.name for code in self._facts.operators.model.operator_codes}
        found: list[int] = np.flatnonzero(self._facts.operators.is_code(*filter(wanted, names))).tolist()
        return found

    def kinds(self) -> tuple[NDArray[np.int64], list[int]]:
        """Return the current kind of each operator, and the first operator of each kind.

        No table distinguishes operators of the same kind. Tensors that `make_constant` marked count as constants.
        """
        first, kinds = (self._once.alike if not self._unpacks else None) or self._alike()
        if not self._unpacks:
            self._once.alike = first, kinds
        if self._is_split:
            _, first, kinds = np.unique(
                kinds * len(self._settings) + self._setting_of, return_index=True, return_inverse=True
            )
        return kinds, first.tolist()

    def _alike(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the kinds of operators with the same code and tensors, as `graph.columns.alike`."""
        columns = [(slots, self._words(slots.values).astype(np.int64)) for slots in (self.inputs, self.outputs)]
        return alike([self._codes], columns)

    def key(self, index: int) -> Key:
        """Return a key that operators share if and only if they are currently of the same kind."""
        both = (self.inputs, self.outputs)
        inputs, outputs = (self._words(np.array(slots.of(index), np.int64)).tobytes() for slots in both)
        return int(self._codes[index]), int(self._setting_of[index]), inputs, outputs

    def _words(self, tensors: NDArray[np.int64]) -> NDArray[np.int32]:
        words: NDArray[np.int32] = (self._classes[tensors] * 2 + self._constant[tensors]).astype(np.int32)
        return words

    def operator(self, index: int) -> OperatorTraits:
        """Return the traits of one operator."""
        code = self._facts.operators.model.operator_codes[self._codes[index]]
        both = [slots.of(index) for slots in (self.inputs, self.outputs)]
        inputs, outputs = (tuple(self._tensor(tensor) for tensor in tensors) for tensors in both)
        settings = self._settings[self._setting_of[index]]
        return OperatorTraits(str(code.name), code.version, inputs, outputs, settings, self._once.measures.show)

    def _tensor(self, tensor: int) -> TensorTraits | None:
        if tensor < 0:
            return None
        key = int(self._classes[tensor]), bool(self._constant[tensor])
        if key[0] == len(self._once.kinds):
            return TensorTraits("", "", 0, 0, key[1])
        if key not in self._traits:
            kind, quantization, rank, dynamic = self._once.kinds[key[0]]
            name = self._facts.values.model.schema.enums["TensorType"].get(kind, f"UNKNOWN:{kind}")
            word = QUANTIZATIONS[quantization] if name in QUANTIZABLE else ""
            self._traits[key] = TensorTraits(name, word, rank, dynamic, key[1])
        return self._traits[key]

    def forget(self, tensors: NDArray[np.bool_]) -> None:
        """Treat the types, quantization and ranks of some tensors as unknown from now on."""
        self._unpacks |= bool(tensors.any())
        self._classes[:-1][tensors] = len(self._once.kinds)

    def make_constant(self, tensors: Sequence[int]) -> None:
        """Treat tensors as constants from now on."""
        self._unpacks |= bool(tensors)
        self._constant[[tensor for tensor in tensors if tensor >= 0]] = True

    def last_reader_among(self, operators: NDArray[np.bool_]) -> NDArray[np.int64]:
        """For each tensor, return the last of these operators that reads it, or -1 if none does."""
        reader, read = self._facts.uses
        chosen = operators[reader]
        last = np.full(len(self._classes), -1, np.int64)
        np.maximum.at(last, read[chosen], reader[chosen])
        return last

    def _option(self, name: str, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        if name != HAS_OPTIONS:
            return self._facts.operators.option(name, rows)
        tables = self._facts.operators.tables.take(rows)
        unions = [one for one in ("builtin_options", "builtin_options_2") if one in tables.type.by_name]
        there = [tables.union_codes(tables.field(one)) != 0 for one in unions]
        found: NDArray[np.float64] = np.any(there, axis=0).astype(np.float64)
        return found

    def _read_terms(self, terms: Callable[[str], tuple[Term, ...]]) -> NDArray[np.int64]:
        """Number the distinct values of each operator's relevant terms; 0 stands for no terms."""
        found = np.zeros(len(self), np.int64)
        groups: dict[object, list[int]] = {}  # a file may have thousands of codes
        codes_of = self._facts.operators.model.operator_codes
        for index in np.unique(self._codes).tolist():
            code = codes_of[index]
            named = not code.name.startswith(("CUSTOM:", "UNKNOWN:"))  # then other tables read the same columns
            groups.setdefault(str(code.name) if named else terms(code.name), []).append(index)
        for codes in groups.values():
            names = terms(codes_of[codes[0]].name)
            key = tuple(codes)
            if key not in self._once.terms:
                self._once.terms[key] = np.flatnonzero(np.isin(self._codes, codes)), {}
            rows, columns = self._once.terms[key]
            if not names or not rows.size:
                continue
            for name in names:
                if name not in columns:
                    columns[name] = self._column(name, rows).view(np.int64)  # as bits: NaN is not equal to itself
            several = [columns[name] for name in names if (columns[name] != columns[name][0]).any()]
            first, which = distinct_rows(np.column_stack(several)) if several else (np.zeros(1, np.int64), 0)
            self._is_split |= len(first) > 1
            found[rows] = len(self._settings) + which
            values = zip(*(columns[name][first].view(np.float64).tolist() for name in names), strict=True)
            self._settings += [dict(zip(names, row, strict=True)) for row in values]
        return found

    def _column(self, name: Term, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return self._option(name, rows) if isinstance(name, str) else self._once.measures.of(name, rows)


@dataclass(slots=True)
class _Once:
    """Data about a graph, for all tables; `alike` (made on first use) holds the kinds of operators without terms.

    `terms` holds, by operator codes, their operators and the terms that were read for these.
    """

    classes: NDArray[np.int64]
    kinds: list[list[int]]
    measures: Measures
    alike: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    terms: dict[tuple[int, ...], tuple[NDArray[np.int64], _Bits]] = field(default_factory=dict)


_READ: WeakKeyDictionary[Graph, _Once] = WeakKeyDictionary()


def _tensor_classes(values: Values) -> tuple[NDArray[np.int64], list[list[int]]]:
    """Return the class of each tensor, and the type, quantization, rank and `dynamic` of each class."""
    dynamic = np.maximum(_open(values.shapes), _open(values.shape_signatures))
    columns = [values.type_numbers, _quantizations(values), values.shapes.count, dynamic]
    rows = np.column_stack(columns).astype(np.int64)
    first, which = distinct_rows(rows)
    return which, rows[first].tolist()


def _open(vectors: Vectors) -> NDArray[np.int64]:
    """Return which dimensions of each shape are unknown: 0 for none, 1 for only the first, 2 for others."""
    negative = vectors.flat() < 0
    found = np.zeros(len(vectors.count), np.int64)
    found[vectors.rows_where(negative)] = 1
    filled = vectors.count > 0
    negative[(np.cumsum(vectors.count) - vectors.count)[filled]] = False
    found[vectors.rows_where(negative)] = 2
    return found


def _quantizations(values: Values) -> NDArray[np.int64]:
    """Return the index of each tensor's quantization in QUANTIZATIONS."""
    tables, rows = values.quantization
    found = np.zeros(len(values), np.int64)
    if len(rows):
        details = tables.union_codes(tables.field("details"))
        blockwise = [
            code for code, name in values.model.schema.unions["QuantizationDetails"].items() if "Block" in name
        ]
        scales = np.minimum(tables.vectors("scale").count, 2)
        found[rows] = np.where(details != 0, np.where(np.isin(details, blockwise), 3, 4), scales)
    return found
