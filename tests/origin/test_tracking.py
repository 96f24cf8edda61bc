"""Origins through tools that know nothing of them. Truths come from how a model was made, or from watching a tool."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.tracking_pairs import Pair, Score, judge, load, renumbered, rotated, shuffled, without_names
from circletools.model.model import open_model
from tests.kit.build import Build
from tests.kit.origin_support import entries
from tests.kit.support import TESTDATA, own_models, title
from tests.kit.tracking_support import chain, found, tracked


@cache
def pairs() -> list[Pair]:
    """Return the recorded pairs."""
    return list(load(TESTDATA / "tracking"))


def score_of(pairs: Sequence[Pair]) -> Score:
    score = Score()
    for pair in pairs:
        score += judge(pair)
    return score


def test_there_are_pairs_of_both_tools() -> None:
    assert Counter(pair.name.endswith(".optimised") for pair in pairs()) == {True: 3, False: 6}
    assert sum(len(sources) for pair in pairs() for sources in pair.truth.values()) > 150


def test_with_names() -> None:
    score = score_of(pairs())
    assert score.precision >= 0.99
    assert score.recall >= 0.95


@pytest.mark.parametrize("both", [False, True])
def test_without_names(both: bool) -> None:
    bare = [replace(pair, after=without_names(pair.after)) for pair in pairs()]
    score = score_of([replace(pair, before=without_names(pair.before)) for pair in bare] if both else bare)
    assert score.precision >= 0.9
    assert score.recall >= 0.8


def test_names_that_were_reassigned_are_not_trusted() -> None:
    score = score_of(
        [replace(pair, before=renumbered(pair.before), after=renumbered(pair.after)) for pair in pairs()]
    )
    assert score.precision >= 0.9
    assert score.recall >= 0.8


def test_names_that_changed_places_are_not_believed() -> None:
    bare = [pair for pair in pairs() if not pair.name.startswith("variable")]
    score = score_of([replace(pair, after=rotated(pair.after)) for pair in bare])
    assert score.precision >= 0.99
    assert score.recall >= 0.95


def test_two_names_that_changed_places_among_many_that_did_not() -> None:
    codes = ["FULLY_CONNECTED", "RELU"] * 6
    swapped = {1: 5, 5: 1}
    before = chain(*codes, names=lambda n: f"dense/{n}")
    after = chain(*codes, names=lambda n: f"dense/{swapped.get(n, n)}")
    assert found(before, after) == [{number} for number in range(12)]


def test_names_that_moved_on_are_not_believed() -> None:
    """A converter that numbers its tensors drops two operators at the start: all names are those of others."""
    codes = ["FULLY_CONNECTED", "RELU"] * 6
    before = chain("NEG", "NEG", *codes, names=lambda n: f"t{n}", first=-2)
    after = chain(*codes, names=lambda n: f"t{n}")
    tracking = tracked(before, after)
    assert [max(why, key=lambda source: why[source].confidence) for why in tracking.grounds[0].values()] == [
        *range(2, 14)
    ]
    assert [set(tracking.origins.of(0, index)) for index in range(1, 12)] == [{n} for n in range(3, 14)]


def test_certain_pairs_are_right_more_often_than_uncertain_ones() -> None:
    sure = [right for _, confidence, right in score_of(pairs()).sure if confidence >= 0.9]
    assert sum(sure) >= 0.99 * len(sure) > 0


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_a_model_is_itself(path: Path) -> None:
    tracking = tracked(path.read_bytes(), path.read_bytes())
    with open_model(path) as model:
        counts = [len(subgraph.operators) for subgraph in model.subgraphs]
    number = 0
    for subgraph, count in enumerate(counts):
        for operator in range(count):
            ((source, grounds),) = tracking.grounds[subgraph][operator].items()
            assert source == number
            assert grounds.confidence == 1.0
            number += 1


CODES = {"ADD": 2, "MUL": 2, "RELU": 1, "TANH": 1, "LOGISTIC": 1}
Drawn = tuple[list[tuple[str, list[int]]], list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> Drawn:
    """Draw operators, by code and what they take (-1 and -2 are the inputs), and which are outputs."""
    operators: list[tuple[str, list[int]]] = []
    for index in range(draw(st.integers(1, 6))):
        code = draw(st.sampled_from(sorted(CODES)))
        taken = st.lists(st.integers(-2, index - 1), min_size=CODES[code], max_size=CODES[code])
        operators.append((code, draw(taken)))
    used = {taken for _, inputs in operators for taken in inputs}
    ends = [index for index in range(len(operators)) if index not in used]
    return operators, draw(st.permutations(ends))


def built(drawn: Drawn) -> bytes:
    """Return a model without names."""
    operators, outputs = drawn
    build = Build()
    graph = build.graph("")
    tensors = {-1: graph.tensor(""), -2: graph.tensor("")}
    for index, (code, inputs) in enumerate(operators):
        tensors[index] = graph.compute(code, [tensors[taken] for taken in inputs], "")
    graph.ends([tensors[-1], tensors[-2]], [tensors[index] for index in outputs])
    return build.to_bytes()


def automorphisms(drawn: Drawn) -> int:
    """Count the ways to exchange operators that change nothing, by trying all."""
    operators, outputs = drawn
    count = 0
    for order in permutations(range(len(operators))):
        new = {**dict(enumerate(order)), -1: -1, -2: -2}
        same = all(
            operators[new[index]] == (code, [new[taken] for taken in inputs])
            for index, (code, inputs) in enumerate(operators)
        )
        count += same and [new[index] for index in outputs] == outputs
    return count


@given(graphs())
def test_without_names_a_graph_is_itself_where_it_has_no_symmetry(drawn: Drawn) -> None:
    data = built(drawn)
    tracking = tracked(data, data)
    if automorphisms(drawn) == 1:
        assert tracking.origins.operators == entries({index: {index} for index in range(len(drawn[0]))})
        assert {why.confidence for entry in tracking.grounds[0].values() for why in entry.values()} == {1.0}


@given(graphs(), st.integers(0, 2**32))
def test_the_order_of_operators_does_not_matter(drawn: Drawn, seed: int) -> None:
    data = built(drawn)
    other, (order,) = shuffled(data, seed)
    if automorphisms(drawn) == 1:
        assert tracked(data, other).origins.operators == entries({new: {old} for new, old in enumerate(order)})


@pytest.mark.parametrize("path", own_models(), ids=title)
def test_models_in_another_order(path: Path) -> None:
    data = path.read_bytes()
    other, orders = shuffled(data, 3)
    with open_model(data) as model:
        starts = model.operator_columns.splits.tolist()
    expected = [{new: {starts[s] + old} for new, old in enumerate(order)} for s, order in enumerate(orders)]
    assert [dict(operators) for operators in tracked(data, other).origins.operators] == expected
