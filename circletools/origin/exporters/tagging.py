"""The nodes that operators came from, read from tags in the names of tensors.

A converter gives a fused operator the tags of all that it was made of. It also gives it those of constants that it
found equal to others, of layout changes that it moved elsewhere, and of what feeds the operator. They are told apart:

* An operator that computes has no origin in nodes that only change the layout, and the other way round.
* A node whose value an operator makes belongs to no later operator, unless its parameters went there.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from math import prod
from typing import Any

from circletools.model.model import Model
from circletools.model.views import Operator, text
from circletools.origin.exporters.nodes import elements_of, is_layout

_TAG = re.compile(r"n(\d+)")
LAYOUT_CODES = frozenset({"RESHAPE", "TRANSPOSE", "SQUEEZE", "EXPAND_DIMS", "BROADCAST_TO"})


def nodes_of_operators(model: Model, nodes: Sequence[Any]) -> list[list[int]]:
    """Return for each operator of subgraph 0 the numbers of the nodes that it computes, ascending."""
    codes = model.code_names(0)
    names = [text(outputs[0]) if outputs else "" for outputs in model.output_names(0)]
    found = [_fitting(code, _tags(name, len(nodes)), nodes) for code, name in zip(codes, names, strict=True)]
    made = _made(model, found, nodes)
    kept = [
        [node for node in own if made.get(node, operator) == operator or node == max(own)]
        for operator, own in enumerate(found)
    ]
    return _continued(model, _folded(model, kept, nodes))


def _tags(name: str, count: int) -> list[int]:
    numbers = {int(found[1]) for part in name.split(";") if (found := _TAG.fullmatch(part))}
    return sorted(number for number in numbers if number < count)


def _fitting(code: str, tags: list[int], nodes: Sequence[Any]) -> list[int]:
    """Leave out layout changes of operators that compute, and what computes of those that only change the layout."""
    wanted = code in LAYOUT_CODES
    return [tag for tag in tags if is_layout(nodes[tag]) == wanted] or tags


def _made(model: Model, found: Sequence[Sequence[int]], nodes: Sequence[Any]) -> dict[int, int]:
    """Return which operator makes the value of a node: the last that it is made of, and of the same size."""
    made = {}
    for operator, own in zip(model.subgraphs[0].operators, found, strict=True):
        if own and operator.outputs and operator.code.name not in LAYOUT_CODES:
            shape = model.subgraphs[0].tensors[operator.outputs[0]].shape
            if elements_of(nodes[own[-1]]) == prod(shape):
                made[own[-1]] = operator.index
    return made


def _folded(model: Model, kept: list[list[int]], nodes: Sequence[Any]) -> list[list[int]]:
    """Add nodes whose parameters went into the operators behind them, as a norm's into a linear layer."""
    graph = model.subgraphs[0]
    operators = graph.operators
    produced = {tensor for operator in operators for tensor in operator.outputs}
    sizes = [_constant_sizes(model, operator, produced) for operator in operators]
    readers: dict[int, list[int]] = {}
    for operator in operators:
        for tensor in operator.inputs:
            readers.setdefault(tensor, []).append(operator.index)
    own: dict[int, list[int]] = {}
    for index, numbers in enumerate(kept):
        for number in numbers:
            own.setdefault(number, []).append(index)
    result = [list(numbers) for numbers in kept]
    for number, indices in own.items():
        wanted = _parameter_sizes(nodes[number])
        if not wanted or any(wanted & sizes[index] for index in indices):
            continue
        pending, seen = list(indices), set(indices)
        while pending:
            for reader in (one for tensor in operators[pending.pop()].outputs for one in readers.get(tensor, ())):
                if reader in seen:
                    continue
                seen.add(reader)
                if operators[reader].code.name in LAYOUT_CODES:
                    pending.append(reader)
                elif max(sizes[reader], default=1) > 1:
                    result[reader] = sorted({*result[reader], number})
    return result


def _parameter_sizes(node: Any) -> set[int]:
    """Return how many elements the parameters have that a node takes; torch.export begins their names with `p_`."""
    leaves = (one for one in node.all_input_nodes if not one.all_input_nodes and one.name.startswith("p_"))
    return {size for leaf in leaves if (size := elements_of(leaf)) is not None}


def _constant_sizes(model: Model, operator: Operator, produced: Container[int]) -> set[int]:
    """Return how many elements the constants have that an operator takes."""
    tensors = model.subgraphs[operator.subgraph].tensors
    constants = (tensors[one] for one in operator.inputs if one >= 0 and one not in produced)
    return {prod(tensor.shape) for tensor in constants if len(model.buffers[tensor.buffer].data)}


def _continued(model: Model, kept: list[list[int]]) -> list[list[int]]:
    """Give operators without a tag the nodes of what feeds them, which they continue."""
    operators = model.subgraphs[0].operators
    maker = {tensor: operator.index for operator in operators for tensor in operator.outputs}
    for operator in operators:
        if not kept[operator.index]:
            feeding = next((maker[tensor] for tensor in operator.inputs if tensor in maker), None)
            kept[operator.index] = [] if feeding is None else kept[feeding]
    return kept
