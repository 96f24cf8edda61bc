"""The summary of a difference: counts of changed operators, changed tensors and other changes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from circletools.diff.alignment import Indices
from circletools.diff.correspondence import tensor_rows
from circletools.diff.difference import ModelDifference
from circletools.errors import ModelFormatError
from circletools.flatbuf.comparison import same_bytes
from circletools.graph.build import model_graph
from circletools.model.model import Model
from circletools.origin.modules import module_tree
from circletools.origin.names import origins_by_output
from circletools.origin.read import current_origins

_OBJECT = re.compile(r"subgraphs\[(\d+)\]\.(operators|tensors)\[(\d+)\](?:\.(\w+))?")
_BUFFER = re.compile(r"buffers\[(\d+)\]")
_FIELD = re.compile(r"(?:subgraphs\[\d+\]\.)?(\w+)")
_ASPECTS = {"has_rank": "shape", "shape_signature": "shape"}
_MOST_MODULES, _MOST_OPERANDS = 3, 4


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a difference: each change is included in at least one count.

    `retyped` counts tensors whose type changed, by role and types, such as `weight FLOAT32 -> INT8`; `operands`
    counts constants whose shape changed in operators that both models have, such as `[16, 3, 3, 8] -> [24, 5, 5, 8]`.
    `changed` counts operators of both models whose fields or tensors differ; `modules` are their modules, by origins
    or names. `added` and `removed` count operators by code; an operator whose code changed counts as both. `tensors`
    counts tensors that are `added` or `removed`, and others by the field that differs (`values`: constants of the
    same type and shape but different bytes; `buffer`: equal bytes in another buffer; `type`: those not in `retyped`).
    `others` counts other changes by section or table (`empty shapes`: [] in one model, none in the other).
    """

    file_bytes: tuple[int, int]
    retyped: Mapping[str, int] = field(default_factory=dict)
    operands: Mapping[str, int] = field(default_factory=dict)
    changed: int = 0
    modules: tuple[str, ...] = ()
    added: Mapping[str, int] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)


def summarize(found: ModelDifference, before: Model, after: Model) -> Summary:
    """Return the summary of a difference between two models."""
    sizes = before.wire.size, after.wire.size
    if found.pairing is None:
        return Summary(sizes)
    pairs = found.pairing.operators.tolist()
    codes = [_codes(model) for model in (before, after)]
    same = [row for row in pairs if codes[0][row[0]] == codes[1][row[1]]]
    common = Counter(codes[0][old] for old, _ in same)
    removed, added = (Counter(own) - common for own in codes)
    rows, others = _changed_rows(found, before, after)
    changed = rows.pop("operators", set()) & {old for old, _ in same}
    retyped = _retyped(found.pairing.tensors, before, after)
    rows["type"] -= retyped.keys()
    for aspect in ("values", "buffer"):
        rows[aspect] -= retyped.keys() | rows["type"] | rows["shape"]
    kinds = sorted(Counter(retyped.values()).most_common(), key=lambda item: item[0].split()[0], reverse=True)
    return Summary(
        sizes,
        dict(kinds),
        dict(_operands(same, before, after).most_common()),
        len(changed),
        _modules(before, changed),
        dict(added.most_common()),
        dict(removed.most_common()),
        {aspect: len(some) for aspect, some in rows.items() if some},
        others,
    )


def _changed_rows(found: ModelDifference, before: Model, after: Model) -> tuple[dict[str, set[int]], dict[str, int]]:
    """Return the changed operators, the tensors by the field that differs, and the counts of other changes.

    Operators and tensors are rows of the first model, but added tensors are rows of the second.
    """
    rows: dict[str, set[int]] = {aspect: set() for aspect in ("values", "shape", "type", "buffer")}
    others: Counter[str] = Counter()
    assert found.pairing is not None
    pairs = {"operators": found.pairing.operators, "tensors": found.pairing.tensors}
    partners = {kind: dict(some[:, ::-1].tolist()) for kind, some in pairs.items()}
    models = before, after
    columns = [{"operators": one.operator_columns.splits, "tensors": one.tensor_columns.splits} for one in models]
    readers = [set(model.tensor_columns.buffers.tolist()) for model in models]
    buffers: set[int] = set()
    for section, one in found.changes:
        second = one.kind == "added"
        at, data, name = (pattern.match(one.path) for pattern in (_OBJECT, _BUFFER, _FIELD))
        if section != "structure" or one.kind == "moved":
            others["order" if one.kind == "moved" else section] += 1
        elif at is not None:
            row = int(columns[second][at[2]][int(at[1])]) + int(at[3])
            aspect = at[2] if at[2] == "operators" else _ASPECTS.get(at[4], at[4])
            if aspect == "shape" and not one.before and not one.after:  # [] and no vector both mean a scalar
                others["empty shapes"] += 1
            elif at[4] is not None:
                rows.setdefault(aspect, set()).add(partners[at[2]][row] if second else row)
        elif data is not None and int(data[1]) in readers[second]:
            buffers |= set() if second else {int(data[1])}  # tensors with an added buffer differ in `buffer`
        else:
            others[name[1] if name else one.path] += 1
    for side, kind in enumerate(("removed", "added")):  # also those of subgraphs that only one model has
        rows[kind] = {*range(len(models[side].tensor_columns.types))} - {*pairs["tensors"][:, side].tolist()}
    filled = np.isin(before.tensor_columns.buffers, list(buffers))
    touched, rows["buffer"] = rows["buffer"], set()
    for old, new in pairs["tensors"].tolist():
        if filled[old] or old in touched:
            rows["buffer" if same_bytes(_data(before, old), _data(after, new)) else "values"].add(old)
    return rows, dict(others)


def _data(model: Model, tensor: int) -> memoryview:
    index = int(model.tensor_columns.buffers[tensor])
    return model.buffers[index].data if index < len(model.buffers) else memoryview(b"")


def _constant(model: Model) -> list[bool]:
    filled = np.append(model.buffers.filled, False)
    filled[:1] = False
    marked: list[bool] = filled[np.minimum(model.tensor_columns.buffers, len(filled) - 1)].tolist()
    return marked


def _retyped(tensors: Indices, before: Model, after: Model) -> dict[int, str]:
    """Return the role and the types of each tensor whose type differs, by its row in the first model."""
    names, constant = (
        [one.schema.enums["TensorType"] for one in (before, after)],
        (_constant(before), _constant(after)),
    )
    numbers = before.tensor_columns.types[tensors[:, 0]].tolist(), after.tensor_columns.types[tensors[:, 1]].tolist()
    found = {}
    for (old, new), *types in zip(tensors.tolist(), *numbers, strict=True):
        kinds = [known.get(number, str(number)) for known, number in zip(names, types, strict=True)]
        held = constant[0][old]
        if kinds[0] != kinds[1] and held == constant[1][new]:  # otherwise, different tensors have the same name
            floating = any("FLOAT" in kind for kind in kinds)
            role = "weight" if held and floating else "constant" if held else "activation"
            found[old] = f"{role} {kinds[0]} -> {kinds[1]}"
    return found


def _operands(same: list[list[int]], before: Model, after: Model) -> Counter[str]:
    """Count the constants of matched operators whose shape differs, regardless of their names."""
    found: Counter[str] = Counter()
    constant, rows = (_constant(before), _constant(after)), np.array(same, np.int64).reshape(-1, 2).T
    for slot in range(_MOST_OPERANDS):
        slots = [tensor_rows(model, model.operator_columns.inputs.element(slot)) for model in (before, after)]
        sides = (tensors[own].tolist() for tensors, own in zip(slots, rows, strict=True))
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
    """Return the modules of these operators, or the one module that contains them; empty for the whole model."""
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
