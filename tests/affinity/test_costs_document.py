"""The document of costs: what is malformed, which time counts for an operator, and that every model is assigned."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.affinity.assign import Assignment, Constraints
from circletools.affinity.costs.times import Costs, Defaults, cost_tables, operator_bytes, parse_costs
from circletools.affinity.partitioning import assign_by_cost
from circletools.affinity.problem import Sizing
from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import open_model
from tests.kit.support import own_models, path_of, title

DIAMOND = path_of("circle/diamond")  # FULLY_CONNECTED feeds TANH, LOGISTIC, RELU; MUL of the first two; ADD


NO_DOCUMENTS: list[tuple[str, str]] = [
    ("[]", "must be an object"),
    ('{"devices": {}}', "`devices` must be a list"),
    ('{"devices": [\n{"nam": 1}]}', "costs.json:2: unknown key `nam`"),
    ('{"devices": [\n{"name": "a"},\n{"name": "a"}]}', "costs.json:3: duplicate entry"),
    ('{"devices": [{"name": "*"}]}', "cannot be named"),
    ('{"devices": [{"name": "a", "launch_us": -1}]}', "number from 0"),
    ('{"devices": [{"name": "a", "launch_us": true}]}', "number from 0"),
    ('{"devices": [{"name": "a", "launch_us": "1"}]}', "number from 0"),
    ('{"devices": [{"name": "a", "launch_us": 1000000000000001}]}', "number from 0 to 1e+15"),
    ('{"devices": [{"name": "a", "launch_us": NaN}]}', "NaN is not a JSON number"),
    ('{"devices": [{"name": "a", "launch_us": 1e999}]}', "1e999 is too large"),
    ('{"devices": [{"name": "a", "operators": [{"select": "op:*"}]}]}', "`time_us` or `bytes_per_us` is needed"),
    ('{"devices": [{"name": "a", "operators": [{"select": "op:*", "bytes_per_us": 0}]}]}', "1e-09"),
    ('{"devices": [{"name": "a", "operators": [{"select": "ADD", "time_us": 1}]}]}', "is not a selector"),
    ('{"devices": [{"name": "a"}], "transfers": [{"from": "a", "to": "b"}]}', "'b' is not among"),
    ('{"devices": [{"name": "a", "name": "b"}]}', "the key 'name' occurs twice"),
    ('{"schema_version": 2, "devices": []}', "schema_version 2 is not known"),
]


def test_a_document_that_is_none() -> None:
    for words, text in NO_DOCUMENTS:
        with pytest.raises(CircleToolsError) as caught:
            parse_costs(words, "costs.json")
        assert text in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.sampled_from(["a", "*", "op:*", "index:0", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "devices",
                    "transfers",
                    "name",
                    "operators",
                    "select",
                    "time_us",
                    "bytes_per_us",
                    "from",
                    "to",
                    "launch_us",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_any_document_is_read_or_refused(document: Any) -> None:
    with suppress(CircleToolsError):
        parse_costs(json.dumps(document), "costs.json")


def times_of(document: dict[str, Any], path: Path = DIAMOND) -> list[float]:
    with open_model(path) as model:
        parsed = parse_costs(json.dumps(document), "costs.json")
        (first, *_) = cost_tables(Chooser(model_graph(model)), ["npu"], Costs(parsed, {}, Defaults()))
        times: list[float] = first.times_us[:, 0].tolist()
        return times


def test_the_more_particular_time_counts() -> None:
    rows = [
        {"select": "op:*", "time_us": 1},
        {"select": "op:TANH", "time_us": 2},
        {"select": "index:3", "time_us": 3},
        {"select": "op:MUL", "time_us": 9},
        {"select": "op:CONV_2D", "time_us": 9},  # of the format, not of this model
    ]
    assert times_of({"devices": [{"name": "npu", "operators": rows}]}) == [1, 2, 1, 3, 1, 1]


@pytest.mark.parametrize("select", ["op:CONV2D", "index:99", "name:nothing"])
def test_a_time_that_chooses_nothing(select: str) -> None:
    with pytest.raises(CircleToolsError, match=re.escape(select)):
        times_of({"devices": [{"name": "npu", "operators": [{"select": select, "time_us": 1}]}]})


def test_a_rate_counts_what_is_read_and_written() -> None:
    rate = [{"select": "op:*", "bytes_per_us": 4, "time_us": 1}]
    # x and y of 1 x 8, constants of 8 x 8 and 8; then tensors of 1 x 8 in FLOAT32.
    assert times_of({"devices": [{"name": "npu", "operators": rate}]}) == [1 + 88, 17, 17, 25, 17, 25]


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_every_model_can_be_assigned(path: Path) -> None:
    words = {
        "devices": [
            {"name": "npu", "launch_us": 3, "operators": [{"select": "op:*", "bytes_per_us": 100}]},
            {"name": "cpu", "operators": [{"select": "op:*", "time_us": 1, "bytes_per_us": 50}]},
        ]
    }
    with open_model(path) as model:
        parsed = parse_costs(json.dumps(words), "costs.json")
        costs = Costs(parsed, {}, Defaults())
        chooser = Chooser(model_graph(model))
        problems = cost_tables(chooser, parsed.devices, costs)
        for goal in (Sizing(), Sizing(seconds=1.0), Sizing(caps={0: 4096}, seconds=1.0)):
            made: Assignment = assign_by_cost(chooser, Constraints(parsed.devices), problems, goal)
            assert [len(row) for row in made.numbers] == [len(subgraph.operators) for subgraph in model.subgraphs]
        assert all(
            len(operator_bytes(facts)) == len(row)
            for facts, row in zip(chooser.model.graphs, made.numbers, strict=True)
        )
