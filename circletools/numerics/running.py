"""Run models, and parts of them, with the same inputs in all compared programs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

import numpy as np

from circletools.errors import CircleToolsError
from circletools.graph.graph import Graph
from circletools.numerics.subject import NO_REGION, Region, Subject
from circletools.origin.embed import tags_of
from circletools.origin.tracking.tracker import is_same_network, track_models
from circletools.runtimes.protocol import Array, same
from circletools.runtimes.worker import Worker
from circletools.storage.files import Part, view

Runs = list[list[Array]]
"""Arrays by run and position."""
Known = dict[int, list[Array]]
"""The values of tensors, run by run."""

_MOST_CRASHES = 20


class NotRunError(Exception):
    """A program does not run a model, or a part of it; the message is the reason."""


@dataclass
class Runner:
    """A program that runs files on request; use it as a context manager.

    `failure` is the reason why the program does not run the whole model; `runs` is the number of runs of each part.
    After twenty crashes, the program is not asked again.
    """

    name: str
    timeout_s: float
    failure: str = ""
    exposing_changes: str = ""
    outputs: tuple[float | None, ...] = ()
    runs: int = 1
    crashes: int = 0
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Runner:
        """Start the program. Raises UsageError if it is not installed."""
        self.worker = self._stack.enter_context(Worker(self.name, self.timeout_s))
        self._folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="circletools-")))
        return self

    def __exit__(self, *_error: object) -> None:
        """End the program."""
        self._stack.close()

    def run(self, subject: Subject, inputs: Runs, parts: Sequence[Part] = ()) -> Runs:
        """Return the outputs of each run of a model, or of a file made from these parts. Raises NotRunError."""
        if self.crashes >= _MOST_CRASHES:
            raise NotRunError(f"{self.name} was abandoned after {_MOST_CRASHES} crashes")
        path = self._folder / f"{uuid4().hex}.{subject.model.format}"  # programs map files, so no file is overwritten
        with path.open("wb") as file:
            file.writelines(map(view, parts) if parts else [subject.model.source.octets])
        answer = self.worker.run_each(path, inputs)
        path.unlink()
        if answer.failure:
            self.crashes += " ended with " in answer.failure or answer.failure.startswith("no answer")
            raise NotRunError(answer.failure)
        count = len(answer.outputs) // len(inputs)
        return [answer.outputs[at * count : (at + 1) * count] for at in range(len(inputs))]

    def part(self, subject: Subject, region: Region, values: Known, data: Mapping[int, bytes] | None = None) -> Known:
        """Cut a region out of a model, run it with these values, and return its outputs. Raises NotRunError.

        `data` holds replacement contents for buffers of the model.
        """
        inputs = [[values[tensor][run] for tensor in region.inputs] for run in range(self.runs)]
        with _refusing():
            parts = subject.cut_out(region, data)
        found = self.run(subject, inputs, parts)
        return _by_tensor(region.outputs, found, range(len(region.outputs)))

    def exposed(self, subject: Subject, tensors: Sequence[int], inputs: Runs, plain: Runs) -> Known:
        """Run the whole model; return the values of these tensors. Raises NotRunError.

        Also record whether outputs differ from `plain`, the outputs without exposed tensors.
        """
        with _refusing():
            parts, places = subject.exposed(tensors)
        found = self.run(subject, inputs, parts)
        if not self.exposing_changes:
            changes = (same(one, two[: len(one)]) for one, two in zip(plain, found, strict=True))
            self.exposing_changes = next(filter(None, changes), "")
        return _by_tensor(tensors, found, places)


@contextmanager
def _refusing() -> Iterator[None]:
    """If a part cannot be made, raise the error for a part that does not run."""
    try:
        yield
    except CircleToolsError as error:
        raise NotRunError(str(error)) from error


def _by_tensor(tensors: Sequence[int], found: Runs, places: Sequence[int]) -> Known:
    if any(len(outputs) <= max(places, default=-1) for outputs in found):
        raise NotRunError(f"the number of outputs is {len(found[0])}, not {len(places)}")
    return {tensor: [outputs[place] for outputs in found] for tensor, place in zip(tensors, places, strict=True)}


# --- the tasks of a comparison: each operator of a model with its counterpart in the reference ----------------
# reference     x -> CONV_2D -> a -> RELU -> b                    b and b correspond: they have the same name;
# other         x -> QUANTIZE -> q -> CONV_2D -> b                q has no partner: CONV_2D is joined with q's
#                                                                 producer, and CONV_2D and RELU are cut out of the
#                                                                 reference


_NUMBERED = re.compile(rb".*;\d+", re.DOTALL)
_RANDOM = ("MULTINOMIAL", "RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM")
WITH_RESOURCE = "it uses a resource, whose contents cannot be supplied"
_MOST_IN_REGION = 64  # the maximum number of operators without partners that are joined to one with a partner


@dataclass(frozen=True, slots=True)
class Task:
    """An operator, the region that is cut out for it, and the corresponding region of the reference.

    The inputs of `own` receive the values of the reference's tensors `fed`. `skipped` is the reason why nothing is
    compared; `alone` is the reason why the operator cannot be cut out although its values are compared.
    """

    operator: int
    own: Region = NO_REGION
    theirs: Region = NO_REGION
    fed: tuple[int, ...] = ()
    skipped: str = ""
    alone: str = ""

    @property
    def outputs(self) -> list[tuple[int, int]]:
        """The tensors to compare, each with its partner in the reference."""
        return list(zip(self.own.outputs, self.theirs.outputs, strict=True))

    def expected(self, found: Mapping[int, list[Array]]) -> dict[int, list[Array]]:
        """Return values of the reference, keyed by the tensors of the other model."""
        return {tensor: found[partner] for tensor, partner in self.outputs}


Partners = dict[int, int]
"""For each tensor of the model, the corresponding tensor of the reference."""


def partners(reference: Subject, subject: Subject) -> tuple[Partners, dict[int, int]]:
    """Return which tensors of two models correspond, and which operators are paired.

    Computed tensors with the same name and shape correspond unless the producer in the reference is paired with a
    later operator, since converters reuse the names of other tensors; or the name ends in litert-torch's count of a
    module's tensors, and the producers are not paired. The results of paired operators with the same code and fused
    activation correspond too, and so do their inputs, in order if tracking does not match them.
    """
    tracked = track_models(reference.whole.graph, subject.whole.graph, tags_of(reference.whole.graph))
    old, new = reference.graph, subject.graph
    ends = [graph.inputs.tolist() for graph in (old, new)]
    pairs: Partners = dict(zip(ends[1], ends[0], strict=True)) if len(ends[0]) == len(ends[1]) else {}
    found, operators = tracked.get((0, 0)), dict[int, int]()
    if found is not None:
        pairs |= {after: before for before, after in found.pairs.inputs}
        if is_same_network(list(tracked.values())):
            operators = {int(now): int(was) for now, was in enumerate(found.pairs.to_before.tolist()) if was >= 0}
    codes = [graph.operators.code_names for graph in (old, new)]
    alike = {was: now for now, was in operators.items() if codes[0][was] == codes[1][now]}
    places = {operator: place for place, operator in enumerate(new.dag.order)}
    names = [_made_by_name(graph) for graph in (old, new)]
    for name, after in names[1].items():
        before, maker = names[0].get(name, -1), subject.reach.producer[after]
        source = reference.reach.producer[before] if before >= 0 else -1
        if source < 0 or places[alike.get(source, maker)] > places[maker]:
            continue
        if _NUMBERED.fullmatch(name) and operators.get(maker) != source:
            continue
        if old.values.shapes.row(before).tolist() == new.values.shapes.row(after).tolist():
            pairs[after] = before
    taken = set(pairs.values())
    activations = [graph.operators.option("fused_activation_function").tolist() for graph in (old, new)]
    for was, now in alike.items():
        if activations[0][was] != activations[1][now]:
            continue
        for before, after in zip(old.results.of(was), new.results.of(now), strict=False):
            if min(before, after) >= 0 and after not in pairs and before not in taken:
                pairs[after] = before
    return pairs, operators


def _made_by_name(graph: Graph) -> dict[bytes, int]:
    """Return the computed tensors whose names are unique, by name."""
    names = {tensor: graph.values.names[tensor] for tensor in np.unique(graph.definitions.values).tolist()}
    count = Counter(names.values())
    return {name: tensor for tensor, name in names.items() if name and count[name] == 1}


def tasks(reference: Subject, subject: Subject, pairs: Partners) -> Iterator[Task]:
    """Yield a task for each operator, in execution order."""
    for operator in subject.graph.dag.order:
        outputs = subject.reach.results[operator]
        code = subject.graph.operators.code_names[operator]
        held = [tensor for tensor in outputs if subject.graph.is_handle[tensor]]
        compared = [tensor for tensor in outputs if tensor in pairs and tensor not in held]
        if not outputs:
            yield Task(operator, skipped="it produces no values")
        elif held and not compared:
            yield Task(operator, skipped="its result is the name of a resource, not a value")
        elif not compared:
            yield Task(operator, skipped="it has no counterpart in the reference")
        elif code in _RANDOM:
            yield Task(operator, skipped="it computes different values each time")
        else:
            yield _task(reference, subject, pairs, operator, compared)


def _task(reference: Subject, subject: Subject, pairs: Partners, operator: int, compared: Sequence[int]) -> Task:
    own = _grown(subject, pairs, operator)
    outputs, wanted = tuple(compared), tuple(pairs[tensor] for tensor in compared)
    if isinstance(own, str):
        return Task(operator, Region(outputs=outputs), Region(outputs=wanted), alone=own)
    inputs = tuple(subject.reach.given(own))
    fed = tuple(pairs[tensor] for tensor in inputs)
    theirs = sorted(reference.reach.behind(wanted, set(fed)))
    further = tuple(tensor for tensor in reference.reach.given(theirs) if tensor not in fed)
    touching = _touches_resource(subject, own) or _touches_resource(reference, theirs)
    alone = WITH_RESOURCE if touching else ""
    return Task(operator, Region(tuple(own), inputs, outputs),
                Region(tuple(theirs), (*dict.fromkeys(fed), *further), wanted), fed, alone=alone)  # fmt: skip


def _grown(subject: Subject, pairs: Partners, operator: int) -> list[int] | str:
    """Return an operator and the producers of its unpaired inputs, or the reason why it cannot be compared."""
    chosen, pending = {operator}, [operator]
    while pending:
        for tensor in subject.reach.given([pending.pop()]):
            maker = subject.reach.producer[tensor]
            if tensor in pairs or maker in chosen:
                continue
            if maker < 0 or len(chosen) > _MOST_IN_REGION:
                return "one of its inputs has no counterpart in the reference"
            chosen.add(maker)
            pending.append(maker)
    return sorted(chosen)


def _touches_resource(subject: Subject, operators: Sequence[int]) -> bool:
    tensors = (*subject.reach.read_by(operators), *subject.reach.made_by(operators))
    return any(subject.graph.is_handle[tensor] for tensor in tensors)
