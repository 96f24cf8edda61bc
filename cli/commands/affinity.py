"""Commands for affinity: annotate-affinity, dump-affinity, partition."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show, show_json, show_notes, show_text
from .affinity_options import (
    Capabilities,
    CopyOverhead,
    CopyRate,
    CostsFile,
    DefaultDevice,
    Devices,
    Explain,
    Launch,
    Memory,
    MinSize,
    Mode,
    Parallel,
    PartitionMode,
    Reproject,
    RulesFile,
    Settings,
    Traces,
    WhatIf,
)
from .parameters import Format, InPlace, Input, Json, Output
from .rewriting import rewrite


class By(StrEnum):
    """What a row stands for."""

    OPERATOR = "operator"
    PARTITION = "partition"


def annotate_affinity(
    source: Input,
    output: Output = None,
    devices: Devices = None,
    rules: RulesFile = None,
    settings: Settings = None,
    capabilities: Capabilities = None,
    default: DefaultDevice = None,
    min_size: MinSize = 1,
    mode: PartitionMode = Mode.SAFE,
    reproject: Reproject = None,
    costs: CostsFile = None,
    traces: Traces = None,
    copy_rate: CopyRate = 1000.0,
    copy_overhead: CopyOverhead = 0.0,
    launch: Launch = 0.0,
    parallel: Parallel = False,
    memory: Memory = None,
    explain: Explain = False,
    in_place: InPlace = False,
    json: Json = False,
) -> None:
    """Write the device of each operator as metadata.

    The partition of each operator is written too. Rules take precedence over capability tables, and those over
    the default. With --costs or --trace, devices are chosen for the least time among those that rules and tables
    allow. Selectors are index:0-10,15, name:GLOB (an output tensor), origin:GLOB (a source) and op:GLOB (an
    operator code); 1/ in front selects in subgraph 1.
    """
    if (json or explain) and output == "-":
        raise ct.UsageError("the report and an output of - would mix on standard output", hint="name an output file")
    request = ct.PlanRequest(
        devices=_names(devices),
        rules=tuple(settings or ()),
        rules_file=rules,
        capabilities=tuple(capabilities or ()),
        default=default,
        mode=mode.value,
        min_size=min_size,
        reproject=reproject,
        keep=False,
        costs=costs,
        traces=tuple(traces or ()),
        copy_rate=copy_rate,
        copy_overhead=copy_overhead,
        launch=launch,
        parallel=parallel,
        memory=tuple(memory or ()),
        explain=explain,
    )
    inputs = ct.read_request(request)

    def change(edit: ct.ModelEdit) -> ct.RewriteResult:
        plan = ct.plan(edit.model, inputs)
        if json or explain:
            _show_plan(plan, json)
        show_notes(plan.notes)
        return ct.affinity.annotate(edit, plan)

    rewrite(source, output, in_place, change, inputs=request.files)


def partition(
    source: Input,
    devices: Devices = None,
    rules: RulesFile = None,
    settings: Settings = None,
    capabilities: Capabilities = None,
    default: DefaultDevice = None,
    min_size: MinSize = 1,
    mode: PartitionMode = Mode.SAFE,
    reproject: Reproject = None,
    costs: CostsFile = None,
    traces: Traces = None,
    copy_rate: CopyRate = 1000.0,
    copy_overhead: CopyOverhead = 0.0,
    launch: Launch = 0.0,
    parallel: Parallel = False,
    memory: Memory = None,
    what_if: WhatIf = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Plan devices and partitions without writing a model.

    Shows the partitions in the order they run, and what they cost. Without any option for devices, those in the
    model are kept and partitioned again.
    """
    request = ct.PlanRequest(
        devices=_names(devices),
        rules=tuple(settings or ()),
        rules_file=rules,
        capabilities=tuple(capabilities or ()),
        default=default,
        mode=mode.value,
        min_size=min_size,
        reproject=reproject,
        costs=costs,
        traces=tuple(traces or ()),
        copy_rate=copy_rate,
        copy_overhead=copy_overhead,
        launch=launch,
        parallel=parallel,
        memory=tuple(memory or ()),
        what_if=tuple(what_if or ()),
        explain=explain,
    )
    inputs = ct.read_request(request)
    with reading(source) as model:
        plan = ct.plan(model, inputs)
        _show_plan(plan, json)
    show_notes(plan.notes)


def dump_affinity(
    source: Input,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="Output format; `text` unless given.")
    ] = None,
    by: Annotated[
        By, typer.Option("--by", help="Show a row for each operator, or for each partition.")
    ] = By.OPERATOR,
    costs: CostsFile = None,
    traces: Traces = None,
    copy_rate: CopyRate = 1000.0,
    copy_overhead: CopyOverhead = 0.0,
    launch: Launch = 0.0,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show the device and the partition of each operator.

    With costs, also shows the estimated time. Exit status 1 when the model has no affinity, or one that no longer
    describes its operators.
    """
    if json and output_format not in (None, Format.JSON):
        raise ct.UsageError(f"--json and --format {output_format} exclude each other")
    request = cost_request(costs, traces, copy_rate, copy_overhead, launch)
    if output_format is Format.CSV and request is not None:
        raise ct.UsageError("CSV has no room for estimates", hint="use --format text or json")
    inputs = None if request is None else ct.read_request(request)
    with reading(source) as model:
        found = ct.inspect_affinity(model, inputs)
        if json or output_format is Format.JSON:
            show_json(ct.render.affinity_json(found))
        elif output_format is Format.CSV:
            show_text(ct.render.affinity_csv(found, by_partition=by is By.PARTITION))
        else:
            show(ct.render.affinity_text(found, by_partition=by is By.PARTITION))
    show_notes(found.notes)
    if not found.is_current:
        raise typer.Exit(1)


def cost_request(
    costs: Path | None, traces: list[str] | None, copy_rate: float, copy_overhead: float, launch: float = 0.0
) -> ct.CostRequest | None:
    """Return what the options for costs ask for; None where they name no costs."""
    request = ct.CostRequest(
        costs=costs,
        traces=tuple(traces or ()),
        copy_rate=copy_rate,
        copy_overhead=copy_overhead,
        launch=launch,
    )
    return request if request.has_costs else None


def _names(devices: str | None) -> tuple[str, ...]:
    return () if devices is None else tuple(name.strip() for name in devices.split(","))


def _show_plan(plan: ct.Plan, json: bool) -> None:
    if json:
        show_json(ct.render.plan_json(plan))
    else:
        show(ct.render.plan_text(plan))
