"""The set-shape command."""

from __future__ import annotations

from typing import Annotated

import circletools as ct

from ..signature import option
from .parameters import InPlace, Input, OneSubgraph, Output
from .rewriting import rewrite


def set_shape(
    source: Input,
    output: Output = None,
    inputs: Annotated[
        tuple[str, ...], option("--input", "The shape of an input, such as image=1,224,224,3.", "NAME=DIMS")
    ] = (),
    batch: Annotated[int | None, option("--batch", "The first dimension of every input.", "N", min=1)] = None,
    static: Annotated[bool, option("--static", "Fix dynamic dimensions at their sizes in the file.")] = False,
    dynamic_batch: Annotated[bool, option("--dynamic-batch", "Make the first dimension dynamic.")] = False,
    mend: Annotated[bool, option("--mend", "Also change constants that contain the batch size.")] = False,
    subgraph: OneSubgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Change the shapes or the batch size of inputs.

    Computes all other shapes as LiteRT's resize_tensor_input does; if an operator cannot be resized, the error names
    it. NAME is a name in a signature, a tensor name or a position. docs/surgery.md gives the rules.
    """
    request = ct.surgery.ShapeRequest(inputs, batch, static, dynamic_batch, mend, subgraph)
    rewrite(source, output, in_place, lambda edit: ct.surgery.set_shape(edit, request), rewires=True)
