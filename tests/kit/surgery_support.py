"""Models to cut, and what cutting gives, for tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import circletools as ct
from circletools.model.model import Model
from circletools.model.verify import is_dangling
from tests.kit.build import Build, floats

Changed = tuple[bytes, ct.types.RewriteResult]


def wired() -> Build:
    """Return a model of nine operators: a diamond, a second input, operators of constants, two outputs."""
    build = Build()
    graph = build.graph()
    x, z = graph.tensor("x"), graph.tensor("z")
    k, k2 = graph.constant("k", floats(2, 2)), graph.constant("k2", floats(2, 2, seed=1))
    a = graph.compute("NEG", [x], "a")  # 0
    b = graph.compute("ABS", [a], "b")  # 1
    c = graph.compute("EXP", [a], "c")  # 2
    fixed = graph.compute("NEG", [k2], "fixed")  # 3
    d = graph.compute("ADD", [b, k], "d")  # 4
    e = graph.compute("MUL", [d, c], "e")  # 5
    f = graph.compute("ADD", [e, fixed], "f")  # 6
    g = graph.compute("MUL", [f, z], "g")  # 7
    h = graph.compute("TANH", [c], "h")  # 8
    graph.ends([x, z], [g, h])
    build.signature("run", [("the x", x), ("the z", z)], [("the g", g), ("the h", h)])
    return build


def written(data: bytes, write: Callable[[Model, Path], ct.types.RewriteResult]) -> Changed:
    """Return what is written for a model, and the result."""
    with TemporaryDirectory() as folder, ct.open(data) as model:
        path = Path(folder) / "out"
        result = write(model, path)
        return path.read_bytes(), result


def extracted(data: bytes, **request: Any) -> Changed:
    """Extract from a model; what is written must verify."""
    after, result = written(
        data, lambda model, path: ct.surgery.extract(model, path, ct.surgery.ExtractRequest(**request))
    )
    check(after)
    return after, result


def pruned(data: bytes, *, outputs: bool = False) -> Changed:
    """Prune a model; what is written must verify, and has nothing to prune."""
    after, result = written(data, lambda model, path: ct.surgery.prune(model, path, outputs=outputs))
    check(after)
    again, nothing = written(after, lambda model, path: ct.surgery.prune(model, path, outputs=outputs))
    assert (again, nothing.changes) == (after, ())
    return after, result


def edited(data: bytes, change: Callable[[ct.ModelEdit], ct.types.RewriteResult]) -> Changed:
    """Edit a model; what is written must verify."""
    with ct.open(data) as model, ct.edit(model) as edit:
        result = change(edit)
        after = edit.to_bytes()
    check(after)
    return after, result


def check(data: bytes) -> None:
    with ct.open(data) as model:
        assert list(filter(is_dangling, ct.check(model, structure_only=True))) == []


def names(model: Model, tensors: Any, subgraph: int = 0) -> list[str]:
    """Return the names of tensors."""
    return [model.subgraphs[subgraph].tensors[tensor].name if tensor >= 0 else "" for tensor in list(tensors)]


def shape(data: bytes, subgraph: int = 0) -> tuple[list[str], list[str], list[str]]:
    """Return the operators as `CODE inputs > outputs`, and the inputs and outputs, by names."""
    with ct.open(data) as model:
        view = model.subgraphs[subgraph]
        operators = [
            f"{one.code.name} {','.join(names(model, one.inputs, subgraph))} > "
            f"{','.join(names(model, one.outputs, subgraph))}"
            for one in view.operators
        ]
        return operators, names(model, view.inputs, subgraph), names(model, view.outputs, subgraph)


def signatures(data: bytes) -> dict[str, tuple[list[tuple[str, str]], list[tuple[str, str]]]]:
    """Return the signatures: the names of inputs and outputs, each with that of its tensor."""
    with ct.open(data) as model:
        return {
            one.key: (
                [(name, names(model, [at], one.subgraph)[0]) for name, at in one.inputs],
                [(name, names(model, [at], one.subgraph)[0]) for name, at in one.outputs],
            )
            for one in model.signatures
        }


def codes(result: ct.types.RewriteResult) -> list[str]:
    """Return the codes of the notes."""
    return [note.code for note in result.notes]
