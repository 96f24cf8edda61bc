"""Run a model under a runtime's own profiler, and attribute the recorded times to the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from circletools.asking import as_file, run_excuse
from circletools.errors import InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.model.model import Model
from circletools.profile.attribution import Attribution, attribute
from circletools.runtimes.inputs import read_inputs
from circletools.runtimes.programs import PROFILERS, named
from circletools.runtimes.protocol import Array, Request
from circletools.runtimes.worker import Worker
from circletools.trace.operators.profile import OperatorTrace, without_first
from circletools.trace.operators.read import read_profile
from circletools.wording import Attributes


@dataclass(frozen=True, slots=True)
class Profile(Attributes):
    """A recording of a model in a runtime: `data` is the runtime's trace, and `trace` its parsed contents.

    `program` is the runtime with its variant (`litert:xnnpack`), `version` is the version of the runtime's package.
    """

    program: str
    version: str
    data: bytes = field(repr=False)
    trace: OperatorTrace
    attribution: Attribution


def profile(
    model: Model,
    on: str = "litert",
    *,
    runs: int = 50,
    inputs: str | os.PathLike[str] | Sequence[Sequence[Array]] | None = None,
    seed: int = 0,
    timeout_s: float = 600.0,
    depth: int | None = None,
) -> Profile:
    """Run a model `runs` times on a runtime, and attribute the time to its operators (see `attribute`).

    `on` is `litert`, `onert` or `openvino`, optionally with `:` and a variant. `inputs` are arrays for each run, one
    set for all runs, or an .npz file with one set in input order; by default they are made from `seed`. Warm-up is
    not attributed. The program runs in a separate process with one thread, except for onert's convolutions.
    Raises UsageError if the program has no profiler or is not installed, and InvalidInputError if it does not run the
    model.

        with ct.open("out.circle") as model:
            found = ct.profile(model, "litert:xnnpack", runs=20)
        print(found.attribution.total_ns)
    """
    if on.partition(":")[0] not in PROFILERS:
        message = f"{on!r} is not a runtime, or has no operator profiler in its package"
        hint = f"profilers exist for {', '.join(PROFILERS)}; `attribute` reads the logs of TFLM's profiler"
        raise UsageError(message, hint=hint)
    program, variant = named(on)
    sets = [[*read_inputs(inputs).values()]] if isinstance(inputs, str | os.PathLike) else inputs
    if runs < 1:
        raise UsageError("`runs` must be at least 1")
    given = None if sets is None else [list(sets[at % len(sets)]) for at in range(runs)]
    with as_file(model) as path, Worker(on, timeout_s) as worker:
        found = worker.profile(Request("profile", str(path), inputs=given, seed=seed, repeat=runs))
        version, excuse = worker.version, run_excuse(model, worker, given is None) if found.failure else ""
    name, words = f"{program}:{variant}", f"does not run the model: {found.failure}{excuse}"
    if found.failure:
        raise InvalidInputError(f"{name} {words}", location=model.source.name)
    trace = read_profile(found.data)
    threads = None if program == "onert" else 1
    whole = replace(trace.whole, initialization_ns=round(found.initialization_us * 1000), threads=threads)
    trace = replace(trace, name=name, whole=whole, own=True)
    attribution = attribute(model, without_first(trace, "auto"), depth=depth)
    if name == "litert:reference" and version.startswith("2.3."):  # the only version in which this was measured
        message = "LiteRT's profiler ran the optimized kernels, as with litert:builtin"
        note = Finding("OPTIMIZED_KERNELS", "warning", name, message)
        attribution = replace(attribution, notes=(*attribution.notes, note))
    return Profile(name, version, found.data, trace, attribution)
