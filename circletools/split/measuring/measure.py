"""Measuring a split: its parts on their devices, beside the whole model on each device."""

from __future__ import annotations

import os
from pathlib import Path

from circletools.errors import InvalidInputError
from circletools.findings import Finding
from circletools.model.model import Model, open_model
from circletools.parts.compare import open_split
from circletools.parts.package import Connections
from circletools.parts.plan import SplitPlan, plan_split
from circletools.parts.split import connect
from circletools.runtimes.worker import Worker
from circletools.split.measuring.bench import Bench, Failure
from circletools.split.measuring.request import MeasureRequest, measured_devices
from circletools.split.measuring.results import Measurement, PartTime, PlanTime

_DEFAULT = MeasureRequest()


def measure(
    directory: str | os.PathLike[str],
    request: MeasureRequest = _DEFAULT,
    *,
    source: str | os.PathLike[str] | None = None,
) -> Measurement:
    """Measure the parts in a directory that `split` wrote, in turns with the whole model on each of their devices.

    `source` is the model that was split; without it, the file of its name in the directory or beside it.

    Raises InvalidInputError where there is no split of subgraph 0, or it is of another model; UsageError where the
    source is not found, no program is known for a device, or one does not start.
    """
    files = open_split(Path(directory), None if source is None else Path(source))
    with open_model(files.source) as model:
        plan = plan_of_parts(model, files.connections, str(directory))
        operators = tuple(range(len(model.subgraphs[0].operators)))
    devices = measured_devices(tuple(dict.fromkeys(part.device for part in plan.parts)), request)
    with Worker(devices[0].program, request.timeout_s) as worker:
        bench = Bench(files.source, devices, worker, request)
        whole = [bench.whole(device, files.connections.source) for device in devices]
        found = bench.times([*whole, bench.chain(plan, files.connections, files.directory)])
    plans = [PlanTime(f"all on {one.name}", (PartTime(one.name, operators),)) for one in devices]
    plans.append(PlanTime("split", tuple(PartTime(part.device, part.operators) for part in plan.parts)))
    notes = (
        Finding("DEVICE_NOT_MEASURED", "info", device.name, f"does not run the whole model: {one.words}")
        for device, one in zip(devices, found, strict=False)
        if isinstance(one, Failure)
    )
    timed = tuple(one.with_times(times) for one, times in zip(plans, found, strict=True))
    return Measurement(devices, timed, tuple(notes))


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
