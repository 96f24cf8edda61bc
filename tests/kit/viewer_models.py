"""Models with names that are odd for a viewer."""

from __future__ import annotations

from tests.kit.build import Build, row


def odd_models() -> dict[str, bytes]:
    """Return the models, by file name."""
    return {
        f"{name}.{kind}": build().to_bytes(kind)
        for name, build in (("index_names", _index_names), ("same_names", _same_names), ("no_names", _no_names))
        for kind in ("tflite", "circle")
    }


def _index_names() -> Build:
    """Tensors that are named like operators, on purpose and by chance."""
    return row(*(("TANH", name) for name in ("1", "b", "0", "b", "4")))


def _same_names() -> Build:
    """Two subgraphs of one name."""
    return _two("main", "main")


def _no_names() -> Build:
    """Two subgraphs, one without a name."""
    return _two("", "second")


def _two(*names: str) -> Build:
    build = Build()
    for name in names:
        graph = build.graph(name)
        x = graph.tensor(f"{name}/x")
        graph.ends([x], [graph.compute("TANH", [x], f"{name}/y")])
    return build
