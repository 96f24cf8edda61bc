"""How operators are paired: which can be each other, along which slots pairs spread, and how sure a pair is."""

from __future__ import annotations

from itertools import pairwise

import pytest

from circletools.origin.tracking.kinship import kinship
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.score import Evidence, Scorer, drop_the_unlikely
from circletools.origin.tracking.side import NONE
from circletools.origin.tracking.witnesses import Witnesses
from tests.kit.build import Build, Graph, floats
from tests.kit.tracking_support import matcher

Words = str
"""Operators by a line each: `name = CODE reads...`; a small letter is an input, `k1` a constant, `s1` a small one."""


def wired(words: Words, outputs: str, inputs: str = "x", shapes: dict[str, tuple[int, ...]] | None = None) -> bytes:
    """Return a model; its operators make tensors of a name, or several joined by commas."""
    build = Build()
    graph: Graph = build.graph()
    shape: dict[str, tuple[int, ...]] = dict.fromkeys(inputs, (4, 4)) | (shapes or {})
    made = {name: graph.tensor(name, shape[name]) for name in inputs}

    def read(name: str) -> int:
        if name not in made:
            kind, seed = name[0], int(name[1:])
            made[name] = graph.constant("", floats(4, 4, seed=seed) if kind == "k" else floats(2, seed=seed))
        return made[name]

    for line in filter(None, map(str.strip, words.split(";"))):
        names, _, rest = line.partition(" = ")
        code, *reads = rest.split()
        tensors = [read(name) for name in reads]
        results = [graph.tensor(name.strip("_"), shape.get(name, (4, 4))) for name in names.split(",") if name != "-"]
        graph.operator(code, tensors, results)
        made |= dict(zip(names.split(","), results, strict=False))
    graph.ends([made[name] for name in inputs], [made[name] for name in outputs.split()])
    return build.to_bytes()


def pairs(found: Matcher) -> list[tuple[int, int]]:
    """Return the pairs, by AFTER's row; what either side says of them is the same."""
    pairs = [(old, new) for new, old in enumerate(found.pairs.to_before) if old != NONE]
    assert sorted(pairs) == [(old, new) for old, new in enumerate(found.pairs.to_after) if new != NONE]
    return pairs


# --- what can be each other ---------------------------------------------------------------------------------


FITTING: list[tuple[str, str, tuple[tuple[int, ...], tuple[int, ...]] | None, bool, bool]] = [
    ("a = TANH x", "a = TANH x", None, True, True),
    ("a = TANH x", "a = EXP x", None, False, False),
    ("a = ADD x x", "a = ADD x k1", None, False, False),
    ("a = ADD x k2", "a = ADD x k1", None, True, True),  # constants that only one model has say nothing
    ("a = TANH x", "a = TANH x", ((4, 5), (4, 4)), False, True),
    ("a = TANH x", "a = TANH x", ((16,), (4, 4)), True, True),
    ("a = TANH x", "a = TANH x", ((0, 5), (4, 4)), True, True),
    ("a = TANH x", "a = TANH x", ((4, 4), (-1, 4)), True, True),
]


def test_which_operators_can_be_each_other() -> None:
    for before, after, shapes, fits, without_sizes in FITTING:
        own = [{"a": shape} for shape in shapes] if shapes else [None, None]
        found = matcher(wired(before, "a", shapes=own[0]), wired(after, "a", shapes=own[1]))
        assert (found.fits(0, 0), found.fits(0, 0, by_size=False)) == (fits, without_sizes)


def test_operators_that_hold_constants_of_others_are_not_each_other() -> None:
    before = (
        "a = FULLY_CONNECTED x k1; b = FULLY_CONNECTED a k2; c = FULLY_CONNECTED b k1 k2; d = FULLY_CONNECTED c s3"
    )
    after = "a = FULLY_CONNECTED x k2; b = FULLY_CONNECTED a k1; c = FULLY_CONNECTED b k9; d = FULLY_CONNECTED c s3"
    found = matcher(wired(before, "d"), wired(after, "d"))
    assert [[found.fits(old, new) for new in range(4)] for old in range(4)] == [
        [False, True, True, True],
        [True, False, True, True],
        [True, True, True, True],
        [True, True, True, True],
    ]
    numbers = [found.classes.numbers[0].tolist()[tensor] for tensor in (1, 3)]
    assert found.held[0] == {0: {numbers[0]}, 1: {numbers[1]}, 2: set(numbers)}
    assert found.held[1] == {0: {numbers[1]}, 1: {numbers[0]}}


def test_what_converts_is_looked_through_at_first() -> None:
    words = "a = TANH x; q = QUANTIZE a; r = RESHAPE q; d = DEQUANTIZE r; b = EXP d"
    found = matcher(wired(words, "b"), wired("a = TANH x; b = EXP a", "b"))
    assert found.views[0].hidden.tolist() == [False, True, False, True, False]
    found.look_through_the_rest()
    assert found.views[0].hidden.tolist() == [True] * 5
    found.pairs.add(0, 0)
    found.look_through_the_rest()
    assert found.views[0].hidden.tolist() == [False, True, True, True, True]
    assert found.views[1].hidden.tolist() == [False, True]
    found.look_at_everything()
    assert [seen.hidden.any() for seen in found.views] == [False, False]
    assert list(found.pairs.fresh).count((0, 0)) == 2  # when it was paired, and now that something free is beside it


def test_what_hands_one_value_on() -> None:
    words = (
        "a = ADD x x; b = MUL a k1; c = ADD k1 k2; d,e = SPLIT b; - = ASSIGN_VARIABLE d; f = VAR_HANDLE; g = PAD s1 e"
    )
    data = wired(words, "g f c")
    found = matcher(data, data)
    found.look_through_the_rest()
    assert found.views[0].hidden.tolist() == [False, True, False, False, False, False, True]
    assert found.computed[0] == [2, 1, 0, 1, 1, 0, 1]
    assert found.sizes[0].tolist() == [16, 16, 16, 16, 0, 16, 16]


# --- along the graph ----------------------------------------------------------------------------------------


SPREADING: list[tuple[str, str, str, tuple[int, int], list[tuple[int, int]]]] = [
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a", "b", (0, 0), [(0, 0), (1, 1)]),
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a", "b", (1, 1), [(0, 0), (1, 1)]),
    ("a = TANH x; b = EXP a", "a = TANH x; b = ABS a", "b", (0, 0), [(0, 0)]),
    # The second output is not the first.
    ("a,b = SPLIT x; c = EXP a", "a,b = SPLIT x; c = EXP b", "c", (0, 0), [(0, 0)]),
    ("a,b = SPLIT x; c = EXP b", "a,b = SPLIT x; c = EXP b", "c", (0, 0), [(0, 0), (1, 1)]),
    ("a,b = SPLIT x; c = EXP a", "a,b = SPLIT x; c = EXP b", "c", (1, 1), [(1, 1)]),
    ("a,b = SPLIT x; c = EXP b", "a,b = SPLIT x; c = EXP b", "c", (1, 1), [(0, 0), (1, 1)]),
    # Nor is the second slot; of one taker in each, and of several.
    ("a = TANH x; b = SUB a x", "a = TANH x; b = SUB x a", "b", (0, 0), [(0, 0)]),
    ("a = TANH x; b = SUB x a", "a = TANH x; b = SUB x a", "b", (0, 0), [(0, 0), (1, 1)]),
    ("a = TANH x; b = EXP a; c = ABS a", "a = TANH x; b = ABS a; c = EXP a", "b c", (0, 0), [(0, 0), (2, 1), (1, 2)]),
    ("a = TANH x; b = EXP a; c = EXP a", "a = TANH x; b = EXP a; c = EXP a", "b c", (0, 0), [(0, 0)]),
    ("a = TANH x; b = EXP a; c = ABS a", "a = TANH x; b = EXP a", "b", (0, 0), [(0, 0), (1, 1)]),
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a; c = ABS a", "b", (0, 0), [(0, 0), (1, 1)]),
    (
        "a = TANH x; b = SUB a x; c = SUB x a",
        "a = TANH x; b = SUB x a; c = SUB a x",
        "b c",
        (0, 0),
        [(0, 0), (2, 1), (1, 2)],
    ),
    ("a = TANH x; b = SUB a a", "a = TANH x; b = SUB a a", "b", (0, 0), [(0, 0), (1, 1)]),
    # Two values, each with its own producer.
    (
        "a = TANH x; b = TANH x; c = SUB a b",
        "a = TANH x; b = TANH x; c = SUB b a",
        "c",
        (2, 2),
        [(1, 0), (0, 1), (2, 2)],
    ),
]


def test_pairs_spread_along_the_slots() -> None:
    for before, after, outputs, start, expected in SPREADING:
        found = matcher(wired(before, outputs), wired(after, outputs))
        found.pairs.add(*start, 3)
        found.spread()
        assert pairs(found) == expected
        assert [found.pairs.choices[new] for _, new in expected] == [3] * len(expected)
        assert not found.pairs.fresh


def test_what_has_a_partner_is_not_in_the_way() -> None:
    words = "a = TANH x; b = EXP a; c = EXP a"
    found = matcher(wired(words, "b c"), wired(words, "b c"))
    found.pairs.add(2, 1)
    found.pairs.add(0, 0)
    found.spread()
    assert pairs(found) == [(0, 0), (2, 1), (1, 2)]
    assert [found.pairs.are_free(old, new) for old, new in ((0, 0), (1, 2))] == [False, False]
    assert found.pairs.lonely(0).tolist() == found.pairs.lonely(1).tolist() == [False] * 3


def test_hidden_operators_are_not_paired_on_the_way() -> None:
    words = "a = TANH x; q = QUANTIZE a; b = EXP q"
    found = matcher(wired(words, "b"), wired(words, "b"))
    found.match()
    assert pairs(found) == [(0, 0), (2, 2)]
    found.look_at_everything()
    found.match()
    assert pairs(found) == [(0, 0), (1, 1), (2, 2)]


def test_sizes_count_or_not() -> None:
    data = [wired("a = TANH x; b = EXP a", "b", shapes={"b": shape}) for shape in ((4, 4), (3,))]
    found = matcher(data[0], data[1])
    found.match()
    assert pairs(found) == [(0, 0)]
    found.look_at_everything()
    found.match(by_size=False)
    assert pairs(found) == [(0, 0), (1, 1)]


def test_what_looks_alike_is_chosen_in_its_order() -> None:
    words = "a = NEG x; b = NEG x; c = NEG x; d = TANH x"
    found = matcher(wired(words, "d"), wired(words, "d"))
    found.match(choosing=False)
    assert pairs(found) == [(3, 3)]
    found.match()
    assert pairs(found) == [(0, 0), (1, 1), (2, 2), (3, 3)]
    # The first is one of three; with it, there are two left.
    assert found.pairs.choices == [3, 3, 3, 1]
    fewer = matcher(wired(words, "d"), wired("a = NEG x; b = NEG x; d = TANH x", "d"))
    fewer.match()
    assert pairs(fewer) == [(3, 2)]


# --- how sure -----------------------------------------------------------------------------------------------


def scored(before: bytes, after: bytes, *paired: tuple[int, int]) -> Scorer:
    found = matcher(before, after)
    found.look_at_everything()
    for pair in paired:
        found.pairs.add(*pair)
    return Scorer(found)


AGREEING: list[tuple[str, str, str, list[tuple[int, int]], float]] = [
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a", "b", [(0, 0), (1, 1)], 1.0),
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a", "b", [(0, 0)], 1 / 3),  # EXP is lost on both sides
    ("a = TANH x; b = EXP a", "a = TANH x; b = QUANTIZE a", "b", [(0, 0)], 1 / 2),
    ("a = TANH x", "a = TANH x", "a", [(0, 0)], 1.0),
    ("a = ADD x y", "a = ADD y x", "a", [(0, 0)], 1 / 3),
    ("a = ADD x k1", "a = ADD x k1", "a", [(0, 0)], 1.0),
    ("a = ADD x k1", "a = ADD x k2", "a", [(0, 0)], 2 / 3),
    ("a = ADD x s1", "a = ADD x s2", "a", [(0, 0)], 1.0),  # small ones are not compared
    ("a = ADD x s1", "a = ADD x k2", "a", [(0, 0)], 2 / 3),
    ("a = ADD x k2", "a = ADD x s1", "a", [(0, 0)], 2 / 3),
    ("a = ADD x y", "a = ADD x k1", "a", [(0, 0)], 2 / 3),
    ("a = ADD x k1", "a = ADD x y", "a", [(0, 0)], 2 / 3),
    ("a = ADD x k1", "a = ADD x", "a", [(0, 0)], 1.0),  # a constant may come or go
    ("a = ADD x", "a = ADD x k1", "a", [(0, 0)], 1.0),
    ("a = ADD x y", "a = ADD x", "a", [(0, 0)], 2 / 3),
    ("a = ADD x", "a = ADD x y", "a", [(0, 0)], 2 / 3),
    ("a = ADD x; b = EXP a", "a = ADD x y; b = EXP a", "b", [(0, 0), (1, 1)], 2 / 3),
    ("a,b = SPLIT x", "a,b = SPLIT x", "a b", [(0, 0)], 1.0),
    ("a,b = SPLIT x", "a,b = SPLIT x", "b a", [(0, 0)], 1.0),
    ("a,b = SPLIT x", "a = SPLIT x", "a", [(0, 0)], 2 / 3),
    ("a = SPLIT x", "a,b = SPLIT x", "a", [(0, 0)], 2 / 3),
    ("a = SPLIT x", "a = SPLIT x", "a a", [(0, 0)], 1.0),
    ("a = VAR_HANDLE; b = EXP x", "a = VAR_HANDLE; b = EXP x", "b", [(0, 0)], 1.0),
    ("a = TANH x; b = EXP a; c = ABS a", "a = TANH x; b = EXP a; c = ABS a", "b", [(0, 0), (1, 1)], 2 / 4),
    ("a = TANH x; b = EXP a; c = ABS a", "a = TANH x; b = EXP a", "b", [(0, 0), (1, 1)], 2 / 3),
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a; c = ABS a", "b", [(0, 0), (1, 1)], 2 / 3),
    ("a = TANH x; b = SUB a x", "a = TANH x; b = SUB x a", "b", [(0, 0), (1, 1)], 1 / 2),
    ("a = TANH x; b = SUB a x", "a = TANH x; b = SUB a a", "b", [(0, 0), (1, 1)], 2 / 3),
]


def test_the_agreement_of_a_pair() -> None:
    """Of the operators, the first is looked at: the share of its slots and takers that are paired too."""
    for before, after, outputs, paired, expected in AGREEING:
        scores = scored(wired(before, outputs, "xy"), wired(after, outputs, "xy"), *paired)
        assert scores.agreement(0, 0) == expected
        alone = 0.0 if scores.evidence(0, 0) is Evidence.POSITION else 0.9
        assert scores.confidence(0, 0) == pytest.approx(1 - (1 - alone) * (1 - expected))


IN_THE_MIDDLE: list[tuple[str, str, list[tuple[int, int]], float]] = [
    ("a = TANH x; b = SUB a x; c = EXP b", "a = TANH x; b = SUB a x; c = EXP b", [(0, 0), (1, 1), (2, 2)], 1.0),
    ("a = TANH x; b = SUB a x; c = EXP b", "a = TANH x; b = SUB a x; c = EXP b", [(1, 1)], 1 / 5),
    ("a = TANH x; b = SUB a x; c = EXP b", "a = TANH x; b = SUB a x; c = EXP b", [(0, 0), (1, 1)], 2 / 4),
    ("a = TANH x; b = SUB a x; c = EXP b", "a = TANH x; b = SUB a x; c = EXP b", [(1, 1), (2, 2)], 2 / 4),
    ("a = TANH x; b = SUB a x; c = EXP b", "a = EXP x; b = SUB x x; c = EXP b", [(1, 1), (2, 2)], 2 / 3),
    (
        "a,d = SPLIT x; b = SUB a x; c = EXP b",
        "d,a = SPLIT x; b = SUB a x; c = EXP b",
        [(0, 0), (1, 1), (2, 2)],
        2 / 3,
    ),
]


def test_the_agreement_of_a_pair_in_the_middle() -> None:
    for before, after, paired, expected in IN_THE_MIDDLE:
        assert scored(wired(before, "c"), wired(after, "c"), *paired).agreement(1, 1) == expected


def test_the_evidence_of_a_pair() -> None:
    before = wired("a = FULLY_CONNECTED x k1; b = TANH a; _ = EXP b; c = ABS b", "c")
    after = wired("a = FULLY_CONNECTED x k1; b = TANH a; _ = EXP b; d = ABS b", "d")
    scores = scored(before, after, (0, 0), (1, 1), (2, 2), (3, 3))
    assert [scores.evidence(at, at) for at in range(4)] == [Evidence.CONSTANT, *[Evidence.POSITION] * 3]
    scores.matcher.names_count = True
    scores.known.clear()
    assert [scores.evidence(at, at) for at in range(4)] == [Evidence.NAME, Evidence.NAME, *[Evidence.POSITION] * 2]
    scores.matcher.names_count = False
    scores.matcher.classes.how[:] = 1
    scores.known.clear()
    assert scores.evidence(0, 0) is Evidence.VALUES
    scores.matcher.pairs.choices[:] = [9, 9, 1, 2]
    scores.matcher.pairs.to_after[1] = scores.matcher.pairs.to_before[1] = NONE
    scores.whole = [False] * 4
    assert scores.agreement(0, 0) == 2 / 3
    assert scores.confidence(0, 0) == pytest.approx(1 - 0.2 / 3)
    assert scores.confidence(1, 1) == 0.5 * scores.agreement(1, 1) > 0
    assert scores.confidence(2, 2) == scores.agreement(2, 2) == 0
    assert scores.confidence(3, 3) == 0.5 * scores.agreement(3, 3) > 0


def test_pairs_by_place_that_nothing_supports_are_undone() -> None:
    words = "a = TANH x; b = SUB a x; c = EXP b; d = ABS c; e = COS d"
    found = matcher(wired(words, "e"), wired(words, "e"))
    found.look_at_everything()
    for pair in ((0, 0), (1, 1), (3, 3)):
        found.pairs.add(*pair)
    drop_the_unlikely(found)
    assert pairs(found) == [(0, 0), (1, 1)]
    assert Scorer(found).agreement(1, 1) == 2 / 4
    named = matcher(wired(words, "e"), wired(words, "e"))
    named.names_count = True
    named.pairs.add(3, 3)
    drop_the_unlikely(named)
    assert pairs(named) == [(3, 3)]


def test_what_stands_beside_the_undone_is_undone_three_times() -> None:
    words = "; ".join(f"{name} = TANH {last}" for last, name in pairwise("xabcdefgh"))
    found = matcher(wired(words, "h"), wired(words, "h"))
    found.look_at_everything()
    for row in range(1, 8):
        found.pairs.add(row, row)
    drop_the_unlikely(found)
    assert pairs(found) == [(row, row) for row in range(4, 8)]


# --- names --------------------------------------------------------------------------------------------------


def heard(before: str, after: str, outputs: str, *pairs: tuple[int, int]) -> Witnesses:
    return Witnesses(matcher(wired(before, outputs, "xy"), wired(after, outputs, "xy")), pairs)


NEIGHBOURS: list[tuple[str, str, list[bool]]] = [
    ("a = TANH x; b = EXP a", "a = TANH x; b = EXP a", [True, True, True]),
    ("a = TANH x; b = EXP a", "a = TANH y; b = EXP a", [True, True]),  # nothing stands in the place beside x
    ("a = TANH x; b = EXP a", "c = TANH x; a = TANH y; b = EXP a", [False, True, True]),
    ("a = TANH x; b = EXP a", "c = NEG x; a = TANH y; b = EXP a", [True, True]),
    ("a = TANH x; b = EXP a", "a = TANH x; c = TANH y; b = EXP c", [True, False]),
    ("a = TANH x; b = EXP a", "a = TANH x; c = NEG a; b = EXP c", [True]),
    ("a = TANH x; b = EXP a", "a = TANH x; c = EXP a; b = EXP c", [True, False]),
    ("a,d = SPLIT x; b = EXP d", "a,d = SPLIT x; b = EXP d", [True, True]),
    ("a,d = SPLIT x; b = EXP d", "a,d = SPLIT x; b = EXP a", [True]),
    ("a,d = SPLIT x; b = EXP d", "a,d = SPLIT x; b = EXP a; c = EXP d", [True, False]),
    ("a,d = SPLIT x; b = EXP d", "a = SPLIT x; b = EXP a", [True]),
    ("a = TANH x; b = SUB x a", "a = TANH x; b = SUB x", [True, True]),
]


def test_neighbours_speak_for_names_and_against() -> None:
    for before, after, expected in NEIGHBOURS:
        names = [[line.split(" ")[0].split(",")[0] for line in words.split("; ")] for words in (before, after)]
        found = heard(before, after, "b", *((names[0].index(name), names[1].index(name)) for name in "ab"))
        assert (found.constants, found.places) == ([], expected)
        assert found.believed() == (expected.count(True) >= 0.75 * len(expected))


def test_sizes_and_constants_speak_against_names() -> None:
    words = "a = FULLY_CONNECTED x k1; b = FULLY_CONNECTED a k2; c = FULLY_CONNECTED b s1"
    other = "a = FULLY_CONNECTED x k1; b = FULLY_CONNECTED a k1; c = FULLY_CONNECTED b k2"
    found = heard(words, other, "c", (0, 0), (1, 1), (2, 2))
    assert found.constants == [True, False]
    assert found.believed() is False
    shapes = [wired("a = TANH x; b = TANH a", "b", shapes={"a": shape}) for shape in ((4, 4), (3,), (0,))]
    for after, places in ((0, [True] * 3), (1, [False, True, True, True]), (2, [True] * 3)):
        found = Witnesses(matcher(shapes[0], shapes[after]), [(0, 0), (1, 1)])
        assert found.places == places
        assert found.believed()


def test_what_everything_speaks_against_is_contradicted() -> None:
    words = "a = TANH x; b = TANH a; c = TANH b; d = TANH c"
    found = heard(words, words, "d", (0, 1), (1, 0), (2, 2), (3, 3))
    assert found.contradicted == {(0, 1), (1, 0)}
    assert found.places == [False, False, False, False, True, True]
    assert not found.believed()
    assert heard(words, words, "d", (0, 0), (1, 1)).contradicted == set()
    alone = heard("a = TANH x; b = EXP a", "a = NEG x; b = EXP a", "b", (1, 1))
    assert (alone.contradicted, alone.silent) == (set(), {(1, 1)})


def test_kinship_of_models() -> None:
    def kin(before: str, after: str, outputs: str, *paired: tuple[int, int]) -> float:
        scores = scored(wired(before, outputs), wired(after, outputs), *paired)
        return kinship(scores.matcher, scores)

    two = "a = FULLY_CONNECTED x k1; b = FULLY_CONNECTED a k2"
    assert kin(two, two, "b", (0, 0), (1, 1)) == 1.0
    assert kin(two, "a = FULLY_CONNECTED x k1; b = FULLY_CONNECTED a k9", "b") == 1.0
    four = f"{two}; c = FULLY_CONNECTED b k3; d = FULLY_CONNECTED c k4; b = ABS d"
    other = "a = FULLY_CONNECTED x k1; d = FULLY_CONNECTED a k7; c = FULLY_CONNECTED d k8; b = FULLY_CONNECTED c k9"
    assert kin(four, other, "b") == 0.5
    assert (
        kin(two, "a = FULLY_CONNECTED x k8; b = FULLY_CONNECTED a k9", "b", (0, 0), (1, 1)) == 0.4 * (2 / 3 * 2) / 2
    )
    assert kin("_ = TANH x; b = EXP _", "_ = TANH x; b = EXP _", "b", (0, 0), (1, 1)) == 0.4
