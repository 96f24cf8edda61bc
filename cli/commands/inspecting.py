"""The inspect command: show the contents of a model."""

from __future__ import annotations

from typing import Annotated

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show_as
from ..signature import option
from .parameters import Form, Input


def inspect(
    source: Input,
    digest: Annotated[
        bool, option("--digest", "Show digests of the model and its parts, independent of file layout.")
    ] = False,
    operators: Annotated[bool, option("--operators", "Show a table of the operators.")] = False,
    tensors: Annotated[bool, option("--tensors", "Show a table of the tensors.")] = False,
    cost: Annotated[bool, option("--cost", "Also show MACs, parameters and memory (docs/requires.md).")] = False,
    subgraph: Annotated[int | None, option("--subgraph", "Show only this subgraph's tables.", "N", min=0)] = None,
    form: Form = "text",
) -> None:
    """Show a model's operators, signatures and metadata.

    With --operators or --tensors, shows a table of all operators or tensors instead; the JSON can have both.

    With --digest, shows digests instead; models with the same content have equal digests, whatever the layout of
    their files (docs/digest.md).
    """
    if digest and (operators or tensors or cost):
        raise ct.UsageError("--digest cannot be combined with --operators, --tensors or --cost")
    if subgraph is not None and not (operators or tensors):
        raise ct.UsageError("--subgraph requires --operators or --tensors")
    with reading(source) as model:
        if digest:
            show_as(form, ct.digests(model), text=ct.render.digests_text, json=ct.render.digests_json, file=source)
            return
        found = ct.inspect(model, operators=operators, tensors=tensors, subgraph=subgraph)
        costs = ct.cost(model) if cost else None
    show_as(
        form,
        found,
        text=lambda one: (*ct.render.inspection_text(one), *(ct.render.cost_text(costs) if costs else ())),
        json=lambda one: ct.render.inspection_json(one) | ({"cost": ct.render.cost_json(costs)} if costs else {}),
        file=source,
    )
