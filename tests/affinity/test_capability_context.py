"""Rules of context in a capability table: operators that are not taken together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.table import Capability, Refusal, why_not
from circletools.errors import InvalidInputError
from circletools.graph.build import graph_of
from circletools.model.model import open_model
from tests.kit.build import Build


def table_of(*rules: Any, **keys: Any) -> Capability:
    return parse_capability(json.dumps({"operators": {"*": [{}]}, "context": rules} | keys).encode(), "npu.json")


def reasons(rule: Any, returned: bool = False, **keys: Any) -> list[str | None]:
    """Ask about: CAST of x; TRANSPOSE of what it makes; TRANSPOSE of x; TRANSPOSE of y, which is of another rank."""
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x", (2, 3, 4), "UINT8"), graph.tensor("y", (2, 3), "UINT8")
    cast = graph.tensor("cast", (2, 3, 4))
    graph.operator("CAST", [x], [cast], in_data_type=3)
    ends = [graph.compute("TRANSPOSE", [source, -1], name) for source, name in ((cast, "a"), (x, "b"), (y, "c"))]
    graph.ends([x, y], ends)
    with open_model(build.to_bytes()) as model:
        found = why_not(table_of(rule, **keys), graph_of(model, 0), returned=returned)
    return [None if refusal is None else refusal.reason for refusal in found]


CAST, TRANSPOSE = {"operators": ["CAST", "NEG"]}, {"operators": ["TRANSPOSE"]}
FED = "it reads an output of operator 0, CAST: bad rank"
SHARED = "it reads an input of operator 0, CAST: bad rank"


BESIDE: list[tuple[Any, list[str | None]]] = [
    ({"first": CAST, "then": TRANSPOSE}, [None, FED, None, None]),
    ({"first": CAST, "then": {"operators": ["*"]}, "link": "feeds"}, [None, FED, None, None]),
    ({"first": CAST, "then": TRANSPOSE, "link": "shares"}, [None, None, SHARED, None]),
    ({"first": TRANSPOSE, "then": TRANSPOSE}, [None, None, None, None]),
    ({"first": CAST, "then": CAST, "link": "shares"}, [None, None, None, None]),
    ({"first": {**CAST, "inputs": ["INT8"]}, "then": TRANSPOSE}, [None, None, None, None]),
    ({"first": CAST, "then": {**TRANSPOSE, "where": ["input0.dim0 == 2"]}}, [None, FED, None, None]),
    ({"first": CAST, "then": {**TRANSPOSE, "where": ["input0.dim0 == 3"]}}, [None, None, None, None]),
]


def test_pairs_that_are_refused() -> None:
    for rule, expected in BESIDE:
        assert reasons({**rule, "reason": "bad rank"}) == expected


def test_a_wrong_tensor_reaches_the_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    rule = {"first": CAST, "then": CAST, "through": {"operators": ["*"]}, "returned": True, "reason": "bad rank"}
    words = "the graph returns an output that depends on operator 0, CAST: bad rank"
    assert reasons(rule, returned=True) == [None, words, None, None]
    assert reasons(rule) == reasons({**rule, "returned": False}, returned=True) == [None] * 4
    monkeypatch.setattr("circletools.affinity.capability.table._MOST_TRIED", 4 - 4 * 4)
    with pytest.raises(InvalidInputError, match="5 conditions would be tried for the model's 4 operators"):
        reasons(rule)


def test_operators_needed_only_by_an_unread_input_are_accepted() -> None:
    rule, unread = {"first": CAST, "then": CAST}, {"TRANSPOSE": 0}
    assert reasons(rule, unread=unread, operators={"TRANSPOSE": [{}]}) == [None] * 4
    assert None not in reasons(rule, unread=unread, operators={})


def test_a_rule_needs_no_reason_and_leaves_that_of_the_operator() -> None:
    assert str(reasons({"first": CAST, "then": TRANSPOSE})[1]).endswith("operator 0, CAST: refused together")
    build = Build()
    graph = build.graph()
    made = graph.compute("CAST", [graph.tensor("x")], "y")
    graph.ends([0], [graph.compute("TRANSPOSE", [made, -1], "z")])
    document = {"operators": {"CAST": [{}]}, "device": "npu", "context": [{"first": CAST, "then": TRANSPOSE}]}
    with open_model(build.to_bytes()) as model:
        table = parse_capability(json.dumps(document).encode(), "npu.json")
        assert why_not(table, graph_of(model, 0)) == [None, Refusal("npu does not support TRANSPOSE")]


BAD_RULES: list[tuple[Any, str, str]] = [
    ({"first": CAST}, "context[0].then", "must be an object"),
    ({"first": CAST, "then": {}}, "context[0].then.operators", "a nonempty list"),
    ({"first": CAST, "then": {"operators": ["NEGG"]}}, "context[0].then.operators", "did you mean 'NEG'?"),
    ({"first": CAST, "then": {**TRANSPOSE, "ranks": 1}}, "context[0].then", "unknown key 'ranks'"),
    ({"first": CAST, "then": TRANSPOSE, "link": "before"}, "context[0].link", "must be one of feeds, shares"),
    ({"first": CAST, "then": TRANSPOSE, "why": ""}, "context[0]", "unknown key 'why'"),
    ({"first": CAST, "then": TRANSPOSE, "reason": 3}, "context[0].reason", "must be a string"),
]


def test_what_is_malformed_is_refused_with_its_place() -> None:
    for rule, place, message in BAD_RULES:
        with pytest.raises(InvalidInputError) as caught:
            table_of(rule)
        assert place in str(caught.value.location)
        assert message in str(caught.value)
