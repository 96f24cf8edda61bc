"""Commands for affinity: annotate-affinity, dump-affinity, partition."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as, tell_notes
from ..signature import option
from .affinity_options import COSTS, PLANNING, WHAT_IF, filling
from .parameters import FormatOption, InPlace, Input, Json, JsonFormat, Output, form_of, refuse_mixing
from .rewriting import rewrite

Measured = Annotated[
    list[str] | None,
    option("--measure", "Choose by measuring, as on npu=litert:xnnpack; may be repeated.", "DEVICE=PROGRAM"),
]


@filling(ct.PlanRequest, PLANNING)
def annotate_affinity(
    source: Input,
    request: ct.PlanRequest,
    measured: Measured = None,
    output: Output = None,
    in_place: InPlace = False,
    json: Json = False,
) -> None:
    """Write the device of each operator as metadata.

    The partition of each operator is written too. Rules take precedence over capability tables, and those over
    the default. With --costs or --trace, devices are chosen for the least time among those that rules and tables
    allow. Selectors are index:0-10,15, name:GLOB (an output tensor), origin:GLOB (a source) and op:GLOB (an
    operator code); 1/ in front selects in subgraph 1.
    """
    if json or request.explain:
        refuse_mixing("the report", output, "name an output file")
    inputs = ct.planning.read_request(replace(request, keep=False))

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        return ct.affinity.annotate(edit, _planned(edit.model, inputs, measured, json, json or request.explain))

    rewrite(source, output, in_place, change, inputs=request.files)


@filling(ct.PlanRequest, WHAT_IF)
def partition(source: Input, request: ct.PlanRequest, measured: Measured = None, json: Json = False) -> None:
    """Plan devices and partitions without writing a model.

    Shows the partitions in the order they run, and what they cost. Without any option for devices, those in the
    model are kept and partitioned again.
    """
    inputs = ct.planning.read_request(request)
    with reading(source) as model:
        _planned(model, inputs, measured, json, shown=True)


@filling(ct.planning.CostRequest, COSTS)
def dump_affinity(
    source: Input,
    output_format: FormatOption = None,
    by: Annotated[
        Literal["operator", "partition"], option("--by", "Show a row for each operator, or for each partition.")
    ] = "operator",
    *,
    request: ct.planning.CostRequest,
    json: JsonFormat = False,
) -> None:
    """Show the device and the partition of each operator.

    With costs, also shows the estimated time. Exit status 1 when the model has no affinity, or one that no longer
    describes its operators.
    """
    form = form_of(output_format, json)
    if form == "csv" and request.has_costs:
        raise ct.UsageError("CSV has no room for estimates", hint="use --format text or json")
    inputs = ct.planning.read_request(request) if request.has_costs else None
    with reading(source) as model:
        found = ct.planning.inspect_affinity(model, inputs)
        text = partial(ct.render.affinity_text, by_partition=by == "partition")
        csv = partial(ct.render.affinity_csv, by_partition=by == "partition")
        show_as(form, found, text=text, json=ct.render.affinity_json, csv=csv)
    tell_notes(found.notes)
    if not found.is_current:
        raise typer.Exit(1)


def _planned(model: ct.Model, inputs: Any, measured: list[str] | None, json: bool, shown: bool) -> ct.types.Plan:
    """Return the plan for a model, and show it."""
    form = "json" if json else "text"
    if measured:
        found = ct.planning.plan_by_measuring(model, inputs, ct.planning.MeasureRequest(on=tuple(measured)))
        if shown:
            show_as(form, found, text=ct.render.measured_plan_text, json=ct.render.measured_plan_json)
        tell_notes((*found.measurement.notes, *found.plan.notes))
        return found.plan
    plan = ct.plan(model, inputs)
    if shown:
        show_as(form, plan, text=ct.render.plan_text, json=ct.render.plan_json)
    tell_notes(plan.notes)
    return plan
