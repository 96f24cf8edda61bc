"""Small graphs through rewrites: what is computed again, folded, moved, swallowed, or cut out."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from benchmarks.tracking_pairs import Score, judge
from tests.kit.build import Build, floats
from tests.kit.sketches import sources
from tests.kit.tracking_support import tracked
from tools.tracking.kinds import KINDS, pair, strangers

STEPS = "; ".join(f"a{n} = FC1 {f'c{n - 1}' if n else 'x'}; b{n} = TANH a{n}; c{n} = SPLIT b{n}" for n in range(4))
WHOLE = f"{STEPS}; d = FC2 c3 -> d"
MIDDLE = "a = TANH x; b = SPLIT a; c = FC1 b; d = TANH c -> d"


def test_a_part_of_what_repeats_itself_fits_in_several_places() -> None:
    assert sources(WHOLE, MIDDLE) == [""] * 4


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("a = TANH x; b = SPLIT a; d = FC2 b -> d", ["b3", "c3", "d"]),  # constants of its own
        (
            "a = FC1 x; b = TANH a; c = SPLIT b; d = FC1 c; e = TANH d; f = SPLIT e -> f",
            ["a0", "b0", "c0", "a1", "b1", "c1"],
        ),
    ],
)
def test_constants_anchor_a_part(after: str, expected: list[str]) -> None:
    assert sources(WHOLE, after) == expected


def test_names_anchor_a_part() -> None:
    part = "b2 = TANH x; c2 = SPLIT b2; a3 = FC1 c2; b3 = TANH a3 -> b3"
    assert sources(WHOLE, part, named=True) == ["b2", "c2", "a3", "b3"]


def test_a_unique_operator_anchors_a_part() -> None:
    whole = "a = NEG x; b = COS a; c = TANH b; d = EXP c; e = TANH d; f = COS e; g = ABS f -> g"
    assert sources(whole, "a = COS x; b = TANH a; c = EXP b; d = TANH c; e = COS d -> e") == [
        "ab",
        "c",
        "d",
        "e",
        "fg",
    ]


def test_two_parts_are_matched_separately() -> None:
    two = "a = TANH x; b = SPLIT a; c = FC1 b; d = TANH c; e = ABS x; f = SPLIT e; g = FC2 f -> d g"
    assert sources(WHOLE.replace("b3 = TANH", "b3 = ABS"), two) == ["", "", "", "", "b3", "c3", "d"]


# A line is a kind, a name, the operators before and after, and the expected origins.
CASES = [literal_eval(line) for line in Path(__file__).with_name("tracking_sketches.txt").read_text().splitlines()]
DOUBLED = {name: case for kind, name, *case in CASES if kind == "doubled"}


@pytest.mark.parametrize("name", list(DOUBLED))
@pytest.mark.parametrize("named", [False, True])
def test_what_is_computed_again_has_the_origin_of_what_it_repeats(name: str, named: bool) -> None:
    before, after, expected = DOUBLED[name]
    assert sources(before, after, named=named) == expected


FOLDED = {name: case for kind, name, *case in CASES if kind == "folded"}


@pytest.mark.parametrize("name", list(FOLDED))
def test_folded_operators_give_their_origins_to_the_reader(name: str) -> None:
    before, after, expected = FOLDED[name]
    assert sources(before, after) == expected


def test_fusing_operators_is_no_evidence_against_names() -> None:
    before = "a = RELU x; b = TANH a; c = NEG b; d = TANH c; e = NEG d; f = RELU e -> f"
    after = "c = CUSTOM x; d = TANH c; f = CUSTOM d -> f"
    assert sources(before, after, named=True) == ["abc", "d", "ef"]
    assert sources(before, after.replace("CUSTOM", "ABS"), named=True)[1] != "d"


MOVED = {
    "a layout behind a chain, its names where they were": (
        "a = FC1 x; b = RESHAPE a; c = MINIMUM#1 b; d = MAXIMUM#2 c; e = FC2 d -> e",
        "a = FC1 x; b = MINIMUM#1 a; c = MAXIMUM#2 b; d = RESHAPE c; e = FC2 d -> e",
        ["a", "c", "d", "b", "e"],
    ),
    "a layout in front of a chain": (
        "a = FC1 x; c = MINIMUM#1 a; d = MAXIMUM#2 c; b = RESHAPE d; e = FC2 b -> e",
        "a = FC1 x; b = RESHAPE a; c = MINIMUM#1 b; d = MAXIMUM#2 c; e = FC2 d -> e",
        ["a", "b", "c", "d", "e"],
    ),
}


@pytest.mark.parametrize("name", list(MOVED))
def test_what_is_moved_is_found(name: str) -> None:
    before, after, expected = MOVED[name]
    assert sources(before, after) == expected


def counted(seed: int, names: str) -> tuple[int, int, int]:
    score: Score = judge(pair(seed, "cut", names))
    return score.right, score.wrong, score.missed


@pytest.mark.parametrize(("seed", "lost"), [(3016, 13), (3019, 58), (3022, 44), (5002, 11)])
def test_nothing_is_claimed_of_the_middle_of_an_unrolled_network(seed: int, lost: int) -> None:
    """Its steps have the same weights: without names they are all alike, with names none is lost."""
    assert counted(seed, "none") == counted(seed, "permuted") == (0, 0, lost)
    assert counted(seed, "kept") == (lost, 0, 0)


def test_parts_of_other_networks_keep_their_place() -> None:
    assert [counted(seed, "none")[1:] for seed in (3012, 3013, 3014, 3015, 3017)] == [(0, 0)] * 5


@pytest.mark.parametrize(("kind", "names"), list(product(sorted(KINDS), ["kept", "none", "permuted"]))[::2])
def test_rewrites_whose_truth_is_known(kind: str, names: str) -> None:
    """On many more pairs, 0.998 of what is found is right, and 0.988 of what is true is found."""
    score = Score()
    for seed in range(3):
        score += judge(pair(91000 + seed, kind, names))
    assert score.precision >= 0.97
    assert score.recall >= LEAST_RECALL.get((kind, names), 0.97)


LEAST_RECALL = {("cut and fuse", "none"): 0.7, ("cut and fuse", "permuted"): 0.7}
"""Where a part fits in several places."""


@pytest.mark.parametrize("names", ["kept", "none"])
@pytest.mark.parametrize("seed", range(6))
def test_networks_that_have_nothing_to_do_with_each_other(seed: int, names: str) -> None:
    assert [why for *_, confidence, why in judge(strangers(seed, names)).sure if confidence >= 0.25] == []


Ends = tuple[tuple[int, ...], str, str]
"""Shape, type and name."""


def whole(codes: list[str], given: Sequence[Ends], made: Ends) -> bytes:
    """Return operators in a row from the first input to the output."""
    build = Build()
    graph = build.graph()
    inputs = [graph.tensor(name, shape, kind) for shape, kind, name in given]
    value = inputs[0]
    for code in codes[:-1]:
        value = graph.compute(code, [value], "", (4, 4))
    graph.operator(codes[-1], [value], [last := graph.tensor(made[2], made[0], made[1])])
    graph.ends(inputs, [last])
    return build.to_bytes()


X, Y = ((4, 4), "FLOAT32", "x"), ((2, 2), "FLOAT32", "y")
STRANGE = {
    "the same": ([X], Y, True),
    "no names": ([((4, 4), "FLOAT32", "")], ((2, 2), "FLOAT32", ""), True),
    "another shape": ([((8, 2), "FLOAT32", "x")], Y, False),
    "another type": ([((4, 4), "INT8", "x")], Y, False),
    "another name": ([((4, 4), "FLOAT32", "z")], Y, False),
    "another name of the output": ([X], ((2, 2), "FLOAT32", "z"), False),
    "more inputs": ([X, X], Y, False),
}


@pytest.mark.parametrize("name", list(STRANGE))
def test_a_model_that_was_swallowed_whole_is_known_by_its_ends(name: str) -> None:
    """Else every model that a compiler put into one operator would be any other one."""
    given, made, related = STRANGE[name]
    tracking = tracked(whole(["TANH", "NEG", "EXP"], [X], Y), whole(["CUSTOM"], given, made))
    sure = {source for why in tracking.grounds[0].values() for source, one in why.items() if one.confidence >= 0.25}
    assert sure == ({0, 1, 2} if related else set())


@pytest.mark.parametrize(("elements", "related"), [(511, False), (512, True), (24_576, True), (24_577, False)])
def test_a_compiled_file_has_the_size_of_its_contents(elements: int, related: bool) -> None:
    """BEFORE has 1,024 weights of 4 bytes: at least 4 bits of each, at most all bytes twice and a program."""
    files = []
    for code, held in (("FULLY_CONNECTED", floats(1024).tobytes()), ("CUSTOM", bytes(elements))):
        build = Build()
        graph = build.graph()
        x, y = graph.tensor("x", (1, 32)), graph.tensor("y", (1, 32))
        shape, kind = ((32, 32), "FLOAT32") if code == "FULLY_CONNECTED" else ((elements,), "UINT8")
        graph.operator(code, [x, graph.tensor("w", shape, kind, data=held)], [y])
        graph.ends([x], [y])
        files.append(build.to_bytes())
    tracking = tracked(files[0], files[1])
    assert [sorted(one) for one in tracking.grounds[0].values() if one[0].confidence] == ([[0]] if related else [])
