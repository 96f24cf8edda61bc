"""What tracking finds, value for value: evidence and confidence of every source, in models that tools made.

`tracking_found.txt` has a line for each pair of models; `python -m tests.origin.test_tracking_found` writes it again.
A line that changes is to be looked at: whether it became better is told by tests/origin/test_tracking.py.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from benchmarks.tracking_pairs import load, renumbered, rotated, without_names
from tests.kit.build import Build, Graph, floats
from tests.kit.partition_support import seeded
from tests.kit.support import TESTDATA
from tests.kit.tracking_support import tracked
from tests.origin.mixed_rewrites import mixed_rewrites

FILE = Path(__file__).with_name("tracking_found.txt")
VARIANTS: dict[str, Callable[[bytes, bytes], tuple[bytes, bytes]]] = {
    "as it is": lambda before, after: (before, after),
    "names lost": lambda before, after: (before, without_names(after)),
    "no names": lambda before, after: (without_names(before), without_names(after)),
    "names anew": lambda before, after: (renumbered(before), renumbered(after)),
    "names rotated": lambda before, after: (before, rotated(after)),
    "backwards": lambda before, after: (after, before),
}


def text(before: bytes, after: bytes) -> str:
    """Return what is found as words: operator=source:evidence confidence."""
    words = []
    for subgraph, operators in enumerate(tracked(before, after).grounds):
        for index, sources in sorted(operators.items()):
            found = ",".join(
                f"{source}:{why.evidence.value[:2]}{why.confidence:.2f}" for source, why in sources.items()
            )
            words.append(f"{subgraph}/{index}={found}" if subgraph else f"{index}={found}")
    return " ".join(words) or "nothing"


def recorded() -> Iterator[tuple[str, bytes, bytes]]:
    for pair in load(TESTDATA / "tracking"):
        for name, change in VARIANTS.items():
            yield (f"{pair.name}, {name}", *change(pair.before, pair.after))


def converted() -> Iterator[tuple[str, bytes, bytes]]:
    """Yield the models of which there is one in either format, in both directions."""
    for path in sorted((TESTDATA / "circle").glob("*.circle")):
        other = TESTDATA / "tflite" / f"{path.stem}.tflite"
        if other.exists():
            yield f"{path.stem}, to tflite", path.read_bytes(), other.read_bytes()
            yield f"{path.stem}, to circle", other.read_bytes(), path.read_bytes()


CODES = ("ADD", "MUL", "RELU", "TANH", "FULLY_CONNECTED", "RESHAPE", "TRANSPOSE", "PAD")
PUT_IN = ("QUANTIZE", "DEQUANTIZE", "RESHAPE", "CAST", "NEG")
Plan = list[tuple[int, str, list[int], int]]
"""Number, code, numbers of what it reads (-1 is the input) and seed of its constant."""


def rewritten(seed: int) -> tuple[bytes, bytes]:
    """Return a random graph, and the same with some operators dropped, changed, put in and in another order."""
    generator = seeded(seed)
    plan: Plan = []
    for number in range(generator.randint(4, 14)):
        code = generator.choice(CODES)
        reads = generator.sample(range(-1, number), min(number + 1, 2 if code in ("ADD", "MUL") else 1))
        plan.append((number, code, reads, number % 7))
    after: Plan = []
    instead: dict[int, int] = {}
    further = len(plan)
    for number, code, read, constant in plan:
        reads = [instead.get(one, one) for one in read]
        what = generator.random()
        if what < 0.12:
            instead[number] = reads[0]
            continue
        other = generator.choice(CODES) if what < 0.2 else code
        after.append((number, other, reads, constant + 20 if what > 0.9 else constant))
        if 0.2 < what < 0.35:
            after.append((further, generator.choice(PUT_IN), [number], 0))
            instead[number] = further
            further += 1
    named = seed % 3
    return built(plan, lambda n: f"n/{n}" if named else ""), built(after, lambda n: f"n/{n}" if named == 1 else "")


def built(plan: Plan, name: Callable[[int], str]) -> bytes:
    build = Build()
    graph: Graph = build.graph()
    made = {-1: graph.tensor("x", (6, 6))}
    read: set[int] = set()
    for number, code, reads, constant in plan:
        inputs = [made[one] for one in reads]
        read |= set(inputs)
        if code in ("FULLY_CONNECTED", "PAD"):
            inputs.append(graph.constant("", floats(6, 6, seed=constant)))
        made[number] = graph.compute(code, inputs, name(number), (6, 6))
    graph.ends([made[-1]], [tensor for tensor in made.values() if tensor not in read and tensor] or [made[-1]])
    return build.to_bytes()


def random_rewrites() -> Iterator[tuple[str, bytes, bytes]]:
    for seed in range(60):
        yield (f"random {seed}", *rewritten(seed))


@cache
def expected() -> dict[str, str]:
    return dict(line.split(" | ") for line in FILE.read_text(encoding="utf-8").splitlines())


CASES = (recorded, converted, random_rewrites, mixed_rewrites)


@pytest.mark.parametrize("cases", CASES)
def test_the_recorded_results_are_unchanged(cases: Callable[[], Iterator[tuple[str, bytes, bytes]]]) -> None:
    for name, before, after in cases():
        assert text(before, after) == expected()[name], name


def main() -> None:
    """Write the file."""
    lines = [f"{name} | {text(*pair)}\n" for cases in CASES for name, *pair in cases()]
    FILE.write_text("".join(lines), encoding="utf-8")
    sys.stdout.write(f"{len(lines)} pairs\n")


if __name__ == "__main__":
    main()
