"""The costs of a model: multiply-accumulates, parameters, and bytes of weights and activations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
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
from circletools.origin.modules import ModuleTree, module_tree
from circletools.origin.read import Origins, current_origins
from circletools.wording import Attributes, Items, Tabular

By = Literal["code", "operator", "source", "module"]
WITHOUT = "(no origin)"
_LARGEST = 1 << 62


@dataclass(frozen=True, slots=True)
class CostRow(Attributes):
    """The total cost of some operators.

    `name` is their operator code, source or module, or the operator's index, preceded by the subgraph's index if that
    is not 0. `macs` is the sum of the known counts, and `unknown` the number of operators without one. `parameters`
    is the number of weight elements, and `weight_bytes` the size of all constants; each constant counts once, at its
    first reader. `read_bytes` and `written_bytes` count activations. `parent` is the enclosing module.
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
    parent: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Tabular):
    """The costs of a model; `total` is the sum of `rows` or, for modules, of the top-level rows only.

    A subgraph counts once, however often it is called. `activations` holds the activation memory of each subgraph.
    """

    by: By
    total: CostRow
    rows: tuple[CostRow, ...]
    activations: tuple[Activations, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the rows: operators in model order, other rows in descending order of MACs."""
        return list(map(asdict, self.rows))


def cost(model: Model, by: By = "code") -> Cost:
    """Return the costs of a model; `by` selects whether rows are operator codes, operators, sources or modules.

    An operator's costs are divided evenly among its sources; modules include submodules. Raises ModelFormatError.

    >>> with ct.open("in.tflite") as model:
    ...     ct.cost(model).total.macs
    13570304
    """
    whole = model_graph(model)
    graphs = whole.graphs
    counted: set[int] = set()
    columns = [(np.zeros(0, np.int64),) * 5, *(_columns(graph, counted) for graph in graphs)]
    origins = current_origins(whole) if by in ("source", "module") else None
    tree = module_tree(origins) if origins and by == "module" else None
    products, *others = map(np.concatenate, zip(*columns, strict=True))
    fields = [np.maximum(products, 0), np.equal(products, UNKNOWN).astype(np.int64), *others]
    parts = (part for graph in graphs for part in _parts(graph, by, origins, tree))
    codes = [code for graph in graphs for code in graph.operators.code_names]
    rows = _rows(parts, fields, codes, tree)
    if by != "operator":
        rows.sort(key=lambda row: (-row.macs, -row.weight_bytes))
    total = CostRow("model", "", len(products), *(sum(column.tolist()) for column in fields))
    return Cost(by, total, Items(rows), Items(map(activations, graphs)))


def _columns(graph: Graph, counted: set[int]) -> tuple[Indices, ...]:
    """Return the MACs, the parameters, and the bytes of weights, reads and writes of each operator."""
    graph.check_values()
    sizes = np.where(graph.values.is_constant, 0.0, graph.values.bytes)
    read, written = (
        _integers(np.bincount(operators, sizes[values], len(graph)))
        for operators, values in (graph.reads, graph.definitions)
    )
    return macs(graph), *_weights(graph, counted), read, written


class _Part(NamedTuple):
    """One of the equal parts of an operator's costs, added to all rows of `keys`; `first` marks the first part.

    `source` and `module` each hold two numbers: the index of the part's source or module, and how many there are.
    """

    first: bool
    keys: Sequence[str | int]
    source: tuple[int, int] = (0, 1)
    module: tuple[int, int] = (0, 1)


def _parts(graph: Graph, by: By, origins: Origins | None, tree: ModuleTree | None) -> Iterator[_Part]:
    """Yield the parts of each operator, in operator order; a key is a name, or the index of a module."""
    charge = graph.operators.model.wire.budget.tally("the names of costs")
    before, whole = f"{graph.index}:" if graph.index else "", dict[str, _Part]()
    for operator, code in enumerate(graph.operators.code_names):
        sources = () if origins is None else sorted(origins.of(graph.index, operator))
        if not sources or origins is None:
            key = code if by == "code" else f"{before}{operator}" if by == "operator" else WITHOUT
            yield whole.get(key) or whole.setdefault(key, _Part(True, (key,)))
            continue
        for place, source in enumerate(sources):
            modules = (None,) if tree is None else tree.of_source[source]
            for number, module in enumerate(modules):
                name = origins.sources[source]
                keys = (name,) if tree is None or module is None else tuple(tree.upwards(module))
                charge(len(name) + len(keys))
                yield _Part(place + number == 0, keys, (place, len(sources)), (number, len(modules)))


def _rows(
    parts: Iterable[_Part], fields: Sequence[Indices], codes: Sequence[str], tree: ModuleTree | None
) -> list[CostRow]:
    """Return the sums by key, in order of first occurrence; `fields` hold the fields of a row, by operator."""
    places: dict[str | int, list[int]] = {}

    def numbers() -> Iterator[int]:  # there can be very many parts, so none is kept as an object
        for at, part in enumerate(parts):
            yield from (part.first, *part.source, *part.module)
            for key in part.keys:
                places.setdefault(key, []).append(at)

    first, *shares = np.fromiter(numbers(), np.int64).reshape(-1, 5).T
    operators = np.cumsum(first) - 1
    columns = [column[operators] for column in (fields[0], *fields[2:])]
    for number, count in (shares[:2], shares[2:]):
        columns = [column // count + (number < column % count) for column in columns]
    found = []
    for key, ats in places.items():
        some = np.array(ats)
        own = np.unique(operators[some])
        product, *rest = (sum(column[some].tolist()) for column in columns)
        kinds = {codes[operator] for operator in own.tolist()}
        name, parent = (key, None) if tree is None or isinstance(key, str) else (tree.paths[key], tree.parent(key))
        sums = len(own), product, int(fields[1][own].sum()), *rest
        found.append(CostRow(str(name), kinds.pop() if len(kinds) == 1 else "", *sums, parent=parent))
    return found


def _weights(graph: Graph, counted: set[int]) -> tuple[Indices, Indices]:
    """Return the parameters and constant bytes of each operator; `counted` holds the buffers already counted.

    Weights are floating-point constants and constants with a scale; shapes, axes and indices count only as bytes.
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
    """Return the numbers as integers of at most `_LARGEST`, which only hostile shapes exceed."""
    whole: Indices = np.minimum(numbers, _LARGEST).astype(np.int64)
    return whole


def _is_weight(values: Values) -> Mask:
    tables, owners = values.quantization
    scaled: Mask = np.zeros(len(values), np.bool_)
    scaled[owners] = (tables.vectors("scale").count > 0) | (tables.scalars("details_type") > 0)
    kinds = [number for number, name in values.model.schema.enums["TensorType"].items() if "FLOAT" in name]
    return scaled | np.isin(values.type_numbers, kinds)
