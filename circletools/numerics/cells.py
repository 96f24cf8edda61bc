"""The cell of one operator in one program: it is cut out and fed what the reference computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circletools.numerics.judging import HALF_PRECISION, Allowance, allowance, nearly, rounded
from circletools.numerics.request import CompareRequest
from circletools.numerics.results import Cell
from circletools.numerics.running import Known, NotRunError, Runner
from circletools.numerics.subject import Subject, real_constants
from circletools.numerics.tasks import Task
from circletools.numerics.values import Difference, difference, joined
from circletools.runtimes.comparison import same
from circletools.runtimes.protocol import Array
from circletools.wording import ranges


@dataclass(frozen=True)
class Judge:
    """Makes cells: `first` in the program `reference` against `second`, which may be the same model."""

    request: CompareRequest
    first: Subject
    second: Subject
    reference: Runner

    def cell(self, runner: Runner, task: Task, given: Known, whole: Known | None) -> Cell:
        """Return the cell of an operator in a program, where `given` are values of the reference.

        `whole` has what the whole model computed there, if it ran.
        """
        if task.skipped:
            return Cell("skipped", words=task.skipped)
        inherited = None if whole is None else self.largest(task, task.expected(given), whole)
        if task.alone:
            return Cell("skipped", inherited=inherited, words=task.alone)
        try:
            fed, expected = self._fed(task, given)
        except NotRunError as error:
            return Cell("skipped", inherited=inherited, words=f"{self.reference.name}: {error}")
        try:
            found = runner.part(self.second, task.own, fed)
        except NotRunError as error:  # where the whole model runs, the operator does too as a part of it
            return Cell(
                "not_run" if whole is None else "skipped", inherited=inherited, words=" ".join(str(error).split())
            )
        if words := other_shape(expected, found):
            return Cell("fault", inherited=inherited, words=words)
        own, allowed = self._own(runner, task, given, expected, found)
        is_fault = self.request.forbids(own) if self.request.has_thresholds else not allowed.covers(own)
        others = [one for one in task.own.operators if one != task.operator]
        words = f"together with operators {ranges(others)}" if others else ""
        return Cell("fault" if is_fault else "ok", own, inherited, allowed.max_abs, words)

    def largest(self, task: Task, expected: Known, found: Known) -> Difference | None:
        """Return the largest difference among outputs, None where shapes differ."""
        if other_shape(expected, found):
            return None
        every = (self._difference(*ends, expected, found)[0] for ends in task.outputs)
        return max(every, key=lambda one: (one.non_finite, one.max_abs))

    def _fed(self, task: Task, given: Known) -> tuple[Known, Known]:
        """Return what the region of the second model is fed, and what is expected of it. Raises NotRunError.

        Where its numbers cannot stand for the reference's, the reference computes with what they do stand for.
        """
        fed, again = Known(), Known()
        for tensor, partner in zip(task.own.inputs, task.fed, strict=True):
            form, theirs = self.second.form(tensor), self.first.form(partner)
            fed[tensor] = given[partner]
            if form != theirs:
                fed[tensor] = [form.stored(theirs.real(array)) for array in given[partner]]
                again[partner] = [theirs.stored(form.real(array)) for array in fed[tensor]]
        if all(same(values, given[partner]) is None for partner, values in again.items()):
            return fed, task.expected(given)
        return fed, task.expected(self.reference.part(self.first, task.theirs, given | again))

    def _difference(
        self, tensor: int, partner: int, expected: Known, found: Known
    ) -> tuple[Difference, Array, float]:
        """Return the difference of an output, what is expected, and the step of its quantization."""
        form, theirs = self.second.form(tensor), self.first.form(partner)
        wanted, step = theirs.real(joined(expected[tensor])), form.scale or theirs.scale
        return difference(wanted, form.real(joined(found[tensor])), step), wanted, step

    def _own(
        self, runner: Runner, task: Task, given: Known, expected: Known, found: Known
    ) -> tuple[Difference, Allowance]:
        """Return the difference of the output that is least covered, and what is allowed of it."""
        worst: list[tuple[bool, float, Difference, Allowance]] = []
        is_one = self.first is not self.second and runner.name == self.reference.name and self._is_one_kernel(task)
        for tensor, partner in task.outputs:
            one, wanted, step = self._difference(tensor, partner, expected, found)
            kind, step = self.first.form(partner).type, 0.0 if is_one else step
            kind = "FLOAT16" if kind == "FLOAT32" and runner.worker.runtime in HALF_PRECISION else kind
            allowed = allowance(wanted, kind, step)
            if not allowed.covers(one):
                allowed = allowance(wanted, kind, step, self._sensitivity(task, given, partner, is_one=is_one))
            worst.append((not allowed.covers(one), one.max_abs, one, allowed))
        return max(worst, key=lambda each: each[:2])[2:]

    def _is_one_kernel(self, task: Task) -> bool:
        """Return whether one kernel computes both: that rounds in one way, whatever its constants and options are."""
        kernels = [
            [(subject.graph.operators.code_names[at], subject.read_types(at)) for at in region.operators]
            for subject, region in ((self.second, task.own), (self.first, task.theirs))
        ]
        ends = (*zip(task.own.inputs, task.fed, strict=True), *task.outputs)
        return kernels[0] == kernels[1] and all(self.second.form(at) == self.first.form(to) for at, to in ends)

    def _sensitivity(self, task: Task, given: Known, output: int, *, is_one: bool) -> Difference | None:
        """Return how much an output of the reference changes for inputs, and constants, that are nearly the same."""
        quantized = [] if is_one else list(real_constants(self.second, task.own.operators))
        floats = {to for at, to in zip(task.own.inputs, task.fed, strict=True) if not self.second.form(at).scale}
        near = Known()
        for tensor in task.theirs.inputs:
            form = self.first.form(tensor)
            near[tensor] = []
            for run, stored in enumerate(given[tensor]):
                real = nearly(form.real(stored), form.type, run)
                if quantized and tensor in floats and form.type == "FLOAT32":  # some kernels quantize what they read
                    real = rounded(real, float(np.abs(real).max(initial=0.0)) / 127, run)
                near[tensor].append(form.stored(real))
        try:
            before = self.reference.part(self.first, task.theirs, given)
            after = self.reference.part(self.first, task.theirs, near, self._rounded(task, quantized))
        except NotRunError:
            return None
        if other_shape(before, after):
            return None
        real_of = self.first.form(output).real
        return difference(real_of(joined(before[output])), real_of(joined(after[output])))

    def _rounded(self, task: Task, quantized: Sequence[tuple[Array, Array]]) -> dict[int, bytes]:
        """Return other contents for buffers of float constants of the reference: rounded at random."""
        found: dict[int, bytes] = {}
        values = self.first.graph.values
        for tensor in dict.fromkeys(self.first.reach.read_by(task.theirs.operators)):
            if values.is_constant[tensor] and values.types[tensor] == "FLOAT32":
                constant = self.first.constant(tensor)
                for _, step in (one for one in quantized if one[0].shape == constant.shape):
                    found[int(values.buffers[tensor])] = rounded(constant, step, 0).astype(np.float32).tobytes()
        return found


def other_shape(expected: Known, found: Known) -> str:
    """Return how shapes differ, nothing where they do not."""
    pairs = ((one, two) for at, arrays in expected.items() for one, two in zip(arrays, found[at], strict=True))
    unequal = next(((one, two) for one, two in pairs if one.shape != two.shape), None)
    return f"the shape is {list(unequal[1].shape)}, not {list(unequal[0].shape)}" if unequal else ""
