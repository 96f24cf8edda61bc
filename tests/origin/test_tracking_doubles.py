"""Operators that a tool computes several times, or once for several, folds into others, or moves."""

from __future__ import annotations

import pytest

from circletools.origin.tracking.constants import CLOSE, EXACT, SCALED
from circletools.origin.tracking.doubles import find_doubles
from circletools.origin.tracking.folded import changed, find_folded
from tests.kit.sketches import sketch, sources
from tests.kit.tracking_support import matcher, tracked

DOUBLED = {
    "one for each taker": (
        "a = FC1 x; b = RELU a; c = TANH a -> b c",
        "a = FC1 x; d = FC1 x; b = RELU a; c = TANH d -> b c",
        ["a", "a", "b", "c"],
    ),
    "two in a row": (
        "a = FC1 x; b = RELU a; c = TANH b; d = NEG b -> c d",
        "a = FC1 x; b = RELU a; e = FC1 x; f = RELU e; c = TANH b; d = NEG f -> c d",
        ["a", "b", "a", "b", "c", "d"],
    ),
    "one for several": (
        "a = FC1 x; b = FC1 x; c = RELU a; d = TANH b -> c d",
        "a = FC1 x; c = RELU a; d = TANH a -> c d",
        ["ab", "c", "d"],
    ),
    "with other weights it is another": (
        "a = FC1 x; b = RELU a -> b",
        "a = FC1 x; c = FC2 x; d = ADD a c; b = RELU d -> b",
        ["a", "", "", "b"],
    ),
    "a bias with an operator of its own": (
        "a = FC1 x; b = HARD_SWISH a -> b",
        "a = FC1:0 x; c = ADD##1 a; b = HARD_SWISH c -> b",
        ["a", "a", "b"],
    ),
    "computed again, and folded": (
        "a = TANH x; b = FC1 a; c = ADD b b; d = MUL c b -> d",
        "a = TANH x; b = FC1 a; c = FC1*2 a; d = MUL c b -> d",
        ["a", "b", "bc", "d"],
    ),
}


@pytest.mark.parametrize("name", list(DOUBLED))
@pytest.mark.parametrize("named", [False, True])
def test_what_is_computed_again_has_the_origin_of_what_it_repeats(name: str, named: bool) -> None:
    before, after, expected = DOUBLED[name]
    assert sources(before, after, named=named) == expected


FOLDED = {
    "a factor and a summand": (
        "a = FC1 x; b = MUL#1 a; c = ADD#2 b; d = TANH c -> d",
        "c = FC1*2 x; d = TANH c -> d",
        ["abc", "d"],
    ),
    "an activation": ("a = FC1 x; b = RELU6 a; c = TANH b -> c", "b = FC1@RELU6 x; c = TANH b -> c", ["ab", "c"]),
    "all three": (
        "a = FC1 x; b = MUL#1 a; c = ADD#2 b; d = RELU c; e = TANH d -> e",
        "d = FC1*2@RELU x; e = TANH d -> e",
        ["abcd", "e"],
    ),
    "at the end of a part that was cut out": (
        "a = FC1 x; b = ADD a x; c = RELU6 b; d = FC2 c; e = FC3 d -> e",
        "a = FC1 x; c = ADD@RELU6 a x -> c",
        ["a", "bc"],
    ),
    "in front of what swallows the rest": (
        "a = FC1 x; b = MUL#1 a; c = RELU b; d = FC2 c; e = TANH d -> e",
        "c = FC1*2@RELU x; e = CUSTOM c -> e",
        ["abc", "de"],
    ),
    "constants that stay are not folded": (
        "a = FC1 x; b = MUL#1 a; c = FC2 b; d = TANH c -> d",
        "a = FC1 x; c = CUSTOM a; d = TANH c -> d",
        ["a", "bc", "d"],
    ),
    "into weights that stay, as factors of one": (
        "a = TANH x; b = MUL#1 a; c = ADD#2 b; d = FC2 c; e = FC3 c; f = ADD d e -> f",
        "a = TANH x; d = FC2 a; e = FC3 a; f = ADD d e -> f",
        ["a", "bcd", "bce", "f"],
    ),
    "into all that take it, though a factor of another came up behind them": (
        "a = TANH x; b = MUL#1 a; c = FC2 b; d = FC3 b; e = RESHAPE c; f = MINIMUM e d; g = MUL~3 f; h = ABS g -> h",
        "a = TANH x; c = FC2*2 a; d = FC3*2 a; e = RESHAPE c; g = MUL~3 e; f = MINIMUM g d; h = ABS f -> h",
        ["a", "bc", "bd", "e", "g", "f", "h"],
    ),
    "who takes it has no weights": (
        "a = TANH x; b = MUL#1 a; c = NEG b -> c",
        "a = TANH x; c = NEG a -> c",
        ["ab", "c"],
    ),
    "one of two has no weights": (
        "a = TANH x; b = MUL#1 a; c = NEG b; d = FC1 b; e = ADD c d -> e",
        "a = TANH x; c = NEG a; d = FC1 a; e = ADD c d -> e",
        ["ab", "c", "d", "e"],
    ),
    "what is computed is no factor": (
        "a = TANH x; b = MUL a a; c = FC1 b -> c",
        "a = TANH x; c = FC1 a -> c",
        ["ab", "c"],
    ),
    "a layout is no factor": ("a = TANH x; b = RESHAPE a; c = FC1 b -> c", "a = TANH x; c = FC1 a -> c", ["ab", "c"]),
    "the first may hold it as well": (
        "a = MUL#3 x; b = ADD#1 a; c = FC1 b -> c",
        "a = MUL#3 x; c = FC1 a -> c",
        ["ab", "c"],
    ),
    "an output in between is not folded": (
        "a = FC1 x; b = RELU a; c = TANH b -> a c",
        "a = FC1@RELU x; c = TANH a -> a c",
        ["ab", "c"],
    ),
}


@pytest.mark.parametrize("name", list(FOLDED))
def test_what_is_folded_goes_to_the_operator_that_took_it(name: str) -> None:
    before, after, expected = FOLDED[name]
    assert sources(before, after) == expected


def test_a_factor_that_went_into_several_is_as_surely_in_each() -> None:
    """As the gain of a norm is in the weights of what takes it: query, key and value."""

    def confidences(takers: str, names: str) -> set[float]:
        end = f"z = ADD_N {names} -> z"
        before = f"a = TANH x; b = MUL#1 a; {takers.replace('*2 a', ' b')} {end}"
        own = tracked(sketch(before), sketch(f"a = TANH x; {takers} {end}")).grounds[0]
        assert [list(of) for of in own.values()][1:-1] == [[1, 2 + number] for number in range(names.count(" ") + 1)]
        return {of[1].confidence for of in own.values() if 1 in of}

    alone = confidences("c = FC2*2 a;", "c")
    assert len(alone) == 1
    assert confidences("c = FC2*2 a; d = FC3*2 a; e = FC4*2 a;", "c d e") == alone


def test_what_swallows_others_does_not_speak_against_names() -> None:
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


def doubles(before: str, after: str, *pairs: tuple[int, int]) -> tuple[dict[int, int], dict[int, int]]:
    """Return what is entered where these pairs are known."""
    found = matcher(sketch(before), sketch(after))
    found.look_at_everything()
    for pair in pairs:
        found.pairs.add(*pair)
    find_doubles(found)
    find_folded(found)
    return found.doubles


REPEATED = "a = NEG x; b = FC1 a; c = FC1 a; d = TANH b; e = TANH c; f = ADD d e -> f"
ONCE = "b = FC1 x; d = TANH b; f = ADD d d -> f"


def test_doubles_of_both_models_are_entered_by_befores_operator() -> None:
    assert doubles(REPEATED, ONCE, (2, 0), (4, 1), (5, 2)) == ({1: 2, 3: 4}, {})
    assert doubles(ONCE, REPEATED, (0, 2), (1, 4), (2, 5)) == ({}, {1: 0, 3: 1})
    assert doubles(ONCE, ONCE, (0, 0), (1, 1), (2, 2)) == ({}, {})
    assert doubles(REPEATED, REPEATED) == ({}, {})
    assert doubles(REPEATED, ONCE, (1, 0), (2, 2)) == ({}, {})  # another code is no double


def test_a_double_takes_and_gives_as_much() -> None:
    one = "a = FC1 x; b = SPLIT a; d = ADD b a -> d"
    two = "a = FC1 x; b c = SPLIT a; e = SPLIT a; d = ADD b e -> d"
    assert doubles(one, two, (0, 0), (1, 2), (2, 3)) == ({}, {})
    assert doubles(two, one, (0, 0), (2, 1), (3, 2)) == ({}, {})


def test_the_place_of_what_is_taken_tells_doubles_apart() -> None:
    one = "a b = SPLIT x; c = NEG a; d = ADD c b -> d"
    two = "a b = SPLIT x; c = NEG a; e = NEG b; d = ADD c e -> d"
    assert doubles(one, two, (0, 0), (1, 1), (2, 3)) == ({}, {})
    same = "a b = SPLIT x; c = NEG a; e = NEG a; d = ADD c e -> d"
    assert doubles(one, same, (0, 0), (1, 1), (2, 3)) == ({}, {2: 1})


def test_operators_without_inputs_are_no_doubles() -> None:
    assert doubles("a = VAR_HANDLE -> a", "a = VAR_HANDLE; b = VAR_HANDLE; c = ADD a b -> c", (0, 0)) == ({}, {})


def test_small_constants_tell_doubles_apart() -> None:
    one, two = "a = MUL#1 x; b = NEG a -> b", "a = MUL#1 x; c = MUL#2 x; d = MUL#1 x; b = NEG a -> b"
    assert doubles(one, two, (0, 0), (1, 3)) == ({}, {2: 0})


def test_who_holds_a_constant_that_one_alone_held_is_a_part_of_that_one() -> None:
    before, after = "a = FC1 x; b = TANH a -> b", "a = FC1:0 x; c = ADD##1 a; b = TANH c -> b"
    assert doubles(before, after, (0, 0), (1, 2)) == ({}, {1: 0})
    assert doubles(before, after, (1, 2)) == ({}, {})  # nobody knows where that one is
    assert doubles(before, after, (0, 1)) == ({}, {})
    shared = "a = FC1 x; b = ADD##1 a -> b"
    assert doubles(shared, after, (0, 0), (1, 2)) == ({}, {})  # two of BEFORE's hold it
    assert doubles(before, "a = FC1 x; b = FC1 a -> b", (0, 0)) == ({}, {})  # of its own code: another user


def test_what_is_folded_is_entered_where_constants_changed() -> None:
    before = "a = FC1 x; b = MUL#1 a; c = ADD#2 b; d = RELU c; e = TANH d -> e"
    assert doubles(before, "d = FC1*2@RELU x; e = TANH d -> e", (0, 0), (4, 1)) == ({1: 0, 2: 0, 3: 0}, {})
    assert doubles(before, "d = FC1*2 x; e = TANH d -> e", (0, 0), (4, 1)) == ({1: 0, 2: 0}, {})
    assert doubles(before, "d = FC1@RELU x; e = TANH d -> e", (0, 0), (4, 1)) == ({}, {})  # nothing changed
    assert doubles(before, "d = FC1*2@RELU6 x; e = TANH d -> e", (0, 0), (4, 1)) == ({1: 0, 2: 0}, {})
    assert doubles(before, "b = FC1*2 x; e = NEG b -> e", (0, 0), (2, 1)) == ({1: 0}, {})  # to the first partner
    assert doubles(before, "d = FC1*2 x; e = TANH d -> e") == ({}, {})


def test_what_several_take_or_is_an_output_is_not_folded() -> None:
    for before in (
        "a = FC1 x; b = MUL#1 a; c = NEG a; d = ADD b c -> d",
        "a = FC1 x; b = MUL#1 a; d = ADD b b -> a d",
        "a = FC1 x; b = MUL a x; d = NEG b -> d",
        "a c = SPLIT x; b = MUL#1 a; d = NEG b -> d",
        "a c = FC1 x; b = MUL#1 a; d = NEG b -> d",
    ):
        after = "a = FC1*2 x; d = NEG a -> d" if "-> a" not in before else "a = FC1*2 x; d = NEG a -> a d"
        assert doubles(before, after, (0, 0)) == ({}, {})


def test_an_activation_that_was_there_already_is_not_folded() -> None:
    before, after = "a = FC1@RELU x; b = RELU a; c = TANH b -> c", "a = FC1@RELU x; c = TANH a -> c"
    assert doubles(before, after, (0, 0), (2, 1)) == ({}, {})


def test_constants_have_changed_where_they_are_others_or_multiples_but_not_where_they_are_quantized() -> None:
    found = matcher(sketch("a = FC1 x -> a"), sketch("a = FC1 x -> a"))
    found.pairs.add(0, 0)
    types = found.after.model.tensor_columns.types
    for how, kind, expected in (
        (EXACT, types[2], False),
        (CLOSE, types[2], True),
        (SCALED, types[2], True),
        (CLOSE, types[2] + 9, False),
        (SCALED, types[2] + 9, True),
    ):
        found.classes.how[:], types[2:] = how, kind
        assert changed(found, 0) is expected
    found.classes.how[:] = EXACT
    found.classes.numbers[1][2] += 5
    assert changed(found, 0)


def test_only_one_of_two_constants_need_have_changed() -> None:
    found = matcher(sketch("a = FC1 x -> a"), sketch("a = FC1 x -> a"))
    found.pairs.add(0, 0)
    found.classes.how[:] = [EXACT, CLOSE]
    assert changed(found, 0)
