"""The command for those who act on affinity: export-affinity."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from circletools.errors import UsageError

from .affinity_options import CopyOverhead, CopyRate, CostsFile, Traces
from .parameters import Input, Json

if TYPE_CHECKING:
    from circletools.affinity.store import Affinity
    from circletools.model import Model

    from .affinity_costs import CostSource


class Target(StrEnum):
    """Who is to act on the affinity."""

    ONERT = "onert"
    ONERT_EXEC_TIME = "onert-exec-time"
    PART = "part"
    OPENVINO = "openvino"
    MODEL_EXPLORER = "model-explorer"
    DOT = "dot"


def export_affinity(
    source: Input,
    to: Annotated[Target, typer.Option("--to", help="Who is to act on it.", show_default=False)],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write; standard output if not given."),
    ] = None,
    json: Json = False,
    costs: CostsFile = None,
    traces: Traces = None,
    copy_rate: CopyRate = 1000.0,
    copy_overhead: CopyOverhead = 0.0,
) -> None:
    """Write the affinity in the format of another tool.

    onert: shell lines that set its environment (--json: as JSON). onert-exec-time: the costs (--costs, --trace), for
    its scheduler. part: rules for circle-partitioner. openvino: JSON
    for HETERO. model-explorer: node data. dot: a picture by Graphviz. What the target would ignore or get wrong is
    refused; docs/affinity-exports.md tells what each can do.
    """
    from circletools.affinity.exports.placement import current_affinity  # noqa: PLC0415
    from circletools.storage.files import write  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import show_text  # noqa: PLC0415
    from .affinity_costs import CostOptions  # noqa: PLC0415
    from .rewriting import refuse_inputs  # noqa: PLC0415

    charged = CostOptions(costs, traces or (), copy_rate, copy_overhead, 0)
    charges = charged.read()
    if (charges is None) is (to is Target.ONERT_EXEC_TIME):
        raise UsageError(
            "--to onert-exec-time and costs (--costs, --trace) go together",
            hint="--trace cpu=trace.chrome.json has times and names",
        )
    if json and to in (Target.PART, Target.DOT):
        raise UsageError(f"--json: there is no JSON for {to}")
    if output is not None:
        refuse_inputs(output, [source, *charged.files])
    with reading(source) as model:
        if charges is not None:
            text = _exec_times(model, charges)
        else:
            text = _exported(model, current_affinity(model), to, json)
    if output is None or output == "-":
        show_text(text)
    else:
        write(output, [text.encode("utf-8", "surrogateescape")])


def _exported(model: Model, affinity: Affinity, to: Target, json: bool) -> str:
    from circletools.affinity.assign.partfile import format_part  # noqa: PLC0415
    from circletools.affinity.exports.dot import dot_graph  # noqa: PLC0415
    from circletools.affinity.exports.model_explorer import model_explorer_data  # noqa: PLC0415
    from circletools.affinity.exports.onert import onert_environment  # noqa: PLC0415
    from circletools.affinity.exports.openvino import openvino_affinity  # noqa: PLC0415
    from circletools.affinity.exports.part import part_file  # noqa: PLC0415
    from circletools.render import SCHEMA_VERSION  # noqa: PLC0415

    if to is Target.PART:
        return format_part(part_file(model, affinity))
    if to is Target.DOT:
        return dot_graph(model, affinity)
    if to is Target.MODEL_EXPLORER:
        return _json(model_explorer_data(model, affinity))
    if to is Target.OPENVINO:
        return _json({"schema_version": SCHEMA_VERSION, **openvino_affinity(model, affinity)})
    environment = onert_environment(model, affinity)
    if json:
        return _json({"schema_version": SCHEMA_VERSION, "environment": environment})
    return "".join(f"export {name}={_shell(value)}\n" for name, value in environment.items())


def _exec_times(model: Model, charges: CostSource) -> str:
    from json import dumps  # noqa: PLC0415

    from circletools.affinity.costs.times import make_problems  # noqa: PLC0415
    from circletools.affinity.exports.onert_exec_time import exec_times  # noqa: PLC0415
    from circletools.planning.evaluate import onert_names  # noqa: PLC0415

    devices = charges.devices
    costs = charges.of(model, devices)
    charges.tell_defaults(costs, devices)
    problems = make_problems(charges.chooser(model), devices, costs)
    names = onert_names(model, (trace for _, trace in charges.traces.values()))
    # onert's reader wants no schema_version, and ends at the last brace.
    return dumps(exec_times(model, problems, devices, names)) + "\n"


def _json(document: dict[str, Any]) -> str:
    import json  # noqa: PLC0415

    return json.dumps(document, indent=2) + "\n"


def _shell(value: str) -> str:
    from shlex import quote  # noqa: PLC0415

    return quote(value)
