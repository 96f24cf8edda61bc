"""Choosing operators by words: how a selector is read, and what it chooses."""

from __future__ import annotations

import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.graph.build import model_graph
from circletools.graph.selectors import Chooser, Selector, parse_ranges, parse_selector
from circletools.model.model import open_model
from tests.kit.build import Build, Graph

ORIGINS = [{0: ["block1/conv"], 1: ["block1/conv", "block2/conv"]}, {0: ["head"]}]


def two_subgraphs() -> bytes:
    """Return a model whose first subgraph has TANH, SPLIT (two outputs), NEG, whose second NEG."""
    build = Build()
    main, other = Graph(build, "main"), Graph(build, "other")
    x, one, half, rest, end = (main.tensor(name) for name in ("x", "a/one", "a/half", "b[0]", "b/end"))
    axis = main.tensor("axis", (), "INT32")
    main.operator("TANH", [x], [one])
    main.operator("SPLIT", [axis, one], [half, rest], num_splits=2)
    main.operator("NEG", [half], [end])
    main.ends([x], [rest, end])
    y, negative = other.tensor("y"), other.tensor("a/one")
    other.operator("NEG", [y], [negative])
    other.ends([y], [negative])
    return build.to_bytes()


DATA = two_subgraphs()


def chosen(selector: str | Selector, *, origins: bool = True) -> dict[int, list[int]]:
    with open_model(DATA) as model:
        chooser = Chooser(model_graph(model), ORIGINS if origins else ())
        return chooser.choose(parse_selector(selector) if isinstance(selector, str) else selector)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("index:0", {0: [0]}),
        ("index:1-2", {0: [1, 2]}),
        ("index:2,0-1,1", {0: [0, 1, 2]}),
        ("0/index:2", {0: [2]}),
        ("1/index:0", {1: [0]}),
        ("op:NEG", {0: [2], 1: [0]}),
        ("op:*", {0: [0, 1, 2], 1: [0]}),
        ("op:[ST]*", {0: [0, 1]}),
        ("1/op:*", {1: [0]}),
        ("name:a/*", {0: [0, 1], 1: [0]}),
        ("0/name:a/one", {0: [0]}),
        ("name:b[0]", {0: [1]}),
        ("name:b?end", {0: [2]}),
        ("origin:block1/*", {0: [0, 1]}),
        ("origin:*2*", {0: [1]}),
        ("origin:head", {1: [0]}),
    ],
)
def test_what_a_selector_chooses(words: str, found: dict[int, list[int]]) -> None:
    assert chosen(words) == found
    assert str(parse_selector(words)) == words


def test_a_literal_name_is_that_of_the_first_output() -> None:
    assert chosen(Selector("name", "a/half", literal=True)) == {0: [1]}
    for pattern in ("b[0]", "a/*"):
        with pytest.raises(UsageError, match="matches no operator"):
            chosen(Selector("name", pattern, literal=True))


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("index:3", "index:3: operator 3 does not exist (subgraph 0 has 3)"),
        ("index:0-3", "index:0-3: operator 3 does not exist (subgraph 0 has 3)"),
        ("1/index:1", "1/index:1: operator 1 does not exist (subgraph 1 has 1)"),
        ("2/index:0", "2/index:0: subgraph 2 does not exist (the count is 2)"),
        ("2/op:*", "2/op:*: subgraph 2 does not exist (the count is 2)"),
        ("op:TANG", "op:TANG matches no operator (did you mean 'TANH'?)"),
        ("1/op:TANH", "1/op:TANH matches no operator (available: NEG)"),
        ("name:a/on", "name:a/on matches no operator (did you mean 'a/one'?)"),
        ("origin:zzz", "origin:zzz matches no operator (available: block1/conv, block2/conv, head)"),
    ],
)
def test_a_selector_that_chooses_nothing(words: str, text: str) -> None:
    with pytest.raises(UsageError) as caught:
        chosen(words)
    assert str(caught.value) == text


def test_without_origins_none_is_known() -> None:
    with pytest.raises(UsageError, match="no origins"):
        chosen("origin:*", origins=False)


def test_a_subgraph_without_operators() -> None:
    build = Build()
    Graph(build, "main").ends([], [])
    with open_model(build.to_bytes()) as model:
        for words, text in (("op:*", "there are no names"), ("index:0", "subgraph 0 has 0")):
            with pytest.raises(UsageError, match=text):
                Chooser(model_graph(model)).choose(parse_selector(words))
    build.model.subgraphs = []
    with open_model(build.to_bytes()) as model, pytest.raises(UsageError, match="subgraph 0 has 0"):
        Chooser(model_graph(model)).choose(parse_selector("index:0"))


@pytest.mark.parametrize(
    "words", ["", "op:", "operator:3", "op", "index:", "index:a", "index:-1", "-1/op:*", "1234567/op:*", "x/op:*"]
)
def test_words_that_are_no_selector(words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_selector(words)
    assert caught.value.hint


def test_the_parts_of_a_selector() -> None:
    assert parse_selector("999999/index: 3 ,5-7") == Selector("index", " 3 ,5-7", 999999, ((3, 3), (5, 7)))
    assert parse_selector("name:a\nb:c/*") == Selector("name", "a\nb:c/*")


@pytest.mark.parametrize("kind", ["name", "op", "origin"])
def test_a_pattern_has_a_greatest_length(kind: str) -> None:
    assert len(parse_selector(f"{kind}:" + "a" * 10_000).pattern) == 10_000
    with pytest.raises(UsageError, match="the pattern has 10001 characters; at most 10000 are allowed"):
        parse_selector(f"{kind}:" + "a" * 10_001)


def test_a_list_of_indices_may_be_longer() -> None:
    assert len(parse_selector("index:" + ",".join(["7"] * 6000)).ranges) == 6000


@pytest.mark.parametrize(
    ("words", "ranges"),
    [("0", ((0, 0),)), ("0-10,15", ((0, 10), (15, 15))), ("3-3", ((3, 3),)), (" 999999999 ", ((999999999,) * 2,))],
)
def test_ranges(words: str, ranges: tuple[tuple[int, int], ...]) -> None:
    assert parse_ranges(words) == ranges


@pytest.mark.parametrize("words", ["", "3-2", "1-0", "a", "1,", "1-", "1-2-3", "1000000000"])
def test_invalid_ranges(words: str) -> None:
    with pytest.raises(UsageError, match="is not an operator index or range"):
        parse_ranges(words)


@pytest.mark.parametrize(
    ("selector", "exact"),
    [
        (Selector("name", "a[0]"), True),
        (Selector("name", "a*"), False),
        (Selector("name", "a?"), False),
        (Selector("name", "a*", literal=True), True),
    ],
)
def test_a_selector_without_wildcards_names_what_it_chooses(selector: Selector, *, exact: bool) -> None:
    assert selector.is_exact is exact


def test_patterns_are_not_tried_on_any_number_of_names(monkeypatch: pytest.MonkeyPatch) -> None:
    build, long = Build(), "a" * 127
    graph = build.graph()
    graph.ends([0], [graph.compute("TANH", [graph.compute("NEG", [graph.tensor("x")], long)], "b")])

    def choose(most: int) -> list[dict[int, list[int]]]:
        monkeypatch.setattr("circletools.graph.selectors._MOST_TRIED", most)
        with open_model(build.to_bytes()) as model:
            chooser = Chooser(model_graph(model))
            return [chooser.choose(Selector("name", pattern)) for pattern in ("*", long, "b", "[b]")]

    assert choose(98) == [{0: [0, 1]}, {0: [0]}, {0: [1]}, {0: [1]}]
    with pytest.raises(InvalidInputError, match="more than 97 comparisons"):
        choose(97)
