"""Fit the tables of circletools/origin/tracking/calibration.py, and print them.

    python -m tools.tracking.calibrate 100:160 [--folder FOLDER]...

Of each origin that is found, how far things agree and how far the models are kin is noted before either becomes a
confidence. From agreement, by evidence, to the share of right origins: the best curve that never falls (pools of
neighbours that violate the order are averaged). What is found in one network is right or wrong together, so that a
pool has to hold several networks. The same from kinship to the share of pairs of which one model was made from the
other, where as many pairs of strangers are asked. Seeds are those below 1000.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from unittest.mock import patch

import numpy as np

from benchmarks.tracking_pairs import Pair, judge
from circletools.origin.tracking import tracker
from circletools.origin.tracking.kinship import kinship
from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.score import Evidence, Scorer
from tools.tracking.kinds import KINDS, NAMES
from tools.tracking.measure import made, of_tools

FEWEST = 40
"""Origins that a point of a curve stands for, at least."""

NETWORKS = 10
"""Networks that these origins are of, at least."""

Row = tuple[float, bool, str]
"""Agreement, whether the origin is right, and its network."""


@dataclass
class Pool:
    """Neighbours on a curve: how many, the sums of their agreements and of the right ones, and their networks."""

    count: int
    agreement: float
    right: int
    networks: set[str]

    @property
    def filled(self) -> bool:
        """Whether a point can stand for it."""
        return self.count >= FEWEST and len(self.networks) >= NETWORKS

    def take(self, other: Pool) -> None:
        """Take in the next pool."""
        self.count += other.count
        self.agreement += other.agreement
        self.right += other.right
        self.networks |= other.networks

    def point(self) -> tuple[float, float, int]:
        """Return mean agreement, share of right ones, and how many."""
        return self.agreement / self.count, self.right / self.count, self.count


def pooled(rows: Iterable[Row]) -> list[tuple[float, float, int]]:
    """Return a curve that never falls: mean agreement, share of right ones, and how many, ascending."""
    alike: dict[float, Pool] = {}
    for agreement, right, network in rows:
        alike.setdefault(round(agreement, 3), Pool(0, 0.0, 0, set())).take(Pool(1, agreement, right, {network}))
    pools: list[Pool] = []
    for key in sorted(alike):
        pools.append(alike[key])
        while len(pools) > 1 and not (pools[-2].filled and pools[-2].point()[1] < pools[-1].point()[1]):
            last = pools.pop()
            pools[-1].take(last)
    if len(pools) > 1 and not pools[-1].filled:
        last = pools.pop()
        pools[-1].take(last)
    return [pool.point() for pool in pools]


class Notes:
    """What was found before it became confidences: agreement and whether it is right, by evidence, and kinships."""

    def __init__(self) -> None:
        """Start without any."""
        self.agreements: dict[Evidence, list[Row]] = defaultdict(list)
        self.kinships: list[Row] = []

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
        self.kinships.append((seen[-1], not strangers, one.name))
        if not strangers:
            for evidence, agreement, right in score.sure:
                self.agreements[evidence].append((agreement, right, one.name))

    def show(self) -> None:
        """Print the curves."""
        for evidence in Evidence:
            curve = pooled(self.agreements[evidence])
            print(f"    Evidence.{evidence.name}: {_points(curve)},  # {sum(n for *_, n in curve):,}")
        print(f"kinship {_points(pooled(self.kinships))}")
        for related in (True, False):
            values = [kin for kin, is_related, _ in self.kinships if is_related == related]
            print(related, np.histogram(values, np.linspace(0, 1, 21))[0].tolist())


def _points(curve: Iterable[tuple[float, float, int]]) -> str:
    points = [(round(x, 3), round((y * n + 1) / (n + 2), 3)) for x, y, n in curve]
    xs, ys = zip(*points, strict=True) if points else ((), ())
    return f"({xs}, {ys})"


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", help="FROM:TO")
    parser.add_argument("--folder", action="append", default=[], type=Path)
    options = parser.parse_args()
    seeds = range(*map(int, options.seeds.split(":")))
    notes, related = Notes(), 0
    for _, _, one in chain(made(seeds, list(KINDS), NAMES), of_tools(options.folder)):
        notes.add(one, strangers=False)
        related += 1
    strangers = made(range(related // len(NAMES)), ["strangers"], NAMES)
    for _, _, one in strangers:
        notes.add(one, strangers=True)
    notes.show()


if __name__ == "__main__":
    main()
