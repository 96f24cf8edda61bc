"""Summaries of a difference, as a few lines and as Markdown, and statistics of constants that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from circletools.cost.cost import Cost
from circletools.diff.difference import ModelDifference
from circletools.diff.summary import Summary, summarize
from circletools.errors import CircleToolsError
from circletools.findings import Finding
from circletools.fit.verdicts import Fit
from circletools.model.model import Model
from circletools.model.sizes import element_count
from circletools.model.views import Tensor
from circletools.wording import Attributes, counted

_MOST_KINDS = 4
_SAMPLES = 1 << 20
_MOST_ELEMENTS_A_BYTE = 4


def summary_lines(found: Summary) -> Iterator[str]:
    """Yield lines about types and size, operators, tensors, and other changes; none for what is unchanged."""
    retyped = ((*key.partition(" "), count) for key, count in found.retyped.items())
    types = _some(f"{counted(count, role)} {change}" for role, _, change, count in retyped)
    size = size_change(*found.file_bytes)
    where = f" in {', '.join(found.modules)}" if found.modules else ""
    operators = [f"{counted(found.changed, 'operator')} changed{where}"] if found.changed else []
    for codes, sign in ((found.added, "+"), (found.removed, "-")):
        operators += _some(f"{sign}{count} {code}" for code, count in codes.items())
    operands = _some(f"{count} x {shapes}" for shapes, count in found.operands.items())
    sided = [f"{found.tensors[kind]:,} {kind}" for kind in ("added", "removed") if kind in found.tensors]
    fields = [(field, count) for field, count in found.tensors.items() if field not in ("added", "removed")]
    for title, parts in (
        ("", [*types, *([size] if size else [])]),
        ("", operators),
        ("constants of operators: ", operands),
        ("tensors: ", [*(f"{count:,} with different {field}" for field, count in fields), *sided]),
        ("other changes: ", [f"{count:,} in {place}" for place, count in found.others.items()]),
    ):
        if parts:
            yield title + ", ".join(parts)


def size_change(before: int, after: int) -> str:
    """Return the change in a file's size, as a percentage if it is at least 5%; "" if the size is unchanged."""
    if before == after:
        return ""
    size, word = abs(after - before), "smaller" if after < before else "larger"
    change = f"{100 * size / before:.0f}%" if size >= 0.05 * before > 0 else counted(size, "byte")
    return f"{word} by {change} ({before:,} -> {after:,} bytes)"


def _some(parts: Iterable[str]) -> list[str]:
    found = list(parts)
    rest = len(found) - _MOST_KINDS
    return found if rest <= 1 else [*found[:_MOST_KINDS], f"{rest} other kinds"]


def tensor_with(model: Model, buffer: int) -> Tensor | None:
    """Return the first tensor that uses a buffer."""
    columns = model.tensor_columns
    rows = np.flatnonzero(columns.buffers == buffer)
    if not buffer or not len(rows):
        return None
    subgraph = int(np.searchsorted(columns.splits, rows[0], "right")) - 1
    return model.subgraphs[subgraph].tensors[int(rows[0] - columns.splits[subgraph])]


def statistics(tensor: Tensor, count: int) -> str:
    """Return the type, shape and range of a constant of `count` bytes."""
    values = _values(tensor, count)
    shown = f"{tensor.type} {list(tensor.shape)}"
    if values is None or not len(values):
        return shown
    return f"{shown}, {values.min():.6g} to {values.max():.6g}, mean {values.mean():.6g}"


def change_statistics(before: tuple[Tensor, int], after: tuple[Tensor, int]) -> str:
    """Return the differences between the dequantized values of two constants, each given with its size in bytes."""
    kinds = [f"{tensor.type} {list(tensor.shape)}" for tensor, _ in (before, after)]
    shown = kinds[0] if kinds[0] == kinds[1] else " -> ".join(kinds)
    old, new = _values(*before), _values(*after)
    if old is None or new is None or len(old) != len(new) or not len(old):
        return shown
    with np.errstate(all="ignore"):
        apart = np.abs(old - new)
        sampled = " of a sample" if element_count(before[0].shape) > len(old) else ""
        share = f"{100 * np.count_nonzero(apart) / len(apart):.3g}% of values differ{sampled}"
        return f"{shown}, {share}, by at most {apart.max():.3g}; they were {old.min():.3g} to {old.max():.3g} before"


def _values(tensor: Tensor, count: int) -> NDArray[np.float64] | None:
    """Return the dequantized values of a constant, up to about a million; None if they are not numbers."""
    elements = element_count(tensor.shape)
    if min(tensor.shape, default=0) < 0 or not 0 < elements <= count * _MOST_ELEMENTS_A_BYTE:
        return None
    try:
        values = tensor.numpy().reshape(-1)
        quantization = tensor.quantization
    except CircleToolsError:
        return None
    if values.dtype.kind not in "iufb":
        return None
    places = np.arange(0, elements, -(-elements // _SAMPLES))
    real = values[places].astype(np.float64)
    if not quantization.scale:
        return real
    scale = np.array(quantization.scale)
    zero = np.array(quantization.zero_point or (0,), np.float64)
    channel = np.zeros(len(places), np.int64)
    if len(scale) > 1:
        axis = quantization.axis
        if not 0 <= axis < len(tensor.shape) or tensor.shape[axis] != len(scale):
            return None
        channel = places // element_count(tensor.shape[axis + 1 :]) % len(scale)
    with np.errstate(all="ignore"):
        shifted: NDArray[np.float64] = (real - zero[channel if len(zero) == len(scale) else 0]) * scale[channel]
    return shifted


@dataclass(frozen=True, slots=True)
class ModelVerdicts(Attributes):
    """The costs of a model, the findings of `check` and, if requested, the verdicts of targets."""

    cost: Cost
    findings: Sequence[Finding]
    fit: Fit | None = None


def difference_markdown(
    found: ModelDifference, before: Model, after: Model, verdicts: Sequence[ModelVerdicts]
) -> Iterator[str]:
    """Yield the summary of a difference, and a table of sizes, costs and `verdicts` before and after, as Markdown."""
    files = [_cell(model.source.name) for model in (before, after)]
    named = files[1] if files[0].endswith(f"/{files[1]}") else " -> ".join(files)
    yield f"**{named}**: {counted(len(found.changes), 'difference')}"
    yield ""
    yield from (f"* {_cell(line)}" for line in summary_lines(summarize(found, before, after)))
    yield ""
    yield from ("| | before | after | change |", "|---|---:|---:|---:|")
    fields = ("operators", "macs", "parameters", "weight_bytes")
    titles = ("operators", "MACs", "parameters", "constants, bytes")
    totals = [[getattr(side.cost.total, name) for name in fields] for side in verdicts]
    peaks = [max((one.peak_bytes for one in side.cost.activations), default=0) for side in verdicts]
    rows = [("file, bytes", before.wire.size, after.wire.size), *zip(titles, *totals, strict=True)]
    for title, old, new in [*rows, ("peak activation memory, bytes", *peaks)]:
        yield f"| {title} | {old:,} | {new:,} | {f'{new - old:+,}' if new != old else ''} |"
    words = [[("check", _checked(side.findings))] for side in verdicts]
    for row, side in zip(words, verdicts, strict=True):
        for target in side.fit.targets if side.fit else ():
            row.append((f"fit on {target.name}", f"{target.verdict.replace('_', ' ')}, {target.refused:,} refused"))
    for one, other in zip_longest(*words):
        yield f"| {_cell(one[0])} | {one[1]} | {other[1]} | {'' if one[1] == other[1] else 'changed'} |"


def _checked(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.severity for finding in findings)
    return ", ".join(counted(counts[kind], kind) for kind in ("error", "warning") if counts[kind]) or "ok"


def _cell(words: str) -> str:
    """Return a name for a table cell, in which characters that Markdown or HTML would interpret are escaped."""
    escaped = "".join(f"\\{letter}" if letter in "\\`*_[]<>|#&@" else letter for letter in words)
    return " ".join(escaped.split())
