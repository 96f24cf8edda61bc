"""Operators that copy a tensor bit for bit, from a measured table (copyops.json).

`tools/measure/copyops.py` measures the table in LiteRT and onert; docs/copy-operators.md explains the table and the
results on whole models. RESHAPE is preferred, because onert folds the leading dimensions of some results into one,
and then refuses a TRANSPOSE of the rank in the file. For LiteRT alone, TRANSPOSE is preferred: with RESHAPE, a user
can resize only the first dimension. A tensor without dimensions in the file is reshaped to the result of a SHAPE
operator: it may have dimensions at run time, and Arm's Vela rejects empty operands (a scalar's shape).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from circletools.errors import EditError
from circletools.flatbuf.columns import Tables
from circletools.flatbuf.schema import Schema
from circletools.graph.graph import ModelGraph
from circletools.outputs.analysis import AliasedOutput, AliasKind
from circletools.storage.documents import packaged

CopyChoice = Literal["auto", "transpose", "reshape", "concatenation"]
CopyRuntime = Literal["auto", "litert", "onert", "both", "vela"]
"""The runtimes in which copies must be exact; `auto` means the runtime of the format and, if possible, onert too."""

_ORDER = ("RESHAPE", "TRANSPOSE", "CONCATENATION")
_RUNTIME_OF = {"tflite": "litert", "circle": "onert"}
_ASKED = {"litert": ("litert",), "onert": ("onert",), "both": ("litert", "onert"), "vela": ("litert",)}
_TITLES = {"litert": "LiteRT", "onert": "onert"}
_CONVERTED = ("CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV")
_KINDS = {
    "zero": ", without elements",
    "constant": ", constant",
    "dynamic": ", with an unknown dimension",
    "dynamic_all": ", with several unknown dimensions",
    "sparse": ", sparse",
}


@dataclass(frozen=True, slots=True)
class CopyOperator:
    """An operator that copies a tensor: its code and version, and the value of its second input, if it has one.

    `options` is the name of its options table, or None. With `reads_shape`, the second input is the tensor's actual
    shape, computed by a SHAPE operator. `inexact_in` names a runtime in which the copy is not exact.
    """

    code: str
    version: int
    operand: tuple[int, ...] | None
    options: str | None
    reads_shape: bool = False
    inexact_in: str = ""


@dataclass(frozen=True, slots=True)
class _Traits:
    """The properties of a tensor that the table distinguishes; see its `kinds` and `quantizations`."""

    type: str
    rank: int
    kind: str
    quantization: str
    rank_unknown: bool
    """If true, the rank is unknown, and `rank` is set to 1."""


def choose_copy_operator(
    model: ModelGraph, output: AliasedOutput, choice: CopyChoice = "auto", runtime: CopyRuntime = "auto"
) -> CopyOperator:
    """Return the operator with which to copy an output.

    The operator copies exactly in the runtimes given by `runtime`, if they support tensors like this output. Raises
    EditError, with the output and the alternatives, if there is no such operator or the requested one is not exact.
    """
    traits = _traits(model, output)
    candidates, place = _candidates(model, output, traits, runtime)
    able, asked = _able(traits), _ASKED[_RUNTIME_OF[model.source.format] if runtime == "auto" else runtime]
    judges = tuple(one for one in able if one in asked) or able
    legal = [code for code in candidates if all(_outcome(code, judge, traits) == "exact" for judge in judges)]
    wanted = [code for code in legal if choice in ("auto", code.lower())]
    if not wanted:
        where = " and ".join(_TITLES[judge] for judge in judges if judge in asked)
        raise _refusal(model, output, choice, legal, f"{' in ' if where else ''}{where}: {_described(traits)}{place}")
    inexact_in = dict.fromkeys(wanted, "")
    if runtime == choice == "auto" and "onert" in able:  # a TFLite model may be meant for onert too
        inexact_in = {code: "" if _outcome(code, "onert", traits) == "exact" else "onert" for code in wanted}
    code = min(wanted, key=lambda code: bool(inexact_in[code]))
    return replace(_operator(code, traits, model, output), inexact_in=inexact_in[code])


def _candidates(
    model: ModelGraph, output: AliasedOutput, traits: _Traits, runtime: CopyRuntime
) -> tuple[tuple[str, ...], str]:
    """Return the candidate operators, the preferred one first, and a phrase that says why others are excluded."""
    if traits.rank_unknown and _dynamic_shapes_crash(model, output):
        return (), " in a model with IF"
    if traits.rank_unknown:
        return ("RESHAPE",), ""
    if model.source.format == "tflite" and _is_stored(output) and output.subgraph in _branches(model):
        # LiteRT corrupts its heap when the output of a branch is a constant that another operator copied.
        return ("TRANSPOSE",), " in a branch of IF"
    if model.source.format == "tflite" and _is_stored(output) and _is_weight(model, output, traits):
        # XNNPACK treats the weights as quantized per channel, and then fails to prepare their copy.
        return ("CONCATENATION",), " that an operator reads as weights"
    return ("TRANSPOSE", "RESHAPE", "CONCATENATION") if runtime == "litert" and traits.rank else _ORDER, ""


def _able(traits: _Traits) -> tuple[str, ...]:
    """Return the runtimes that support such a tensor as input and output, or all runtimes if none does."""
    able = [one for one in _TITLES if not {_outcome(code, one, traits) for code in _ORDER} & {"load", "unfed"}]
    return tuple(able or _TITLES)


def _described(traits: _Traits) -> str:
    quantization = f"{traits.quantization.replace('_', ' ')} quantized " if traits.quantization != "none" else ""
    rank = "unknown rank" if traits.rank_unknown else f"rank {traits.rank}"
    return f"{quantization}{traits.type} of {rank}{_KINDS.get(traits.kind, '')}"


def _refusal(model: ModelGraph, output: AliasedOutput, choice: CopyChoice, legal: list[str], what: str) -> EditError:
    does_not = "no operator copies" if choice == "auto" else f"{choice.upper()} does not copy"
    if legal:
        hint = f"`copy_operator={legal[0].lower()}` does"
    elif output.kind is AliasKind.CONSTANT:
        hint = "`keep_constants=True` leaves constants unchanged"
    elif output.subgraph not in model.entries:
        hint = "use `subgraphs=entry`, or the number of another subgraph, to leave this one alone"
    else:
        hint = "docs/copy-operators.md lists the tensors that can be copied"
    return EditError(
        f"{does_not} the output {output.name!r} exactly{what}",
        location=f"subgraphs[{output.subgraph}].outputs[{output.slot}]",
        hint=hint,
    )


def _dynamic_shapes_crash(model: ModelGraph, output: AliasedOutput) -> bool:
    """Return whether onert may crash on a dynamic shape, as in a model with IF when it allocates the outputs."""
    return model.source.format == "circle" and output.subgraph not in model.entries and bool(_branches(model))


def _is_stored(output: AliasedOutput) -> bool:
    """Return whether the tensor is a constant or a variable."""
    return output.producer < 0 and output.kind is not AliasKind.INPUT


def _is_weight(model: ModelGraph, output: AliasedOutput, traits: _Traits) -> bool:
    """Return whether the tensor holds INT8 weights, with one scale, of an operator whose weights XNNPACK converts."""
    if (traits.type, traits.quantization) != ("INT8", "per_tensor"):
        return False
    graph = model.graphs[output.subgraph]
    readers = (at for at in graph.readers[output.tensor] if graph.operators.code_names[at] in _CONVERTED)
    return any(list(graph.operands.of(at))[1:2] == [output.tensor] for at in readers)


def _branches(model: ModelGraph) -> set[int]:
    """Return the subgraphs that are branches of an IF operator."""
    return {
        called
        for graph in model.graphs
        for called in graph.called(at for at, code in enumerate(graph.operators.code_names) if code == "IF")
    }


def _rank_is_unknown(tensor: Tables, model: ModelGraph, output: AliasedOutput) -> bool:
    """Return whether an empty shape can mean that the rank is unknown.

    The `has_rank` field marks a known rank, but older converters never wrote it. Tensors of unknown rank are common
    in loop bodies and among computed tensors. In Circle, an input of a subgraph that users call has the shape that
    the file gives.
    """
    if tensor.scalars("has_rank")[0] or _is_stored(output):
        return False
    if model.source.format == "tflite" or output.kind is not AliasKind.INPUT:
        return True
    return output.subgraph not in model.entries


def _operator(code: str, traits: _Traits, model: ModelGraph, output: AliasedOutput) -> CopyOperator:
    values = model.graphs[output.subgraph].values
    shape, signature = (each.row(output.tensor).tolist() for each in (values.shapes, values.shape_signatures))
    version = next(
        rule["version"]
        for rule in packaged(__package__, "copyops.json")["operators"][code]["versions"]
        if traits.type in rule.get("types", (traits.type,)) and traits.rank >= rule.get("min_rank", 0)
    )
    if code == "TRANSPOSE":
        return CopyOperator(code, version, tuple(range(traits.rank)), "TransposeOptions")
    if code == "RESHAPE" and not shape and not _dynamic_shapes_crash(model, output):
        return CopyOperator(code, version, None, None, reads_shape=True)
    if code == "RESHAPE":
        shown = tuple(signature or shape)
        whole = shown and min(shown) > 0
        return CopyOperator(code, version, (-1, *shown[1:]) if whole else shown, None)
    return CopyOperator(code, version, None, "ConcatenationOptions")


def _outcome(code: str, runtime: str, traits: _Traits) -> str:
    """Return the outcome in the table: `exact`, a kind of failure, or an empty string if it was not measured."""
    operator = packaged(__package__, "copyops.json")["operators"][code]
    ranks = operator["exact"].get(runtime, {}).get(traits.type, {}).get(traits.quantization, {}).get(traits.kind, "")
    if _holds(ranks, traits.rank):
        return "exact"
    found = operator["otherwise"].get(runtime, {}).get(traits.type, "")
    for key in (traits.quantization, traits.kind):
        found = found if isinstance(found, str) else found.get(key, "")
    for part in filter(None, found.split(", ")):
        outcome, _, ranks = part.partition(" ")
        if not ranks or _holds(ranks, traits.rank):
            return str(outcome)
    return ""


def _holds(ranks: str, rank: int) -> bool:
    parts = (part.partition("-") for part in ranks.split(",") if part)
    return any(int(first) <= rank <= int(last or first) for first, _, last in parts)


def _traits(model: ModelGraph, output: AliasedOutput) -> _Traits:
    values, at = model.graphs[output.subgraph].values, output.tensor
    shape = values.shapes.row(at).tolist()
    unknown = sum(size < 0 for size in values.shape_signatures.row(at).tolist())
    table = values.tables.take(slice(at, at + 1))
    if table.has("sparsity")[0]:
        kind = "sparse"
    elif unknown:
        kind = "dynamic" if unknown == 1 else "dynamic_all"
    elif 0 in shape:
        kind = "zero"
    elif _is_stored(output):
        kind = "constant"
    else:
        kind = "fan_out" if output.kind is AliasKind.DUPLICATE else "static"
    unknown_rank = not shape and _rank_is_unknown(table, model, output)
    rank = 1 if unknown_rank else len(shape)
    return _Traits(values.types[at], rank, kind, _quantization(table, model.source.schema), unknown_rank)


def _quantization(tensor: Tables, schema: Schema) -> str:
    tables, rows = tensor.child("quantization", schema)
    if not len(rows):
        return "none"
    scales, zero_points = (tables.vectors(name).row(0) for name in ("scale", "zero_point"))
    if tables.scalars("details_type")[0]:
        return "detailed"  # blockwise and similar quantizations are not in the table
    if len(scales) > 1:
        return "per_channel"
    if not len(scales):
        return "none"
    return "per_tensor_offset" if zero_points.any() else "per_tensor"
