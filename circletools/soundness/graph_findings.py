"""Whether the operators of every subgraph can run in their order, each tensor made once, before it is read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError, shortened
from circletools.findings import Finding
from circletools.graph.dag import dag_from_edges
from circletools.model.model import Model
from circletools.model.places import told
from circletools.model.uses import ModelUses, Rows

CORRECT = "correct the program that wrote the model"
_LONGEST_NAME = 200
_HELD = ("RESOURCE", "VARIANT")


def graph_findings(model: Model, uses: ModelUses) -> Iterator[Finding]:
    """Yield what is wrong with the graph of each subgraph; the indices of the model lead somewhere."""
    if not len(model.subgraphs):
        yield Finding("NO_SUBGRAPH", "error", "model", f"there is no subgraph; {CORRECT}")
    yield from _unproduced(uses)
    yield from _produced_twice(uses)
    yield from _produced_anyway(uses)
    yield from _in_place(uses)
    yield from _left_out(uses)
    yield from _order(uses)
    yield from _repeated_inputs(uses)


def _unproduced(uses: ModelUses) -> Iterator[Finding]:
    """Look for tensors that are read, and nobody gives them a value: onert crashes, LiteRT reads what lies there."""
    tensors, types = uses.tensors, uses.model.schema.enums["TensorType"]
    known = (uses.producers >= 0) | uses.is_input | uses.has_data | uses.is_variable
    known |= np.isin(tensors.types, [number for number, name in types.items() if name in _HELD])
    lost = np.flatnonzero(~known[uses.read])
    lost = lost[~_is_custom(uses, uses.readers[lost])]  # they may have scratch
    lost = lost[[not (tensors.shapes.row(row) == 0).any() for row in uses.read[lost].tolist()]]

    def message(slot: int) -> str:
        tensor = int(uses.read[slot])
        return f"nothing produces the tensor {_name(uses, tensor)}: no operator, input or constant; {CORRECT}"

    yield from told("UNPRODUCED_TENSOR", lost, lambda at: uses.operator(int(uses.readers[at])), message)


def _name(uses: ModelUses, tensor: int) -> str:
    index = tensor - int(uses.tensors.splits[np.searchsorted(uses.tensors.splits, tensor, "right") - 1])
    name = uses.tensors.names[tensor].decode("utf-8", "backslashreplace")
    return f"{index} ({shortened(name, _LONGEST_NAME)})"


def _produced_twice(uses: ModelUses) -> Iterator[Finding]:
    again = np.flatnonzero(_repeats(uses.made))

    def message(slot: int) -> str:
        first = uses.index_of(int(uses.producers[uses.made[slot]]))
        return f"operator {first} produces the tensor {_name(uses, int(uses.made[slot]))} already; {CORRECT}"

    yield from told("PRODUCED_TWICE", again, lambda at: uses.operator(int(uses.makers[at])), message)


def _repeats(values: Rows) -> NDArray[np.bool_]:
    """Say of each value whether an earlier one is equal."""
    repeats = np.zeros(len(values), np.bool_)
    if np.bincount(values).max(initial=0) > 1:  # faster than to look for the first of each
        repeats[:] = True
        repeats[np.unique(values, return_index=True)[1]] = False
    return repeats


def _produced_anyway(uses: ModelUses) -> Iterator[Finding]:
    """Look for operators that write what has a value of its own: an input of the subgraph, or a constant."""
    for code, owned, what in (
        ("PRODUCED_INPUT", uses.is_input, "an input of the subgraph"),
        ("WRITTEN_CONSTANT", uses.has_data & ~uses.is_input & ~uses.is_variable, "a constant"),
    ):

        def message(slot: int, what: str = what) -> str:
            return f"the operator writes the tensor {_name(uses, int(uses.made[slot]))}, which is {what}; {CORRECT}"

        slots = np.flatnonzero(owned[uses.made])
        yield from told(code, slots, lambda at: uses.operator(int(uses.makers[at])), message)
    given = np.flatnonzero((uses.has_data & ~uses.is_variable)[uses.inputs])
    yield from told(
        "WRITTEN_CONSTANT",
        given,
        lambda at: uses.tensor(int(uses.inputs[at])),
        lambda _: f"an input of the subgraph is a constant; {CORRECT}",
    )


def _in_place(uses: ModelUses) -> Iterator[Finding]:
    """Look for operators that have a tensor among inputs and outputs; LiteRT allocates no tensors then.

    It takes a slot that is left out on both sides for one, too.
    """
    own = uses.producers[uses.read] == uses.readers
    if _repeats(uses.made).any():
        count = len(uses.tensors.tables)
        own = np.isin(uses.readers * count + uses.read, uses.makers * count + uses.made)
    empty = np.intersect1d(uses.lacking_inputs, uses.lacking_outputs)
    both = np.union1d(uses.readers[own], empty)
    message = f"a tensor is input and output of the operator; LiteRT refuses that; {CORRECT}"
    yield from told("IN_PLACE_OPERATOR", both, uses.operator, lambda _: message)


def _left_out(uses: ModelUses) -> Iterator[Finding]:
    """Look for outputs that are left out, as only custom operators do."""
    rows = uses.lacking_outputs[~_is_custom(uses, uses.lacking_outputs)]
    message = f"an output of the operator is left out; no runtime has such an operator; {CORRECT}"
    yield from told("OUTPUT_LEFT_OUT", rows, uses.operator, lambda _: message)


def _is_custom(uses: ModelUses, rows: Rows) -> NDArray[np.bool_]:
    """Say of each of these operators whether it is a custom one."""
    custom = [code.index for code in uses.model.operator_codes if code.name.startswith("CUSTOM:")]
    return np.isin(uses.operators.code_indices[rows], custom)


def _order(uses: ModelUses) -> Iterator[Finding]:
    """Look for operators that read what is only made later, or wait for each other."""
    sources = uses.producers[uses.read]
    late = (sources > uses.readers) & ~uses.is_input[uses.read] & ~uses.is_variable[uses.read]
    if not late.any():
        return
    fed = (sources >= 0) & (sources != uses.readers)
    try:
        dag_from_edges(len(uses.owners), sources[fed], uses.readers[fed])
    except ModelFormatError as error:
        stuck = int(str(error.location).partition("[")[2][:-1])
        yield Finding(
            "CYCLIC_OPERATORS",
            "warning",
            uses.operator(stuck),
            f"operators wait for each other in a cycle; {CORRECT}",
        )
        return

    def message(slot: int) -> str:
        producer = uses.index_of(int(sources[slot]))
        return (
            f"the operator reads the tensor {_name(uses, int(uses.read[slot]))} before operator {producer} makes it"
        )

    rows = np.flatnonzero(late)
    yield from told("OPERATOR_ORDER", rows, lambda at: uses.operator(int(uses.readers[at])), message)


def _repeated_inputs(uses: ModelUses) -> Iterator[Finding]:
    rows = np.flatnonzero(_repeats(uses.inputs))
    yield from told(
        "DUPLICATE_INPUT",
        rows,
        lambda at: uses.tensor(int(uses.inputs[at])),
        lambda _: f"the tensor is an input of the subgraph more than once; {CORRECT}",
    )
