"""Models in which one operator calls subgraphs: one for each of the operators that can."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tests.kit.build import Build, Graph

SHAPE = (1, 4)
BODY = ("TANH", "EXP", "TANH", "ABS", "EXP")

CALLERS: dict[str, tuple[int, Callable[[list[int]], dict[str, Any]]]] = {
    "CALL_ONCE": (1, lambda called: {"init_subgraph_index": called[0]}),
    "IF": (2, lambda called: {"then_subgraph_index": called[0], "else_subgraph_index": called[1]}),
    "WHILE": (2, lambda called: {"cond_subgraph_index": called[0], "body_subgraph_index": called[1]}),
    "CALL": (1, lambda called: {"subgraph": called[0]}),
    "STABLEHLO_CASE": (3, lambda called: {"branch_subgraph_indices": called}),
    "STABLEHLO_COMPOSITE": (1, lambda called: {"decomposition_subgraph_index": called[0]}),
    "STABLEHLO_WHILE": (2, lambda called: {"cond_subgraph_index": called[0], "body_subgraph_index": called[1]}),
    "STABLEHLO_CUSTOM_CALL": (2, lambda called: {"called_computations": called}),
    "STABLEHLO_REDUCE": (1, lambda called: {"body_subgraph_index": called[0]}),
    "STABLEHLO_REDUCE_WINDOW": (1, lambda called: {"body_subgraph_index": called[0]}),
    "STABLEHLO_SORT": (1, lambda called: {"comparator_subgraph_index": called[0]}),
    "STABLEHLO_SCATTER": (1, lambda called: {"update_computation_subgraph_index": called[0]}),
}
"""Operator -> how many subgraphs it calls, and the options that name them."""


def calling(caller: str, *, prefix: str = "", idle: int = 0, body: Sequence[str] = BODY, nested: str = "") -> bytes:
    """Return a model whose main subgraph calls others by its operator 2; these all have the same operators.

    `prefix` begins the names of tensors; subgraphs have none. `idle` subgraphs that nobody calls stand between the
    main one and the others. With `nested`, an operator of that code in the last called subgraph calls more.
    """
    build = Build()
    main = build.graph("")
    for number in range(idle):
        _chain(build.graph(""), ["NEG"] * (number + 2), f"{prefix}idle{number}.")
    called = [_chain(build.graph(""), body, f"{prefix}{caller}{number}.") for number in range(CALLERS[caller][0])]
    if nested:
        inner = [_chain(build.graph(""), body, f"{prefix}inner{number}.") for number in range(CALLERS[nested][0])]
        outer = called[-1]
        y = _call(outer, nested, inner, outer.table.outputs[0], f"{prefix}nested")
        outer.ends(outer.table.inputs, [y])
    x = main.tensor(f"{prefix}x", SHAPE)
    y = _call(main, caller, called, _operators(main, ["NEG", "ABS"], x, f"{prefix}before"), f"{prefix}y")
    main.ends([x], [_operators(main, ["EXP", "NEG"], y, f"{prefix}after")])
    return build.to_bytes()


def _chain(graph: Graph, codes: Sequence[str], prefix: str) -> Graph:
    """Fill a subgraph with operators of one input and one output, one behind the other."""
    x = graph.tensor(f"{prefix}x", SHAPE)
    graph.ends([x], [_operators(graph, codes, x, prefix)])
    return graph


def _operators(graph: Graph, codes: Sequence[str], source: int, prefix: str) -> int:
    for index, code in enumerate(codes):
        source = graph.compute(code, [source], f"{prefix}{index}", SHAPE)
    return source


def _call(graph: Graph, caller: str, called: Sequence[Graph], source: int, name: str) -> int:
    """Append the caller; return what it gives, for one that gives nothing what it could have taken."""
    options = CALLERS[caller][1]([one.index for one in called])
    result = source if caller == "CALL_ONCE" else graph.tensor(name, SHAPE)
    inputs, outputs = ([], []) if caller == "CALL_ONCE" else ([source], [result])
    graph.operator(caller, inputs, outputs, **options)
    return result
