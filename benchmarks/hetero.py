"""Count the subgraphs into which OpenVINO's hetero plugin and `circletools.affinity` partition models.

    python -m benchmarks.hetero [MODEL.tflite...] [--only TEXT] [--json FILE]

The models are generated ones (the shapes of `graphs`, random graphs) and those in testdata/ and on the command line
that OpenVINO reads and that have 12 to 300 operators. The operators of each are assigned to devices in several ways.
If there are few enough parts, each part in mode `min` is also run as a separate OpenVINO model, in our order, and the
results are compared with those of the whole model.

The exit code is 1 if `min` has more subgraphs than OpenVINO in any case, if it has fewer in less than 30% of the
cases, or if a result differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, get_args

import numpy as np

from benchmarks.graphs import SHAPES, Kinds, by_chance, by_stretch
from benchmarks.networks import (
    Network,
    Values,
    feed,
    load,
    make,
    random_shape,
    run_parts,
    run_whole,
    start_core,
    submodels,
)
from benchmarks.process import ROOT
from circletools.affinity.solvers.groups import Partition, connected
from circletools.affinity.solvers.partitions import Mode, make_partitions
from circletools.errors import EditError

MODES: tuple[Mode, ...] = get_args(Mode)
_OPERATORS = range(12, 301)
_MOST_PARTS = 24
_TOLERANCE = 1e-5
_SHARE = 0.3


@dataclass(frozen=True)
class Case:
    """A model with devices. `ours` has no number for mode `seed` if its subgraphs wait for each other.

    `least` is a lower bound on the number of connected subgraphs: their number if cycles are ignored. `difference` is
    the largest difference between values of our parts and of the whole model, relative to the largest value of the
    result; None if the parts were not run.
    """

    model: str
    affinity: str
    operators: int
    least: int
    openvino: int | None
    ours: dict[Mode, int | None]
    difference: float | None = None
    note: str = ""

    def cells(self) -> list[str]:
        """Return the case as text."""
        modes = ["cyclic" if count is None else str(count) for count in self.ours.values()]
        same = "" if self.difference is None else f"{self.difference:.0e}"
        theirs = "" if self.openvino is None else str(self.openvino)
        return [self.model, self.affinity, str(self.operators), str(self.least), theirs, *modes, same, self.note]


HEAD = ("model", "affinity", "operators", "least", "OpenVINO", *MODES, "difference", "note")


# --- the assignments to devices ----------------------------------------------------------------------------------


def by_every_other_kind(shape: Kinds) -> list[int]:
    """Return device 1 for every other kind of operator."""
    kinds = sorted(set(shape.kinds))
    return [kinds.index(kind) % 2 for kind in shape.kinds]


def in_three(shape: Kinds) -> list[int]:
    """Return devices 1 and 2 for a fifth of the operators each."""
    return [max(0, number - 2) for number in by_choice(shape, 5)]


def by_choice(shape: Kinds, count: int) -> list[int]:
    """Return random numbers below `count`."""
    numbers: list[int] = np.random.default_rng(0).integers(0, count, len(shape.kinds)).tolist()
    return numbers


AFFINITIES: dict[str, Callable[[Kinds], list[int]]] = {
    "kinds": by_every_other_kind,
    "10 %": lambda shape: by_chance(shape, 0.1, 1),
    "30 %": lambda shape: by_chance(shape, 0.3, 2),
    "50 %": lambda shape: by_chance(shape, 0.5, 3),
    "stretches": lambda shape: by_stretch(shape, 9),
    "three": in_three,
}


# --- the models ---------------------------------------------------------------------------------------------


def sources(files: Sequence[Path]) -> list[tuple[str, ...]]:
    """Return the models to measure, as words from which `network` makes a model."""
    made: list[tuple[str, ...]] = [("shape", name, "150") for name in SHAPES]
    reaches = (6, 12, 40)
    made += [("random", str(count), str(reach), str(count)) for count in (40, 80, 160) for reach in reaches]
    return [*made, *(("file", str(path)) for path in files)]


def network(core: Any, kind: str, *words: str) -> Network | None:
    """Return a model, or None for a file that cannot be used."""
    if kind == "shape":
        return make(" ".join(words), SHAPES[words[0]](int(words[1])))
    if kind == "random":
        return make(f"random {words[0]} reach {words[1]}", random_shape(*(int(word) for word in words)))
    found = load(core, Path(words[0]))
    return found if found is not None and len(found.graph) in _OPERATORS else None


# --- the measurement, in a separate process ---------------------------------------------------------------

_core = cache(start_core)


def measure(source: tuple[str, ...], *, run: bool) -> list[Case]:
    """Return the cases of a model; with `run`, also compare their results part by part."""
    core = _core()
    found = network(core, *source)
    if found is None:
        return []
    fed = feed(found)
    whole = None
    with suppress(RuntimeError):
        whole = run_whole(core, found, fed) if run else None
    used = [name for name, assign in AFFINITIES.items() if len(set(assign(found))) > 1]
    return [_case(core, found, name, fed, whole) for name in used]


def _case(core: Any, found: Network, affinity: str, fed: Values, whole: Values | None) -> Case:
    devices = AFFINITIES[affinity](found)
    ours = {mode: _parts(found, devices, mode) for mode in MODES}
    counts = {mode: None if parts is None else len(parts) for mode, parts in ours.items()}
    theirs, note, difference = None, "", None
    try:
        theirs = submodels(core, found, devices)
    except RuntimeError as error:
        note = str(error).strip().splitlines()[-1][:60]
    if whole is None:
        note = note or "does not run whole"
    else:
        tried = [tuple(part.operators for part in ours["min"] or ())]
        got = [run_parts(core, found, parts, fed) for parts in tried if len(parts) <= _MOST_PARTS]
        difference = max((_difference(whole, values) for values in got), default=None)
    least = max(connected(found.graph, devices)) + 1
    return Case(found.name, affinity, len(found.graph), least, theirs, counts, difference, note)


def _parts(found: Network, devices: list[int], mode: Mode) -> tuple[Partition, ...] | None:
    try:
        return make_partitions(found.graph, devices, mode)
    except EditError:
        return None


def _difference(wanted: Values, got: Values) -> float:
    worst = 0.0
    for slot, value in wanted.items():
        left, right = value.astype(np.float64), got[slot].astype(np.float64)
        if left.shape != right.shape or (np.isfinite(left) != np.isfinite(right)).any():
            return np.inf
        finite = np.isfinite(left)
        size = np.abs(left[finite]).max(initial=1e-30)
        worst = max(worst, float(np.abs(left - right, where=finite, out=np.zeros_like(left)).max(initial=0) / size))
    return worst


def run_all(all_sources: Iterable[tuple[str, ...]]) -> Iterator[Case]:
    """Measure everything in separate processes. If running a model crashes OpenVINO, the model is only counted."""
    pool = None
    for source in all_sources:
        for run in (True, False):
            pool = pool or ProcessPoolExecutor(1, get_context("spawn"))
            try:
                cases = pool.submit(measure, source, run=run).result()
            except BrokenProcessPool:
                pool = None
            else:
                yield from cases
                break


# --- the result ---------------------------------------------------------------------------------------------


def summary(cases: Sequence[Case]) -> tuple[list[str], bool]:
    """Return the totals as lines, and whether the targets are met."""
    counted = [case for case in cases if case.openvino is not None]
    lines, kept = [f"{len(counted)} cases; OpenVINO: {sum(case.openvino or 0 for case in counted)} subgraphs"], True
    for mode in MODES:
        own = [(case.ours[mode], case.openvino or 0) for case in counted]
        numbers = [(count, theirs) for count, theirs in own if count is not None]
        total, others = (sum(column) for column in zip(*numbers, strict=True))
        fewer, more = sum(a < b for a, b in numbers) / len(own), sum(a > b for a, b in numbers)
        cyclic = f", cyclic in {len(own) - len(numbers)}" if len(own) > len(numbers) else ""
        lines.append(f"{mode}: {total} for its {others}; fewer in {fewer:.0%}, more in {more}{cyclic}")
        if mode == "min":
            kept = not more and fewer >= _SHARE
    room = [case for case in counted if (case.openvino or 0) > case.least]
    saved = sum((case.ours["min"] or 0) < (case.openvino or 0) for case in room) / max(len(room), 1)
    lines.append(
        f"in {len(counted) - len(room)} cases OpenVINO has the least; in the others min has fewer in {saved:.0%}"
    )
    compared = [case.difference for case in cases if case.difference is not None]
    lines.append(f"run part by part: {len(compared)} cases, largest difference {max(compared, default=0):.1e}")
    return lines, kept and bool(compared) and max(compared) <= _TOLERANCE


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each case as it completes, and the totals."""
    parser = argparse.ArgumentParser(prog="benchmarks.hetero", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("models", nargs="*", type=Path, metavar="MODEL", help="more models, besides testdata/")
    parser.add_argument("--only", default="", help="only models whose name contains this")
    parser.add_argument("--json", type=Path, help="write all cases to this file too")
    options = parser.parse_args(arguments)
    files = [*sorted((ROOT / "testdata" / "tflite").glob("*.tflite")), *options.models]
    chosen = [source for source in sources(files) if options.only in " ".join(source)]
    print("|", " | ".join(HEAD), "|\n" + "|---" * len(HEAD) + "|")
    cases = []
    for case in run_all(chosen):
        cases.append(case)
        print("|", " | ".join(case.cells()), "|", flush=True)
    lines, kept = summary(cases)
    print("\n" + "\n".join(lines))
    if options.json:
        options.json.write_text(json.dumps([asdict(case) for case in cases], indent=1) + "\n", encoding="utf-8")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
