"""The export-affinity command: write a model's affinity for other tools."""

from __future__ import annotations

from typing import Annotated

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_text
from ..signature import option
from .parameters import Form, Input
from .rewriting import refuse_inputs


def export_affinity(
    source: Input,
    to: Annotated[ct.affinity.Target, option("--to", "Target format.", show_default=False)],
    output: Annotated[
        str | None, option("--output -o", "The file to write; by default standard output.", "FILE")
    ] = None,
    form: Form = "text",
) -> None:
    """Write the affinity in another tool's format.

    Targets are onert (shell commands that set its environment; JSON with --json), part (rules for
    circle-partitioner), openvino (JSON for HETERO), model-explorer (node data) and dot (a graph for Graphviz). Fails
    if the target would ignore or misread the affinity; docs/affinity-exports.md lists the limits of each target.
    """
    if form == "json" and to in ("part", "dot"):
        raise ct.UsageError(f"the target {to} has no JSON output")
    if output is not None:
        refuse_inputs(output, [source])
    with reading(source) as model:
        text = ct.render.export_text(ct.affinity.export(model, to), as_json=form == "json")
    if output is None or output == "-":
        show_text(text)
    else:
        ct.files.write(output, [text.encode("utf-8", "surrogateescape")])
