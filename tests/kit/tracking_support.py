"""What the tests of tracking share."""

from __future__ import annotations

from collections.abc import Callable

from circletools.model.model import open_model
from circletools.origin.tracking.anchors import Anchors, subgraph_pairs
from circletools.origin.tracking.constants import classify
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.side import read_side
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


def matcher(before: bytes, after: bytes) -> Matcher:
    """Return the two models side by side, without any pair of operators."""
    with open_model(before) as old, open_model(after) as new:
        sides = read_side(old), read_side(new)
        anchors = Anchors()
        anchors.add(*sides, subgraph_pairs(old, new))
        return Matcher(*sides, classify(*sides), anchors)
