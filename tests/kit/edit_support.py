"""A model that is edited in tests."""

from __future__ import annotations

from tests.kit.build import Build


def two_subgraphs() -> Build:
    """Return a model of two subgraphs, `first` and `second`, of which each has a TANH from tensor 0 to tensor 1."""
    build = Build()
    for name in ("first", "second"):
        graph = build.graph(name)
        x = graph.tensor(f"{name}.x", (1, 4))
        graph.ends([x], [graph.compute("TANH", [x], f"{name}.y", (1, 4))])
    return build
