"""Pairs of models with known ground truth, ways to make tracking harder, and scores of answers.

The ground truth is a JSON file: `operators` holds, for each operator of each subgraph of AFTER, the numbers of the
operators of BEFORE that it computes (counted over all subgraphs); `removed` holds those that are not scored.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from circletools.model.model import open_model
from circletools.origin.tracking.ends import Evidence
from circletools.origin.tracking.tracker import track
from tests.kit.support import generated, packed

Sources = dict[tuple[int, int], set[int]]


@dataclass(frozen=True)
class Pair:
    """A model before and after a tool; `truth` is indexed by subgraph and operator of AFTER."""

    name: str
    before: bytes
    after: bytes
    truth: Sources
    removed: frozenset[int] = frozenset()


@dataclass
class Score:
    """Counts of pairs (operator of AFTER, source): correct, wrong and missed; and the tracker's confidences."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    sure: list[tuple[Evidence, float, bool]] = field(default_factory=list)

    def __iadd__(self, other: Score) -> Score:
        """Add the counts of another score."""
        self.right += other.right
        self.wrong += other.wrong
        self.missed += other.missed
        self.sure += other.sure
        return self

    @property
    def precision(self) -> float:
        """The share of found pairs that are correct."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of true pairs that were found."""
        return self.right / max(1, self.right + self.missed)


def load(folder: Path) -> Iterator[Pair]:
    """Yield the pairs in a folder."""
    for path in sorted(folder.glob("*.json")):
        kind = next(kind for kind in ("tflite", "circle") if path.with_suffix(f".before.{kind}").exists())
        before, after = (path.with_suffix(f".{which}.{kind}") for which in ("before", "after"))
        document = json.loads(path.read_text())
        truth = {
            (subgraph, index): set(sources)
            for subgraph, operators in enumerate(document["operators"])
            for index, sources in enumerate(operators)
        }
        after_bytes = after.read_bytes()
        truth = inserted(after_bytes, truth)
        yield Pair(path.stem, before.read_bytes(), after_bytes, truth, frozenset(document["removed"]))


def inserted(after: bytes, truth: Sources) -> Sources:
    """Return the truth, completed for operators that a tool inserted by the rule in docs/tracking.md.

    Inserted operators have no source. They get the sources of the operator that they continue or, after an input or
    constant, those of the first operator that they feed.
    """
    complete = dict(truth)
    for number, subgraph in enumerate(unpacked(after).subgraphs):
        operators = _operators(subgraph)
        producer = {int(t): index for index, operator in enumerate(operators) for t in operator.outputs}
        takers: dict[int, list[int]] = defaultdict(list)
        for index, operator in enumerate(operators):
            for tensor in operator.inputs:
                takers[int(tensor)].append(index)

        def back(index: int, o: list[Any] = operators, p: dict[int, int] = producer) -> int | None:
            return p.get(int(o[index].inputs[0]))

        def on(index: int, o: list[Any] = operators, t: dict[int, list[int]] = takers) -> int | None:
            return min(t[int(o[index].outputs[0])], default=None)

        for index in range(len(operators)):
            for step in (back, on):
                at: int | None = index
                while at is not None and not truth[number, at]:
                    at = step(at)
                if at is not None:
                    complete[number, index] = truth[number, at]
                    break
    return complete


def judge(pair: Pair) -> Score:
    """Track a pair, and compare the result with the truth."""
    with open_model(pair.before) as before, open_model(pair.after) as after:
        tracking = track(before, after)
    score = Score()
    found = set()
    for subgraph, operators in enumerate(tracking.grounds):
        for index, sources in operators.items():
            for source, grounds in sources.items():
                if source not in pair.removed:
                    found.add((subgraph, index, source))
                    right = source in pair.truth[subgraph, index]
                    score.sure.append((grounds.evidence, grounds.confidence, right))
    true = {(*place, source) for place, sources in pair.truth.items() for source in sources - pair.removed}
    score.right, score.wrong, score.missed = len(found & true), len(found - true), len(true - found)
    return score


# --- ways to make tracking harder ---------------------------------------------------------------------------------


def unpacked(data: bytes) -> Any:
    """Return a model as objects, with all data inside the flatbuffer."""
    model = generated("ModelT", data[4:8]).InitFromPackedBuf(data, 0)
    for buffer in model.buffers or ():
        if buffer.offset > 1:
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    return model


def rewritten(data: bytes, change: Callable[[Any], None]) -> bytes:
    """Return a model after a change to its objects."""
    model = unpacked(data)
    change(model)
    return packed(model, data[4:8])


def without_names(data: bytes) -> bytes:
    """Remove the names of tensors, subgraphs and signatures."""

    def change(model: Any) -> None:
        model.signatureDefs = None
        for subgraph in model.subgraphs:
            subgraph.name = None
            for tensor in subgraph.tensors or ():
                tensor.name = b""

    return rewritten(data, change)


def renumbered(data: bytes) -> bytes:
    """Name each tensor by a number, in the order of the tensors, as some converters do."""

    def change(model: Any) -> None:
        for subgraph in model.subgraphs:
            for number, tensor in enumerate(subgraph.tensors or ()):
                tensor.name = b"t%d" % number

    return rewritten(data, change)


def rotated(data: bytes) -> bytes:
    """Rotate the names of first outputs among operators with the same code.

    If operators identify a variable only by name, the result is a different model.
    """

    def change(model: Any) -> None:
        for subgraph in model.subgraphs:
            alike: dict[int, list[Any]] = defaultdict(list)
            for operator in _operators(subgraph):
                if len(operator.outputs):
                    alike[operator.opcodeIndex].append(subgraph.tensors[int(operator.outputs[0])])
            for tensors in alike.values():
                names = [tensor.name for tensor in tensors]
                for tensor, name in zip(tensors, names[1:] + names[:1], strict=True):
                    tensor.name = name

    return rewritten(data, change)


def shuffled(data: bytes, seed: int) -> tuple[bytes, list[list[int]]]:
    """Put operators and tensors in another executable order; return, by subgraph, the old index of each new one."""
    random_ = random.Random(seed)  # noqa: S311 - any order will do
    orders: list[list[int]] = []

    def change(model: Any) -> None:
        for subgraph in model.subgraphs:
            operators = _operators(subgraph)
            order = _runnable(operators, random_)
            subgraph.operators = [operators[index] for index in order]
            orders.append(order)
        if not model.signatureDefs and len(model.subgraphs) == 1:
            _shuffle_tensors(model.subgraphs[0], random_)

    return rewritten(data, change), orders


def _operators(subgraph: Any) -> list[Any]:
    """Return the operators; an absent list of inputs or outputs becomes an empty one."""
    operators = list(subgraph.operators) if subgraph.operators is not None else []
    for operator in operators:
        operator.inputs = operator.inputs if operator.inputs is not None else []
        operator.outputs = operator.outputs if operator.outputs is not None else []
    return operators


def _runnable(operators: list[Any], random_: random.Random) -> list[int]:
    producer = {int(t): index for index, operator in enumerate(operators) for t in operator.outputs}
    needs = [{producer[int(t)] for t in operator.inputs if int(t) in producer} for operator in operators]
    order: list[int] = []
    while len(order) < len(operators):
        ready = [index for index, need in enumerate(needs) if index not in order and need.issubset(order)]
        if not ready:
            raise ValueError("the operators form a cycle")
        order.append(random_.choice(ready))
    return order


def _shuffle_tensors(subgraph: Any, random_: random.Random) -> None:
    order = list(range(len(subgraph.tensors)))
    random_.shuffle(order)
    new = {old: index for index, old in enumerate(order)} | {-1: -1}
    subgraph.tensors = [subgraph.tensors[old] for old in order]
    for table in (subgraph, *_operators(subgraph)):
        for ends in ("inputs", "outputs"):
            tensors = getattr(table, ends)
            setattr(table, ends, [new[int(tensor)] for tensor in (tensors if tensors is not None else ())])
