"""The fewest sources, worst first."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from circletools.fit.naming import Source, fewest_sources

A, B, C, D = ((number, name) for number, name in enumerate("abcd"))


@pytest.mark.parametrize(
    ("origins", "expected"),
    [
        ([], []),
        ([[A]], [(A, [0])]),
        ([[A], [B], [A]], [(A, [0, 2]), (B, [1])]),
        ([[B], [A]], [(B, [0]), (A, [1])]),  # of equal ones that which comes first
        ([[A, B], [B]], [(B, [0, 1])]),  # what is needed anyhow
        ([[A, B], [B, C], [C]], [(C, [1, 2]), (A, [0])]),
        ([[A, B], [B, C], [B, D]], [(B, [0, 1, 2])]),
        ([[A, B], [A, B]], [(A, [0, 1])]),
        ([[A, D], [A, D], [B, D], [B], [B]], [(B, [2, 3, 4]), (A, [0, 1])]),
        ([[A, B], [A, C], [C, D], [B, D], [C, D]], [(C, [1, 2, 4]), (B, [0, 3])]),
        # C is in most at first; when B has gone, A is in more of the rest than C.
        ([[B, C], [B, C], [B, C], [B, D], [A, C], [A, D], [A, D]], [(B, [0, 1, 2, 3]), (A, [4, 5, 6])]),
    ],
)
def test_sources(origins: list[list[Source]], expected: list[tuple[Source, list[int]]]) -> None:
    assert fewest_sources(origins) == expected


def test_nothing_is_left_and_nearly_nothing_too_much() -> None:
    random = Random(3)  # noqa: S311
    for _ in range(200):
        pool = [(number, str(number)) for number in range(random.randrange(1, 7))]
        count = random.randrange(9)
        origins = [sorted(random.sample(pool, random.randrange(1, len(pool) + 1))) for _ in range(count)]
        found = fewest_sources(origins)
        chosen = {source for source, _ in found}
        assert all(chosen.intersection(origin) for origin in origins)
        assert all(rows == [row for row, origin in enumerate(origins) if source in origin] for source, rows in found)
        assert [len(rows) for _, rows in found] == sorted((len(rows) for _, rows in found), reverse=True)
        least = next(
            count
            for count in range(len(pool) + 1)
            if any(all(set(some) & set(origin) for origin in origins) for some in combinations(pool, count))
        )
        assert least <= len(found) <= least + 1
