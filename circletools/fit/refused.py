"""Find the operators that a target refuses, and the subgraphs that it runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from circletools.affinity.capability.table import Capability, Refusal, why_not
from circletools.affinity.capability.traits import QUANTIZABLE
from circletools.errors import CircleToolsError
from circletools.fit.naming import COMPOSITE
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model, open_model
from circletools.shapes.call import RefusedError
from circletools.shapes.infer import Inference, Place, ShapesRefusedError
from circletools.soundness.whole import Whole, is_rewritten

Refusals = Sequence[Refusal | None]
Shaped = tuple[Model, set[Place]]
_INFERRING = {"litert-cpu": True, "onert-cpu": False, "openvino-cpu": True}
"""The targets that compute all shapes except those of inputs, and whether they also fold values made from shapes."""
_INFERABLE = r"has rank 0|is INT\d\d unquantized computed"  # reasons that a missing shape or value may explain
_SETTING = "litert-cpu"
"""The target that sets the types and shapes of outputs, whatever the file states."""
_STATED = r"puts?( \d+ (is|has)|\d*\.)"  # reasons about what the file states about a tensor


def refused_operators(
    model: ModelGraph,
    table: Capability,
    shaped: Callable[[], Shaped],
    returned: bool = False,
) -> list[list[Refusal | None]]:
    """Return, by subgraph, why a target refuses each operator; `shaped` returns the result of `with_shapes`.

    If `returned`, operators whose output the graph returns in a wrong shape are refused too.
    """
    refused = [why_not(table, one, returned=returned) for one in model.graphs]
    found = {one for some in refused for one in some if one}
    setting = table.device == _SETTING and any(re.search(_STATED, one.reason) for one in found)
    missing = any(re.search(_INFERABLE, one.reason) for one in found if not one.measured)
    if setting or (missing and table.device in _INFERRING):
        complete, folded = shaped()
        for one in model_graph(complete).graphs:
            here = [tensor for index, tensor in folded if index == one.index] if _INFERRING[table.device] else []
            plain = why_not(table, one, returned=returned)
            others = why_not(table, one, here, returned) if here else plain
            refused[one.index] = [first and other for first, other in zip(plain, others, strict=True)]
        if setting:
            _doubt(refused, complete, table)
    return refused


def _doubt(refused: list[list[Refusal | None]], model: Model, table: Capability) -> None:
    """Count refusals as not measured if they may be due to types that the program replaces or does not check.

    Kernels often read an integer constant, such as a shape, without checking its type.
    """
    whole = Whole(model)
    changed = is_rewritten(whole, np.arange(len(whole.graph.values)), kept=True)
    for one in model_graph(model).graphs:
        here = changed[one.values.rows] | (one.values.is_constant & one.values.is_type(*QUANTIZABLE))
        if here.any() and any(refused[one.index]):
            others = why_not(table, one, unknown=here)
            for row, first in enumerate(refused[one.index]):
                if first and not others[row]:
                    refused[one.index][row] = replace(first, measured=False)


def needed_subgraphs(model: ModelGraph, refused: Sequence[Refusals], table: Capability) -> list[int]:
    """Return the subgraphs that run, in ascending order; `refused` holds the refused operators, by subgraph.

    Subgraphs called only by supported composites, or only from omitted subgraphs, are omitted, unless the table
    supports composites of any name: a device with such a table runs their subgraphs.
    """
    facts = model.graphs
    has_kernels = all("name" in form.options for form in table.forms(COMPOSITE))
    if not has_kernels or not any(code.name == COMPOSITE for code in model.source.operator_codes):
        return list(range(len(facts)))
    callers: dict[int, list[tuple[int, int]]] = defaultdict(list)  # the callers of each subgraph
    calls = ((called, (one.index, at)) for one in facts for at in one.callees for called in one.called([at]))
    for called, place in calls:
        callers[called].append(place)

    def is_inside(place: tuple[int, int]) -> bool:
        index, at = place
        return index in inside or (refused[index][at] is None and facts[index].operators.code_names[at] == COMPOSITE)

    inside: set[int] = set()
    while more := [called for called in callers.keys() - inside if all(map(is_inside, callers[called]))]:
        inside.update(more)
    return [subgraph for subgraph in range(len(facts)) if subgraph not in inside]


def with_shapes(model: Model) -> Shaped:
    """Return the model with the inferred shapes, and the tensors whose values were inferred.

    A shape that cannot be inferred stays.
    """
    from circletools.edit.edit import ModelEdit  # noqa: PLC0415 - most models have all shapes

    whole, inference = model_graph(model), Inference(model, strict=True)
    called = {index for callees in whole.callees.values() for index in callees}
    try:
        for graph in whole.graphs:
            if graph.index not in called and graph.inputs.max(initial=-1) < len(graph.values):
                inputs = [tuple(graph.values.shapes.row(tensor).tolist()) for tensor in graph.inputs.tolist()]
                inference.run(graph.index, [tuple(max(size, 1) for size in shape) for shape in inputs])
        edit = ModelEdit(model)
        for (index, tensor), shape in inference.found.shapes.items():
            if shape and tensor >= 0 and tuple(model.subgraphs[index].tensors[tensor].shape) != shape:
                edit.set_shape(index, tensor, shape, None)
        return open_model(edit.to_bytes()), set(inference.found.values)
    except (CircleToolsError, ShapesRefusedError, RefusedError):
        return model, set()
