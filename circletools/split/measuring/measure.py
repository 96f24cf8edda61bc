"""Measuring a split: its parts on their devices, beside what operators alone and whole models let expect."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from circletools.errors import InvalidInputError
from circletools.graph.build import graph_of
from circletools.model.model import Model, open_model
from circletools.parts.compare import open_split
from circletools.parts.package import Connections
from circletools.parts.plan import SplitPlan, plan_split
from circletools.parts.split import connect
from circletools.runtimes.worker import Worker
from circletools.split.measuring.bench import Bench, Failure
from circletools.split.measuring.known import segments_of
from circletools.split.measuring.learning import learn, plan_time, predict, whole_time
from circletools.split.measuring.request import MeasureRequest, measured_devices
from circletools.split.measuring.results import Measurement, steps_us

_DEFAULT = MeasureRequest()


def measure(
    directory: str | os.PathLike[str],
    request: MeasureRequest = _DEFAULT,
    *,
    source: str | os.PathLike[str] | None = None,
) -> Measurement:
    """Measure the parts in a directory that `split` wrote, and return costs of their devices.

    The operators of the model are measured alone, the model whole on each device, then the parts one after the
    other. `source` is the model that was split; without it, the file of its name in the directory or beside it.

    Raises InvalidInputError where there is no split of subgraph 0, or it is of another model; UsageError where the
    source is not found, no program is known for a device, or one does not start; EditError where the operators of
    the model cannot be measured alone.
    """
    files = open_split(Path(directory), None if source is None else Path(source))
    with open_model(files.source) as model, TemporaryDirectory() as folder:
        plan = plan_of_parts(model, files.connections, str(directory))
        devices = measured_devices(tuple(dict.fromkeys(part.device for part in plan.parts)), request)
        with Worker(devices[0].program, request.timeout_s) as worker:
            bench = Bench(model, devices, worker, request, Path(folder))
            learned = learn(bench)
            ours = bench.chain(plan, files.connections, files.directory)
            *others, found = bench.times([*learned.whole.values(), ours])
        known = learned.known
        plans = [whole_time(known, number).with_times(one) for number, one in zip(learned.whole, others, strict=True)]
        plans.append(plan_time("split", known, plan.parts, predict(model, known, plan)).with_times(found))
        if not isinstance(found, Failure):
            known = known.corrected(segments_of(known, graph_of(model, 0), plan.parts, steps_us(found)))
    return Measurement(known, tuple(plans), learned.notes)


def plan_of_parts(model: Model, connections: Connections, place: str) -> SplitPlan:
    """Return the plan of a split. Raises InvalidInputError where the model splits otherwise."""
    plan = plan_split(model, 0)
    expected = connect(plan, Path(connections.source.file), model.format)
    if [(part.inputs, part.outputs) for part in expected.parts] != [
        (part.inputs, part.outputs) for part in connections.parts
    ]:
        message = "the parts are not those of this model"
        raise InvalidInputError(message, location=place, hint="split the model again")
    return plan
