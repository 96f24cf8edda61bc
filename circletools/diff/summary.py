"""The summary of a difference: tensors with another type, changed operators, and their modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from circletools.diff.alignment import Indices
from circletools.diff.difference import ModelDifference
from circletools.errors import ModelFormatError
from circletools.graph.build import model_graph
from circletools.model.model import Model
from circletools.origin.modules import module_tree
from circletools.origin.names import origins_by_output
from circletools.origin.read import current_origins

_OPERATOR = re.compile(r"subgraphs\[(\d+)\]\.operators\[(\d+)\]\.")
_TENSOR = re.compile(r"subgraphs\[(\d+)\]\.tensors\[(\d+)\]\.(shape|shape_signature|buffer)(?:\[\d+\])?")
_BUFFER = re.compile(r"buffers\[(\d+)\]\.data")
_MOST_MODULES, _MOST_OPERANDS = 3, 4


@dataclass(frozen=True, slots=True)
class Retyped:
    """The number of tensors of a role (weight, constant, activation) that changed from one type to another."""

    role: str
    before: str
    after: str
    count: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a difference.

    `revalued` counts constants of the same type and shape with other bytes, `reshaped` tensors with another shape,
    `operands` constants of operators in both models by shapes, as `[16, 3, 3, 8] -> [24, 5, 5, 8]`. `changed` counts
    operators in both models with other fields or tensors, `modules` are their modules, by origins or names; `added`
    and `removed` count operators by code; an operator with another code counts as both.
    """

    file_bytes: tuple[int, int]
    retyped: tuple[Retyped, ...] = ()
    reshaped: int = 0
    revalued: int = 0
    operands: Mapping[str, int] | None = None
    changed: int = 0
    modules: tuple[str, ...] = ()
    added: Mapping[str, int] | None = None
    removed: Mapping[str, int] | None = None


def summarize(found: ModelDifference, before: Model, after: Model) -> Summary:
    """Return the summary of a difference between two models."""
    sizes = before.wire.size, after.wire.size
    if found.pairing is None:
        return Summary(sizes)
    operators, tensors = found.pairing
    changed, others = _changed_rows(found, before, after)
    codes = [_codes(model) for model in (before, after)]
    same = [row for row in operators.tolist() if codes[0][row[0]] == codes[1][row[1]]]
    removed, added = (Counter(own) for own in codes)
    for side, counts in enumerate((removed, added)):
        counts.subtract(codes[side][row[side]] for row in same)
    changed &= {old for old, _ in same}
    retyped = _retyped(tensors, before, after)
    types = [_types(model) for model in (before, after)]
    same_type = {int(old) for old, new in tensors.tolist() if types[0][old] == types[1][new]}
    return Summary(
        sizes,
        retyped,
        len(others["shape"]),
        len(others["buffer"] & same_type - others["shape"]),
        dict(_operands(same, before, after).most_common()),
        len(changed),
        _modules(before, changed),
        dict((+added).most_common()),
        dict((+removed).most_common()),
    )


def _changed_rows(found: ModelDifference, before: Model, after: Model) -> tuple[set[int], dict[str, set[int]]]:
    """Return changed operators, and tensors with another shape or content, as rows of the first model."""
    operators: set[int] = set()
    tensors: dict[str, set[int]] = {"shape": set(), "buffer": set()}
    buffers: set[int] = set()
    assert found.pairing is not None
    partners = [dict(rows[:, ::-1].tolist()) for rows in found.pairing]
    splits = [(model.operator_columns.splits, model.tensor_columns.splits) for model in (before, after)]
    for section, one in found.changes:
        if section != "structure" or one.kind == "moved":
            continue
        only_after = one.kind == "added"
        for which, pattern in enumerate((_OPERATOR, _TENSOR)):
            at = pattern.match(one.path)
            if at is None:
                continue
            row = int(splits[only_after][which][int(at[1])]) + int(at[2])
            known = partners[which].get(row) if only_after else row
            if known is not None:
                (operators if which == 0 else tensors[at[3].removesuffix("_signature")]).add(known)
        data = _BUFFER.match(one.path)
        if data is not None and not only_after:
            buffers.add(int(data[1]))
    columns = before.tensor_columns
    named = np.flatnonzero(np.isin(columns.buffers, list(buffers)))
    tensors["buffer"] |= set(named.tolist())
    return operators, tensors


def _types(model: Model) -> list[str]:
    names = model.schema.enums["TensorType"]
    return [names.get(number, str(number)) for number in model.tensor_columns.types.tolist()]


def _constant(model: Model) -> list[bool]:
    filled = np.append(model.buffers.filled, False)
    filled[:1] = False
    marked: list[bool] = filled[np.minimum(model.tensor_columns.buffers, len(filled) - 1)].tolist()
    return marked


def _retyped(tensors: Indices, before: Model, after: Model) -> tuple[Retyped, ...]:
    types, constant = (_types(before), _types(after)), (_constant(before), _constant(after))
    counts: Counter[tuple[str, str, str]] = Counter()
    for old, new in tensors.tolist():
        kinds = types[0][old], types[1][new]
        held = constant[0][old]
        if kinds[0] != kinds[1] and held == constant[1][new]:  # else an exporter numbered equal names differently
            floating = any("FLOAT" in kind for kind in kinds)
            role = "weight" if held and floating else "constant" if held else "activation"
            counts[role, kinds[0], kinds[1]] += 1
    order = {"weight": 0, "constant": 1, "activation": 2}
    rows = sorted(counts.items(), key=lambda item: (order[item[0][0]], -item[1], item[0]))
    return tuple(Retyped(*key, count) for key, count in rows)


def _operands(same: list[list[int]], before: Model, after: Model) -> Counter[str]:
    """Count the constants of matched operators that have another shape, regardless of their names."""
    found: Counter[str] = Counter()
    models = before, after
    constant = [_constant(model) for model in models]
    for slot in range(_MOST_OPERANDS):
        sides = []
        for side, model in enumerate(models):
            rows = np.array([pair[side] for pair in same], np.int64)
            owner = np.searchsorted(model.operator_columns.splits, rows, "right") - 1
            given = np.nan_to_num(model.operator_columns.inputs.element(slot), nan=-1).astype(np.int64)[rows]
            inside = (given >= 0) & (given < np.diff(model.tensor_columns.splits)[owner])
            sides.append(np.where(inside, model.tensor_columns.splits[owner] + given, -1).tolist())
        for old, new in zip(*sides, strict=True):
            if min(old, new) >= 0 and constant[0][old] and constant[1][new]:
                first, second = before.tensor_columns.shapes.row(old), after.tensor_columns.shapes.row(new)
                if [*first] != [*second]:
                    found[f"{[*map(int, first)]} -> {[*map(int, second)]}"] += 1
    return found


def _codes(model: Model) -> list[str]:
    names = [code.name for code in model.operator_codes]
    numbers = model.operator_columns.code_indices.tolist()
    return [names[number] if number < len(names) else str(number) for number in numbers]


def _modules(model: Model, rows: set[int]) -> tuple[str, ...]:
    """Return the modules of operators, or the one that contains all; empty if that is the whole model."""
    whole, splits = model_graph(model), model.operator_columns.splits
    try:
        origins = current_origins(whole) or origins_by_output(whole, range(len(whole)))
    except ModelFormatError:  # an operator's output does not exist
        return ()
    tree = module_tree(origins)
    found = set[int]()
    for row in rows:
        subgraph = int(np.searchsorted(splits, row, "right")) - 1
        for source in origins.of(subgraph, row - int(splits[subgraph])):
            found.update(tree.of_source[source])
    if len(found) > _MOST_MODULES:
        shared = set.intersection(*(set(tree.upwards(module)) for module in found))
        found = {max(shared)} if shared else set()
    return tuple(sorted(tree.paths[module] for module in found))
