"""The request for a comparison: programs and inputs."""

from __future__ import annotations

from dataclasses import dataclass

from circletools.errors import UsageError
from circletools.numerics.results import Difference
from circletools.numerics.running import Runs
from circletools.runtimes.inputs import make_input
from circletools.runtimes.protocol import Array
from circletools.wording import Attributes


@dataclass(frozen=True, slots=True)
class CompareRequest(Attributes):
    """The programs, such as `litert:xnnpack`, with the reference first, and the inputs.

    `inputs` are files, one for each run: `.npz` with arrays named after signatures, tensors or positions, or the raw
    bytes of a model's only input. Without files, each of `runs` runs gets random inputs from `seed`, which increases
    by one each time; a model with state keeps its state from run to run. `signature` is the key of a signature; the
    default is the main subgraph. The thresholds `min_snr_db`, `max_abs`, and `max_steps` (of the quantization)
    replace the allowance for rounding. No program may take longer than `timeout_s` seconds to answer a request.
    """

    on: tuple[str, ...] = ("litert:reference", "litert:xnnpack")
    inputs: tuple[str, ...] = ()
    seed: int = 0
    runs: int = 1
    signature: str | None = None
    min_snr_db: float | None = None
    max_abs: float | None = None
    max_steps: float | None = None
    timeout_s: float = 600.0

    def check(self, models: int) -> None:
        """Raise UsageError if the request has no programs to compare, or no runs."""
        if len(self.on) < 3 - models:
            raise UsageError("nothing to compare", hint="name two programs in `on=`, the reference first")
        if self.runs < 1:
            raise UsageError("`runs` must be at least 1")

    @property
    def has_thresholds(self) -> bool:
        """Whether thresholds replace the allowance for rounding."""
        return (self.min_snr_db, self.max_abs, self.max_steps) != (None, None, None)

    def forbids(self, own: Difference) -> bool:
        """Return whether a difference exceeds the thresholds."""
        return (
            own.non_finite > 0
            or (self.min_snr_db is not None and own.snr_db is not None and own.snr_db < self.min_snr_db)
            or (self.max_abs is not None and own.max_abs > self.max_abs)
            or (self.max_steps is not None and own.max_steps is not None and own.max_steps > self.max_steps)
        )


def more_runs(first: list[Array], request: CompareRequest) -> Runs:
    """Return the inputs of all runs; those of each run are generated like those of the first."""
    made = [
        [make_input(request.seed + run, place, array.dtype, array.shape) for place, array in enumerate(first)]
        for run in range(1, request.runs)
    ]
    return [first, *made]
