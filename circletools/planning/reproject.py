"""Restore affinity after compilation: each operator returns to the device that its sources had before.

The ONE compiler drops metadata that it does not know, but keeps the origin tables correct. The sources therefore
connect the compiled model with the devices of the model that was annotated before compilation.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from circletools.affinity.assign import Decision
from circletools.affinity.exports.pictures import current_affinity
from circletools.affinity.tables import NONE, Affinity, check_freshness, read_affinity
from circletools.errors import EditError, UsageError
from circletools.findings import Finding
from circletools.graph.graph import ModelGraph
from circletools.origin.read import Origins, origins_freshness, origins_in


@dataclass(frozen=True, slots=True)
class Reprojection:
    """The earlier device names in order, the earlier device of each operator, and notes on conflicting sources."""

    devices: tuple[str, ...]
    before: tuple[dict[int, Decision], ...]
    conflicts: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """The devices of an annotated model: device names by id, and the device id of each source, by name."""

    affinity: Affinity
    of_source: dict[str, int]


def devices_of_sources(annotated: ModelGraph) -> Earlier:
    """Return the device of each source: the one with most of its operators or, in a tie, the first.

    Raises EditError if the model has no origins or no affinity, or if they are stale.
    """
    origins, affinity = fresh_origins(annotated), current_affinity(annotated)
    votes: dict[str, Counter[int]] = {}
    for index, subgraph in affinity.subgraphs.items():
        for operator, device in enumerate(subgraph.devices.tolist()):
            if device != NONE:
                for source in origins.of(index, operator):
                    votes.setdefault(origins.sources[source], Counter())[device] += 1
    return Earlier(affinity, {name: _most(counts) for name, counts in votes.items()})


def reproject(model: ModelGraph, earlier: Earlier) -> Reprojection:
    """Return, for each operator, the device that its sources had in the annotated model.

    If the sources disagree, the most common device is chosen (the first in a tie). If all subgraphs share an operator
    table, as in the ONE compiler's output, it is used only for the main subgraph. Raises EditError if the model has
    no origins, or stale ones.
    """
    origins, names = fresh_origins(model), earlier.affinity.devices
    before: list[dict[int, Decision]] = []
    conflicts = []
    for index, subgraph in enumerate(model.graphs):
        known = origins.operators[index] if index == 0 or origins.scope != "shared" else {}
        row: dict[int, Decision] = {}
        for operator, origin in sorted(known.items()):
            sources = sorted(origins.sources[source] for source in origin)
            votes = Counter(earlier.of_source[name] for name in sources if name in earlier.of_source)
            if votes:
                row[operator] = Decision(names[_most(votes)], f"as before: {', '.join(sources)}")
            if len(votes) > 1:
                wanted = ", ".join(names[device] for device in sorted(votes))
                place = f"subgraphs[{index}].operators[{operator}]"
                message = f"its sources were on {wanted}; {row[operator].device} is used"
                conflicts.append(Finding("CONFLICTING_SOURCES", "warning", place, message))
        if len(subgraph) and not row:
            reason = "its sources are not in the earlier model" if known else "the subgraph has no origins of its own"
            message = f"{reason}, so its earlier devices are not known"
            conflicts.append(Finding("NO_ORIGINS", "warning", f"subgraphs[{index}]", message))
        before.append(row)
    return Reprojection(earlier.affinity.names, tuple(before), tuple(conflicts))


def _most(votes: Counter[int]) -> int:
    return min(votes, key=lambda device: (-votes[device], device))


def devices_before(model: ModelGraph, earlier: Earlier | None, *, needed: bool) -> Reprojection | None:
    """Return the earlier devices of operators, from an earlier model if given, or else from the model's own tables.

    Raises UsageError if devices are `needed` and there are none, and EditError if they are stale.
    """
    if earlier is not None:
        return reproject(model, earlier)
    affinity = read_affinity(model)
    if affinity is None:
        if not needed:
            return None
        raise UsageError("no devices are named", hint="write `devices=npu,cpu`")
    if check_freshness(model, affinity).state == "stale":
        raise EditError("the affinity of the model is stale", hint="specify the devices and rules again")
    before: list[dict[int, Decision]] = [{} for _ in model.graphs]
    for index, subgraph in affinity.subgraphs.items():
        known = np.flatnonzero(subgraph.devices != NONE).tolist()
        before[index] = {at: Decision(affinity.devices[int(subgraph.devices[at])], "from the model") for at in known}
    return Reprojection(affinity.names, tuple(before), ())


def source_names(model: ModelGraph) -> list[dict[int, list[str]]]:
    """Return the names of the sources of each operator, by subgraph.

    Raises EditError for a model without origins, or with stale ones.
    """
    origins = fresh_origins(model)
    return [
        {operator: [origins.sources[source] for source in origin] for operator, origin in known.items()}
        for known in origins.operators
    ]


def fresh_origins(model: ModelGraph) -> Origins:
    """Return the origins of a model. Raises EditError if it has none, or stale ones."""
    origins = origins_in(model)
    if origins is None:
        raise EditError("the model has no origins", hint="run embed-origins before the compiler")
    if origins_freshness(model, origins).state == "stale":
        raise EditError("the origins of the model are stale", hint="embed-origins --replace writes new ones")
    return origins
