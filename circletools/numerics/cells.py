"""The result for one operator in one program (a cell): the operator is cut out and fed the reference's values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import product
from math import sqrt

import numpy as np

from circletools.affinity import load_capability, refusals
from circletools.fit.programs import JUDGES
from circletools.numerics.request import CompareRequest
from circletools.numerics.results import Cell, Difference, Reals, Verdict, changes_kind, difference
from circletools.numerics.running import Known, NotRunError, Runner, Task
from circletools.numerics.subject import Region, Subject, real_constants
from circletools.runtimes.protocol import Array, same
from circletools.wording import numbered

# --- differences that rounding explains. Any larger difference is a fault -------------------------------------
# Two programs that both compute an operator correctly may differ by this much:
#
#     quantized output    by one step if the exact value lies midway between two steps, which is true of at most half
#                         of the values (as when numbers of step 1 are rounded to step 2); or by as much as the
#                         reference's integer kernels, which may be inexact, differ from its float results
#     floating point      by half of the digits of the type: sqrt(epsilon) of the largest value, the usual tolerance
#                         for results that took many steps
#     any                 by the change in the *reference* when the lower half of its inputs' digits changes, and
#                         by the smallest normal number: an operator that divides by almost zero amplifies small
#                         differences, even to infinity (a backward error: the result is exact for inputs close to the
#                         given ones)
#     quantized weights   compared with float weights: by twice the change in the reference when its weights are
#                         randomly rounded to such steps; likewise for inputs that are quantized at run time


HALF_PRECISION = ("litert-gpu",)
"""Programs that compute with FLOAT16 unless configured otherwise."""

_SIGMAS = 5.0  # larger deviations are too improbable to matter, even in millions of values
_HALF_OF_DIGITS = {"FLOAT16": sqrt(2.0**-10), "BFLOAT16": sqrt(2.0**-7)}
_SINGLE = sqrt(2.0**-23)
_FLOATS = ("FLOAT", "BFLOAT", "COMPLEX")


@dataclass(frozen=True, slots=True)
class Allowance:
    """The largest differences that rounding explains: for a single value, and in the root mean square."""

    max_abs: float
    rms: float

    def covers(self, found: Difference) -> bool:
        """Return whether a difference is within the allowance."""
        return not found.non_finite and found.max_abs <= self.max_abs and found.rms <= self.rms


def allowance(expected: Iterable[Array], kind: str, step: float, sensitivity: Difference | None = None) -> Allowance:
    """Return the difference that rounding explains for values of a type with this quantization step (0: none).

    `expected` are pieces of the values, read once. `sensitivity` is how much the reference changes when inputs and
    constants change slightly. Integers that are not quantized, booleans and strings are exact.
    """
    size, numbers, most = 0, 0, 0.0
    values, counts = np.zeros(0), np.zeros(0, np.int64)
    for piece in expected:
        finite = np.abs(piece[np.isfinite(piece)]) if piece.dtype.kind in "fc" else np.zeros(0)
        size, numbers, most = size + piece.size, numbers + finite.size, max(most, float(finite.max(initial=0.0)))
        if step and sensitivity is not None:
            more, new = np.unique(finite, return_counts=True)
            values, places = np.unique(np.concatenate((values, more)), return_inverse=True)
            counts = np.bincount(places, np.concatenate((counts, new))).astype(np.int64)
    digits = _HALF_OF_DIGITS.get(kind, _SINGLE) * most if kind.startswith(_FLOATS) else 0.0
    largest, mean = (sensitivity.max_abs, sensitivity.rms) if sensitivity is not None else (0.0, 0.0)
    number = float(max(1, numbers))
    if counts.size:  # equal values are rounded equally: Kish's effective sample size
        number /= max(1, float(np.square(counts).sum())) / number
    # The number of values midway between two steps has a binomial distribution.
    ties = step**2 * (0.5 + _SIGMAS * sqrt(0.25 / number))
    # This allows twice the expectation; the mean square of few values varies more (chi-squared distribution).
    mean *= sqrt(max(1.0, (1 + _SIGMAS * sqrt(2 / max(1, size))) / 4))
    return Allowance((step + digits + largest) * (1 + 1e-9), sqrt(ties + digits**2 + mean**2) * (1 + 1e-9))


def nearly(real: Array, kind: str, rng: np.random.Generator) -> Array:
    """Return slightly changed values: a relative change of sqrt(epsilon), plus the smallest normal number."""
    if not kind.startswith(_FLOATS):
        return real
    least = float(np.finfo(np.float16 if kind == "FLOAT16" else np.float32).tiny)
    signs = rng.choice((-1.0, 1.0), real.shape)
    return real * (1 + _HALF_OF_DIGITS.get(kind, _SINGLE) * signs) + least * signs


def rounded(real: Array, step: Array | float, rng: np.random.Generator) -> Array:
    """Return values that are changed by up to one step, which is twice the effect of rounding."""
    return real + rng.uniform(-1, 1, real.shape) * step


_DRAWN, _MOST_DRAWS = 256, 16
"""The number of values from which the effect of random rounding is estimated, and the maximum number of draws."""


@dataclass(frozen=True)
class Judge:
    """A comparison, cell by cell, of `second` with `first`, which `reference` runs; both may be the same model."""

    request: CompareRequest
    first: Subject
    second: Subject
    reference: Runner

    @cached_property
    def distrusted(self) -> dict[int, str]:
        """The operators for which the reference computes wrong values, by its capability table, with the reason."""
        targets = {(judge.program, judge.variant): name for name, judge in JUDGES.items()}
        targets["litert", "reference"] = str(resources.files(__package__) / "reference.json")
        target = targets.get((self.reference.worker.runtime, self.reference.worker.variant))
        found = refusals(load_capability(target), self.first.model) if target else []
        return {at: f"the reference is wrong: {why.reason}" for at, why in enumerate(found) if why and why.wrong}

    def cell(self, runner: Runner, task: Task, given: Known, whole: Known | None) -> Cell:
        """Return the cell for an operator in a program; `given` are values of the reference.

        `whole` holds the values from a run of the whole model, if it ran.
        """
        known = None if task.skipped else whole
        inherited = None if known is None else self.largest(task, task.expected(given), known)
        words = next((self.distrusted[one] for one in task.theirs.operators if one in self.distrusted), "")
        if words := task.skipped or task.alone or words:
            return Cell("skipped", inherited=inherited, words=words)
        try:
            fed, expected = self._fed(task, given)
            try:
                found = runner.part(self.second, task.own, fed)
            except NotRunError as error:  # if the whole model runs, so does this operator
                verdict: Verdict = "not_run" if whole is None else "skipped"
                return Cell(verdict, inherited=inherited, words=" ".join(str(error).split()))
            if words := other_shape(expected, found):
                return Cell("fault", inherited=inherited, words=words)
            own, allowed = self._own(runner, task, given, expected, found)
        except NotRunError as error:
            return Cell("skipped", inherited=inherited, words=f"{self.reference.name}: {error}")
        is_fault = self.request.forbids(own) if self.request.has_thresholds else not allowed.covers(own)
        others = [one for one in task.own.operators if one != task.operator]
        words = f"together with {numbered(others, 'operator')}" if others else ""
        return Cell("fault" if is_fault else "ok", own, inherited, allowed.max_abs, words)

    def largest(self, task: Task, expected: Known, found: Known) -> Difference | None:
        """Return the largest difference among the outputs, or None if shapes differ."""
        if other_shape(expected, found):
            return None
        every = (self._difference(task, *ends, expected, found)[0] for ends in task.outputs)
        return max(every, key=lambda one: (one.non_finite, one.max_abs))

    def _fed(self, task: Task, given: Known) -> tuple[Known, Known]:
        """Return the inputs of a region of the second model, and its expected outputs. Raises NotRunError.

        If the inputs cannot represent the reference's values, the reference runs again with the rounded values.
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
        self, task: Task, tensor: int, partner: int, expected: Known, found: Known
    ) -> tuple[Difference, Reals, Reals, float]:
        """Return the difference in an output, the expected and actual values, and the quantization step."""
        form, theirs = self.second.form(tensor), self.first.form(partner)
        wanted = Reals(theirs, expected[tensor])
        step = _step(self.second, task.own, tensor) or _step(self.first, task.theirs, partner)
        got = Reals(form, found[tensor])
        return difference(wanted, got, step), wanted, got, step

    def _own(
        self, runner: Runner, task: Task, given: Known, expected: Known, found: Known
    ) -> tuple[Difference, Allowance]:
        """Return the difference that exceeds its tolerance the most, and that tolerance. Raises NotRunError.

        If the same kernel of a program computes both models, the first model is also run in that program.
        """
        worst: list[tuple[bool, bool, float, Difference, Allowance]] = []
        is_one = self.first is not self.second and self._is_one_kernel(task)
        sides = [(expected, is_one and runner.name == self.reference.name)]
        if is_one and runner.name != self.reference.name:
            with suppress(NotRunError):
                sides.append((task.expected(runner.part(self.first, task.theirs, given)), True))
        for (values, exactly), (tensor, partner) in product(sides, task.outputs):
            one, wanted, got, step = self._difference(task, tensor, partner, values, found)
            kind = self.first.form(partner).type
            kind = "FLOAT16" if kind == "FLOAT32" and runner.worker.runtime in HALF_PRECISION else kind
            allowed = allowance(wanted, kind, 0.0 if exactly else step)
            is_enough = allowed.covers(one) or wanted.is_text
            calls = self.first.graph.called(task.theirs.operators)  # subgraphs stay quantized
            if not (is_enough or exactly or calls) and step and self._is_exact(task, given, partner, got):
                allowed, is_enough = Allowance(one.max_abs, one.rms), True
            if not is_enough and (near := self._sensitivity(task, given, partner, is_one=exactly)):
                one = difference(_without(near[1], wanted), _without(near[1], got), step)
                allowed = allowance(wanted, kind, 0.0 if exactly else step, near[0])
            worst.append((not allowed.covers(one), values is expected, one.max_abs, one, allowed))
        return max(worst, key=lambda each: each[:3])[3:]

    def _is_exact(self, task: Task, given: Known, output: int, got: Reals) -> bool:
        """Return whether values equal the reference's results in floating point, except for rounding.

        Some integer kernels compute with few digits: LiteRT's RESIZE_BILINEAR has 10 bits for fractions of
        coordinates.
        """
        real, form = self.first.real, self.first.form
        fed = {at: [real.form(at).stored(form(at).real(one)) for one in given[at]] for at in task.theirs.inputs}
        with suppress(NotRunError):
            found = self.reference.part(real, task.theirs, fed)[output]
            exact = Reals(form(output), list(map(form(output).stored, found)))
            allowed = allowance(exact, form(output).type, form(output).scale)
            is_alike = [one.size for one in exact.arrays] == [one.size for one in got.arrays]
            return is_alike and allowed.covers(difference(exact, got))
        return False

    def _is_one_kernel(self, task: Task) -> bool:
        """Return whether one kernel computes both models, and so rounds equally for any constants and options."""
        kernels = [
            [(of.graph.operators.code_names[at], [of.form(to).type for to in of.reach.operands[at]]) for at in some]
            for of, some in ((self.second, task.own.operators), (self.first, task.theirs.operators))
        ]
        ends = (*zip(task.own.inputs, task.fed, strict=True), *task.outputs)
        return kernels[0] == kernels[1] and all(self.second.form(at) == self.first.form(to) for at, to in ends)

    def _sensitivity(self, task: Task, given: Known, output: int, *, is_one: bool) -> tuple[Difference, Array] | None:
        """Return how much an output of the reference changes when inputs and constants change slightly.

        Also return which values change between finite, infinite and NaN, as at a pole. Raises NotRunError if values
        differ without any change: LiteRT's INT16 kernels, for example, read beyond an INT32 bias.
        """
        quantized = [] if is_one else list(real_constants(self.second, task.own.operators))
        steps = {} if is_one else self._input_steps(task, dynamic=bool(quantized))
        try:
            before = self.reference.part(self.first, task.theirs, given)
            after = [
                self.reference.part(
                    self.first,
                    task.theirs,
                    self._near(task, given, steps, seed),
                    self._rounded(task, quantized, seed),
                )[output]
                for seed in range(min(_MOST_DRAWS, -(-_DRAWN // max(1, sum(one.size for one in before[output])))))
            ]
        except NotRunError:
            return None
        form, was = self.first.form(output), Reals(self.first.form(output), given[output])
        again = difference(was, Reals(form, before[output]))
        if not allowance(was, form.type, form.scale).covers(again):
            raise NotRunError("the operator computes different values when run alone")
        expected = before[output] * len(after)
        found = [array for arrays in after for array in arrays]
        if other_shape({output: expected}, {output: found}):
            return None
        one, two = Reals(form, expected), Reals(form, found)
        changed = [changes_kind(*pieces) for pieces in zip(one, two, strict=True)]
        is_pole = np.asarray(np.concatenate([[], *changed]).astype(bool).reshape(len(after), -1).any(axis=0))
        return difference(one, two), is_pole

    def _near(self, task: Task, given: Known, steps: dict[int, float], seed: int) -> Known:
        near = Known()
        for tensor in task.theirs.inputs:
            form, near[tensor] = self.first.form(tensor), []
            for run, stored in enumerate(given[tensor]):
                rng = np.random.default_rng([seed, run, tensor])
                real = nearly(form.real(stored), form.type, rng)
                if tensor in steps:
                    step = steps[tensor] or float(np.abs(real).max(initial=0.0)) / 127
                    real = rounded(real, step, rng)
                near[tensor].append(form.stored(real))
        return near

    def _input_steps(self, task: Task, *, dynamic: bool) -> dict[int, float]:
        """Return the step of each float input of the reference that the other model rounds; 0 if kernels round it."""
        graph, reach, found = self.second.graph, self.second.reach, dict[int, float]()
        rounding = {
            reach.operands[at][0]: self.second.form(reach.results[at][0]).scale
            for at in task.own.operators
            if graph.operators.code_names[at] == "QUANTIZE"
        }
        for tensor, partner in zip(task.own.inputs, task.fed, strict=True):
            is_float = not self.second.form(tensor).scale and self.first.form(partner).type == "FLOAT32"
            if is_float and (tensor in rounding or dynamic):
                found[partner] = rounding.get(tensor, 0.0)
        return found

    def _rounded(self, task: Task, quantized: Sequence[tuple[int, Array, Array]], seed: int) -> dict[int, bytes]:
        """Return randomly rounded contents for the buffers of the reference's float constants."""
        found: dict[int, bytes] = {}
        values = self.first.graph.values
        for tensor in dict.fromkeys(self.first.reach.read_by(task.theirs.operators)):
            if values.is_constant[tensor] and values.types[tensor] == "FLOAT32":
                constant = self.first.constant(tensor)
                for *_, step in (one for one in quantized if one[1].shape == constant.shape):
                    near = rounded(constant, step, np.random.default_rng([seed, tensor]))
                    found[int(values.buffers[tensor])] = near.astype(np.float32).tobytes()
        return found


def _without(masked: Array, pieces: Iterable[Array]) -> Iterator[Array]:
    """Yield the pieces without the values that the mask selects."""
    start = 0
    for piece in pieces:
        yield piece[~masked[start : start + piece.size]]
        start += piece.size


def _step(subject: Subject, region: Region, tensor: int) -> float:
    """Return the quantization step of a tensor or of the value in the region that is dequantized to it, or else 0."""
    maker = subject.reach.producer[tensor]
    if maker in region.operators and subject.graph.operators.code_names[maker] == "DEQUANTIZE":
        tensor = next((one for one in subject.reach.operands[maker] if one not in region.inputs), tensor)
    return subject.form(tensor).scale


def other_shape(expected: Known, found: Known) -> str:
    """Return a description of how shapes differ; empty if they do not differ."""
    pairs = ((one, two) for at, arrays in expected.items() for one, two in zip(arrays, found[at], strict=True))
    unequal = next(((one, two) for one, two in pairs if one.shape != two.shape), None)
    return f"the shape is {list(unequal[1].shape)}, not {list(unequal[0].shape)}" if unequal else ""
