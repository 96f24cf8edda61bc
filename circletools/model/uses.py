"""Who makes and reads which tensor, in all subgraphs at once.

A tensor is known by its row among the tensors of all subgraphs, an operator by its row among all operators.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from circletools.flatbuf.columns import Vectors
from circletools.model.model import Model
from circletools.model.places import place_of

Rows = NDArray[np.int64]


class ModelUses:
    """The uses of tensors; the indices of the model lead somewhere (`check_indices`)."""

    def __init__(self, model: Model) -> None:
        """Read what operators read and make."""
        self.model = model
        self.tensors, self.operators = model.tensor_columns, model.operator_columns
        self.owners: Rows = np.repeat(np.arange(len(model.subgraphs)), np.diff(self.operators.splits))
        self.readers, self.read, self.lacking_inputs = self._slots(self.operators.inputs)
        self.makers, self.made, self.lacking_outputs = self._slots(self.operators.outputs)
        count = len(self.tensors.tables)
        self.producers: Rows = np.full(count, -1, np.int64)
        self.producers[self.made[::-1]] = self.makers[::-1]
        self.inputs, self.outputs = self._ends("inputs"), self._ends("outputs")
        self.is_input: NDArray[np.bool_] = np.zeros(count, np.bool_)
        self.is_input[self.inputs] = True

    def _slots(self, vectors: Vectors) -> tuple[Rows, Rows, Rows]:
        """Return operator and tensor of each slot, and the operators that leave a slot out."""
        rows = np.repeat(np.arange(len(vectors.count)), vectors.count)
        tensors = vectors.flat().astype(np.int64)
        present = tensors >= 0
        lacking, rows, tensors = np.unique(rows[~present]), rows[present], tensors[present]
        return rows, tensors + self.tensors.splits[self.owners[rows]], lacking

    def _ends(self, field: str) -> Rows:
        vectors = self.model.subgraph_tables.vectors(field)
        owners = np.repeat(np.arange(len(vectors.count)), vectors.count)
        return vectors.flat().astype(np.int64) + self.tensors.splits[owners]

    @cached_property
    def has_data(self) -> NDArray[np.bool_]:
        """Whether each tensor has data in the file."""
        indices, buffers = self.tensors.buffers.astype(np.int64), self.model.buffers
        if not len(buffers):
            return np.zeros(len(indices), np.bool_)
        found: NDArray[np.bool_] = (buffers.filled[indices] & (indices > 0)) | self._outside
        return found

    @cached_property
    def _outside(self) -> NDArray[np.bool_]:
        """Whether each tensor names an external buffer."""
        tables = self.tensors.tables
        known = "external_buffer" in tables.type.by_name
        outside: NDArray[np.bool_] = (
            tables.scalars("external_buffer") > 0 if known else np.zeros(len(tables), np.bool_)
        )
        return outside

    @cached_property
    def is_variable(self) -> NDArray[np.bool_]:
        """Whether each tensor keeps its value from run to run."""
        variable: NDArray[np.bool_] = self.tensors.variable != 0
        return variable

    def first_slots(self, rows: Rows, count: int) -> Rows:
        """Return the tensors of the first `count` inputs and the first output of operators, -1 for none."""
        columns = (self.operators.inputs, self.operators.outputs)
        slots = [(columns[0], slot) for slot in range(count)] + [(columns[1], 0)]
        found = np.full((len(rows), count + 1), -1, np.int64)
        for at, (vectors, slot) in enumerate(slots):
            there = vectors.count[rows] > slot
            places = vectors.start[rows[there]] + slot * vectors.dtype.itemsize
            tensors = vectors.wire.gather(places, vectors.dtype).astype(np.int64)
            firsts = self.tensors.splits[self.owners[rows[there]]]
            found[there, at] = np.where(tensors >= 0, tensors + firsts, -1)
        return found

    def operator(self, row: int) -> str:
        """Return the path of an operator."""
        return place_of("operators", self.operators.splits, row)

    def tensor(self, row: int) -> str:
        """Return the path of a tensor."""
        return place_of("tensors", self.tensors.splits, row)

    def index_of(self, row: int) -> int:
        """Return the index of an operator in its subgraph."""
        return row - int(self.operators.splits[self.owners[row]])
