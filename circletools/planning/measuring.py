"""Measure the time that a model takes on its devices, as a whole and in parts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.asking import file_inputs
from circletools.errors import InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.model.model import Model, open_model
from circletools.parts.compare import open_split
from circletools.parts.plan import SplitPlan, plan_split
from circletools.parts.split import Connections, Piece, connect
from circletools.runtimes.programs import command, named
from circletools.runtimes.protocol import Chain, ChainsRequest, Step
from circletools.runtimes.worker import Worker
from circletools.wording import SCHEMA_VERSION, Attributes, Tabular, suggestion

# --- measurements of the whole model on each device, and of its parts; and their document ---------------------


@dataclass(frozen=True, slots=True)
class Device(Attributes):
    """A device, and the program and variant that run operators on it."""

    name: str
    program: str
    variant: str


@dataclass(frozen=True, slots=True)
class PartTime(Attributes):
    """A part and its device, and the time it took with copies of inputs and outputs, or None if it did not run."""

    device: str
    operators: tuple[int, ...]
    measured_us: float | None = None


@dataclass(frozen=True, slots=True)
class PlanTime(Attributes):
    """A plan, and its time: the 5th percentile over turns. `failure` is the reason why it does not run."""

    name: str
    parts: tuple[PartTime, ...]
    measured_us: float | None = None
    failure: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class Measurement(Tabular):
    """Alternating measurements: the whole model on each device, and the parts of the split (`plans[-1]`).

    `notes` name the devices that do not run the whole model.
    """

    devices: tuple[Device, ...]
    plans: tuple[PlanTime, ...]
    notes: tuple[Finding, ...] = ()

    @property
    def document(self) -> dict[str, Any]:
        """The JSON document (docs/costs.md)."""
        devices = [{"name": one.name, "program": f"{one.program}:{one.variant}"} for one in self.devices]
        return {"schema_version": SCHEMA_VERSION, "devices": devices, "plans": [asdict(plan) for plan in self.plans]}

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each part of each plan; times are in microseconds."""
        return [
            {
                "plan": plan.name,
                "plan_us": plan.measured_us,
                "failure": plan.failure,
                "part": number,
                "device": part.device,
                "operators": len(part.operators),
                "part_us": part.measured_us,
            }
            for plan in self.plans
            for number, part in enumerate(plan.parts)
        ]


MEASURING = ("litert", "onert", "openvino")
"""The programs that support timing of runs."""
Times = NDArray[np.float64] | str
"""The times of a chain by turn and step, or the reason why it does not run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureRequest(Attributes):
    """Options for measuring devices.

    `on`: `DEVICE=PROGRAM[:VARIANT]`, the program that runs a device's operators; not needed if the device is named
    like a program. `seconds`: the time spent on each plan. `inputs`: a file as in `CompareRequest`, or nothing for
    random inputs from `seed`. `timeout_s`: the time limit for loading and measuring a model.
    """

    on: tuple[str, ...] = ()
    seconds: float = 2.0
    seed: int = 0
    timeout_s: float = 600.0
    inputs: str | None = None


_DEFAULT = MeasureRequest()


def measure(
    directory: str | os.PathLike[str],
    request: MeasureRequest = _DEFAULT,
    *,
    source: str | os.PathLike[str] | None = None,
) -> Measurement:
    """Measure the parts in a directory written by `split`, alternating with the whole model on each of their devices.

    `source` is the model that was split; by default, the file with the recorded name in the directory or next to it.

    Raises InvalidInputError if there is no split of subgraph 0, or it belongs to another model; and UsageError if the
    source is not found, no program is known for a device, or a program does not start.
    """
    files = open_split(Path(directory), None if source is None else Path(source))
    with open_model(files.source) as model:
        plan = plan_of_parts(model, files.connections, str(directory))
        operators = tuple(range(len(model.subgraphs[0].operators)))
        runs = file_inputs([] if request.inputs is None else [request.inputs], model_graph(model).graphs[0])
    given = dict(zip(files.connections.source.inputs, *runs, strict=True)) if runs else {}
    devices = measured_devices([part.device for part in plan.parts], request)
    pieces = [(files.directory / piece.file, piece) for piece in files.connections.parts]
    chains: list[Chain] = [(_step(device, files.source, files.connections.source),) for device in devices.values()]
    steps = zip(plan.parts, pieces, strict=True)
    chains.append(tuple(_step(devices[part.device], path, piece) for part, (path, piece) in steps))
    with Worker(next(iter(devices.values())).program, request.timeout_s) as worker:
        found = times_of(chains, worker, ChainsRequest((), request.seconds, request.seed, given))
    plans = [PlanTime(f"all on {name}", (PartTime(name, operators),)) for name in devices]
    plans.append(PlanTime("split", tuple(PartTime(part.device, part.operators) for part in plan.parts)))
    notes = (
        Finding("DEVICE_NOT_MEASURED", "info", name, f"the device does not run the whole model: {times}")
        for name, times in zip(devices, found, strict=False)
        if isinstance(times, str)
    )
    timed = tuple(with_times(one, times) for one, times in zip(plans, found, strict=True))
    return Measurement(tuple(devices.values()), timed, tuple(notes))


def plan_of_parts(model: Model, connections: Connections, place: str) -> SplitPlan:
    """Return the plan of a split. Raises InvalidInputError if the model would be split differently now."""
    plan = plan_split(model, 0)
    expected = connect(plan, Path(connections.source.file), model.format)
    if [(part.inputs, part.outputs) for part in expected.parts] != [
        (part.inputs, part.outputs) for part in connections.parts
    ]:
        message = "the parts are not those of this model"
        raise InvalidInputError(message, location=place, hint="split the model again")
    return plan


def measured_devices(names: Sequence[str], request: MeasureRequest) -> dict[str, Device]:
    """Return the device of each name, with its program.

    Raises UsageError for a device without a known program, a program that cannot be measured or is not installed, or
    programs in different Python installations.
    """
    chosen: dict[str, str] = {}
    for words in request.on:
        device, equals, program = words.partition("=")
        if not equals or not device or not program or device in chosen:
            problem = f"duplicate program for {device!r}" if device in chosen else "must name a device and a program"
            raise UsageError(f"{words!r}: {problem}", hint="write npu=litert:xnnpack")
        if device not in names:
            raise UsageError(f"{words!r}: the split has no device {device!r}", hint=suggestion(device, names))
        chosen[device] = program
    devices = {}
    for name in dict.fromkeys(names):
        if name not in chosen and name.partition(":")[0] not in MEASURING:
            raise UsageError(
                f"no program is named for device {name!r}", hint=f"add, for example, {name}=litert:xnnpack"
            )
        program, variant = named(chosen.get(name, name))
        if program not in MEASURING:
            raise UsageError(f"{program} cannot be measured", hint=f"available: {', '.join(MEASURING)}")
        devices[name] = Device(name, program, variant)
    if len({tuple(command(device.program)) for device in devices.values()}) > 1:
        raise UsageError("the programs use different Python installations; parts are measured in one process")
    return devices


def times_of(chains: Sequence[Chain], worker: Worker, request: ChainsRequest) -> list[Times]:
    """Return the times of chains that run alternately."""
    found: dict[int, Times] = {}
    left = list(range(len(chains)))
    while left:
        asked = tuple(chains[number] for number in left)
        timed = worker.measure(replace(request, chains=asked, seconds=request.seconds * len(asked)))
        if not timed.failure:
            found |= zip(left, timed.times_us, strict=True)
            break
        if timed.failed is None and len(left) > 1:  # the process ended at an unknown step
            return [times_of([chain], worker, request)[0] for chain in chains]
        number, step = timed.failed or (0, _ending(asked[0], worker, request))
        failed = asked[number][step]
        found[left.pop(number)] = f"{Path(failed.model).name} in {failed.program}: {timed.failure}"
    return [found[number] for number in range(len(chains))]


def _ending(chain: Chain, worker: Worker, request: ChainsRequest) -> int:
    """Return the first step of a chain that fails even when it is run alone, or else the last step."""
    for number, step in enumerate(chain):
        if worker.measure(replace(request, chains=((step,),), seconds=0.0)).failure:
            return number
    return len(chain) - 1


def _step(device: Device, path: Path, piece: Piece) -> Step:
    return Step(device.program, device.variant, str(path), piece.inputs, piece.outputs)


def with_times(plan: PlanTime, times_us: Times) -> PlanTime:
    """Return a plan with its measured times, or with the reason why it does not run.

    The times of steps are scaled so that they add up to the time of the chain.
    """
    if isinstance(times_us, str):
        return replace(plan, failure=times_us)
    whole, each = float(_fast_times(times_us.sum(axis=1))), _fast_times(times_us)
    shares = (each * (whole / max(float(each.sum()), 1e-9))).tolist()
    parts = [replace(part, measured_us=taken) for part, taken in zip(plan.parts, shares, strict=True)]
    return replace(plan, parts=tuple(parts), measured_us=whole)


def _fast_times(times_us: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the 5th percentile over turns: other work on the machine lengthens times, often most of them."""
    found: NDArray[np.float64] = np.quantile(times_us, 0.05, axis=0)
    return found
