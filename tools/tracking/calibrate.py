"""Fit the tables of circletools/origin/tracking/calibration.py, and print them.

    python -m tools.tracking.calibrate 0:40 [--folder FOLDER]...

Of each origin that is found, how far things agree and how far the models are kin is noted before either becomes a
confidence. From agreement, by evidence, to the share of right origins: the best curve that never falls (pools of
neighbours that violate the order are averaged). The same from kinship to the share of pairs of which one model was
made from the other, where as many pairs of strangers are asked. Seeds are those below 1000.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.tracking_pairs import Pair, judge
from circletools.origin.tracking import tracker
from circletools.origin.tracking.kinship import kinship
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.score import Evidence, Scorer
from tools.tracking.kinds import KINDS
from tools.tracking.measure import made, of_tools

FEWEST = 40
"""Origins that a point of a curve stands for, at least."""


def pooled(rows: Sequence[tuple[float, bool]]) -> list[tuple[float, float, int]]:
    """Return a curve that never falls: mean agreement, share of right ones, and how many, ascending."""
    pools: list[tuple[float, float, int]] = []
    for x, right in sorted(rows):
        pools.append((x, float(right), 1))
        while len(pools) > 1 and not _in_order(*pools[-2:]):
            pools.append(_joined(pools.pop(), pools.pop()))
    if len(pools) > 1 and pools[-1][2] < FEWEST:
        pools.append(_joined(pools.pop(), pools.pop()))
    return pools


def _joined(first: tuple[float, float, int], second: tuple[float, float, int]) -> tuple[float, float, int]:
    (a, b, n), (c, d, m) = first, second
    return (a * n + c * m) / (n + m), (b * n + d * m) / (n + m), n + m


def _in_order(first: tuple[float, float, int], second: tuple[float, float, int]) -> bool:
    return first[1] < second[1] and first[2] >= FEWEST and first[0] < second[0]


class Notes:
    """What was found before it became confidences: agreement and whether it is right, by evidence, and kinships."""

    def __init__(self) -> None:
        """Start without any."""
        self.agreements: dict[Evidence, list[tuple[float, bool]]] = defaultdict(list)
        self.kinships: list[tuple[float, bool]] = []

    def add(self, one: Pair, *, strangers: bool) -> None:
        """Track a pair and note what it gives."""
        seen = list[float]()

        def noting(matcher: Matcher, scores: Scorer) -> float:
            seen.append(kinship(matcher, scores))
            return 1.0

        with (
            patch.object(tracker, "kinship", noting),
            patch.object(tracker, "calibrated", lambda _, agreement: agreement),
            patch.object(tracker, "related", lambda _: 1.0),
        ):
            score = judge(one)
        self.kinships.append((seen[-1], not strangers))
        if not strangers:
            for evidence, agreement, right in score.sure:
                self.agreements[evidence].append((agreement, right))

    def show(self) -> None:
        """Print the curves."""
        for evidence in Evidence:
            curve = pooled(self.agreements[evidence])
            print(f"    Evidence.{evidence.name}: {_points(curve)},  # {sum(n for *_, n in curve):,}")
        print(f"kinship {_points(pooled(self.kinships))}")
        for related in (True, False):
            values = [kin for kin, is_related in self.kinships if is_related == related]
            print(related, np.histogram(values, np.linspace(0, 1, 21))[0].tolist())


def _points(curve: Iterable[tuple[float, float, int]]) -> str:
    points = [(round(x, 3), round((y * n + 1) / (n + 2), 4)) for x, y, n in curve]
    xs, ys = zip(*points, strict=True) if points else ((), ())
    return f"({xs}, {ys})"


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", help="FROM:TO")
    parser.add_argument("--folder", action="append", default=[], type=Path)
    options = parser.parse_args()
    seeds = range(*map(int, options.seeds.split(":")))
    notes, names = Notes(), ("kept", "none", "renumbered")
    related = 0
    for _, _, one in (*made(seeds, list(KINDS), names), *of_tools(options.folder)):
        notes.add(one, strangers=False)
        related += 1
    strangers = made(range(related // len(names)), ["strangers"], names)
    for _, _, one in strangers:
        notes.add(one, strangers=True)
    notes.show()


if __name__ == "__main__":
    main()
