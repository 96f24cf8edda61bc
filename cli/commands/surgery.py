"""Commands that cut finished models: extract."""

from __future__ import annotations

from typing import Annotated

import circletools as ct

from ..console.reading import reading
from ..console.terminal import Bar, tell, tell_notes
from ..signature import option
from .parameters import InPlace, Input, Output
from .rewriting import target

Subgraph = Annotated[int, option("--subgraph", "The subgraph that is meant.", "N", min=0)]


def extract(
    source: Input,
    output: Output = None,
    from_: Annotated[
        list[str] | None, option("--from", "A tensor that becomes an input; may be repeated.", "TENSOR")
    ] = None,
    to: Annotated[
        list[str] | None, option("--to", "A tensor that becomes an output; may be repeated.", "TENSOR")
    ] = None,
    operators: Annotated[str | None, option("--ops", "Operator indices instead, as in 0-10,15.", "RANGES")] = None,
    origin: Annotated[str | None, option("--origin", "Operators by the name of a source instead.", "GLOB")] = None,
    signature: Annotated[str | None, option("--signature", "The part of a signature instead.", "KEY")] = None,
    subgraph: Subgraph = 0,
    in_place: InPlace = False,
) -> None:
    """Write a part of a model as a model of its own.

    Between tensors: the operators that depend on --from and that --to depends on; without --from, from the inputs of
    the model, without --to, up to its outputs. TENSOR is a name, or index:12. Constants, called subgraphs, origins
    and devices go along, and the part gets a signature. docs/surgery.md has the rules.
    """
    request = ct.ExtractRequest(tuple(from_ or ()), tuple(to or ()), operators, origin, signature, subgraph)
    out = target(source, output, in_place)
    with reading(source) as model:
        result = ct.extract(model, out, request, in_place=in_place, progress=Bar())
    for line in result.changes:
        tell(line)
    tell_notes(result.notes, source)
