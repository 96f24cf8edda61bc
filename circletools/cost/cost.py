"""The costs of a model: multiply-accumulates, parameters, bytes of weights and of activations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from circletools.cost.activations import Activations, activations
from circletools.cost.macs import UNKNOWN, elements, macs
from circletools.graph.algorithms import Indices
from circletools.graph.build import model_graph
from circletools.graph.columns import Mask, Values
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.origin.modules import modules_of
from circletools.origin.read import Origins, current_origins
from circletools.wording import Tabular

By = Literal["code", "operator", "source", "module"]
WITHOUT = "(no origin)"
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class CostRow:
    """The total cost of some operators.

    `name` is their operator code, source or module, or the operator's index, after its subgraph's where that is not
    0. `macs` sums what is known; `unknown` counts the operators with open shapes. `parameters` are the
    elements of weights, `weight_bytes` the bytes of all constants; each constant counts once, at the first operator
    that reads it. `read_bytes` and `written_bytes` are those of activations.
    """

    name: str
    code: str
    operators: int
    macs: int
    unknown: int
    parameters: int
    weight_bytes: int
    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Tabular):
    """The costs of a model; `total` is the sum of `rows` where no operator is in two of them.

    A subgraph counts once, however often it is called. `activations` has the memory of each subgraph.
    """

    by: By
    total: CostRow
    rows: tuple[CostRow, ...]
    activations: tuple[Activations, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows; with operators in their order, otherwise the most MACs first."""
        return list(map(asdict, self.rows))


class _Columns(NamedTuple):
    """The fields of a row, by operator."""

    macs: Indices
    parameters: Indices
    weights: Indices
    read: Indices
    written: Indices


_NOTHING = _Columns(*[np.zeros(0, np.int64)] * len(_Columns._fields))


def cost(model: Model, by: By = "code") -> Cost:
    """Return the costs of a model, in rows by operator code, operator, source or module of its origins.

    An operator of several sources counts for each. Raises ModelFormatError.

    >>> with ct.open("in.tflite") as model:
    ...     ct.cost(model).total.macs
    13570304
    """
    whole = model_graph(model)
    graphs = whole.graphs
    counted: set[int] = set()
    columns = [_columns(graph, counted) for graph in graphs]
    origins = current_origins(whole) if by in ("source", "module") else None
    names = [_names(graph, by, origins) for graph in graphs]
    products, *others = map(np.concatenate, zip(_NOTHING, *columns, strict=True))
    unknown = np.equal(products, UNKNOWN)
    fields = [np.maximum(products, 0).tolist(), unknown.tolist(), *(column.tolist() for column in others)]
    rows = _rows(graphs, fields, names)
    if by != "operator":
        rows.sort(key=lambda row: (-row.macs, -row.weight_bytes))
    total = CostRow("model", "", len(products), *map(sum, fields))
    return Cost(by, total, tuple(rows), tuple(map(activations, graphs)))


def _columns(graph: Graph, counted: set[int]) -> _Columns:
    graph.check_values()
    sizes = np.where(graph.values.is_constant, 0.0, graph.values.bytes)
    read, written = (
        _integers(np.bincount(operators, sizes[values], len(graph)))
        for operators, values in (graph.reads, graph.definitions)
    )
    return _Columns(macs(graph), *_weights(graph, counted), read, written)


def _names(graph: Graph, by: By, origins: Origins | None) -> Iterator[Iterable[str]]:
    """Yield the names of the rows that each operator counts for."""
    charge = graph.operators.budget.tally("the names of costs")
    before = f"{graph.index}:" if graph.index else ""
    for operator, code in enumerate(graph.operators.code_names):
        if by == "code":
            yield (code,)
        elif by == "operator":
            yield (f"{before}{operator}",)
        else:
            sources = () if origins is None else sorted(origins.of(graph.index, operator))
            found = [_named(origins, source, by) for source in sources if origins is not None]
            names = dict.fromkeys(name for some in found for name in some) or {WITHOUT: None}
            charge(sum(map(len, names)))
            yield names


def _named(origins: Origins, source: int, by: By) -> Sequence[str]:
    name = origins.sources[source]
    return [name] if by == "source" else modules_of(name, origins.details_of(source))


def _rows(
    graphs: Sequence[Graph], fields: Sequence[Sequence[int]], names: Sequence[Iterable[Iterable[str]]]
) -> list[CostRow]:
    """Return the sums by name, in the order in which names come up; `fields` are those of a row, by operator."""
    places: dict[str, list[int]] = {}
    codes: list[str] = []
    for graph, rows in zip(graphs, names, strict=True):
        for at, keys in enumerate(rows, len(codes)):
            for key in keys:
                places.setdefault(key, []).append(at)
        codes += graph.operators.code_names
    found = []
    for key, some in places.items():
        sums = [sum(map(field.__getitem__, some)) for field in fields]
        code = codes[some[0]] if len(some) == 1 or len(set(map(codes.__getitem__, some))) == 1 else ""
        found.append(CostRow(key, code, len(some), *sums))
    return found


def _weights(graph: Graph, counted: set[int]) -> tuple[Indices, Indices]:
    """Return the parameters and the bytes of constants of each operator; `counted` has the buffers that were counted.

    Weights are constants of floating point or with a scale; shapes, axes and indices are bytes and no parameters.
    """
    operators, values = graph.reads.operators, graph.reads.values
    constant = graph.values.is_constant[values]
    operators, values = operators[constant], values[constant]
    order = np.argsort(operators, kind="stable")
    operators, values = operators[order], values[order]
    buffers, firsts = np.unique(graph.values.buffers[values], return_index=True)
    firsts = firsts[[buffer not in counted for buffer in buffers.tolist()]]
    counted.update(buffers.tolist())
    operators, values = operators[firsts], values[firsts]
    numbers = np.where(_is_weight(graph.values)[values], elements(graph.values)[values], 0)
    return (
        _integers(np.bincount(operators, numbers, len(graph))),
        _integers(np.bincount(operators, graph.values.bytes[values], len(graph))),
    )


def _integers(numbers: NDArray[Any]) -> Indices:
    """Return whole numbers; a hostile shape gives the largest."""
    whole: Indices = np.minimum(numbers, _LARGEST).astype(np.int64)
    return whole


def _is_weight(values: Values) -> Mask:
    tables, owners = values.tables.child("quantization", values.schema)
    scaled: Mask = np.zeros(len(values), np.bool_)
    scaled[owners] = (tables.vectors("scale").count > 0) | (tables.scalars("details_type") > 0)
    kinds = [number for number, name in values.schema.enums["TensorType"].items() if "FLOAT" in name]
    return scaled | np.isin(values.type_numbers, kinds)
