"""Commands for affinity: annotate-affinity, dump-affinity, partition."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .affinity_options import (
    AtOnce,
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
    PartitionMode,
    Reproject,
    RulesFile,
    Settings,
    Traces,
    WhatIf,
)
from .parameters import Format, InPlace, Input, Json, Output
from .rewriting import rewrite

if TYPE_CHECKING:
    from circletools.affinity.assign.rules import Rule
    from circletools.edit.edit import ModelEdit, RewriteResult
    from circletools.model import Model

    from .affinity_planning import Planned


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
    parallel: AtOnce = False,
    memory: Memory = None,
    explain: Explain = False,
    in_place: InPlace = False,
    json: Json = False,
) -> None:
    """Write the device of each operator as metadata.

    The partitions that follow from the devices are written too. A rule counts before a capability table, that
    before the default; with --costs or --trace, what takes the least time is chosen among the devices that rules
    and tables leave. Selectors are index:0-10,15, name:GLOB (an output tensor), origin:GLOB (a source), op:GLOB
    (an operator code); 1/ in front chooses subgraph 1.
    """
    from circletools.affinity.partitioning import to_affinity  # noqa: PLC0415
    from circletools.affinity.store import annotate  # noqa: PLC0415

    from .affinity_costs import CostOptions  # noqa: PLC0415
    from .affinity_planning import Wanted  # noqa: PLC0415

    if (json or explain) and output == "-":
        raise UsageError("the report and an output of - would mix on standard output", hint="name an output file")
    charged = CostOptions(costs, traces or (), copy_rate, copy_overhead, launch, parallel, memory or ())
    wanted = Wanted(devices, rules, settings, capabilities, default, min_size, mode, reproject, charged)

    def change(edit: ModelEdit) -> RewriteResult:
        planned = wanted.plan(edit.model, explain, keep=False)
        if json or explain:
            _show_plan(edit.model, planned, explain, json)
        return annotate(edit, to_affinity(planned.plan))

    rewrite(source, output, in_place, change, inputs=wanted.files)


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
    parallel: AtOnce = False,
    memory: Memory = None,
    what_if: WhatIf = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Plan devices and partitions without writing a model.

    Shows the partitions in the order they run and what they cost. Without any option for devices, those in the
    model are partitioned anew.
    """
    from circletools.affinity.assign.rules import parse_setting  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from .affinity_costs import CostOptions  # noqa: PLC0415
    from .affinity_planning import Wanted  # noqa: PLC0415

    if what_if and explain:
        raise UsageError("--what-if and --explain exclude each other")

    charged = CostOptions(costs, traces or (), copy_rate, copy_overhead, launch, parallel, memory or ())
    wanted = Wanted(devices, rules, settings, capabilities, default, min_size, mode, reproject, charged)
    changes = [parse_setting(words, "--what-if") for words in what_if or ()]
    with reading(source) as model:
        planned = wanted.plan(model, explain)
        if changes:
            _show_what_if(model, planned, changes, mode, json)
        else:
            _show_plan(model, planned, explain, json)


def dump_affinity(
    source: Input,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; `text` unless given.")
    ] = None,
    by: Annotated[By, typer.Option("--by", help="A row for each operator, or for each partition.")] = By.OPERATOR,
    costs: CostsFile = None,
    traces: Traces = None,
    copy_rate: CopyRate = 1000.0,
    copy_overhead: CopyOverhead = 0.0,
    launch: Launch = 0.0,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show the device and the partition of each operator.

    With costs, also shows the time of a run. Exit status 1 when the model has no affinity, or one that no longer
    describes its operators.
    """
    from circletools.affinity.store import Affinity, check_freshness, read_affinity  # noqa: PLC0415
    from circletools.render.affinity import affinity_csv, affinity_json, affinity_text  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import complain, show, show_json, show_text  # noqa: PLC0415
    from .affinity_costs import CostOptions  # noqa: PLC0415

    if json and output_format not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    charged = CostOptions(costs, traces or (), copy_rate, copy_overhead, launch)
    if output_format is Format.CSV and charged.given:
        raise UsageError("CSV has no room for estimates", hint="use --format text or json")
    by_partition, charges = by is By.PARTITION, charged.read()
    with reading(source) as model:
        affinity = read_affinity(model)
        freshness = None if affinity is None else check_freshness(model, affinity)
        stale = freshness is not None and freshness.state == "stale"
        found = affinity or Affinity({}, {})
        if stale:
            found = Affinity(found.devices, {})
        as_json = json or output_format is Format.JSON
        more = {} if charges is None else charges.told(model, found, as_json)
        if as_json:
            show_json(affinity_json(model, found, freshness, more))
        elif output_format is Format.CSV:
            show_text(affinity_csv(model, found, by_partition=by_partition))
        else:
            show(affinity_text(model, found, by_partition=by_partition, more=more))
    if freshness is None:
        complain("warning", f"{source}: the model has no affinity (annotate-affinity adds it)")
    elif stale:
        complain("warning", f"{source}: the affinity is stale from {freshness.place} on: {freshness.reason}")
    if freshness is None or stale:
        raise typer.Exit(1)


def _show_plan(model: Model, planned: Planned, explain: bool, json: bool) -> None:
    from circletools.render.affinity import plan_json, plan_text  # noqa: PLC0415

    from ..console.terminal import show, show_json  # noqa: PLC0415

    plan, steps = planned.plan, planned.steps if explain else None
    more = planned.told(json)
    if json:
        show_json(plan_json(model, plan, planned.assignment, steps, more))
    else:
        show(plan_text(model, plan, planned.assignment, steps, more))


def _show_what_if(model: Model, planned: Planned, changes: Sequence[Rule], mode: Mode, json: bool) -> None:
    from circletools.planning.what_if import Side, against, moved, what_if_json, what_if_text  # noqa: PLC0415

    from ..console.terminal import complain, show, show_json  # noqa: PLC0415

    changed = moved(planned.chooser, planned.plan, changes, mode.value)
    for subgraph, operator, refusal in against(planned.assignment, planned.plan, changed):
        complain("warning", f"subgraphs[{subgraph}].operators[{operator}]: the device does not take it: {refusal}")
    before, after = (Side(plan, planned.costs(plan)) for plan in (planned.plan, changed))
    if json:
        show_json(what_if_json(model, planned.assignment, before, after))
    else:
        show(what_if_text(model, planned.assignment, before, after))
