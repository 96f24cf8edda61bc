"""Which operator copies a tensor bit for bit: read from a table that was measured (copyops.json).

The table is made by `benchmarks/copyops.py` in LiteRT and onert; docs/copy-operators.md tells what it says. The
literal copy, TRANSPOSE with the identity permutation, comes first where it is legal; then RESHAPE, then a
CONCATENATION of one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any, Literal

import numpy as np

from circletools.errors import EditError
from circletools.model import Model
from circletools.outputs.analysis import OddKind, OddOutput, entry_subgraphs

CopyChoice = Literal["auto", "transpose", "reshape", "concatenation"]

_ORDER = ("TRANSPOSE", "RESHAPE", "CONCATENATION")
_RUNTIME_OF = {"tflite": "litert", "circle": "onert"}


@dataclass(frozen=True, slots=True)
class CopyOperator:
    """An operator that copies: its code and version, and the value of its second input, if it has one.

    `options` is the name of its options table, or None. With `reads_shape`, the second input is the shape that the
    tensor turns out to have, computed by a SHAPE operator.
    """

    code: str
    version: int
    operand: tuple[int, ...] | None
    options: str | None
    reads_shape: bool = False


@dataclass(frozen=True, slots=True)
class _Traits:
    """What the table distinguishes; see its `kinds` and `quantizations`."""

    type: str
    rank: int
    kind: str
    quantization: str


def choose_copy_operator(model: Model, odd: OddOutput, choice: CopyChoice = "auto") -> CopyOperator:
    """Return the operator to copy an output with.

    One that is exact in both runtimes is preferred, then one in the runtime of the model's format. Raises
    EditError when none is exact in either, naming the output.
    """
    traits = _traits(model, odd)
    if traits.rank == 0 and choice == "auto" and _may_have_another_rank(model, odd):
        if any(_is_exact("RESHAPE", runtime, replace(traits, rank=1)) for runtime in _RUNTIME_OF.values()):
            return CopyOperator("RESHAPE", 1, None, None, reads_shape=True)
        traits = replace(traits, kind="unknown")
    own = _RUNTIME_OF[model.format]
    candidates = _ORDER if choice == "auto" else (choice.upper(),)
    exact = {
        code: [runtime for runtime in _RUNTIME_OF.values() if _is_exact(code, runtime, traits)] for code in candidates
    }
    legal = [code for code in candidates if exact[code]]
    if not legal:
        what = f"{traits.quantization} quantized " if traits.quantization != "none" else ""
        raise EditError(
            f"no operator{'' if choice == 'auto' else f' {choice.upper()}'} copies the output {odd.name!r} exactly: "
            f"{what}{traits.type} of rank {traits.rank}, {traits.kind}",
            location=f"subgraphs[{odd.subgraph}].outputs[{odd.slot}]",
            hint="docs/copy-operators.md tells which tensors can be copied",
        )
    best = max(legal, key=lambda code: (len(exact[code]), own in exact[code]))
    return _operator(best, traits, model, odd)


def _may_have_another_rank(model: Model, odd: OddOutput) -> bool:
    """Say whether an empty shape can mean that the rank is unknown.

    `has_rank` tells a scalar from it, but older converters never wrote that. In the bodies of their loops such
    tensors are common, and so are computed ones; an input of a subgraph that a user calls has the shape that the
    user sees.
    """
    row = int(model.tensor_columns.splits[odd.subgraph]) + odd.tensor
    ranked = bool(model.tensor_columns.tables.take(np.array([row])).scalars("has_rank")[0])
    if ranked or odd.kind is OddKind.CONSTANT:
        return False
    return odd.kind is not OddKind.INPUT or odd.subgraph not in entry_subgraphs(model)


def _operator(code: str, traits: _Traits, model: Model, odd: OddOutput) -> CopyOperator:
    tensor = model.subgraphs[odd.subgraph].tensors[odd.tensor]
    version = next(rule["version"] for rule in _table()["operators"][code]["versions"] if _fits(rule, traits))
    if code == "TRANSPOSE":
        return CopyOperator(code, version, tuple(range(traits.rank)), "TransposeOptions")
    if code == "RESHAPE":
        return CopyOperator(code, version, tensor.shape_signature or tensor.shape, None)
    return CopyOperator(code, version, None, "ConcatenationOptions")


def _fits(rule: Mapping[str, Any], traits: _Traits) -> bool:
    return traits.type in rule.get("types", (traits.type,)) and traits.rank >= rule.get("min_rank", 0)


def _is_exact(code: str, runtime: str, traits: _Traits) -> bool:
    by_type = _table()["operators"][code]["exact"].get(runtime, {})
    ranks = by_type.get(traits.type, {}).get(traits.quantization, {}).get(traits.kind, "")
    return any(
        int(first) <= traits.rank <= int(last or first)
        for first, _, last in (part.partition("-") for part in ranks.split(",") if part)
    )


def _traits(model: Model, odd: OddOutput) -> _Traits:
    tensor = model.subgraphs[odd.subgraph].tensors[odd.tensor]
    unknown = sum(1 for size in tensor.shape_signature or () if size < 0)
    row = int(model.tensor_columns.splits[odd.subgraph]) + odd.tensor
    if model.tensor_columns.tables.take(np.array([row])).has("sparsity")[0]:
        kind = "sparse"
    elif unknown:
        kind = "dynamic" if unknown == 1 else "dynamic_all"
    elif 0 in tensor.shape:
        kind = "zero"
    else:
        kind = {OddKind.CONSTANT: "constant", OddKind.DUPLICATE: "fan_out"}.get(odd.kind, "static")
    return _Traits(tensor.type, len(tensor.shape), kind, _quantization(model, odd))


def _quantization(model: Model, odd: OddOutput) -> str:
    row = int(model.tensor_columns.splits[odd.subgraph]) + odd.tensor
    tables, rows = model.tensor_columns.tables.take(np.array([row])).child("quantization", model.schema)
    if not len(rows):
        return "none"
    scales, zero_points = (tables.vectors(name).row(0) for name in ("scale", "zero_point"))
    if tables.scalars("details_type")[0]:
        return "detailed"  # blockwise and the like: not in the table
    if len(scales) > 1:
        return "per_channel"
    if not len(scales):
        return "none"
    return "per_tensor_offset" if zero_points.any() else "per_tensor"


@cache
def _table() -> Any:
    text = resources.files("circletools.outputs").joinpath("copyops.json").read_text(encoding="utf-8")
    return json.loads(text)
