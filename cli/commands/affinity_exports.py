"""The command export-affinity, which writes the affinity for other tools."""

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
        str | None, option("--output -o", "The file to write; standard output if not given.", "FILE")
    ] = None,
    form: Form = "text",
) -> None:
    """Write the affinity in the format of another tool.

    Targets are runtimes, compilers and viewers. onert: shell lines that set its environment (as JSON: --json). part:
    rules for circle-partitioner. openvino: JSON for HETERO. model-explorer: node data. dot: a graph for Graphviz.
    Affinity that the target would ignore or get wrong is refused; docs/affinity-exports.md lists the limits of each.
    """
    if form == "json" and to in ("part", "dot"):
        raise ct.UsageError(f"there is no JSON for {to}")
    if output is not None:
        refuse_inputs(output, [source])
    with reading(source) as model:
        text = ct.render.export_text(ct.affinity.export(model, to), as_json=form == "json")
    if output is None or output == "-":
        show_text(text)
    else:
        ct.files.write(output, [text.encode("utf-8", "surrogateescape")])
