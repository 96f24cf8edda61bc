"""What a runtime keeps between operators other than by tensors that it hands on, and so must stay in one part.

Resources (variables, hash tables) live in the interpreter that made them, and operators find them by name; a
variable tensor keeps its value from run to run; an operator does what the subgraphs that it calls do.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from circletools.errors import EditError
from circletools.model.calls import Calls
from circletools.model.model import Model
from circletools.model.operator_facts import OperatorFacts
from circletools.model.views import text

Numbers = NDArray[np.int64]
_HELD = ("RESOURCE", "VARIANT")


@dataclass(frozen=True, slots=True)
class Shared:
    """Operators that share a state, ascending, and how; `apart` is one that is not where the first is."""

    operators: Numbers
    how: str
    apart: int


def check_state(model: Model, subgraph: int, partitions: Numbers) -> None:
    """Raise EditError where operators that share a state are in several partitions (by operator)."""
    torn = torn_state(model, subgraph, partitions)
    if torn is not None:
        raise EditError(
            f"operators {torn.operators[0]} and {torn.apart} {torn.how}, and are in different partitions",
            location=f"subgraphs[{subgraph}]",
            hint=f"give these operators one device, as with annotate-affinity --set index:{listed(torn)}=DEVICE",
        )


def listed(shared: Shared) -> str:
    """Write the first of these operators as a selector has them."""
    return ",".join(map(str, shared.operators[:20].tolist())) + (",..." if len(shared.operators) > 20 else "")


def torn_state(model: Model, subgraph: int, partitions: Numbers) -> Shared | None:
    """Return operators that share a state and are in several partitions (by operator), None where none are."""
    low, high = model.tensor_columns.splits[subgraph : subgraph + 2].tolist()
    operators, tensors = _uses(model, subgraph)
    variable = model.tensor_columns.variable[low:high][tensors] != 0
    operators, tensors = operators[variable], tensors[variable]
    first = np.full(high - low, -1, np.int64)
    first[tensors[::-1]] = partitions[operators[::-1]]
    torn = tensors[partitions[operators] != first[tensors]]
    if torn.size:
        name = text(model.tensor_columns.names[low + int(torn[0])])
        users = np.unique(operators[tensors == torn[0]])
        found = _torn(users, partitions, f"use the variable tensor {name!r}")
        if found is not None:
            return found
    return _torn(resourceful(model, subgraph), partitions, "use resources")


def _torn(users: Numbers, partitions: Numbers, how: str) -> Shared | None:
    apart = users[partitions[users] != partitions[users[:1]]]
    return Shared(users, how, int(apart[0])) if apart.size else None


def resourceful(model: Model, subgraph: int) -> Numbers:
    """Return the operators that touch resources, by themselves or in a subgraph that they call."""
    types = model.schema.enums["TensorType"]
    held = np.isin(model.tensor_columns.types, [value for value, name in types.items() if name in _HELD])
    touching = [_touching(model, index, held) for index in range(len(model.subgraphs))]
    calls = Calls(model)
    inside = calls.reaching(index for index, operators in enumerate(touching) if operators.size)
    first, end = model.operator_columns.splits[subgraph : subgraph + 2].tolist()
    calling = [row - first for row in calls.by_row if first <= row < end and not inside.isdisjoint(calls.named(row))]
    return np.union1d(touching[subgraph], np.array(calling, np.int64))


def _touching(model: Model, subgraph: int, held: NDArray[np.bool_]) -> Numbers:
    operators, tensors = _uses(model, subgraph)
    return np.unique(operators[held[int(model.tensor_columns.splits[subgraph]) + tensors]])


def _uses(model: Model, subgraph: int) -> tuple[Numbers, Numbers]:
    facts = OperatorFacts(model, subgraph)
    operators, tensors = (np.concatenate(both) for both in zip(facts.inputs, facts.outputs, strict=True))
    return operators, tensors
