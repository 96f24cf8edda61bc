"""Small graphs in words: `a = FC1 x; b = RELU a; c = TANH a -> b c` has an input x and the outputs b and c.

FC1, FC1*2       FULLY_CONNECTED with constants of its own, the first of several such; with these times 2
FC1:0            the same with a bias of zeros
MUL#7, ADD#7     with a constant of one element for each channel; ADD##7 with the bias of FC7
MUL~7            with one element
CONV@RELU        any operator with a fused activation
"""

from __future__ import annotations

import re

import numpy as np

from tests.kit.build import Build, Graph, floats
from tests.kit.tracking_support import tracked

_WORD = re.compile(
    r"(?P<code>[A-Z_2D]+?)(?P<own>\d+)?(\*(?P<times>\d+))?(?P<zero>:0)?(#(?P<more>#?\d+)|~(?P<one>\d+))?(@(?P<act>\w+))?$"
)
_SHAPE = (8, 8)


def sketch(text: str, *, named: bool = False) -> bytes:
    """Return the model that a text describes; with `named`, values have the names in the text."""
    steps, _, ends = text.partition("->")
    build = Build()
    graph = build.graph()
    at = {"x": graph.tensor("x" if named else "", _SHAPE)}
    for step in filter(None, map(str.strip, steps.split(";"))):
        made, words = (part.split() for part in step.split("="))
        values = [at.setdefault(word, -1) for word in words[1:]]
        for name in made:
            at[name] = graph.tensor(name if named else "", _SHAPE)
        _operator(graph, words[0], values, [at[name] for name in made])
    graph.ends([at["x"]], [at[name] for name in ends.split()])
    return build.to_bytes()


def _operator(graph: Graph, word: str, inputs: list[int], outputs: list[int]) -> None:
    found = _WORD.match(word)
    assert found is not None, word
    code, constants = found["code"], []
    if code == "FC":
        code, number, times = "FULLY_CONNECTED", int(found["own"]), float(found["times"] or 1)
        bias = np.zeros(8, np.float32) if found["zero"] else np.float32(times) * floats(8, seed=50 + number)
        constants = [np.float32(times) * floats(8, 8, seed=number), bias]
    elif found["own"]:
        code += found["own"]
    if found["more"]:
        bias_of = found["more"].removeprefix("#")
        constants.append(
            floats(8, seed=50 + int(bias_of)) if "#" in found["more"] else floats(8, seed=90 + int(bias_of))
        )
    if found["one"]:
        constants.append(np.array([int(found["one"])], np.float32))
    options = {"fused_activation_function": found["act"]} if found["act"] else {}
    graph.operator(code, [*inputs, *(graph.constant("", data) for data in constants)], outputs, **options)


def sources(before: str, after: str, *, named: bool = False) -> list[str]:
    """Return what each operator of AFTER is found to compute, by the letters of what BEFORE's operators make."""
    steps = before.partition("->")[0].split(";")
    letters = [step.split()[0] for step in steps]
    tracking = tracked(sketch(before, named=named), sketch(after, named=named))
    count = after.count("=")
    return ["".join(letters[source] for source in sorted(tracking.origins.of(0, row))) for row in range(count)]
