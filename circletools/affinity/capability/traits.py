"""The operator properties that capability tables distinguish, as columns, since most operators are alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.comparison import Measures, Term
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import Vectors
from circletools.graph.columns import Slots, Values, alike
from circletools.graph.graph import Graph

HAS_OPTIONS = "has_options"
"""The name of a term that is 1 if the operator has an options table, and 0 otherwise."""
QUANTIZATIONS = ("unquantized", "per_tensor", "per_channel", "blockwise", "custom")
QUANTIZABLE = frozenset(("INT2", "INT4", "INT8", "INT16", "INT32", "INT64", "UINT4", "UINT8"))
"""The types for which quantization matters; a scale has no effect on a tensor of another type."""

Key = tuple[int, int, bytes, bytes]


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

    `settings` holds its options and the values that comparisons read; a missing option is 0.
    """

    code: str
    version: int
    inputs: tuple[TensorTraits | None, ...]
    outputs: tuple[TensorTraits | None, ...]
    settings: Mapping[Term, float]


class SubgraphTraits:
    """The operators of one subgraph; `terms` lists the properties to read, by operator code name or `*`."""

    def __init__(self, facts: Graph, terms: Mapping[str, tuple[Term, ...]]) -> None:
        """Read the columns. Raises ModelFormatError if an operator refers to something that does not exist."""
        self._facts, self._names = facts, facts.operators.code_names
        self._codes: list[int] = facts.operators.code_indices.tolist()
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
        self._setting_of = self._read_terms(terms)

    def __len__(self) -> int:
        return len(self._facts)

    def _checked(self, slots: Slots) -> Slots:
        if slots.values.size and (slots.values.min() < -1 or slots.values.max() >= len(self._facts.values)):
            raise ModelFormatError("an operator's tensor does not exist", location=self._facts.place())
        return slots

    def with_codes(self, codes: Set[str] | None) -> list[int]:
        """Return the operators with one of these code names, or all operators for None."""
        if codes is None:
            return list(range(len(self._codes)))
        wanted = np.array([code.name in codes for code in self._facts.operators.model.operator_codes], np.bool_)
        found: list[int] = np.flatnonzero(wanted[self._facts.operators.code_indices]).tolist() if wanted.any() else []
        return found

    def kinds(self) -> tuple[NDArray[np.int64], list[int]]:
        """Return the current kind of each operator, and the first operator of each kind.

        No table distinguishes operators of the same kind. Tensors that `make_constant` marked count as constants.
        """
        number = self._alike() if self._unpacks else self._once.alike
        if number is None:
            number = self._once.alike = self._alike()
        _, examples, of = np.unique(
            number * len(self._settings) + self._setting_of, return_index=True, return_inverse=True
        )
        return of, examples.tolist()

    def _alike(self) -> NDArray[np.int64]:
        """Number operators so that those with the same code and tensors share a number."""
        columns = [(slots, self._words(slots.values).astype(np.int64)) for slots in (self.inputs, self.outputs)]
        return alike([np.array(self._codes, np.int64)], columns)

    def key(self, index: int) -> Key:
        """Return a key that operators share if and only if they are currently of the same kind."""
        both = (self.inputs, self.outputs)
        inputs, outputs = (self._words(np.array(slots.of(index), np.int64)).tobytes() for slots in both)
        return self._codes[index], int(self._setting_of[index]), inputs, outputs

    def _words(self, tensors: NDArray[np.int64]) -> NDArray[np.int32]:
        words: NDArray[np.int32] = (self._classes[tensors] * 2 + self._constant[tensors]).astype(np.int32)
        return words

    def operator(self, index: int) -> OperatorTraits:
        """Return the traits of one operator."""
        code = self._facts.operators.model.operator_codes[self._codes[index]]
        both = [slots.of(index) for slots in (self.inputs, self.outputs)]
        inputs, outputs = (tuple(self._tensor(tensor) for tensor in tensors) for tensors in both)
        return OperatorTraits(
            self._names[index], code.version, inputs, outputs, self._settings[self._setting_of[index]]
        )

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

    def _read_terms(self, terms: Mapping[str, tuple[Term, ...]]) -> NDArray[np.int64]:
        """Number the distinct values of each operator's relevant terms; 0 stands for no terms."""
        found = np.zeros(len(self), np.int64)
        codes, measures = np.array(self._codes, np.int64), self._once.measures
        group_of: dict[tuple[Term, ...], int] = {(): 0}  # grouped by terms: a file may have thousands of codes
        names_of = [terms.get(code.name, terms.get("*", ())) for code in self._facts.operators.model.operator_codes]
        groups = np.array([group_of.setdefault(names, len(group_of)) for names in names_of], np.int64)[codes]
        for names, group in list(group_of.items())[1:]:
            rows = np.flatnonzero(groups == group)
            values = np.column_stack(
                [self._option(name, rows) if isinstance(name, str) else measures.of(name, rows) for name in names]
            )
            # Compare bits, because NaN is not equal to itself.
            first, which = _distinct(values.view(np.int64))
            found[rows] = len(self._settings) + which
            self._settings += [dict(zip(names, row, strict=True)) for row in values[first].tolist()]
        return found


@dataclass(slots=True)
class _Once:
    """Data about a graph, for all tables; `alike` (made on first use) numbers operators by code and tensors."""

    classes: NDArray[np.int64]
    kinds: list[list[int]]
    measures: Measures
    alike: NDArray[np.int64] | None = None


_READ: WeakKeyDictionary[Graph, _Once] = WeakKeyDictionary()


def _tensor_classes(values: Values) -> tuple[NDArray[np.int64], list[list[int]]]:
    """Return the class of each tensor, and the type, quantization, rank and `dynamic` of each class."""
    dynamic = np.maximum(_open(values.shapes), _open(values.shape_signatures))
    columns = [values.type_numbers, _quantizations(values), values.shapes.count, dynamic]
    rows = np.column_stack(columns).astype(np.int64)
    first, which = _distinct(rows)
    return which, rows[first].tolist()


def _distinct(rows: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the index of each distinct row, and the number of the distinct row that equals each row."""
    order = np.lexsort(rows.T)
    ordered = rows[order]
    is_new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))[: len(rows)]
    number = np.empty(len(rows), np.int64)
    number[order] = np.cumsum(is_new) - 1
    return order[is_new], number


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
