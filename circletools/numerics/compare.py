"""Compare the results of programs or of two models: each operator's own error, and the error in its inputs.

The whole model runs in every program, with its inner tensors exposed as outputs, a group at a time. Then each
operator is cut out and fed the values of the reference: any error that remains is its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter

import numpy as np

from circletools.asking import as_file, file_inputs, operators_of
from circletools.errors import UsageError
from circletools.fit.naming import Naming
from circletools.model.model import Model
from circletools.numerics.cells import Judge
from circletools.numerics.request import CompareRequest, more_runs
from circletools.numerics.results import Cell, Column, Comparison, Group, OperatorCells, Reals, difference
from circletools.numerics.running import (
    WITH_RESOURCE,
    Known,
    NotRunError,
    Partners,
    Runner,
    Runs,
    Task,
    partners,
    tasks,
)
from circletools.numerics.subject import Subject, subject_of
from circletools.numerics.weights import unrelated_weights
from circletools.origin.modules import modules_of
from circletools.origin.source import NOTHING
from circletools.runtimes.operators import located
from circletools.wording import suggestion

_SLICE_BYTES = 1 << 25  # the maximum total size of tensors that are exposed at the same time


def compare(model: Model, request: CompareRequest | None = None, *, other: Model | None = None) -> Comparison:
    """Return which operators compute values that differ from the reference, and by how much.

    The reference is `model`, run by the first program of the request; it is compared with the other programs, or with
    `other` in all programs. Raises UsageError if a program is not installed or a signature does not exist,
    InvalidInputError if inputs cannot be read, and ModelFormatError or EditError if a model is broken.

    >>> with ct.open("in.tflite") as model:
    ...     found = ct.compare(model, ct.CompareRequest(on=("litert:reference", "litert:xnnpack")))
    >>> found.first_own()
    """
    request = request or CompareRequest()
    request.check(1 if other is None else 2)
    with ExitStack() as stack:
        first = stack.enter_context(subject_of(model, _subgraph(model, request)))
        second = first if other is None else stack.enter_context(subject_of(other, _subgraph(other, request)))
        names = request.on if other is not None else request.on[1:]
        reference, *runners = (
            stack.enter_context(Runner(name, request.timeout_s)) for name in (request.on[0], *names)
        )
        return _Comparing(request, first, second, reference, runners).result()


def _subgraph(model: Model, request: CompareRequest) -> int:
    if request.signature is None:
        return 0
    known = {one.key: one.subgraph for one in model.signatures}
    if request.signature not in known:
        raise UsageError(f"no signature is called {request.signature!r}", hint=suggestion(request.signature, known))
    return known[request.signature]


@dataclass(frozen=True)
class _Comparing(Judge):
    """A comparison with the reference in all programs."""

    runners: Sequence[Runner]

    @cached_property
    def pairs(self) -> tuple[Partners, dict[int, int]]:
        """The second model's tensors and operators, each with its counterpart in the first."""
        if self.first is self.second:
            return {tensor: tensor for tensor in range(len(self.first.graph.values))}, {}
        return partners(self.first, self.second)

    def result(self) -> Comparison:
        inputs: Runs = [[]]
        try:
            inputs = self._inputs()
            for runner in (self.reference, *self.runners):
                runner.runs = len(inputs)
            others = self._others(inputs)
            plain = self.reference.run(self.first, inputs)
        except NotRunError as error:
            self.reference.failure = f"{error}{self._excuse(self.reference, self.first, inputs)}"
            return self._made([], 0)
        plains = [self._plain(runner, others, plain) for runner in self.runners]
        plan = list(tasks(self.first, self.second, self.pairs[0]))
        cells: dict[int, tuple[Cell, ...]] = {}
        waiting = list(_slices(self.second, plan, _SLICE_BYTES // len(inputs)))[::-1]
        while waiting:
            some = waiting.pop()
            try:
                known = self._known(some, inputs, plain)
            except NotRunError as error:
                if len(some) > 1:  # find the operator at which the reference fails
                    waiting += (some[len(some) // 2 :], some[: len(some) // 2])
                    continue
                words = f"{self.reference.name} does not run the model with inner tensors as outputs: {error}"
                cells[some[0].operator] = (Cell("skipped", words=words),) * len(plains)
            else:
                cells |= self._slice(some, known, others, plains)
        groups = [one for runner in self.runners for one in self._groups(runner, inputs, plain)]
        for operator, words in islice(self.distrusted.items(), 1):
            code = self.first.graph.operators.code_names[operator]
            self.reference.failure = f"operator {operator} {code}: {words}: choose another reference"
        return self._made(((task, cells[task.operator]) for task in plan), len(inputs), groups)

    def _plain(self, runner: Runner, inputs: Runs, expected: Runs) -> Runs | None:
        """Return the outputs of the second model in a program, or None if the model does not run."""
        try:
            found = runner.run(self.second, inputs)
        except NotRunError as error:
            runner.failure = f"{error}{self._excuse(runner, self.second, inputs)}"
            return None
        runner.outputs = tuple(self._output_errors(expected, found))
        return found

    def _excuse(self, runner: Runner, subject: Subject, inputs: Runs) -> str:
        """Return which input differs in shape from the model, or that inputs are random, for an error message."""
        for place, (tensor, array) in enumerate(zip(subject.graph.inputs.tolist(), inputs[0], strict=False)):
            shape = subject.graph.values.shapes.row(tensor).tolist()
            if shape != list(array.shape):
                return f" (input {place} is {list(array.shape)}, in the model {shape})"
        with as_file(subject.model) as path:
            return "" if self.request.inputs else runner.worker.excuse(path)

    def _output_errors(self, expected: Runs, found: Runs) -> Iterator[float | None]:
        """Yield the largest difference of each output of the second model, or None without a counterpart.

        Outputs are paired by tensor, or by position if neither has a counterpart in the other model.
        """
        theirs, known = self.first.graph.outputs.tolist(), self.pairs[0]
        places = {tensor: place for place, tensor in reversed([*enumerate(theirs)])}
        taken = set(known.values())
        free = {place for place, tensor in enumerate(theirs) if tensor not in taken}
        errors: dict[tuple[int, int], float | None] = {}  # a tensor may be an output many times
        for place, tensor in enumerate(self.second.graph.outputs.tolist()):
            source = tensor if tensor in known else self._copied(tensor)
            at = places.get(known[source]) if source in known else place if place in free else None
            if at is None:
                yield None
                continue
            pair = theirs[at], tensor
            if pair not in errors:
                old = Reals(self.first.form(theirs[at]), [run[at] for run in expected])
                new = Reals(self.second.form(tensor), [run[place] for run in found])
                alike = [one.size for one in old.arrays] == [one.size for one in new.arrays]
                error = difference(old, new) if alike and old.is_text == new.is_text else None
                errors[pair] = error.max_abs if error and not error.non_finite else None
            yield errors[pair]

    def _copied(self, tensor: int) -> int:
        """Return the tensor that `fix-outputs` copied to this one, as the name of the copy says, or -1."""
        operator, names = self.second.reach.producer[tensor], self.second.graph.values.names
        read = self.second.reach.operands[operator][:1] if operator >= 0 else []
        return next((one for one in read if names[tensor].startswith(names[one] + b"_permute")), -1)

    def _groups(self, runner: Runner, inputs: Runs, plain: Runs) -> Iterator[Group]:
        """Yield the groups of operators that a program's delegate runs as a whole; none if there are two models."""
        if self.first is not self.second or runner.failure:
            return
        with as_file(self.first.model) as path:
            found = located(runner.worker.placement(path), operators_of(self.first.whole.graph))
        devices = {one.operator: one.device for one in found.operators if one.subgraph == 0}
        for device, some in groupby(self.first.graph.dag.order, lambda operator: devices.get(operator, "")):
            region = self.first.region(list(some))
            if device in ("", "cpu") or len(region.operators) < 2 or not region.outputs:
                continue
            if any(self.first.graph.is_handle[tensor] for tensor in (*region.inputs, *region.outputs)):
                yield Group(runner.name, device, region.operators, None, WITH_RESOURCE)
                continue
            task = Task(-1, region, region)
            try:
                given = self._known([task], inputs, plain)
                own = self.largest(task, task.expected(given), runner.part(self.first, region, given))
                yield Group(runner.name, device, region.operators, own)
            except NotRunError as error:
                yield Group(runner.name, device, region.operators, None, str(error))

    def _inputs(self) -> Runs:
        """Return the inputs of the first model. Raises NotRunError if the reference program does not run it."""
        if self.request.inputs:
            return file_inputs(self.request.inputs, self.first.graph)
        with as_file(self.first.model) as path:
            answer = self.reference.worker.run(path, seed=self.request.seed)
        if answer.failure:
            raise NotRunError(answer.failure)
        return more_runs(answer.inputs, self.request)

    def _others(self, inputs: Runs) -> Runs:
        """Return inputs for the second model that represent the same numbers. Raises NotRunError."""
        if self.first is self.second:
            return inputs
        places = {tensor: place for place, tensor in enumerate(self.first.graph.inputs.tolist())}
        chosen: list[tuple[int, int]] = []
        for tensor in self.second.graph.inputs.tolist():
            partner = self.pairs[0].get(tensor, -1)
            if partner not in places:
                raise NotRunError(f"no input matches {self.second.graph.values.name(tensor)!r} of the other model")
            chosen.append((tensor, partner))
        return [
            [self.second.form(at).stored(self.first.form(to).real(run[places[to]])) for at, to in chosen]
            for run in inputs
        ]

    def _known(self, some: Sequence[Task], inputs: Runs, plain: Runs) -> Known:
        """Return the inputs of the reference, and the values of its tensors that the tasks need."""
        given = dict(zip(self.first.graph.inputs.tolist(), map(list, zip(*inputs, strict=True)), strict=True))
        wanted = dict.fromkeys(tensor for task in some for tensor in (*task.theirs.inputs, *task.theirs.outputs))
        inner = [tensor for tensor in wanted if tensor not in given and not self.first.graph.is_handle[tensor]]
        return self.reference.exposed(self.first, inner, inputs, plain) | given

    def _slice(
        self, some: Sequence[Task], given: Known, inputs: Runs, plains: Sequence[Runs | None]
    ) -> dict[int, tuple[Cell, ...]]:
        wanted = [tensor for task in some for tensor in task.own.outputs]
        columns: list[list[Cell]] = []
        for runner, plain in zip(self.runners, plains, strict=True):
            whole = None
            if plain is not None:
                with suppress(NotRunError):  # the model fails with these outputs, but runs without them
                    whole = runner.exposed(self.second, wanted, inputs, plain)
            columns.append([self.cell(runner, task, given, whole) for task in some])
        return {task.operator: cells for task, cells in zip(some, zip(*columns, strict=True), strict=True)}

    def _made(
        self, rows: Iterable[tuple[Task, Sequence[Cell]]], runs: int, groups: Sequence[Group] = ()
    ) -> Comparison:
        graph, naming = self.second.named.graphs[self.second.subgraph], Naming(self.second.named)
        plan = [] if self.first is self.second else tasks(self.first, self.second, self.pairs[0])
        unrelated = unrelated_weights(self.first, self.second, plan)
        names, found = naming.of(graph), []
        for task, cells in rows:
            sources = names.sources(task.operator)
            details = names.details(sources)
            line = next((one for one in details if one.file), NOTHING)
            module = modules_of(sources[0][1], details[0] if details else NOTHING)[0][-1].path
            found.append(
                OperatorCells(
                    graph.index,
                    task.operator,
                    graph.operators.code_names[task.operator],
                    graph.operators.first_result_names[task.operator],
                    tuple(name for _, name in sources),
                    module,
                    line.file,
                    line.line,
                    self.pairs[1].get(task.operator),
                    tuple(cells),
                )
            )
        return Comparison(
            self.first.named.name,
            "" if self.first is self.second else self.second.named.name,
            _column(self.reference),
            runs,
            tuple(map(_column, self.runners)),
            tuple(found),
            tuple(groups),
            naming.notes + tuple(unrelated),
        )


def _column(runner: Runner) -> Column:
    return Column(runner.name, runner.worker.version, runner.failure, runner.exposing_changes, runner.outputs)


def _slices(subject: Subject, plan: Sequence[Task], size_bytes: int) -> Iterator[list[Task]]:
    """Yield the tasks in groups whose tensors take about `size_bytes`."""
    ends = (np.array([*task.own.inputs, *task.own.outputs], np.int64) for task in plan)
    places = np.cumsum([float(subject.graph.values.bytes[tensors].sum()) for tensors in ends]) // size_bytes
    for _, some in groupby(zip(places.tolist(), plan, strict=True), itemgetter(0)):
        yield [task for _, task in some]
