"""Find the operators that a target refuses, and the subgraphs that it runs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import replace

import numpy as np

from circletools.affinity.capability.table import Capability, Refusal, why_not
from circletools.affinity.capability.traits import QUANTIZABLE
from circletools.errors import CircleToolsError
from circletools.fit.naming import COMPOSITE, composites
from circletools.fit.remedies import remedy_of
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
    has_kernels = all("name" in form.options for form in table.forms(COMPOSITE))
    kernels = {(index, at) for index, at in composites(model.graphs) if has_kernels and refused[index][at] is None}
    inside = decompositions(model, kernels)
    return [subgraph for subgraph in range(len(model)) if subgraph not in inside]


def decompositions(model: ModelGraph, kernels: Set[Place]) -> set[int]:
    """Return the subgraphs called only by these operators, or only from such subgraphs."""
    callers = defaultdict[int, set[Place]](set)
    for one in model.graphs if kernels else ():
        for at in one.callees:
            for called in one.called([at]):
                callers[called].add((one.index, at))
    inside = set[int]()
    while more := {called for called, places in callers.items() if places <= kernels} - inside:
        inside |= more
        kernels = kernels | {(index, at) for index in more for at in model.graphs[index].callees}
    return inside


def doubt_decompositions(model: ModelGraph, refused: Sequence[list[Refusal | None]], table: Capability) -> None:
    """Count refusals as not measured in decompositions of composites that the target may run as single operators.

    If the table supports only composites of other names, the target decomposes this one.
    """
    forms = table.forms(COMPOSITE)
    known = {name for form in forms if "name" in form.options for name in form.options["name"].names.values()}
    unsure = {
        (index, at)
        for (index, at), name in composites(model.graphs).items()
        if (one := refused[index][at]) and not one.measured and (name in known or not forms)
    }
    for index in decompositions(model, unsure):
        for at, (one, code) in enumerate(zip(refused[index], model.graphs[index].operators.code_names, strict=True)):
            if one and one.measured:
                reason = f"only refused if the composite is decomposed: {one.reason}"
                refused[index][at] = replace(one, reason=reason, measured=False, remedy=remedy_of(one, code))


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
