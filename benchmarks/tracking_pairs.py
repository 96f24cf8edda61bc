"""Pairs of models with known truth, what can be taken from them to make it harder, and how right an answer is.

A truth is a JSON file: `operators` has for each subgraph of AFTER and each of its operators the numbers of those of
BEFORE's operators that it computes (counted over all subgraphs), `removed` those that are counted neither way.
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
    """A model before and after a tool; `truth` is by subgraph and operator of AFTER."""

    name: str
    before: bytes
    after: bytes
    truth: Sources
    removed: frozenset[int] = frozenset()


@dataclass
class Score:
    """Counts of (operator of AFTER, source): rightly found, wrongly found, missed; and how sure the tracker was."""

    right: int = 0
    wrong: int = 0
    missed: int = 0
    sure: list[tuple[Evidence, float, bool]] = field(default_factory=list)

    def __iadd__(self, other: Score) -> Score:
        """Add up."""
        self.right += other.right
        self.wrong += other.wrong
        self.missed += other.missed
        self.sure += other.sure
        return self

    @property
    def precision(self) -> float:
        """The share of what was found that is right."""
        return self.right / max(1, self.right + self.wrong)

    @property
    def recall(self) -> float:
        """The share of what is true that was found."""
        return self.right / max(1, self.right + self.missed)


def load(folder: Path) -> Iterator[Pair]:
    """Yield the pairs of a folder."""
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
    """Return the truth with what the rule of docs/tracking.md says of operators that a tool put in.

    They are those without a source. They have the sources of what they continue, and behind an input or a constant
    those of the first operator that they feed.
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
    """Track a pair, and compare with the truth."""
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


# --- what can be taken away ---------------------------------------------------------------------------------


def unpacked(data: bytes) -> Any:
    """Return a model as objects, with all data inside the flatbuffer."""
    model = generated("ModelT", data[4:8]).InitFromPackedBuf(data, 0)
    for buffer in model.buffers or ():
        if buffer.offset > 1:
            buffer.data = np.frombuffer(data, np.uint8, buffer.size, buffer.offset)
            buffer.offset = buffer.size = 0
    return model


def rewritten(data: bytes, change: Callable[[Any], None]) -> bytes:
    """Return a model after a change of its objects."""
    model = unpacked(data)
    change(model)
    return packed(model, data[4:8])


def without_names(data: bytes) -> bytes:
    """Take away all names: of tensors, subgraphs and signatures."""

    def change(model: Any) -> None:
        model.signatureDefs = None
        for subgraph in model.subgraphs:
            subgraph.name = None
            for tensor in subgraph.tensors or ():
                tensor.name = b""

    return rewritten(data, change)


def renumbered(data: bytes) -> bytes:
    """Name each tensor after a number, in the order of the tensors, as some converters do."""

    def change(model: Any) -> None:
        for subgraph in model.subgraphs:
            for number, tensor in enumerate(subgraph.tensors or ()):
                tensor.name = b"t%d" % number

    return rewritten(data, change)


def rotated(data: bytes) -> bytes:
    """Give the first output of each operator the name of that of the next of its code, of the last that of the first.

    Where an operator reads or writes a variable that is known by name alone, this gives another model.
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
    """Bring operators and tensors into another order that can run too; return it by subgraph, new index -> old."""
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
    """Return the operators; a list of inputs or outputs that is not written becomes an empty one."""
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
