"""A small model that is changed, and what is found in it, for tests."""

from __future__ import annotations

from collections.abc import Callable

from circletools.findings import Finding
from circletools.model.model import open_model
from circletools.soundness.soundness import soundness_findings
from tests.kit.build import Build, Graph, floats

Change = Callable[[Graph], object]


def of(data: bytes) -> list[Finding]:
    """Return the findings about a file."""
    with open_model(data) as model:
        return list(soundness_findings(model))


def chain(change: Change, kind: str = "tflite") -> list[Finding]:
    """Return the findings about x -> NEG -> y -> ADD c -> z, changed. Tensors 0 to 3 are x, y, c and z."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    c = graph.constant("c", floats(2, 2))
    z = graph.compute("ADD", [y, c], "z")
    graph.ends([x], [z])
    change(graph)
    return of(build.to_bytes(kind))
