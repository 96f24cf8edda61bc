"""Operators that a tool computes several times, or once for several, folds into others, or moves."""

from __future__ import annotations

import pytest

from tests.kit.sketches import sources

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
