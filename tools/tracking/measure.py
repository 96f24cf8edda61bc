"""Measure the accuracy of `track-origins` on pairs made from seeds and pairs from tools, by kind and confidence.

    python -m tools.tracking.measure 900:920 [--folder FOLDER]... [--kinds cut,batch] [--names kept,none] [--verbose]

FOLDER contains pairs written by the programs in benchmarks/tracking_tools. The counts are of pairs (operator of
AFTER, source).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from benchmarks.tracking_pairs import Pair, Score, judge, load, without_names
from tools.tracking.kinds import KINDS, NAMES, pair, strangers

BINS = 10


@dataclass
class Table:
    """Scores by kind of pair and by treatment of names."""

    verbose: bool = False
    scores: dict[tuple[str, str], Score] = field(default_factory=dict)

    def add(self, kind: str, names: str, one: Pair) -> Score:
        """Count a pair."""
        score = judge(one)
        if self.verbose and (score.wrong or score.missed):
            print(f"{one.name}, names {names}: right {score.right}, wrong {score.wrong}, missed {score.missed}")
        total = self.scores.setdefault((kind, names), Score())
        total += score
        return score

    def show(self) -> None:
        """Print the scores, and the calibration of confidences."""
        print("| kind | names | origins | precision | recall | ECE |\n|---|---|---:|---:|---:|---:|")
        for (kind, names), score in self.scores.items():
            rates = f"{score.precision:.4f} | {score.recall:.4f}"
            print(f"| {kind} | {names} | {score.right + score.missed} | {rates} | {expected_error(score):.4f} |")
        total = Score()
        for score in self.scores.values():
            total += score
        print(f"| all | | {total.right + total.missed} | {total.precision:.4f} | {total.recall:.4f} | ", end="")
        print(f"{expected_error(total):.4f} |\n\n| confidence | origins | mean | right |\n|---|---:|---:|---:|")
        for number, (count, mean, right) in sorted(bins(total).items()):
            print(f"| {number / BINS:.1f} to {(number + 1) / BINS:.1f} | {count} | {mean:.3f} | {right:.3f} |")


def bins(score: Score) -> dict[int, tuple[int, float, float]]:
    """Return, by tenth of confidence, the number of origins, their mean confidence, and the share that is correct."""
    sure = np.array([(confidence, right) for _, confidence, right in score.sure], float).reshape(-1, 2)
    number = np.minimum((sure[:, 0] * BINS).astype(int), BINS - 1)
    chosen = {tenth: sure[number == tenth] for tenth in sorted(set(number.tolist()))}
    return {tenth: (len(rows), float(rows[:, 0].mean()), float(rows[:, 1].mean())) for tenth, rows in chosen.items()}


def expected_error(score: Score) -> float:
    """Return the expected calibration error: the mean error of tenths of confidence, weighted by origins."""
    found = bins(score).values()
    return sum(count * abs(mean - right) for count, mean, right in found) / max(1, sum(count for count, *_ in found))


def made(seeds: range, kinds: Sequence[str], names: Sequence[str]) -> Iterator[tuple[str, str, Pair]]:
    """Yield the pairs for seeds, with the kind and the treatment of names."""
    for kind in kinds:
        for how in names:
            for seed in seeds:
                one = strangers(seed, how) if kind == "strangers" else pair(seed, kind, how)
                yield kind, how, one


def of_tools(folders: Sequence[Path]) -> Iterator[tuple[str, str, Pair]]:
    """Yield the pairs in folders, each with and without AFTER's names."""
    for folder in folders:
        for one in load(folder):
            yield folder.name, "kept", one
            yield folder.name, "none in AFTER", replace(one, after=without_names(one.after))


def main() -> None:
    """Print the scores for the requested pairs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", help="FROM:TO")
    parser.add_argument("--folder", action="append", default=[], type=Path)
    parser.add_argument("--kinds", default=",".join([*KINDS, "strangers"]))
    parser.add_argument("--names", default=",".join(NAMES))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    seeds = range(*map(int, options.seeds.split(":")))
    kinds = [kind for kind in options.kinds.split(",") if kind]
    table = Table(options.verbose)
    for kind, names, one in made(seeds, kinds, options.names.split(",")):
        table.add(kind, names, one)
    for kind, names, one in of_tools(options.folder):
        table.add(kind, names, one)
    table.show()


if __name__ == "__main__":
    main()
