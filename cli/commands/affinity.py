"""The affinity commands: annotate-affinity and partition."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_notes, show_as
from ..signature import option
from .affinity_options import PLANNING, filling
from .parameters import Form, InPlace, Input, Output, TableForm, refuse_mixing
from .rewriting import rewrite

By = Annotated[
    Literal["partition", "operator"], option("--by", "Show partitions, or each operator and why it runs there.")
]


@filling(ct.PlanRequest, PLANNING)
def annotate_affinity(
    source: Input, request: ct.PlanRequest, output: Output = None, in_place: InPlace = False, form: Form = "text"
) -> None:
    """Write the device of each operator to the metadata.

    Also writes the partition of each operator. Rules take precedence over capability tables; the last device gets all
    remaining operators. With --costs or --trace, devices are chosen to minimize the total time, subject to the rules
    and tables. A selector is one of index:0-10,15; name:GLOB (an output tensor); origin:GLOB (a source); or op:GLOB
    (an operator code). With the prefix 1/, it selects in subgraph 1.
    """
    shown = form if form == "json" else None
    if shown is not None:
        refuse_mixing("--json", output, "name an output file")
    inputs = ct.planning.read_request(replace(request, keep=False))

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        return ct.affinity.annotate(edit, _planned(edit.model, source, inputs, shown))

    rewrite(source, output, in_place, change, inputs=request.files)


@filling(ct.PlanRequest, PLANNING)
def partition(source: Input, request: ct.PlanRequest, by: By = "partition", form: TableForm = "text") -> None:
    """Show or plan the devices and partitions of a model.

    With device options, makes a plan and writes nothing: shows which operators each device runs and refuses, and the
    partitions in execution order with their costs. Otherwise, shows the affinity stored in the model, and exits
    with status 1 if it is missing or out of date. The CSV has a row for each operator.
    """
    inputs = ct.planning.read_request(replace(request, explain=by == "operator"))
    with reading(source) as model:
        if request.has_choices or (request.has_costs and ct.affinity.read(model) is None):
            _planned(model, source, inputs, form)
            return
        found = ct.planning.inspect_affinity(model, inputs.costs)
        text = partial(ct.render.affinity_text, by_operator=by == "operator")
        show_as(form, found, text=text, json=ct.render.affinity_json, csv=ct.render.rows_csv, file=source)
    print_notes(found.notes)
    if not found.is_current:
        raise Exit(1)


def _planned(model: ct.Model, name: str, inputs: Any, form: str | None) -> ct.types.Plan:
    """Return the plan for a model and show it in the format `form`, if one is given."""
    plan = ct.plan(model, inputs)
    if form is not None:
        show_as(form, plan, text=ct.render.plan_text, json=ct.render.plan_json, csv=ct.render.rows_csv, file=name)
    print_notes((*ct.planning.broken_graphs(model), *plan.notes))
    return plan
