"""The request for a comparison: programs and inputs."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

import numpy as np

from circletools.errors import InvalidInputError, UsageError
from circletools.graph.graph import Graph
from circletools.model.views import Signature
from circletools.numerics.results import Difference
from circletools.numerics.running import Runs
from circletools.runtimes.inputs import make_input, read_inputs
from circletools.runtimes.protocol import Array
from circletools.storage.files import open_source
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


def file_inputs(request: CompareRequest, graph: Graph, signature: Signature | None, like: list[Array]) -> Runs:
    """Return the inputs of each run from the files; `like` holds arrays of the model's types and shapes, if known.

    Raises InvalidInputError for a file that cannot be read or lacks an input.
    """
    named = {tensor: name for name, tensor in (signature.inputs if signature else ())}
    runs: Runs = []
    for file in request.inputs:
        arrays = read_inputs(file) if file.endswith(".npz") else {"0": _read_only(file, like)}
        run: list[Array] = []
        for place, tensor in enumerate(graph.inputs.tolist()):
            keys = (named.get(tensor, ""), graph.values.name(tensor), str(place), f"arr_{place}")
            key = next((one for one in keys if one in arrays), None)
            if key is None:
                raise InvalidInputError(f"no array for input {place}", location=file, hint=f"name it {keys[1]!r}")
            is_number = like and arrays[key].dtype.kind in "iufb"
            if is_number and (arrays[key].dtype.kind == "f") != (like[place].dtype.kind == "f"):
                message = f"array {key!r} has the type {arrays[key].dtype}, but the input {like[place].dtype}"
                hint = "convert it: a quantized number q stands for (q - zero_point) * scale"
                raise InvalidInputError(message, location=file, hint=hint)
            run.append(arrays[key].astype(like[place].dtype) if is_number else arrays[key])
        runs.append(run)
    return runs


def _read_only(file: str, like: list[Array]) -> Array:
    """Return the bytes of a file as a model's only input."""
    try:
        (only,) = like
        with closing(open_source(file)) as source:
            return np.frombuffer(source.octets, only.dtype).reshape(only.shape).copy()  # only bytes that fit are read
    except ValueError as error:
        raise InvalidInputError(f"cannot read the inputs: {error}", location=file) from error
