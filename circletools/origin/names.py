"""Sources for a model that has no origin tables: what its operators can be named after.

    output          one source for each operator: the name of its output-0 tensor (the ONE compiler's default)
    tensor-prefix   one source for each scope or module that output names start with: `model/dense` for
                    `model/dense/MatMul;model/dense/BiasAdd`, `torch.nn.modules.linear.Linear` for
                    `torch.nn.modules.linear.Linear::linear_1`
    debug-metadata  one source for each location that the TFLite converter left (see `locations`)

Sources are numbered from 0 in order of appearance; with `output` the number is the operator index.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from circletools.errors import EditError
from circletools.model.debug_metadata import DEBUG_METADATA
from circletools.model.model import Model
from circletools.model.views import text
from circletools.origin.algebra import Origin
from circletools.origin.locations import operator_locations
from circletools.origin.read import NO_NAME, Origins

_SCOPE_SEPARATORS = ("::", "/")


class NameSource(StrEnum):
    """Where the names of sources come from."""

    OUTPUT = "output"
    TENSOR_PREFIX = "tensor-prefix"
    DEBUG_METADATA = "debug-metadata"


def collect_sources(model: Model, names: NameSource = NameSource.OUTPUT) -> Origins:
    """Return origins for subgraph 0, the one that the ONE compiler's default source table describes.

    Raises EditError when the model has no such names.
    """
    count = len(model.subgraphs)
    if not count:
        return Origins({}, ())
    raw = [outputs[0] if outputs else b"" for outputs in model.output_names(0)]
    outputs = [text(name) for name in raw]
    if b"\0" in b"".join(raw):
        operator = next(index for index, name in enumerate(outputs) if "\0" in name)
        location = f"subgraphs[0].operators[{operator}].outputs[0]"
        raise EditError("the tensor's name holds a NUL character, which a source table cannot", location=location)
    if names is NameSource.OUTPUT:
        sources = {index: name or NO_NAME for index, name in enumerate(outputs)}
        operators: dict[int, Origin] = {index: frozenset((index,)) for index in sources}
    else:
        named = [scopes(name) for name in outputs] if names is NameSource.TENSOR_PREFIX else operator_locations(model)
        sources, operators = _number(named)
        if not sources and outputs:
            missing = "tensor names" if names is NameSource.TENSOR_PREFIX else f"{DEBUG_METADATA} locations"
            raise EditError(f"the model has no {missing} to name sources after", hint="use --names output")
    return Origins(sources, (operators, *({} for _ in range(count - 1))))


def scopes(tensor_name: str) -> list[str]:
    """Return the scopes of a tensor name; the converter joins the names of fused operators with `;`."""
    found = []
    for part in filter(None, tensor_name.split(";")):
        ends = [part.rfind(separator) for separator in _SCOPE_SEPARATORS]
        found.append(part[: max(ends)] if max(ends) > 0 else part)
    return found


def _number(named: Sequence[Sequence[str]]) -> tuple[dict[int, str], dict[int, Origin]]:
    numbers: dict[str, int] = {}
    operators = {
        operator: frozenset(numbers.setdefault(name, len(numbers)) for name in names)
        for operator, names in enumerate(named)
        if names
    }
    return {number: name for name, number in numbers.items()}, operators
