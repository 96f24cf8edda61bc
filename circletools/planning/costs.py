"""Known costs of one model, from documents and traces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from circletools.affinity.costs.times import Costs
from circletools.errors import InvalidInputError
from circletools.findings import Finding
from circletools.graph.graph import ModelGraph
from circletools.planning.inputs import CostInputs
from circletools.profile.joining import Join, time_of
from circletools.trace.operators.profile import OperatorTrace
from circletools.wording import counted


@dataclass(frozen=True, slots=True)
class TraceTimes:
    """Microseconds of operators in an inference, by subgraph and index: the median, or the mean of an averaged trace.

    `elsewhere` lists the operators that the trace shows wholly or partly on other devices, and these devices.
    """

    times_us: Mapping[tuple[int, int], float]
    elsewhere: Mapping[tuple[int, int], frozenset[str]]


def measured_times(model: ModelGraph, trace: OperatorTrace, others: Collection[str] = ()) -> TraceTimes:
    """Return the times of the operators in a trace, without operators that ran on one of `others`.

    A backend is one of `others` if it has the same name. Raises InvalidInputError for the trace of another model.
    """
    times, elsewhere = {}, {}
    for place, measured in Join(model, trace).operators.items():
        if foreign := measured.backends.intersection(others):
            elsewhere[place] = frozenset(foreign)
            continue
        time = time_of(measured, trace)
        median = time.median_ns if time.median_ns is not None else time.total_ns / max(trace.executions, 1)
        times[place] = median / 1000
    return TraceTimes(times, elsewhere)


def costs_of(model: ModelGraph, inputs: CostInputs, devices: Sequence[str]) -> tuple[Costs, list[Finding]]:
    """Return the costs of a model's operators on devices, and notes about operators without a time in the traces.

    Raises InvalidInputError for the trace of another model.
    """
    measured, notes, operators = {}, list[Finding](), sum(map(len, model.graphs))
    for device, (name, trace) in inputs.traces.items():
        try:
            found = measured_times(model, trace, {*devices, *inputs.traces} - {device})
        except InvalidInputError as error:
            error.location = name if error.location is None else f"{name}: {error.location}"
            raise
        measured[device] = found.times_us
        if found.elsewhere:
            where = ", ".join(sorted(frozenset().union(*found.elsewhere.values())))
            message = f"{counted(len(found.elsewhere), 'operator')} ran on {where}, which gives no time for {device}"
            notes.append(Finding("RAN_ON_ANOTHER_DEVICE", "info", name, message))
        absent = operators - len(found.times_us) - len(found.elsewhere)
        if absent:
            be = "is" if absent == 1 else "are"
            message = f"{counted(absent, 'operator')} {be} not in the trace of {device}"
            notes.append(Finding("NOT_IN_TRACE", "info", name, message))
    costs = Costs(inputs.document, measured, inputs.defaults)
    if costs.assumed(devices):
        given = inputs.defaults
        message = (
            f"transfers not listed in the costs take {given.overhead_us:g} us and {given.bytes_per_us:g} bytes/us "
            "(`copy_rate=`)"
        )
        notes.append(Finding("TRANSFERS_NOT_LISTED", "info", "", message))
    return costs, notes
