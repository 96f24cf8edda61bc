"""Models with aliased outputs, one for each shape that a runtime's own passes are tested with."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np

from tests.kit.build import Build, floats, unranked

BYTES = {"FLOAT32": 4, "INT8": 1, "INT64": 8, "BOOL": 1}


def listing(*outputs: str, inputs: str = "x", shape: Sequence[int] = (2, 2)) -> Build:
    """Return a model of these outputs: an input, the constant `c`, or what is computed of them, as `x+c` or `-x`."""
    build = Build()
    graph = build.graph()
    known = {name: graph.tensor(name, (1, 3) if name == "w" else shape) for name in inputs}
    if "c" in "".join(outputs):
        known["c"] = graph.constant("c", floats(*shape))
    for output in outputs:
        if output not in known:
            operands = [known[name] for name in output.lstrip("-").split("+")]
            known[output] = graph.compute("ADD" if "+" in output else "NEG", operands, output, shape)
    graph.ends([known[name] for name in inputs], [known[output] for output in outputs])
    return build


constant_beside_an_add = partial(listing, "x+x", "c", shape=(1, 2, 2, 1))
input_twice_beside_neg = partial(listing, "x", "x", "-x")
constant_listed_three_times = partial(listing, "c", "x+c", "c", "c")


def result_listed(times: int) -> Build:
    return listing(*["x+y"] * times, inputs="xy")


def while_body_passes_its_input() -> Build:
    """Count to three; the second value of the loop comes back as it went in."""
    build = Build()
    main, condition, body = (build.graph(name) for name in ("main", "condition", "body"))
    zero, x = main.constant("zero", np.zeros((1,), np.int32)), main.tensor("x")
    ends = [main.tensor("count", (1,), "INT32"), main.tensor("y")]
    main.operator("WHILE", [zero, x], ends, cond_subgraph_index=1, body_subgraph_index=2)
    main.ends([x], ends)
    for graph in (condition, body):
        graph.tensor("i", (1,), "INT32")
        graph.tensor("state")
    limit, less = condition.constant("limit", np.array([3], np.int32)), condition.tensor("less", (1,), "BOOL")
    condition.operator("LESS", [0, limit], [less])
    condition.ends([0, 1], [less])
    one, following = body.constant("one", np.ones((1,), np.int32)), body.tensor("following", (1,), "INT32")
    body.operator("ADD", [0, one], [following])
    body.ends([0, 1], [following, 1])
    return build


def loop_with_a_repeated_result() -> Build:
    """As above; the second value of the loop comes out three times."""
    build = while_body_passes_its_input()
    graph = build.model.subgraphs[0]
    graph.outputs = [*graph.outputs, graph.outputs[1], graph.outputs[1]]
    return build


Branch = Sequence[Literal["input", "constant", "negative"]]


def conditional(
    then: Branch, otherwise: Branch, element: str = "FLOAT32", shape: Sequence[int] = (2, 3), *, ranked: bool = True
) -> Build:
    """Choose between two branches by the first input; each gives its input, a constant, its input negated."""
    build = Build()
    main, *branches = (build.graph(name) for name in ("main", "then", "else"))
    ends = [main.tensor("condition", (1,), "BOOL"), main.tensor("x", shape, element)]
    results = [main.tensor(f"y{number}", shape, element) for number in range(len(then))]
    main.operator("IF", ends, results, then_subgraph_index=1, else_subgraph_index=2)
    main.ends(ends, results)
    for graph, outputs in zip(branches, (then, otherwise), strict=True):
        known = {"input": graph.tensor("x", shape, element)}
        if "constant" in outputs:
            data = bytes(number % 2 for number in range(BYTES[element] * math.prod(shape)))
            known["constant"] = graph.tensor("c", shape, element, data=data)
        if "negative" in outputs:
            known["negative"] = graph.compute("NEG", [known["input"]], "negative", shape)
        graph.ends([known["input"]], [known[output] for output in outputs])
        for output in {"input", "negative"} & known.keys() if not ranked else ():
            unranked(graph, known[output])
    return build


def dynamic_reshape() -> Build:
    """Reshape to a shape that is known only at run time; its input is an output, its result two."""
    build = Build()
    graph = build.graph()
    x, shape = graph.tensor("x", (1, 2), shape_signature=(-1, 2)), graph.tensor("shape", (2,), "INT32")
    result = graph.tensor("result", (1, 1), shape_signature=(-1, -1))
    graph.operator("SHAPE", [x], [shape], out_type=2)
    graph.operator("RESHAPE", [x, shape], [result])
    graph.ends([x], [x, result, result])
    return build


CASES: dict[str, tuple[Callable[[], Build], int]] = {
    "constant only": (partial(listing, "c", inputs="", shape=(1, 2, 2, 1)), 1),
    "constant beside an add": (constant_beside_an_add, 1),
    "constant that feeds two adds": (partial(listing, "x+c", "c", "c+x", shape=(1, 2, 2, 1)), 1),
    "input is output": (partial(listing, "x"), 1),
    "inputs crossed": (partial(listing, "w", "x", inputs="xw"), 2),
    "result twice": (partial(result_listed, 2), 1),
    "result three times": (partial(result_listed, 3), 2),
    "input listed twice": (partial(listing, "x", "x"), 2),
    "input twice beside neg": (input_twice_beside_neg, 2),
    "constant three times": (constant_listed_three_times, 3),
    "while body passes its input": (while_body_passes_its_input, 1),
    "while with a repeated result": (loop_with_a_repeated_result, 4),
    "dynamic reshape": (dynamic_reshape, 2),
}
