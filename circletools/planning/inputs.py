"""A request with the contents of its files: rules, capability tables, an earlier model, costs and traces.

A program that plans many models reads these files once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import overload

from circletools.affinity.assign import Decision, RuleSet, make_default, parse_rules, parse_setting
from circletools.affinity.capability.file import load_capability, shipped_devices
from circletools.affinity.capability.table import Capability
from circletools.affinity.costs.times import CostDocument, Costs, Defaults, parse_costs
from circletools.affinity.documents import read_words
from circletools.affinity.problem import Limit, parse_limit
from circletools.affinity.solvers.groups import Colocation, parse_colocation
from circletools.errors import CircleToolsError, InvalidInputError, UsageError
from circletools.findings import Finding
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import open_model
from circletools.planning.reproject import Earlier, devices_of_sources
from circletools.planning.request import CostRequest, PlanRequest
from circletools.profile.joining import Join, joined_executions, time_of
from circletools.storage.documents import naming_files
from circletools.trace.operators.profile import OperatorTrace
from circletools.trace.operators.read import read_profile
from circletools.wording import Attributes, counted, suggestion


@dataclass(frozen=True, slots=True)
class CostInputs(Attributes):
    """The inputs from which costs are computed: `traces` holds the name and content of a trace for each device."""

    document: CostDocument
    traces: Mapping[str, tuple[str, OperatorTrace]]
    defaults: Defaults

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices with known times; those of the document come first."""
        return tuple(dict.fromkeys((*self.document.devices, *self.traces)))

    @property
    def by_origin(self) -> bool:
        """Whether the document selects operators by their sources."""
        return any(rule.selector.kind == "origin" for rules in self.document.times.values() for rule in rules)


@dataclass(frozen=True, slots=True)
class PlanInputs(Attributes):
    """A request, and the contents of its files. `costs` is None if none were given."""

    request: PlanRequest
    rules: RuleSet
    tables: Mapping[str, Capability]
    earlier: Earlier | None
    costs: CostInputs | None
    limits: tuple[Limit, ...]
    colocation: Colocation

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the request names; empty if they come from the model."""
        return self.request.devices or self.rules.devices

    @property
    def by_origin(self) -> bool:
        """Whether operators are selected by their sources."""
        named = any(rule.selector.kind == "origin" for rule in self.rules.rules)
        return named or (self.costs is not None and self.costs.by_origin)

    def caps(self, devices: Sequence[str]) -> dict[int, int]:
        """Return the memory of the devices in bytes, by number. Raises UsageError."""
        caps: dict[int, int] = {}
        for words in self.request.memory:
            device, equals, count = words.partition("=")
            if not equals or not count.isascii() or not count.isdigit() or len(count) > 18:
                unit = re.fullmatch(r"([0-9]{1,6}) ?([KMG])I?B?", count.upper())
                size = int(unit[1]) << 10 * (1 + "KMG".index(unit[2])) if unit else 1 << 20
                hint = f"write `memory=('{device or 'npu'}={size}',)`"
                raise UsageError(f"`memory={words}` is not a number of bytes", hint=hint)
            if device not in devices:
                hint = suggestion(device, devices)
                raise UsageError(f"`memory={words}`: unknown device {device!r}", hint=hint)
            if devices.index(device) in caps:
                raise UsageError(f"`memory={words}`: duplicate value for {device!r}")
            caps[devices.index(device)] = int(count)
        return caps


@overload
def read_request(request: PlanRequest) -> PlanInputs: ...  # type: ignore[overload-overlap]  # narrower first
@overload
def read_request(request: CostRequest) -> CostInputs: ...
def read_request(request: CostRequest) -> PlanInputs | CostInputs:
    """Read the files that a request names, to plan one model or many.

    Raises UsageError for an invalid request, InvalidInputError for a file that cannot be read, and EditError for an
    earlier model without origins or affinity.
    """
    _check_costs(request)
    if not isinstance(request, PlanRequest):
        return _cost_inputs(request)
    _check(request)
    with naming_files():
        given = tuple(map(parse_setting, request.rules))
        rules = RuleSet(given, None if request.default is None else make_default(request.default))
        if request.rules_file is not None:
            rules = parse_rules(read_words(request.rules_file), os.fspath(request.rules_file)).and_then(rules)
        tables, last = _tables(request.capabilities), request.devices[-1:]
        if rules.default is None and len(request.devices) > 1 and not request.has_costs and last[0] not in tables:
            default = Decision(last[0], "the last device takes the remaining operators", "`devices=`")
            rules = replace(rules, default=default)
        if not (request.has_costs or request.reproject):
            ruled = {rule.device for rule in rules.rules} | ({rules.default.device} if rules.default else set())
            for device in sorted({*shipped_devices()}.intersection(request.devices).difference(ruled, tables)):
                hint = f"add `capabilities={device}` to use the built-in table"
                raise UsageError(f"no rule or capability table puts operators on {device}", hint=hint)
        earlier = None if request.reproject is None else _earlier(os.fspath(request.reproject))
    return PlanInputs(
        request,
        rules,
        tables,
        earlier,
        _cost_inputs(request) if request.has_costs else None,
        tuple(map(parse_limit, request.limits)),
        parse_colocation(request.keep_together),
    )


def _check(request: PlanRequest) -> None:
    """Raise UsageError for mutually exclusive fields, and for fields without another field that they need."""
    devices = request.devices
    if not all(devices) or len(set(devices)) < len(devices):
        named = ",".join(devices)
        raise UsageError(f"`devices={named}`: name each device only once", hint="write `devices=npu,gpu,cpu`")
    if request.join != "connected" and request.mode != "min":
        raise UsageError(f"`join={request.join}` requires `mode=min`")
    if request.mode == "seed" and (request.limits or request.memory or request.min_size > 1):
        raise UsageError("`limits=`, `memory=` and `min_size=` need `mode=min`", hint="not `mode=seed`")
    if not 0 <= request.solve_time <= 1e6:
        raise UsageError(f"`solve_time={request.solve_time:g}` must be at least 0 seconds")
    if request.min_size < 1:
        raise UsageError(f"`min_size={request.min_size}` must be at least 1")


def _check_costs(request: CostRequest) -> None:
    """Raise UsageError for invalid numbers, and for standard input."""
    if "-" in (str(request.costs), *(words.partition("=")[2] for words in request.traces)):
        raise UsageError("costs and traces cannot be read from standard input", hint="name a file")
    for field, number, least in (
        ("copy_rate", request.copy_rate, 1e-9),
        ("copy_overhead", request.copy_overhead, 0),
        ("launch", request.launch, 0),
    ):
        if not number >= least:
            raise UsageError(f"`{field}={number:g}` must be at least {least:g}")


def _cost_inputs(request: CostRequest) -> CostInputs:
    with naming_files():
        path = request.costs
        document = CostDocument() if path is None else parse_costs(read_words(path), os.fspath(path))
        traces: dict[str, tuple[str, OperatorTrace]] = {}
        for words in request.traces:
            device, _, name = words.partition("=")
            if not device or not name:
                hint = "write `traces=npu=trace.json`"
                raise UsageError(f"`traces={words}` must name a device and a trace", hint=hint)
            if device in traces:
                raise UsageError(f"`traces={words}`: duplicate value for {device!r}")
            traces[device] = name, read_profile(name)
        return CostInputs(document, traces, Defaults(request.copy_rate, request.copy_overhead, request.launch))


def _tables(wanted: Sequence[str]) -> dict[str, Capability]:
    tables: dict[str, Capability] = {}
    for words in wanted:
        device, equals, name = words.partition("=")
        table = load_capability(name if equals else words)
        named = device if equals else table.device
        if named in tables:
            raise UsageError(f"duplicate capability table for {named!r}", location=f"`capabilities={words}`")
        tables[named] = table
    return tables


def _earlier(name: str) -> Earlier:
    """Return the devices of the sources of an annotated model; errors name the file."""
    try:
        with open_model(name) as annotated:
            found = devices_of_sources(model_graph(annotated))
            annotated.source.check_unchanged()
            return found
    except CircleToolsError as error:
        if not isinstance(error, UsageError):
            error.name_file(name)
        raise


Place = tuple[int, int]


def measured_times(
    model: ModelGraph, trace: OperatorTrace, others: Collection[str] = ()
) -> tuple[dict[Place, float], dict[Place, frozenset[str]], list[Place]]:
    """Return the times per inference in us, by subgraph and operator index: medians, or a trace's averages.

    Operators that ran wholly or partly on one of the devices `others` are not timed; the second result maps them to
    these devices. A backend counts as a device if it has the same name. The third result lists operators without a
    row, whose work is in the rows of others. Raises InvalidInputError for a trace of another model.
    """
    times, elsewhere = dict[Place, float](), dict[Place, frozenset[str]]()
    trace, joined = joined_executions(model, trace)
    for place, measured in joined.operators.items():
        if foreign := measured.backends.intersection(others):
            elsewhere[place] = frozenset(foreign)
            continue
        time = time_of(measured, trace)
        median = time.median_ns if time.median_ns is not None else time.total_ns / max(trace.executions, 1)
        times[place] = median / 1000
    return times, elsewhere, [] if elsewhere else _fused(model, trace, joined)


def _fused(model: ModelGraph, trace: OperatorTrace, joined: Join) -> list[Place]:
    """Return the operators without a row whose work is in the rows of others.

    A delegate takes all operators of a subgraph that have no row of their own (`delegates`), and OpenVINO runs the
    whole model. If a row fits no operator, it may be the row of one of these, so none are returned.
    """
    if any(kind in ("unattributed", "delegate") for kind, *_ in joined.added):
        return []
    known = {*joined.operators, *(place for _, places in joined.groups for place in places)}
    ran = {at for (at, _), each in joined.operators.items() if each.delegated_ns or trace.runtime == "openvino"}
    every = ((subgraph, operator) for subgraph in sorted(ran) for operator in range(len(model.graphs[subgraph])))
    return [place for place in every if place not in known]


def costs_of(model: ModelGraph, inputs: CostInputs, devices: Sequence[str]) -> tuple[Costs, list[Finding]]:
    """Return the costs of a model's operators on devices, and notes about operators without a time in the traces.

    Raises InvalidInputError for a trace of another model.
    """
    measured, within, notes, operators = {}, {}, list[Finding](), sum(map(len, model.graphs))
    for device, (name, trace) in inputs.traces.items():
        try:
            times, elsewhere, fused = measured_times(model, trace, {*devices, *inputs.traces} - {device})
        except InvalidInputError as error:
            error.location = name if error.location is None else f"{name}: {error.location}"
            raise
        measured[device], within[device] = times, frozenset(fused)
        if elsewhere:
            where = ", ".join(sorted(frozenset().union(*elsewhere.values())))
            message = f"{counted(len(elsewhere), 'operator')} ran on {where}; times on {device} are unknown"
            notes.append(Finding("RAN_ON_ANOTHER_DEVICE", "info", name, message))
        absent = operators - len(times) - len(elsewhere) - len(fused)
        for count, why in ((absent, ""), (len(fused), ": other operators' times include them, so each takes 0 us")):
            if count:
                be = "is" if count == 1 else "are"
                message = f"{counted(count, 'operator')} {be} not in the trace of {device}{why}"
                notes.append(Finding("NOT_IN_TRACE", "info", name, message))
    costs = Costs(inputs.document, measured, inputs.defaults, within)
    if costs.assumed(devices):
        given = inputs.defaults
        message = (
            f"transfers not listed in the costs take {given.overhead_us:g} us, plus 1 us for every "
            f"{given.bytes_per_us:g} bytes (`copy_rate=`)"
        )
        notes.append(Finding("TRANSFERS_NOT_LISTED", "info", "", message))
    return costs, notes
