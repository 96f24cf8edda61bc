"""Find origins in the ONNX file that a model was converted from.

Converters such as onnx2tf keep hardly any names. So nodes and operators are matched by surviving names, and by
weights that the same number of nodes and operators read. The others are matched if they lie between the same matched
neighbors: one to one if both sides have the same number of a kind, otherwise each operator with all candidates.
"""

from __future__ import annotations

import os
import re
from ast import literal_eval
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from circletools.errors import InvalidInputError
from circletools.flatbuf.columns import Budget
from circletools.flatbuf.digest import digest
from circletools.graph import graph as graphs
from circletools.graph.build import model_graph
from circletools.graph.columns import Values
from circletools.model.model import Model
from circletools.origin.exporters.litert_torch import LAYOUT_CODES
from circletools.origin.exporters.nodes import Root, frames_of, name_roots
from circletools.origin.exporters.patching import imported
from circletools.origin.read import OriginColumns, Origins
from circletools.origin.source import Source, SourceDetails, line_of

_LAYOUT = {"Transpose", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout", "Cast", "Expand", "Pad"}
_LAID_OUT = {*LAYOUT_CODES, "CAST", "PAD", "PADV2"}
_ABSORBED = {"Add", "BatchNormalization", "Clip", "Relu"}
_CODES = {
    "Abs": "ABS", "Add": "ADD", "Concat": "CONCATENATION", "Conv": "CONV_2D", "Div": "DIV", "Exp": "EXP",
    "Gemm": "FULLY_CONNECTED", "Gelu": "GELU", "HardSwish": "HARD_SWISH", "LeakyRelu": "LEAKY_RELU",
    "LayerNormalization": "LAYER_NORMALIZATION", "Max": "MAXIMUM", "MaxPool": "MAX_POOL_2D",
    "AveragePool": "AVERAGE_POOL_2D", "Min": "MINIMUM", "MatMul": "BATCH_MATMUL",
    "Mul": "MUL", "Neg": "NEG", "Relu": "RELU", "Sigmoid": "LOGISTIC", "Softmax": "SOFTMAX", "Sqrt": "SQRT",
    "ReduceMean": "MEAN", "ReduceSum": "SUM", "Sub": "SUB", "Tanh": "TANH",
}  # fmt: skip
_NUMBER = re.compile(r"_\d+$")
_MOST = 200_000
_FEWEST = 8  # this many elements are unlikely to be equal by chance
_ENTRY_BYTES = 32  # bytes charged for an entry of a set
_Add = Callable[[int, Collection[int]], None]
_TYPES = {"FLOAT32": "<f4", "FLOAT16": "<f2"}


def from_onnx(model: Model, path: str | os.PathLike[str]) -> Origins:
    """Return the origins of the main subgraph of a model that was made from an ONNX file.

    Raises UsageError if onnx is not installed, and InvalidInputError if the file cannot be read.
    """
    onnx = imported("onnx", "an ONNX file")
    try:
        graph = onnx.load(os.fspath(path), load_external_data=False).graph
        _charge_external(graph, os.path.dirname(path))
        if len(graph.node) + len(graph.output) > _MOST:
            raise ValueError(f"it has more than {_MOST} nodes and outputs")
        if any(isinstance(node.op_type, bytes) for node in graph.node):
            raise ValueError("the name of an operator is not UTF-8")
        arrays = (onnx.numpy_helper.to_array(one, os.path.dirname(path)) for one in graph.initializer)
        weights = {one.name: _key(np.asarray(array)) for one, array in zip(graph.initializer, arrays, strict=True)}
        sources, nodes = sources_of_nodes(graph.node, weights), _onnx_graph(graph, weights)
    except Exception as error:
        message = f"not an ONNX model: {str(error).strip() or type(error).__name__}"
        raise InvalidInputError(message, location=os.fspath(path)) from error
    whole = model_graph(model)
    if not len(whole):
        return Origins({}, ())
    steps, step_of = _steps(whole.graphs[0])
    charge = model.wire.budget.tally("the nodes that operators may compute")
    found = matched_nodes(nodes, steps, charge)
    charge(_ENTRY_BYTES * sum(len(sources[node]) for step in step_of for node in found[step]))
    named = [list(dict.fromkeys(one for node in sorted(found[step]) for one in sources[node])) for step in step_of]
    return OriginColumns.numbered({0: named}).origins(len(whole))


def _charge_external(graph: Any, folder: str) -> None:
    """Raise ModelFormatError if weights stored in other files total far more bytes than these files."""
    weights = (one for one in graph.initializer if one.external_data)
    places = [{entry.key: entry.value for entry in one.external_data} for one in weights]
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in {place["location"] for place in places}}
    total = sum(int(place.get("length") or sizes[place["location"]]) for place in places)
    Budget(sum(sizes.values())).charge("external weights", total)


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph to match: for each step, its kind, the steps that feed it, its outputs, and its weights.

    A step that no other step feeds reads only inputs. `ends` holds the steps that produce an output of the graph.
    """

    kinds: Sequence[str]
    feeding: Sequence[Sequence[int]]
    made: Sequence[Iterable[str]]
    weights: Sequence[Iterable[Hashable]]
    ends: frozenset[int]


def matched_nodes(nodes: Graph, operators: Graph, charge: Callable[[int], None] = lambda _: None) -> list[set[int]]:
    """Return the nodes that each operator computes; `charge` is called with the bytes of sets before they grow."""
    anchors = _anchors(nodes, operators)
    found: list[set[int]] = [set() for _ in operators.kinds]

    def add(operator: int, own: Collection[int]) -> None:
        charge(_ENTRY_BYTES * len(own))
        found[operator].update(own)

    labels: tuple[dict[int, int], dict[int, int]] = {}, {}
    for label, (matched, groups) in enumerate(anchors.items()):
        labels[1].update(dict.fromkeys(matched, label))
        for group in groups:
            labels[0].update(dict.fromkeys(group, label))
            _pair(nodes, operators, group, matched, add)
    regions: dict[Hashable, tuple[list[int], list[int]]] = {}
    for side, graph in enumerate((nodes, operators)):
        for step, place in enumerate(_places(graph, labels[side], charge)):
            if step not in labels[side] and graph.kinds[step] != "Constant":
                regions.setdefault(place, ([], []))[side].append(step)
    left = [node for own, made in regions.values() for node in _share(nodes, operators, own, made, add)]
    _absorb(nodes, sorted(left), found)
    return found


_Matched = dict[tuple[int, ...], list[list[int]]]
"""Operators and their groups of nodes: as many groups as operators, or several groups for a single operator."""


def _anchors(nodes: Graph, operators: Graph) -> _Matched:
    """Match by weights, and also by names if most operators share a name with a node."""
    anchors: _Matched = {}
    taken: tuple[set[int], set[int]] = set(), set()

    def add(own: Sequence[int], made: Sequence[int]) -> None:
        key = tuple(made)
        if own and taken[0].isdisjoint(own) and (key in anchors or taken[1].isdisjoint(made)):
            anchors.setdefault(key, []).append(list(own))
            taken[0].update(own)
            taken[1].update(made)

    readers, takers = _readers(nodes.weights), _readers(operators.weights)
    for weight, taking in takers.items():
        if len(taking) == len(readers.get(weight, ())):
            add(readers[weight], taking)
    makers = {name: node for node, names in enumerate(nodes.made) for name in names}
    by_name = [{makers[name] for name in names if name in makers} for names in operators.made]
    if 2 * sum(map(bool, by_name)) > len(by_name):
        for operator, own in enumerate(by_name):
            add(sorted(own), [operator])
    return anchors


def _readers(weights: Sequence[Iterable[Hashable]]) -> dict[Hashable, list[int]]:
    readers: dict[Hashable, list[int]] = {}
    for step, own in enumerate(weights):
        for weight in set(own):
            readers.setdefault(weight, []).append(step)
    return readers


def _places(graph: Graph, labels: Mapping[int, int], charge: Callable[[int], None]) -> list[Hashable]:
    """Return the nearest matched operators around each step; -1 stands for the ends of the graph."""
    count = len(graph.kinds)
    before: list[frozenset[int]] = []
    for feeding in graph.feeding:
        known = (one for one in feeding if graph.kinds[one] != "Constant")
        sets = (frozenset((labels[one],)) if one in labels else before[one] for one in known)
        before.append(frozenset().union(*sets) or frozenset((-1,)))
        charge(_ENTRY_BYTES * len(before[-1]))
    behind: list[set[int]] = [{-1} if step in graph.ends else set() for step in range(count)]
    for step in range(count - 1, -1, -1):
        found = {labels[step]} if step in labels else behind[step]
        for one in graph.feeding[step]:
            charge(_ENTRY_BYTES * len(found))
            behind[one] |= found
    return [(one, frozenset(other)) for one, other in zip(before, behind, strict=True)]


def _pair(nodes: Graph, operators: Graph, own: Sequence[int], made: Sequence[int], add: _Add) -> None:
    """Assign each operator its node if the order determines it, or otherwise all nodes."""
    steps = ((graph, step) for graph, row in ((nodes, own), (operators, made)) for step in pairwise(row))
    ordered = len(own) == len(made) and all(_needs(graph, last, first) for graph, (first, last) in steps)
    for at, operator in enumerate(made):
        add(operator, own[at : at + 1] if ordered else own)


def _needs(graph: Graph, last: int, first: int) -> bool:
    pending, seen = [last], {last}
    while pending:
        for one in graph.feeding[pending.pop()]:
            if one == first:
                return True
            if one > first and one not in seen:
                seen.add(one)
                pending.append(one)
    return False


def _share(nodes: Graph, operators: Graph, own: list[int], made: list[int], add: _Add) -> set[int]:
    """Assign nodes to the operators between the same matched neighbors; return the remaining nodes."""
    kinds: dict[str, tuple[list[int], list[int]]] = {}
    for node in own:
        kinds.setdefault(_CODES.get(nodes.kinds[node], ""), ([], []))[0].append(node)
    for operator in made:
        kinds.setdefault(operators.kinds[operator], ([], []))[1].append(operator)
    rest: tuple[list[int], list[int]] = [], []
    for code, (some, of_code) in kinds.items():
        if code and len(some) == len(of_code):
            _pair(nodes, operators, some, of_code, add)
        else:
            rest[0].extend(some)
            rest[1].extend(of_code)
    left = set(rest[0])
    for operator in rest[1]:
        layout = operators.kinds[operator] in _LAID_OUT
        taken = {one for one in rest[0] if (nodes.kinds[one] in _LAYOUT) == layout}
        add(operator, taken)
        left -= taken
    return left


def _absorb(nodes: Graph, left: Iterable[int], found: list[set[int]]) -> None:
    """Assign the nodes that have no operator to the operator before them."""
    operators: dict[int, set[int]] = {}
    for operator, own in enumerate(found):
        for node in own:
            operators.setdefault(node, set()).add(operator)
    for node in left:
        feeding = set[int]().union(*(operators.get(one, ()) for one in nodes.feeding[node]))
        if nodes.kinds[node] in _ABSORBED and len(feeding) == 1:
            found[min(feeding)].add(node)
            operators[node] = feeding


def _onnx_graph(graph: Any, weights: Mapping[str, Hashable]) -> Graph:
    makers = {name: at for at, node in enumerate(graph.node) for name in node.output}
    return Graph(
        [str(node.op_type) for node in graph.node],
        [[makers[name] for name in node.input if makers.get(name, at) < at] for at, node in enumerate(graph.node)],
        [[*node.output, node.name] for node in graph.node],
        [[key for name in node.input if (key := weights.get(name)) is not None] for node in graph.node],
        frozenset(makers[one.name] for one in graph.output if one.name in makers),
    )


def _steps(graph: graphs.Graph) -> tuple[Graph, list[int]]:
    """Return the operators as steps, and the step of each operator; a layer written by onnx2tf is one step."""
    names = graph.operators.first_result_names
    steps: dict[str | int, list[int]] = {}
    for operator, name in enumerate(names):
        steps.setdefault(_layer(name) or operator, []).append(operator)
    step_of = {operator: step for step, own in enumerate(steps.values()) for operator in own}
    makers = {tensor: step_of[operator] for operator, row in enumerate(graph.results.lists()) for tensor in row}
    inputs = [[one for at in own for one in graph.operands.of(at)] for own in steps.values()]
    kinds = [
        _NUMBER.sub("", layer.rpartition("/")[2]).upper()
        if isinstance(layer, str) and len(own) > 1
        else graph.operators.code_names[own[0]]
        for layer, own in steps.items()
    ]
    made = Graph(
        kinds,
        [[makers[one] for one in own if makers.get(one, at) < at] for at, own in enumerate(inputs)],
        [[names[at] for at in own] for own in steps.values()],
        [[key for one in own if (key := _constant(graph.values, one)) is not None] for own in inputs],
        frozenset(makers[one] for one in graph.outputs.tolist() if one in makers),
    )
    return made, [step_of[operator] for operator in range(len(names))]


def _layer(name: str) -> str:
    """Return the Keras layer that an operator is part of, such as model/layer_normalization; empty for a function."""
    scopes = name.partition(";")[0].split("/")
    return "/".join(scopes[:2]) if len(scopes) > 2 and not scopes[1].startswith("tf.") else ""


def _constant(values: Values, tensor: int) -> Hashable:
    buffers = values.model.buffers
    if not 0 <= tensor < len(values) or not 0 <= values.buffers[tensor] < len(buffers):
        return None  # `check` reports this
    kind, data = _TYPES.get(values.types[tensor]), buffers[int(values.buffers[tensor])].data
    return None if kind is None or len(data) % np.dtype(kind).itemsize else _key(np.frombuffer(data, kind))


def _key(values: Any) -> Hashable:
    """Return a key for weights that ignores the order of dimensions; None if equality may be a coincidence."""
    if values.size < _FEWEST or values.dtype.kind != "f":
        return None
    ordered = np.sort(values.astype("<f4"), axis=None)
    return None if ordered[0] == ordered[-1] else digest(ordered.data.cast("B"))


# --- metadata about nodes that exporters leave in an ONNX file ------------------------------------------------
#     torch.onnx, dynamo      metadata_props: pkg.torch.onnx.name_scopes, class_hierarchy, stack_trace
#     torch.onnx, TorchScript names: /layers/layers.0/conv/Conv is the Conv of layers.0.conv
#     others                  arbitrary names


_TORCH = "pkg.torch.onnx."
_LONGEST = 1 << 16


def sources_of_nodes(nodes: Iterable[Any], weights: Container[str] = ()) -> list[list[Source]]:
    """Return the sources of each node (onnx.NodeProto); nodes made from the same call have the same sources.

    If a node with torch.onnx metadata reads a parameter of another module (one of `weights`), that module is a source
    too, since a convolution may include the batch normalization after it.
    """
    nodes = list(nodes)
    roots = [_root(node) for node in nodes]
    named = name_roots(root for root in roots if root is not None)
    return [
        [_named(node)] if root is None else [next(named), *_of_parameters(node, root.details.path, weights)]
        for node, root in zip(nodes, roots, strict=True)
    ]


def _of_parameters(node: Any, path: str, weights: Container[str]) -> Iterator[Source]:
    for name in node.input:
        module, dot, _ = name.rpartition(".")
        if dot and name in weights and module != path:
            yield Source(f"{module}::{node.op_type}", SourceDetails(path=module, call=node.op_type))


def _root(node: Any) -> Root | None:
    """Return the exported program's node from which a node was made; None if it is not recorded."""
    recorded = {
        prop.key.removeprefix(_TORCH): prop.value for prop in node.metadata_props if prop.key.startswith(_TORCH)
    }
    scopes, classes = _texts(recorded.get("name_scopes", "")), _texts(recorded.get("class_hierarchy", ""))
    if not scopes:
        return None
    file, line, caller = line_of(frames_of(recorded.get("stack_trace", "")))
    path, class_name = "".join(scopes[-2:-1]), "".join(classes[-2:-1])
    return Root(scopes[-1], SourceDetails(path, class_name, file, line, "".join(classes[-1:]), caller))


def _texts(written: str) -> list[str]:
    """Return the strings of a list in Python syntax; empty if the text is not such a list."""
    if not written.startswith("[") or len(written) > _LONGEST:  # a syntax tree takes 200 times the memory
        return []
    try:
        found = literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


def _named(node: Any) -> Source:
    """Return a source named after the node."""
    name = str(node.name or (node.output[0] if node.output else ""))
    if not name.startswith("/"):
        return Source(name, SourceDetails(call=node.op_type))
    *scopes, leaf = name[1:].split("/")
    path: list[str] = []
    for scope in scopes:  # a list of modules precedes its items: layers, layers.0
        if path and scope.startswith(f"{path[-1]}."):
            path.pop()
        path.append(scope)
    details = SourceDetails(path=".".join(path), call=node.op_type)
    return Source(f"{details.path}::{leaf}" if path else leaf, details)
