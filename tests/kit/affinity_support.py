"""What the tests of affinity share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from circletools.affinity.assign import (
    Assignment,
    Constraints,
    Decision,
    Rule,
    RuleSet,
    assign,
    make_default,
    parse_setting,
)
from circletools.affinity.capability.table import Refusal
from circletools.affinity.partitioning import Partitioning, make_partitioning, to_affinity
from circletools.affinity.problem import Sizing
from circletools.affinity.solvers.partitions import Mode
from circletools.affinity.store import annotate
from circletools.affinity.tables import NONE, Affinity, SubgraphAffinity, read_affinity
from circletools.graph.build import model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import Model, open_model
from tests.kit.build import Build
from tests.kit.support import edited


def ids(*numbers: int | None) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    """Return ids as the tables have them; None means no device, no partition."""
    return np.array([NONE if number is None else number for number in numbers], np.uint32)


def affinity(devices: Sequence[str], *subgraphs: tuple[Sequence[int | None], Sequence[int | None]]) -> Affinity:
    """Return an affinity: for each subgraph device ids and partition ids."""
    return Affinity(
        dict(enumerate(devices)),
        {index: SubgraphAffinity(ids(*given), ids(*parts)) for index, (given, parts) in enumerate(subgraphs)},
    )


def annotated(data: bytes, what: Affinity) -> bytes:
    """Return the model with this affinity."""
    return edited(data, lambda edit: annotate(edit, what))


def affinity_of(data: bytes) -> Affinity:
    """Return the affinity of a model that has one."""
    with open_model(data) as model:
        found = read_affinity(model)
    assert found is not None
    return found


def assigned(
    model: Model,
    devices: Sequence[str],
    *settings: str,
    default: str | None = None,
    refusals: Mapping[str, Sequence[Sequence[str | None]]] | None = None,
) -> Assignment:
    """Assign by rules as the command line has them."""
    rules = RuleSet(tuple(map(parse_setting, settings)), None if default is None else make_default(default, "here"))
    refused = {device: [refused_for(row) for row in rows] for device, rows in (refusals or {}).items()}
    return assign(Chooser(model_graph(model)), Constraints(tuple(devices), rules, refused))


def refused_for(reasons: Sequence[str | None]) -> list[Refusal | None]:
    """Return refusals for these reasons."""
    return [None if reason is None else Refusal(reason) for reason in reasons]


def unruled(assignment: Assignment) -> Assignment:
    """Return the assignment as if no rule had made it."""
    decided: tuple[list[Rule | Decision | None], ...] = tuple(
        [Decision("", "chosen") for _ in row] for row in assignment.numbers
    )
    return replace(assignment, decided_by=decided)


def planned(
    data: bytes, devices: Sequence[str], *settings: str, default: str | None = None, mode: Mode = "min"
) -> Partitioning:
    """Return the partitions of a model by rules."""
    with open_model(data) as model:
        return make_partitioning(
            model_graph(model).graphs, assigned(model, devices, *settings, default=default), Sizing(mode)
        )


def with_affinity(data: bytes, devices: Sequence[str], *settings: str, default: str | None = None) -> bytes:
    """Return a model annotated by rules."""
    return annotated(data, to_affinity(planned(data, devices, *settings, default=default)))


def produced_twice() -> bytes:
    """Return a model whose output two operators produce."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y")
    for _ in range(2):
        graph.operator("NEG", [x], [y])
    graph.ends([x], [y])
    return build.to_bytes("circle")
