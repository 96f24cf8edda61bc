"""Affinity after a compiler: an operator goes where the sources it comes from went before.

The ONE compiler drops metadata that it does not know, but keeps the origin tables true. So a model that was annotated
before it tells, by way of the sources, about the one that came out.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from circletools.affinity.rules import Decision
from circletools.affinity.store import Affinity, read_affinity
from circletools.affinity.store import check_freshness as check_affinity
from circletools.affinity.tables import NONE
from circletools.errors import EditError, UsageError
from circletools.model import Model
from circletools.origin.read import Origins, check_freshness, read_origins


@dataclass(frozen=True, slots=True)
class Reprojection:
    """The earlier device names in their order, what each operator had, and where its sources disagree."""

    devices: tuple[str, ...]
    before: tuple[dict[int, Decision], ...]
    conflicts: tuple[str, ...]


def reproject(model: Model, annotated: Model) -> Reprojection:
    """Return the devices that the sources of each operator had in the model that was annotated.

    Where they disagree, the device of most of them is taken, of equally many the first. Raises EditError where one of
    the models has not what it takes, or has it stale.
    """
    origins, earlier = _origins(model, "the model"), _origins(annotated, "the annotated model")
    affinity = read_affinity(annotated)
    if affinity is None:
        raise EditError("the annotated model has no affinity", hint="annotate-affinity adds it")
    if check_affinity(annotated, affinity).state == "stale":
        raise EditError("the affinity of the annotated model is stale")
    devices: dict[str, Counter[int]] = {}  # source name -> device ids
    for index, subgraph in affinity.subgraphs.items():
        for operator, device in enumerate(subgraph.devices.tolist()):
            if device != NONE:
                for source in earlier.of(index, operator):
                    devices.setdefault(earlier.sources[source], Counter())[device] += 1
    before: list[dict[int, Decision]] = []
    conflicts = []
    for index, known in enumerate(origins.operators):
        row: dict[int, Decision] = {}
        for operator, origin in sorted(known.items()):
            names = sorted(origins.sources[source] for source in origin)
            votes = sum((devices[name] for name in names if name in devices), Counter())
            if votes:
                chosen = min(votes, key=lambda device: (-votes[device], device))
                row[operator] = Decision(affinity.devices[chosen], f"as before: {', '.join(names)}")
            if len(votes) > 1:
                wanted = ", ".join(affinity.devices[device] for device in sorted(votes))
                place = f"subgraphs[{index}].operators[{operator}]"
                conflicts.append(f"{place}: its sources were on {wanted}; {row[operator].device} it is")
        before.append(row)
    return Reprojection(_in_order(affinity), tuple(before), tuple(conflicts))


def kept(model: Model) -> Reprojection:
    """Return the devices that a model's operators have in its own tables.

    Raises UsageError where it has none, EditError where they are stale.
    """
    affinity = read_affinity(model)
    if affinity is None:
        raise UsageError("no devices are named", hint="write --devices npu,cpu")
    if check_affinity(model, affinity).state == "stale":
        raise EditError("the affinity of the model is stale", hint="name devices and rules anew")
    before: list[dict[int, Decision]] = [{} for _ in model.subgraphs]
    for index, subgraph in affinity.subgraphs.items():
        for operator, device in enumerate(subgraph.devices.tolist()):
            if device != NONE:
                before[index][operator] = Decision(affinity.devices[device], "as it is in the model")
    return Reprojection(_in_order(affinity), tuple(before), ())


def source_names(model: Model) -> list[dict[int, list[str]]]:
    """Return the names of the sources of each operator, by subgraph; nothing for a model without origins."""
    origins = read_origins(model)
    if origins is None:
        return []
    return [
        {operator: [origins.sources[source] for source in origin] for operator, origin in known.items()}
        for known in origins.operators
    ]


def _in_order(affinity: Affinity) -> tuple[str, ...]:
    return tuple(affinity.devices[device] for device in sorted(affinity.devices))


def _origins(model: Model, what: str) -> Origins:
    origins = read_origins(model)
    if origins is None:
        raise EditError(f"{what} has no origins", hint="embed-origins adds them, before the compiler runs")
    if check_freshness(model, origins).state == "stale":
        raise EditError(f"the origins of {what} are stale")
    return origins
