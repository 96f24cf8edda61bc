"""The cell of one operator in one program: it is cut out and fed what the reference computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from circletools.numerics.judging import Allowance, allowance, nearly, rounded
from circletools.numerics.request import CompareRequest
from circletools.numerics.results import Cell
from circletools.numerics.running import Known, Runner
from circletools.numerics.subject import Region, Subject, real_constants
from circletools.numerics.tasks import Task
from circletools.numerics.values import Difference, difference, joined
from circletools.runtimes.comparison import same
from circletools.runtimes.protocol import Array
from circletools.wording import ranges


@dataclass(frozen=True)
class Pairing:
    """A task with regions in both models, and the values of the reference that it needs."""

    own: Region
    theirs: Region
    fed: Sequence[int]
    given: Known

    @property
    def runs(self) -> int:
        """How often the models ran."""
        return len(self.given[self.theirs.outputs[0]])

    def expected(self, found: Known) -> Known:
        """Return outputs of the reference, by the tensors of the other model."""
        return {at: found[to] for at, to in zip(self.own.outputs, self.theirs.outputs, strict=True)}


@dataclass(frozen=True)
class Judge:
    """Makes cells: `first` in the program `reference` against `second`, which may be the same model."""

    request: CompareRequest
    first: Subject
    second: Subject
    reference: Runner

    def cell(self, runner: Runner, task: Task, given: Known, whole: Known | str) -> Cell:
        """Return the cell of an operator in a program; `whole` has what the whole model computed there."""
        if task.region is None or task.reference is None:
            return Cell("skipped", words=task.skipped)
        pairing = Pairing(task.region, task.reference, task.fed, given)
        wanted = pairing.expected(given)
        inherited = None if isinstance(whole, str) else self._largest(pairing, wanted, whole)
        if task.alone:
            return Cell("skipped", inherited=inherited, words=task.alone)
        fed, expected = self._fed(pairing)
        if isinstance(expected, str):
            return Cell("skipped", inherited=inherited, words=f"{self.reference.name}: {expected}")
        found = runner.part(self.second, pairing.own, fed, pairing.runs)
        if isinstance(found, str):
            runs = not isinstance(whole, str)  # as a part of the model it does run
            return Cell("skipped" if runs else "not_run", inherited=inherited, words=found)
        if words := _other_shape(expected, found):
            return Cell("fault", inherited=inherited, words=words)
        own, allowed = self._own(runner, pairing, expected, found)
        is_fault = self._beyond(own) if self.request.has_thresholds else not allowed.covers(own)
        others = [one for one in pairing.own.operators if one != task.operator]
        words = f"together with operators {ranges(others)}" if others else ""
        return Cell("fault" if is_fault else "ok", own, inherited, allowed.max_abs, words)

    def _fed(self, pairing: Pairing) -> tuple[Known, Known | str]:
        """Return what the region of the second model is fed, and what is expected of it.

        Where its numbers cannot stand for the reference's, the reference computes with what they do stand for.
        """
        given, fed, again = pairing.given, Known(), Known()
        for tensor, partner in zip(pairing.own.inputs, pairing.fed, strict=True):
            form, theirs = self.second.form(tensor), self.first.form(partner)
            fed[tensor] = given[partner]
            if form != theirs:
                fed[tensor] = [form.stored(theirs.real(array)) for array in given[partner]]
                again[partner] = [theirs.stored(form.real(array)) for array in fed[tensor]]
        if all(same(values, given[partner]) is None for partner, values in again.items()):
            return fed, pairing.expected(given)
        found = self.reference.part(self.first, pairing.theirs, given | again, pairing.runs)
        return fed, found if isinstance(found, str) else pairing.expected(found)

    def _largest(self, pairing: Pairing, expected: Known, found: Known) -> Difference | None:
        """Return the largest difference among outputs, None where shapes differ."""
        if _other_shape(expected, found):
            return None
        differences = (self._difference(pairing, at, expected, found)[0] for at in range(len(pairing.own.outputs)))
        return max(differences, key=lambda one: (one.non_finite, one.max_abs))

    def _difference(
        self, pairing: Pairing, place: int, expected: Known, found: Known
    ) -> tuple[Difference, Array, float]:
        """Return the difference of an output, what is expected, and the step of its quantization."""
        tensor, partner = pairing.own.outputs[place], pairing.theirs.outputs[place]
        form, theirs = self.second.form(tensor), self.first.form(partner)
        wanted, step = theirs.real(joined(expected[tensor])), form.scale or theirs.scale
        return difference(wanted, form.real(joined(found[tensor])), step), wanted, step

    def _own(self, runner: Runner, pairing: Pairing, expected: Known, found: Known) -> tuple[Difference, Allowance]:
        """Return the difference of the output that is least covered, and what is allowed of it."""
        worst: list[tuple[bool, float, Difference, Allowance]] = []
        is_one = self.first is not self.second and runner.name == self.reference.name and self._is_one_kernel(pairing)
        for place, partner in enumerate(pairing.theirs.outputs):
            one, wanted, step = self._difference(pairing, place, expected, found)
            kind, step = self.first.form(partner).type, 0.0 if is_one else step
            allowed = allowance(wanted, kind, step)
            if not allowed.covers(one):
                allowed = allowance(wanted, kind, step, self._sensitivity(pairing, partner, is_one=is_one))
            worst.append((not allowed.covers(one), one.max_abs, one, allowed))
        return max(worst, key=lambda each: each[:2])[2:]

    def _is_one_kernel(self, pairing: Pairing) -> bool:
        """Return whether one kernel computes both: that rounds in one way, whatever its constants and options are."""
        sides = (self.second, pairing.own), (self.first, pairing.theirs)
        kernels = [
            [(subject.graph.operators.code_names[at], subject.read_types(at)) for at in region.operators]
            for subject, region in sides
        ]
        ends = (*pairing.own.inputs, *pairing.own.outputs), (*pairing.fed, *pairing.theirs.outputs)
        return kernels[0] == kernels[1] and all(
            self.second.form(at) == self.first.form(to) for at, to in zip(*ends, strict=True)
        )

    def _sensitivity(self, pairing: Pairing, output: int, *, is_one: bool) -> Difference | None:
        """Return how much an output of the reference changes for inputs, and constants, that are nearly the same."""
        quantized = [] if is_one else list(real_constants(self.second, pairing.own.operators))
        floats = {
            to for at, to in zip(pairing.own.inputs, pairing.fed, strict=True) if not self.second.form(at).scale
        }
        near: Known = {}
        for tensor in pairing.theirs.inputs:
            form = self.first.form(tensor)
            near[tensor] = []
            for run, stored in enumerate(pairing.given[tensor]):
                real = nearly(form.real(stored), form.type, run)
                if quantized and tensor in floats and form.type == "FLOAT32":  # some kernels quantize what they read
                    real = rounded(real, float(np.abs(real).max(initial=0.0)) / 127, run)
                near[tensor].append(form.stored(real))
        before = self.reference.part(self.first, pairing.theirs, pairing.given, pairing.runs)
        after = self.reference.part(self.first, pairing.theirs, near, pairing.runs, self._swapped(pairing, quantized))
        if isinstance(before, str) or isinstance(after, str) or _other_shape(before, after):
            return None
        real_of = self.first.form(output).real
        return difference(real_of(joined(before[output])), real_of(joined(after[output])))

    def _swapped(self, pairing: Pairing, quantized: Sequence[tuple[Array, Array]]) -> dict[int, bytes]:
        """Return other contents for buffers of float constants of the reference: rounded at random."""
        swapped: dict[int, bytes] = {}
        for tensor in dict.fromkeys(self.first.reach.read_by(pairing.theirs.operators)):
            values = self.first.graph.values
            if not values.is_constant[tensor] or values.types[tensor] != "FLOAT32":
                continue
            constant = self.first.constant(tensor)
            for real, step in quantized:
                if real.shape == constant.shape:
                    swapped[int(values.buffers[tensor])] = rounded(constant, step, 0).astype(np.float32).tobytes()
        return swapped

    def _beyond(self, own: Difference) -> bool:
        """Return whether a difference is beyond the thresholds of the request."""
        asked = self.request
        return (
            own.non_finite > 0
            or (asked.min_snr_db is not None and own.snr_db is not None and own.snr_db < asked.min_snr_db)
            or (asked.max_abs is not None and own.max_abs > asked.max_abs)
            or (asked.max_steps is not None and own.max_steps is not None and own.max_steps > asked.max_steps)
        )


def largest(subject: Subject, tensors: Sequence[int], expected: Known, found: Known) -> Difference | None:
    """Return the largest difference among tensors of one model, None where shapes differ."""
    if _other_shape({tensor: expected[tensor] for tensor in tensors}, found):
        return None
    forms = {tensor: subject.form(tensor) for tensor in tensors}
    differences = (
        difference(form.real(joined(expected[tensor])), form.real(joined(found[tensor])), form.scale)
        for tensor, form in forms.items()
    )
    return max(differences, key=lambda one: (one.non_finite, one.max_abs))


def _other_shape(expected: Known, found: Known) -> str:
    """Return how shapes differ, nothing where they do not."""
    for tensor, arrays in expected.items():
        for one, two in zip(arrays, found[tensor], strict=True):
            if one.shape != two.shape:
                return f"the shape is {list(two.shape)}, not {list(one.shape)}"
    return ""
