"""Check that the operators of every subgraph are in topological order and that each tensor has one producer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from circletools.errors import ModelFormatError, shortened
from circletools.findings import Finding, Severity
from circletools.flatbuf.columns import distinct
from circletools.flatbuf.digest import equal_rows
from circletools.flatbuf.schema import schema_document
from circletools.graph.algorithms import Indices, dag_from_edges
from circletools.model.model import Model
from circletools.model.options import members_of
from circletools.model.verify import SHOWN, findings_at
from circletools.soundness.whole import Whole, lacking
from circletools.wording import counted

CORRECT = "fix the exporter"
_HELD = ("RESOURCE", "VARIANT")


def graph_findings(model: Model, whole: Whole) -> Iterator[Finding]:
    """Yield findings about the graph of each subgraph; all indices of the model must be in range."""
    if not len(model.subgraphs):
        yield Finding("NO_SUBGRAPH", "error", "model", f"there is no subgraph; {CORRECT}")
    if model.format == "tflite":
        for index in np.flatnonzero(~model.subgraph_tables.has("tensors")).tolist():
            message = f"the subgraph has no list of tensors; LiteRT refuses the model; {CORRECT}"
            yield Finding("NO_SUBGRAPH", "warning", f"subgraphs[{index}]", message)
    yield from _without_output(model, whole)
    yield from _unproduced(whole)
    yield from _produced_twice(whole)
    yield from _overwritten(whole)
    yield from _in_place(whole)
    yield from _left_out(whole)
    yield from _order(whole)
    text = f"the tensor is listed more than once among the inputs of the subgraph; {CORRECT}"
    rows = np.flatnonzero(_repeats(whole.graph.inputs))
    yield from findings_at("DUPLICATE_INPUT", rows, whole.input_, lambda _: text)


def _without_output(model: Model, whole: Whole) -> Iterator[Finding]:
    """Find a main subgraph whose results nobody can read; custom operators may have effects of their own."""
    if not len(model.subgraphs) or model.subgraph_tables.vectors("outputs").count[0]:
        return
    count = int(whole.operators.splits[1])
    if count and not _is_custom(whole, np.arange(count)).any() and not (whole.graph.effects < count).any():
        message = f"the main subgraph has {counted(count, 'operator')}, but no output; {CORRECT}"
        yield Finding("NO_OUTPUT", "warning", "subgraphs[0].outputs", message)


def _unproduced(whole: Whole) -> Iterator[Finding]:
    """Find tensors that are read but never written: onert crashes, and LiteRT reads uninitialized memory."""
    readers, read = whole.graph.uses
    tensors = whole.tensors
    known = (whole.first_producer >= 0) | whole.is_input | whole.has_data | whole.graph.values.is_variable
    known |= whole.graph.values.is_type(*_HELD)
    lost = np.flatnonzero(~known[read])
    lost = lost[~_is_custom(whole, readers[lost])]  # custom operators may use them as scratch space
    lost = lost[[not (tensors.shapes.row(row) == 0).any() for row in read[lost].tolist()]]

    def message(slot: int) -> str:
        tensor = int(read[slot])
        return f"no operator produces tensor {_name(whole, tensor)}, which is not an input or constant; {CORRECT}"

    yield from findings_at("UNPRODUCED_TENSOR", lost, lambda at: whole.operator(int(readers[at])), message)


def _name(whole: Whole, tensor: int) -> str:
    index = tensor - int(whole.tensors.splits[np.searchsorted(whole.tensors.splits, tensor, "right") - 1])
    name = whole.tensors.names[tensor].decode("utf-8", "backslashreplace")
    return f"{index} ({shortened(name)})"


def _produced_twice(whole: Whole) -> Iterator[Finding]:
    makers, made = whole.graph.definitions
    again = np.flatnonzero(_repeats(made))

    def message(slot: int) -> str:
        tensor = int(made[slot])
        first = whole.index_of(int(whole.first_producer[tensor]))
        return f"operator {first} already produces tensor {_name(whole, tensor)}; {CORRECT}"

    first, some = whole.first_producer[made], again[:SHOWN]
    some = some[makers[some] != first[some]]  # not two outputs of one operator
    copies = some[equal_rows(whole.operators.tables, whole.model.schema, makers[some], first[some])]
    others = again[~np.isin(again, copies)] if len(copies) else again
    kinds: tuple[tuple[Indices, Severity], ...] = ((others, "warning"), (copies, "info"))
    for slots, severity in kinds:
        yield from findings_at("PRODUCED_TWICE", slots, lambda at: whole.operator(int(makers[at])), message, severity)


def _repeats(values: Indices) -> NDArray[np.bool_]:
    """Return a mask of the values that equal an earlier one."""
    repeats = np.zeros(len(values), np.bool_)
    if np.bincount(values).max(initial=0) > 1:  # faster than finding the first of each value
        repeats[:] = True
        repeats[np.unique(values, return_index=True)[1]] = False
    return repeats


def _overwritten(whole: Whole) -> Iterator[Finding]:
    """Find operators that write an input of the subgraph or a constant."""
    makers, made = whole.graph.definitions
    readers, read = whole.graph.uses
    early = np.isin(made, read[readers <= whole.first_producer[read]])
    for code, owned, what in (
        ("PRODUCED_INPUT", whole.is_input, "an input of the subgraph"),
        ("WRITTEN_CONSTANT", whole.has_data & ~whole.is_input & ~whole.graph.values.is_variable, "a constant"),
    ):

        def message(slot: int, what: str = what) -> str:
            known = ", and was read before" if early[slot] else ""
            return f"the operator writes tensor {_name(whole, int(made[slot]))}, which is {what}{known}; {CORRECT}"

        slots = np.flatnonzero(owned[made])
        yield from findings_at(code, slots, lambda at: whole.operator(int(makers[at])), message)
    given = np.flatnonzero((whole.has_data & ~whole.graph.values.is_variable)[whole.graph.inputs])
    text = f"an input of the subgraph is a constant; {CORRECT}"
    yield from findings_at("WRITTEN_CONSTANT", given, whole.input_, lambda _: text)


def _in_place(whole: Whole) -> Iterator[Finding]:
    """Find operators with a tensor that is both input and output; LiteRT refuses such operators if they have options.

    For LiteRT, this includes operators that omit a slot (-1) on both sides.
    """
    readers, read = whole.graph.uses
    makers, made = whole.graph.definitions
    own = whole.first_producer[read] == readers
    if _repeats(made).any():
        count = len(whole.tensors.tables)
        own = np.isin(readers * count + read, makers * count + made)
    empty, bare = lacking(whole.graph.operands), lacking(whole.graph.results)
    both = distinct(np.concatenate([readers[own], empty[np.isin(empty, bare)] if len(bare) else bare]))
    if not both.size:
        return
    schema = whole.model.schema
    options = members_of(whole.operators.tables.take(both), schema)
    refused = {row for rows, chosen in options if chosen.type.fields for row in both[rows].tolist()}
    named = {name.upper() for name, table in schema.tables.items() if table.fields}  # LiteRT adds their defaults
    owned = [f"{code.name.replace('_', '')}OPTIONS" in named for code in whole.model.operator_codes]
    refused |= {row for row in both.tolist() if owned[whole.operators.code_indices[row]]}

    def message(row: int) -> str:
        known = "LiteRT refuses the operator; " if row in refused else ""
        return f"a tensor is both an input and an output of the operator; {known}{CORRECT}"

    yield from findings_at("IN_PLACE_OPERATOR", both, whole.operator, message)


def _left_out(whole: Whole) -> Iterator[Finding]:
    """Find omitted outputs, which only custom operators may have; some of LiteRT's kernels read only the first."""
    rows, results = lacking(whole.graph.results), whole.graph.results

    def message(row: int) -> str:
        kernel = schema_document("litert")["operators"].get(whole.graph.operators.code_names[row], {})
        least, most = kernel.get("outputs") or (0, 0)
        is_read = most is not None or (results.values[results.splits[row] :][: least or None] < 0).any()
        known = "" if is_read else "LiteRT ignores it; "
        return f"the operator omits an output, which only custom operators may do; {known}{CORRECT}"

    yield from findings_at("OUTPUT_LEFT_OUT", rows[~_is_custom(whole, rows)], whole.operator, message)


def _is_custom(whole: Whole, rows: Indices) -> NDArray[np.bool_]:
    """Return a mask of the custom operators among these."""
    custom = np.array([code.name.startswith("CUSTOM:") for code in whole.model.operator_codes], np.bool_)
    mask: NDArray[np.bool_] = custom[whole.operators.code_indices[rows]]
    return mask


def _order(whole: Whole) -> Iterator[Finding]:
    """Find cycles, and operators that read a tensor that is produced later."""
    readers, read = whole.graph.uses
    sources = whole.first_producer[read]
    late = (sources > readers) & ~whole.is_input[read] & ~whole.graph.values.is_variable[read]
    if not late.any():
        return
    fed = (sources >= 0) & (sources != readers)
    try:
        dag_from_edges(len(whole.graph), sources[fed], readers[fed])
    except ModelFormatError as error:
        stuck = int(str(error.location).partition("[")[2][:-1])
        message_of_cycle = f"operators depend on each other in a cycle; {CORRECT}"
        yield Finding("CYCLIC_OPERATORS", "warning", whole.operator(stuck), message_of_cycle)
        return

    def message(slot: int) -> str:
        producer = whole.index_of(int(sources[slot]))
        return f"the operator reads tensor {_name(whole, int(read[slot]))} before operator {producer} produces it"

    rows = np.flatnonzero(late)
    yield from findings_at("OPERATOR_ORDER", rows, lambda at: whole.operator(int(readers[at])), message)
