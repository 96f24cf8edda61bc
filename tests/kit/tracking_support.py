"""What the tests of tracking share."""

from __future__ import annotations

from collections.abc import Callable

from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.origin.tracking.constants import Constants, classify
from circletools.origin.tracking.tracker import Tracking, track
from tests.kit.build import Build, Graph, floats


def tracked(before: bytes, after: bytes, least: float = 0.0) -> Tracking:
    with open_model(before) as old, open_model(after) as new:
        return track(old, new, min_confidence=least)


def found(before: bytes, after: bytes) -> list[set[int]]:
    """Return the sources of each operator of subgraph 0."""
    tracking = tracked(before, after)
    with open_model(after) as model:
        return [set(tracking.origins.of(0, index)) for index in range(len(model.subgraphs[0].operators))]


def chain(*codes: str, names: Callable[[int], str] = lambda _: "", first: int = 0) -> bytes:
    """Return a model whose operators take the value of the one before, FULLY_CONNECTED with constants of its own.

    Names and constants go by the number of the operator, constants by that from `first` on.
    """
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", (4, 4))
    for number, code in enumerate(codes):
        constants = []
        if code == "FULLY_CONNECTED":
            constants = own_constants(graph, first + number)
        value = graph.compute(code, [value, *constants], names(number), (4, 4))
    graph.ends([start], [value])
    return build.to_bytes()


def own_constants(graph: Graph, number: int) -> list[int]:
    return [graph.constant("", floats(4, 4, seed=number)), graph.constant("", floats(4, seed=50 + number))]


def classified(before: bytes, after: bytes) -> tuple[list[int], list[int], Constants]:
    """Return the classes of the tensors of subgraph 0, of either model, and what the classes are."""
    with open_model(before) as old, open_model(after) as new:
        olds, news, constants = classify(model_graph(old).graphs, model_graph(new).graphs)
        return olds[0].tolist(), news[0].tolist(), constants
