"""What a runtime keeps between operators other than by tensors that it hands on, and so must stay in one part.

Resources (variables, hash tables) live in the interpreter that made them, and operators find them by name; a
variable tensor keeps its value from run to run; an operator does what the subgraphs that it calls do.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from circletools.errors import EditError
from circletools.model import Model
from circletools.model.calls import called_from, operator_calls
from circletools.model.graph import operator_tensors
from circletools.model.views import text

Numbers = NDArray[np.int64]
_HELD = ("RESOURCE", "VARIANT")
_HINT = "give these operators one device, as with annotate-affinity --set index:{}=DEVICE"


def check_state(model: Model, subgraph: int, partitions: Numbers) -> None:
    """Raise EditError where operators that share a state are in several partitions (by operator)."""
    low, high = model.tensor_columns.splits[subgraph : subgraph + 2].tolist()
    users = np.concatenate([np.stack(operator_tensors(model, subgraph, way)) for way in ("inputs", "outputs")], 1)
    for tensor in np.flatnonzero(model.tensor_columns.variable[low:high]).tolist():
        operators = np.unique(users[0][users[1] == tensor])
        name = text(model.tensor_columns.names[low + tensor])
        _check_together(operators, partitions, subgraph, f"use the variable tensor {name!r}")
    _check_together(_resourceful(model, subgraph), partitions, subgraph, "use resources")


def _check_together(operators: Numbers, partitions: Numbers, subgraph: int, what: str) -> None:
    if len(np.unique(partitions[operators])) > 1:
        first = int(operators[0])
        other = int(operators[partitions[operators] != partitions[first]][0])
        listed = ",".join(map(str, operators[:20].tolist())) + (",..." if len(operators) > 20 else "")
        raise EditError(
            f"operators {first} and {other} {what}, and are in different partitions",
            location=f"subgraphs[{subgraph}]",
            hint=_HINT.format(listed),
        )


def _resourceful(model: Model, subgraph: int) -> Numbers:
    """Return the operators that touch resources, by themselves or in a subgraph that they call."""
    types = model.schema.enums["TensorType"]
    held = np.isin(model.tensor_columns.types, [value for value, name in types.items() if name in _HELD])
    calls, splits = operator_calls(model), model.operator_columns.splits
    touching = {index: _touching(model, index, held) for index in range(len(model.subgraphs))}
    found = set(touching[subgraph].tolist())
    first, end = splits[subgraph : subgraph + 2].tolist()
    for row in calls:
        if first <= row < end and any(len(touching[called]) for called in called_from(model, calls, [row])):
            found.add(row - first)
    return np.array(sorted(found), np.int64)


def _touching(model: Model, subgraph: int, held: NDArray[np.bool_]) -> Numbers:
    low = int(model.tensor_columns.splits[subgraph])
    uses = [operator_tensors(model, subgraph, way) for way in ("inputs", "outputs")]
    return np.unique(np.concatenate([operators[held[low + tensors]] for operators, tensors in uses]))
