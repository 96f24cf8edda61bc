"""Regions without partners: what they lie beside, which of them do each other's work, operator by operator."""

from __future__ import annotations

from collections.abc import Iterable

from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.regions import (
    MOST_BESIDE,
    WITHIN,
    End,
    Region,
    both_regions,
    one_by_one,
    pair_regions,
)
from tests.kit.build import Build
from tests.kit.tracking_support import matcher

IN, OUT = ("input", 0), ("output", 0)


def op(number: int) -> End:
    return ("operator", number)


def region(
    operators: Iterable[int], feeds: Iterable[End], takers: Iterable[End], slots: Iterable[tuple[int, int]] = ()
) -> Region:
    """Return a region; its values are called by the operators, or the input or output, that make or take them."""
    return Region(list(operators), set(feeds), set(takers), set(slots), values(feeds), values(takers))


def values(ends: Iterable[End]) -> set[int]:
    return {number if kind == "operator" else 1000 + number + (kind == "output") for kind, number in ends}


OVERLAPPING: list[tuple[list[End], list[End], float, float]] = [
    ([op(1)], [op(2)], 1.0, 1.0),
    ([op(1)], [op(2), op(3)], WITHIN, 2 / 3),
    ([op(1), op(4)], [op(2), op(3)], WITHIN, 2 / 4),
    ([op(4)], [op(2)], 0.0, 0.0),  # both are fed, and by others
    ([], [op(2)], 1 / 2, WITHIN),
    ([op(1)], [op(3)], 0.0, 0.0),
    ([op(1)], [], 0.0, 0.0),
    ([op(1)], [OUT], 0.0, 0.0),
    ([op(1), IN], [op(2), OUT], WITHIN, 2 / 4),
]


def test_regions_overlap_by_the_values_that_they_share() -> None:
    for feeds, takers, expected, backwards in OVERLAPPING:
        one, other = region([0], [op(1)], [op(2)]), region([0], feeds, takers)
        assert (one.overlap(other), other.overlap(one)) == (expected, backwards)


def test_a_region_that_nothing_feeds_overlaps_by_its_takers() -> None:
    assert region([0], [], [op(2)]).overlap(region([0], [], [op(2)])) == 1.0
    assert region([0], [], [op(2)]).overlap(region([0], [op(1)], [op(2)])) == WITHIN


def pairs(
    olds: list[Region], news: list[Region], named: dict[int, int] | None = None
) -> tuple[list[tuple[list[tuple[int, float]], int]], list[int]]:
    """Return the regions that go together and those that are left, by their index."""
    found, left = pair_regions(olds, news, named or {})
    place = {id(one): index for some in (olds, news) for index, one in enumerate(some)}
    return [([(place[id(one)], far) for one, far in parts], place[id(new)]) for parts, new in found], [
        place[id(one)] for one in left
    ]


def test_regions_go_together_where_half_of_the_ends_are_shared() -> None:
    old = region([5], [op(1)], [op(2)])
    half = region([7], [op(1), op(3)], [op(2), op(4)])
    less = region([7], [op(1), op(3)], [op(2), op(4), op(6)])
    assert pairs([half], [old]) == ([([(0, 0.5)], 0)], [])
    assert pairs([less], [old]) == ([], [0])
    assert pairs([old], [less]) == ([([(0, WITHIN)], 0)], [])
    assert pairs([old], []) == ([], [0])
    assert pairs([], [half]) == ([], [])
    assert pairs([region([5], [op(1)], [])], [half]) == ([], [0])


def test_the_best_of_several_regions_is_taken() -> None:
    old = region([5], [op(1)], [op(2)], [(2, 1)])
    exact, wide = region([7], [op(1)], [op(2)], [(2, 0)]), region([8], [op(1)], [op(2), op(3)], [(2, 1)])
    assert pairs([old], [wide, exact]) == ([([(0, 1.0)], 1)], [])
    same_slot = region([9], [op(1)], [op(2)], [(2, 1)])
    assert pairs([old], [exact, same_slot]) == ([([(0, 1.0)], 1)], [])  # of equal ones that which feeds the same slot
    twin = region([9], [op(1)], [op(2)], [(2, 0)])
    assert pairs([old], [exact, twin]) == ([([(0, 1.0)], 0)], [])  # else the first
    other = region([6], [op(1)], [op(2)], [(2, 1)])
    assert pairs([old, other], [exact, twin]) == ([([(0, 1.0)], 0), ([(1, 1.0)], 1)], [])  # that has nothing yet
    third = region([4], [op(1)], [op(2)])
    assert pairs([old, other, third], [exact, twin]) == ([([(0, 1.0), (2, 1.0)], 0), ([(1, 1.0)], 1)], [])


def test_regions_that_share_only_the_ends_of_the_model_must_be_small() -> None:
    def both(old: int, new: int, feed: End = IN) -> bool:
        first, second = region(range(old), [feed], [OUT]), region(range(new), [feed], [OUT])
        return bool(pairs([first], [second])[0])

    assert both(1, 1)
    assert both(1, 2)
    assert both(2, 1)
    assert not both(2, 2)
    assert both(2, 2, op(9))
    tied = region([0, 1], [IN], [op(9)])
    assert pairs([tied], [region([0, 1], [IN], [op(9)])]) == ([([(0, 1.0)], 0)], [])


def test_names_come_before_ends() -> None:
    old, new = region([5, 6], [op(1)], [op(2)]), region([7], [op(1)], [op(2)])
    far, near = region([8, 9], [op(3)], [op(4)]), region([10], [op(3)], [op(4)])
    assert pairs([old], [new, far], {6: 9}) == ([([(0, 1.0)], 1)], [])
    assert pairs([old], [new, far], {6: 9, 5: 8}) == ([([(0, 1.0)], 1)], [])
    assert pairs([old], [new, far, near], {6: 9, 5: 10}) == ([([(0, 1.0)], 1), ([(0, 1.0)], 2)], [])
    assert pairs([old], [new, far], {6: 99}) == ([([(0, 1.0)], 0)], [])


def test_of_regions_beside_one_operator_the_first_are_looked_at() -> None:
    for before, expected in ((MOST_BESIDE - 1, [([(0, 1.0)], MOST_BESIDE - 1)]), (MOST_BESIDE, [])):
        news = [region([100 + n], [op(1000 + n)], [op(2)]) for n in range(before)] + [region([50], [op(1)], [op(2)])]
        assert pairs([region([5], [op(1)], [op(2)])], news)[0] == expected


# --- in models ----------------------------------------------------------------------------------------------

Wires = dict[str, tuple[str, str]]
"""By name: the code of an operator and what it reads, a letter each; small letters are inputs of the model."""


def wired(wires: Wires, outputs: str, inputs: str = "xy") -> bytes:
    build = Build()
    graph = build.graph()
    made = {name: graph.tensor(name) for name in inputs}
    for name, (code, reads) in wires.items():
        made[name] = graph.compute(code, [made[one] for one in reads], name)
    graph.ends([made[name] for name in inputs], [made[name] for name in outputs])
    return build.to_bytes()


def matched(before: bytes, after: bytes, paired: Iterable[tuple[int, int]]) -> Matcher:
    """Return the two models with some pairs of operators, and nothing hidden."""
    found = matcher(before, after)
    for pair in paired:
        found.pairs.add(*pair)
    found.look_at_everything()
    return found


def shown(regions: list[Region]) -> list[tuple[list[int], list[End], list[End], list[tuple[int, int]]]]:
    return [(one.operators, sorted(one.feeds), sorted(one.takers), sorted(one.slots)) for one in regions]


def test_regions_hang_together_and_know_their_ends() -> None:
    before = wired(
        {
            "A": ("TANH", "x"), "B": ("NEG", "A"), "C": ("EXP", "B"), "D": ("ADD", "CA"), "E": ("ABS", "y"),
            "F": ("MUL", "EE"), "G": ("SUB", "FD"),
        },
        "GE",
    )  # fmt: skip
    after = wired(
        {"A": ("TANH", "x"), "L": ("GELU", "A"), "D": ("ADD", "LA"), "M": ("COS", "y"), "G": ("SUB", "MD")}, "GM"
    )
    olds, news = both_regions(matched(before, after, [(0, 0), (3, 2), (6, 4)]))
    # Ends are called by AFTER's rows, inputs and outputs in their order. E makes the output that M makes now.
    assert shown(olds) == [
        ([1, 2], [op(0)], [op(2)], [(2, 0)]),
        ([4], [("input", 1)], [("output", 1)], []),
        ([5], [op(3)], [op(4)], [(4, 0)]),
    ]
    assert shown(news) == [
        ([1], [op(0)], [op(2)], [(2, 0)]),
        ([3], [("input", 1)], [op(4), ("output", 1)], [(4, 0)]),
    ]
    assert [(sorted(one.taken), sorted(one.made)) for one in olds] == [([2], [3]), ([1], [5]), ([5], [5])]
    assert [(sorted(one.taken), sorted(one.made)) for one in news] == [([2], [3]), ([1], [5])]


def test_one_region_for_what_shares_an_operator_on_either_side() -> None:
    wires = {"A": ("NEG", "x"), "B": ("EXP", "A"), "C": ("ABS", "A"), "D": ("TANH", "B"), "E": ("COS", "C")}
    olds, news = both_regions(matched(wired(wires, "DE"), wired(wires, "DE"), []))
    assert [one.operators for one in olds] == [one.operators for one in news] == [[0, 1, 2, 3, 4]]
    olds, _ = both_regions(matched(wired(wires, "DE"), wired(wires, "DE"), [(0, 0)]))
    assert [one.operators for one in olds] == [[1, 3], [2, 4]]
    assert [sorted(one.takers) for one in olds] == [[("output", 0)], [("output", 1)]]


def test_operators_of_regions_are_each_other_where_code_and_place_tell() -> None:
    before = wired(
        {"A": ("TANH", "x"), "B": ("NEG", "A"), "C": ("EXP", "B"), "D": ("NEG", "C"), "E": ("COS", "D")}, "E"
    )
    after = wired(
        {"A": ("TANH", "x"), "B": ("NEG", "A"), "C": ("ABS", "B"), "D": ("NEG", "C"), "E": ("COS", "D")}, "E"
    )
    found = matched(before, after, [(0, 0), (4, 4)])
    assert one_by_one(found, [1, 2, 3], [1, 2, 3]) == [(1, 1), (3, 3)]
    assert one_by_one(found, [1], [1]) == []
    assert one_by_one(found, [1, 2], [1]) == one_by_one(found, [0, 1, 2], [1]) == [(1, 1)]
    assert one_by_one(found, [1, 3], [1]) == one_by_one(found, [0, 2], [1]) == []
    assert one_by_one(found, [1], [1, 2]) == []
    assert one_by_one(found, [1, 3], [1, 3]) == [(1, 1), (3, 3)]
    bare = matched(before, after, [])
    assert one_by_one(bare, [1, 2, 3], [1, 2, 3]) == [(1, 1), (3, 3)]  # in their order
    assert one_by_one(bare, [1, 2, 3], [1, 2]) == []
    assert one_by_one(bare, [0, 1, 3, 4], [0, 3, 4]) == [(0, 0), (4, 4)]


def test_what_stands_twice_in_a_place_is_not_told_apart_by_it() -> None:
    before = wired({"A": ("TANH", "x"), "B": ("NEG", "A"), "C": ("NEG", "A"), "D": ("ADD", "BC")}, "D")
    after = wired({"A": ("TANH", "x"), "B": ("NEG", "A"), "C": ("NEG", "A"), "D": ("ADD", "CB")}, "D")
    found = matched(before, after, [(0, 0), (3, 3)])
    assert one_by_one(found, [1, 2], [1, 2]) == [(1, 1), (2, 2)]
    assert one_by_one(found, [1, 2], [2, 1]) == [(1, 2), (2, 1)]
    more = wired({"A": ("TANH", "x"), "B": ("NEG", "A"), "C": ("EXP", "A"), "D": ("ADD", "BC")}, "D")
    found = matched(before, more, [(0, 0), (3, 3)])
    assert one_by_one(found, [1, 2], [1, 2]) == []
