"""The affinity commands: annotate-affinity, partition and export-affinity."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from typer import Exit

import circletools as ct

from ..console.captured import reading
from ..console.terminal import print_notes, show_as
from ..signature import Command, option, parameters_of, with_parameters
from .parameters import Form, InPlace, Input, Output, TableForm, listed, refuse_mixing
from .rewriting import check_output, rewrite, write_or_show

Repeated = tuple[str, ...]


def _options(
    devices: Repeated = option("Devices, preferred first; the last gets all other operators.", "A,B,C"),
    capabilities: Repeated = option(
        "Operators that a device supports: FILE.json or a built-in table.", "[DEVICE=]TABLE,..."
    ),
    rules: Repeated = option("A rule, such as op:CONV_2D=npu; may be repeated.", "SELECTOR=DEVICE"),
    rules_file: Path | None = option("Rules, as JSON or a .part file of circle-partitioner.", "FILE"),
    allow_unmatched: bool = option("Only warn if a rule matches nothing."),
    default: str | None = option("The device for all remaining operators.", "DEVICE"),
    reproject: str | None = option("Give operators the devices that their sources have in this model.", "MODEL"),
    costs: Path | None = option("Operator times on each device (JSON), to minimize the total time.", "FILE"),
    traces: Repeated = option("An operator trace with the times on a device; may be repeated.", "DEVICE=TRACE"),
    copy_rate: float = option("Bandwidth of copies that are not in --costs.", "BYTES_PER_US", min=1e-9),
    memory: Repeated = option("Memory limit of a device; may be repeated.", "DEVICE=BYTES"),
    min_size: int = option("Dissolve partitions with fewer operators than this.", "N", min=1),
    limits: Repeated = option(
        "A limit on a device's partitions, such as npu:max-partitions=4; may be repeated.", "DEVICE:KIND=NUMBER"
    ),
    keep_together: Repeated = option(
        "Keep QUANTIZE and DEQUANTIZE, the users of a variable, or the users of large tensors together; may be "
        "repeated.",
        "quantize|variables|BYTES",
    ),
    mode: Literal["min", "seed"] = option("The partitioning algorithm; see docs/affinity.md."),
) -> None:
    """Declare the options that set the fields of `PlanRequest`."""


def planning(command: Command) -> Command:
    """Replace the `request` parameter of a command with these options; the defaults come from the fields."""
    defaults = {field.name: field.default for field in fields(ct.PlanRequest)}
    options = [one.replace(default=defaults[one.name]) for one in parameters_of(_options)]

    def run(source: str, **given: Any) -> None:
        values = {one.name: given.pop(one.name) for one in options}
        values |= {name: listed(values[name]) for name in ("devices", "capabilities")}
        command(source, request=ct.PlanRequest(**values), **given)

    taken = [many for one in parameters_of(command) for many in (options if one.name == "request" else [one])]
    return with_parameters(run, command, [one.replace(kind=one.KEYWORD_ONLY) for one in taken])


@planning
def annotate_affinity(
    source: Input, request: ct.PlanRequest, output: Output = None, in_place: InPlace = False, form: Form = "text"
) -> None:
    """Write the device of each operator to the metadata.

    Also writes the partition of each operator. Rules take precedence over capability tables; the last device gets all
    remaining operators. With --costs or --trace, devices are chosen to minimize the total time, subject to the rules
    and tables. A selector is one of index:0-10,15; name:GLOB (an output tensor); origin:GLOB (a source); or op:GLOB
    (an operator code). With the prefix 1/, it applies to subgraph 1.
    """
    shown = form if form == "json" else None
    if shown is not None:
        refuse_mixing("--json", output, "name an output file")
    inputs = ct.planning.read_request(replace(request, keep=False))

    def change(edit: ct.ModelEdit) -> ct.types.RewriteResult:
        return ct.affinity.annotate(edit, _planned(edit.model, source, inputs, shown))

    rewrite(source, output, in_place, change, inputs=request.files)


@planning
def partition(
    source: Input,
    request: ct.PlanRequest,
    by: Literal["partition", "operator"] = option(
        "Show partitions, or each operator with its device and the reason.", default="partition"
    ),
    form: TableForm = "text",
) -> None:
    """Show or plan the devices and partitions of a model.

    With device options, makes a plan and writes nothing: shows which operators each device runs and refuses, and the
    partitions in execution order with their costs. Otherwise, shows the affinity stored in the model, and exits
    with status 1 if it is missing or out of date. The CSV has a row for each operator.
    """
    request = replace(request, explain=by == "operator")
    inputs = ct.planning.read_request(request)
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


def export_affinity(
    source: Input,
    to: ct.affinity.Target = option("Target format.", show_default=False),
    output: str | None = option("The file to write; by default standard output.", "FILE", names="--output -o"),
    form: Form = "text",
) -> None:
    """Write the affinity in another tool's format.

    Targets are onert (shell commands that set its environment; JSON with --json), part (rules for
    circle-partitioner), openvino (JSON for HETERO), model-explorer (node data) and dot (a graph for Graphviz). Fails
    if the target would ignore or misread the affinity; docs/affinity-exports.md lists the limits of each target.
    """
    if form == "json" and to in ("part", "dot"):
        raise ct.UsageError(f"the target {to} has no JSON output")
    check_output(output, [source])
    with reading(source) as model:
        text = ct.render.export_text(ct.affinity.export(model, to), as_json=form == "json")
    write_or_show(output, text.encode("utf-8", "surrogateescape"))
