"""How often `track-origins` is right, and how fast it is.

    python -m benchmarks.tracking [MODEL...] --quantizer-python PYTHON --tico-python PYTHON

Each pair of models is made by a tool that nobody here wrote, and its truth by watching that tool, not by comparing
the models (`tracking_tools/quantize.py`, `tracking_tools/optimize.py`). Only `shuffled` is made here: operators (and
tensors, where no signature names them) in another order that can run too, and the truth is that order.

Each pair of models is tracked with the names as they are, with those of AFTER taken away (of tensors, subgraphs and
signatures), and with those of both. What is counted is pairs (operator of AFTER, source).
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.models import many_operators
from benchmarks.tracking_pairs import Pair, Score, judge, load, shuffled, without_names
from circletools.errors import CircleToolsError
from circletools.model.model import open_model
from circletools.origin.tracking.tracker import track

ROOT = Path(__file__).parents[1]
NAMED_TARGETS, NAMELESS_TARGETS = (0.99, 0.95), (0.9, 0.8)
SECONDS = 10.0
MOST_SHUFFLED = 300
BOUNDS = (0.95, 0.75, 0.5, 0.25, 0.0)


def made_by_tools(models: list[Path], quantizer: str | None, tico: str | None, folder: Path) -> Iterator[Pair]:
    """Yield the pairs of the tools that there are."""
    tools = Path(__file__).parent / "tracking_tools"
    quantized, optimised = folder / "quantized", folder / "optimised"
    for made in (quantized, optimised):
        made.mkdir(exist_ok=True)
    if quantizer:
        tflite = [path for path in models if path.suffix == ".tflite"]
        _run(quantizer, tools / "quantize.py", quantized, *tflite)
    if tico:
        _run(tico, tools / "optimize.py", optimised)
    for made in (quantized, optimised):
        yield from load(made)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def made_here(models: list[Path]) -> Iterator[Pair]:
    """Yield the pairs whose truth is the order that was written down when they were made."""
    for path in models:
        data = path.read_bytes()
        try:
            with open_model(data) as model:
                starts = model.operator_columns.splits.tolist()
            if starts[-1] > MOST_SHUFFLED:
                continue
            other, orders = shuffled(data, 1)
        except (CircleToolsError, ValueError, IndexError):  # no model, or operators that wait for each other
            continue
        truth = {
            (subgraph, new): {starts[subgraph] + old}
            for subgraph, order in enumerate(orders)
            for new, old in enumerate(order)
        }
        yield Pair(f"{path.stem}.shuffled", data, other, truth)


def variants(pair: Pair) -> Iterator[tuple[str, Pair]]:
    """Yield a pair with fewer and fewer names."""
    after = without_names(pair.after)
    yield "kept", pair
    yield "none in AFTER", replace(pair, after=after)
    yield "none in both", replace(pair, before=without_names(pair.before), after=after)


def measure(pairs: Iterator[Pair], verbose: bool) -> dict[tuple[str, str], Score]:
    """Return the scores by kind of pair and names."""
    scores: dict[tuple[str, str], Score] = defaultdict(Score)
    for pair in pairs:
        for names, variant in variants(pair):
            try:
                score = judge(variant)
            except CircleToolsError as error:
                print(f"{pair.name}: {error}", file=sys.stderr)
                break
            scores[pair.name.rsplit(".", 1)[1], names] += score
            if verbose and (score.wrong or score.missed):
                counts = f"right {score.right}, wrong {score.wrong}, missed {score.missed}"
                print(f"{pair.name}, names {names}: {counts}", file=sys.stderr)
    return scores


def show(scores: dict[tuple[str, str], Score]) -> bool:
    """Print the tables; say whether all targets are met."""
    met = True
    print("| tool | names | pairs (operator, source) | precision | recall | met? |\n|---|---|---:|---:|---:|---|")
    for (tool, names), score in sorted(scores.items()):
        precision, recall = NAMED_TARGETS if names == "kept" else NAMELESS_TARGETS
        good = score.precision >= precision and score.recall >= recall
        met &= good
        total = score.right + score.missed
        rates = f"{score.precision:.4f} | {score.recall:.4f}"
        print(f"| {tool} | {names} | {total} | {rates} | {'yes' if good else 'NO'} |")
    sure: dict[tuple[str, float], list[bool]] = defaultdict(list)
    for score in scores.values():
        for evidence, confidence, right in score.sure:
            sure[evidence, next(bound for bound in BOUNDS if confidence >= bound)].append(right)
    print("\n| evidence | confidence from | found | right |\n|---|---:|---:|---:|")
    for (kind, bound), rights in sorted(sure.items()):
        print(f"| {kind} | {bound} | {len(rights)} | {sum(rights) / len(rights):.4f} |")
    return met


def speed(folder: Path) -> bool:
    """Print how long a model of 100,000 operators takes; say whether that is short enough."""
    gc.disable()  # as the command does
    path = folder / "operators.tflite"
    many_operators(path, 100_000)
    seconds = []
    for after in (path.read_bytes(), without_names(path.read_bytes())):
        with open_model(path) as before, open_model(after) as model:
            start = time.process_time()
            track(before, model)
            seconds.append(time.process_time() - start)
    print(f"\n100,000 operators: {seconds[0]:.1f} s of CPU with names, {seconds[1]:.1f} s without")
    return max(seconds) <= SECONDS


def main() -> int:
    """Measure; return 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path, help="models beside those of testdata")
    parser.add_argument("--quantizer-python", metavar="PYTHON", help="a Python that has ai-edge-quantizer")
    parser.add_argument("--tico-python", metavar="PYTHON", help="a Python that has torch and tico")
    parser.add_argument("--verbose", action="store_true", help="name the pairs that are not all right")
    options = parser.parse_args()
    kinds = ("tflite", "circle")
    models = [path for kind in kinds for path in sorted((ROOT / "testdata" / kind).iterdir())]
    models += options.models
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        made = [
            *made_by_tools(models, options.quantizer_python, options.tico_python, folder),
            *made_here(models),
        ]
        met = show(measure(iter(made), options.verbose))
        return 0 if speed(folder) and met else 1


if __name__ == "__main__":
    sys.exit(main())
