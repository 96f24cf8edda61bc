"""Parts that fit in several places: nothing is claimed of them, unless something holds them in one."""

from __future__ import annotations

import pytest

from benchmarks.tracking_pairs import Score, judge
from circletools.origin.tracking.ends import revise
from tests.kit.sketches import sketch, sources
from tests.kit.tracking_support import matcher
from tools.tracking.kinds import pair

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
def test_what_holds_a_part_in_its_place(after: str, expected: list[str]) -> None:
    assert sources(WHOLE, after) == expected


def test_names_hold_a_part_in_its_place() -> None:
    part = "b2 = TANH x; c2 = SPLIT b2; a3 = FC1 c2; b3 = TANH a3 -> b3"
    assert sources(WHOLE, part, named=True) == ["b2", "c2", "a3", "b3"]


def test_one_of_a_kind_holds_a_part_in_its_place() -> None:
    whole = "a = NEG x; b = COS a; c = TANH b; d = EXP c; e = TANH d; f = COS e; g = ABS f -> g"
    assert sources(whole, "a = COS x; b = TANH a; c = EXP b; d = TANH c; e = COS d -> e") == [
        "ab",
        "c",
        "d",
        "e",
        "fg",
    ]


def test_two_parts_are_looked_at_each_for_itself() -> None:
    two = "a = TANH x; b = SPLIT a; c = FC1 b; d = TANH c; e = ABS x; f = SPLIT e; g = FC2 f -> d g"
    assert sources(WHOLE.replace("b3 = TANH", "b3 = ABS"), two) == ["", "", "", "", "b3", "c3", "d"]


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


def outputs(before: str, after: str) -> list[tuple[int, int]]:
    """Return the outputs that are paired, by their places among those of each model."""
    found = matcher(sketch(before), sketch(after))
    assert found.anchors.outputs == []
    found.match()
    found.look_through_the_rest()
    revise(found)
    ends = [side.boundary(0, "outputs") for side in found.sides]
    return [(ends[0].index(old), ends[1].index(new)) for old, new in found.anchors.outputs]


def test_outputs_are_paired_late_by_what_makes_them() -> None:
    whole = "a = FC1 x; b = RELU a; c = FC2 x; d = NEG c; e = EXP d; f = COS e -> b d f"
    assert outputs(whole, "a = FC1 x; b = RELU a -> b") == [(0, 0)]
    assert outputs(whole, "a = FC1 x; c = FC2 x -> a c") == [(0, 0), (1, 1)]  # with what can have been fused
    assert outputs(whole, "a = FC1 x; c = FC2 x; d = NEG c -> d a") == [(1, 0), (0, 1)]
    assert outputs("a = FC1 x; b = FC3 a; c = NEG x -> b c", "a = FC1 x -> a") == []  # constants that are gone
    assert outputs("a = FC1 x; b = NEG a; c = EXP b; d = COS c; e = ABS d; f = SIN x -> e f", "a = FC1 x -> a") == []
    assert outputs("a = FC1 x; b = NEG a; c = EXP a; d = SIN x -> b c d", "a = FC1 x -> a") == []  # two take it
