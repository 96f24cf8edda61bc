"""Strands of a few operators through rewrites: which source each operator has, on what evidence, how sure.

A line of tracking_strands.txt is BEFORE, AFTER, and what is found, operator=source:evidence. A word is an operator
code, behind a colon the name of what it makes; FC1 is FULLY_CONNECTED with constants of its own, the first of several
such. `?` marks what is one of several (0.5), `~` what is below 0.5, `!` what the command leaves out (below 0.25).
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.build import Build
from tests.kit.origin_support import entries
from tests.kit.tracking_support import own_constants, tracked

CASES = Path(__file__).with_name("tracking_strands.txt").read_text(encoding="utf-8").splitlines()


def strand(words: str) -> bytes:
    """Return a model whose operators take the value of the one before."""
    build = Build()
    graph = build.graph()
    value = start = graph.tensor("x", (4, 4))
    for word in words.split():
        code, _, name = word.partition(":")
        constants = own_constants(graph, int(code[2:])) if code.startswith("FC") else []
        code = "FULLY_CONNECTED" if constants else code
        value = graph.compute(code, [value, *constants], name, (4, 4))
    graph.ends([start], [value])
    return build.to_bytes()


def text(before: str, after: str) -> str:
    """Return what is found in words."""
    (operators,) = tracked(strand(before), strand(after)).grounds
    return " ".join(
        f"{index}={source}:{why.evidence.value}{mark(why.confidence)}"
        for index, sources in sorted(operators.items())
        for source, why in sources.items()
    )


def mark(confidence: float) -> str:
    return "!" if confidence < 0.25 else "~" if confidence < 0.5 else "?" if confidence < 0.9 else ""


@pytest.mark.parametrize("case", [line for line in CASES if line[0] != "#"])
def test_strands(case: str) -> None:
    before, after, expected = (part.strip() for part in case.split("|"))
    assert text(before, after) == expected


def two_strands(turned: bool, signature: bool) -> bytes:
    """Return x -> NEG -> a and y -> NEG -> b in a subgraph behind another one; `turned`, the second comes first."""
    build = Build()
    main, graph = build.graph(), build.graph("two")
    main.ends([main.tensor("m")], [])
    ends = []
    for _ in range(2):
        given = graph.tensor("", (4, 4))
        ends.append((given, graph.compute("NEG", [given], "", (4, 4))))
    graph.ends([given for given, _ in ends], [made for _, made in ends])
    if signature:
        (x, a), (y, b) = ends[::-1] if turned else ends
        build.signature("two", [("x", x), ("y", y)], [("a", a), ("b", b)], subgraph=1)
    return build.to_bytes()


@pytest.mark.parametrize("signature", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_inputs_and_outputs_are_known_by_the_names_of_a_signature(turned: bool, signature: bool) -> None:
    _, operators = tracked(two_strands(False, signature), two_strands(turned, signature)).origins.operators
    assert operators == ({0: {1}, 1: {0}} if turned and signature else {0: {0}, 1: {1}})


@pytest.mark.parametrize("subgraph", [1, 2])
def test_a_signature_of_a_missing_subgraph_is_ignored(subgraph: int) -> None:
    models = []
    for number in (subgraph, 0):
        build = Build()
        graph = build.graph()
        given = graph.tensor("", (4, 4))
        made = graph.compute("NEG", [given], "", (4, 4))
        graph.ends([given], [made])
        build.signature("main", [("x", given)], [("y", made)], subgraph=number)
        models.append(build.to_bytes())
    for before, after in (models, models[::-1], [models[0], models[0]]):
        assert tracked(before, after).origins.operators == entries({0: {0}})


@pytest.mark.parametrize("tensor", [3, 4, 5])
def test_a_missing_tensor_of_a_signature_is_ignored(tensor: int) -> None:
    build = Build()
    main, graph = build.graph(), build.graph("two")
    main.ends([main.tensor("m")], [])
    given = [graph.tensor("", (4, 4)) for _ in range(2)]
    made = [graph.compute("NEG", [one], "", (4, 4)) for one in given]
    graph.ends(given, made)
    build.signature("two", [("x", 0), ("y", tensor)], [("a", 2), ("b", tensor)], subgraph=1)
    data = build.to_bytes()
    assert tracked(data, data).origins.operators == entries({}, {0: {0}, 1: {1}})
