"""The page for a difference: both graphs side by side, with pairs in the same place, and links to the changes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.diff.difference import ModelDifference, Pairing
from circletools.diff.summary import summarize
from circletools.graph.build import model_graph
from circletools.graph.graph import Graph, ModelGraph
from circletools.html.document import origin_columns, origins_shown, whole_document
from circletools.html.graph import (
    Columns,
    Edges,
    Layout,
    edges_of,
    fed,
    lay_out,
    layout_json,
    module_groups,
    module_parts,
    short,
)
from circletools.html.html import NO_LINKS, page_html
from circletools.html.report import Report, title_of
from circletools.inspection import inspect_model
from circletools.model.external import buffer_sizes
from circletools.model.model import Model
from circletools.origin.modules import module_tree
from circletools.origin.read import Origins
from circletools.render.difference import alike
from circletools.render.difference_lines import summary_lines, tensor_with
from circletools.render.inspection import inspection_json

__all__ = ["difference_html"]

MOST_ALIKE = 200
"""The maximum number of changes of each kind that are described; all changes are colored in the graphs."""

_OBJECT = re.compile(r"subgraphs\[\d+\](?:\.(?:operators|tensors)\[\d+\])?")
_BUFFER = re.compile(r"buffers\[(\d+)\](?:\.data)?")
_Numbers = NDArray[np.int64]
_Pairs = dict[tuple[int, ...], tuple[_Numbers, _Numbers]]


def difference_html(found: ModelDifference, before: Model, after: Model) -> Report:
    """Return the HTML page of a difference between two models; equal differences give equal pages.

    Raises ModelFormatError if a model is broken.

        with ct.open("a.tflite") as old, ct.open("b.tflite") as new:
            ct.difference_html(ct.diff(old, new), old, new).save("diff.html")
    """
    models, wholes = (before, after), (model_graph(before), model_graph(after))
    (old, state), (new, _) = map(origins_shown, wholes)
    origins = _joined(old, new)
    modules = module_tree(origins)
    graphs = [graph for whole in wholes for graph in whole.graphs]
    first = Columns(buffer_sizes(before))
    columns = first, Columns(buffer_sizes(after), first)
    subgraphs: list[dict[str, Any]] = [
        {
            "operators": one | {"device": None, "code": [code + codes for code in one["code"]]},
            "tensors": own.tensors(graph.values),
            "transfers": None,
        }
        for whole, own, codes in zip(wholes, columns, (0, len(before.operator_codes)), strict=True)
        for graph in whole.graphs
        for one in [own.operators(graph)]
    ]
    parts = origin_columns(subgraphs, origins, modules, NO_LINKS)
    parts["origins"] |= state
    _lay_out(subgraphs, wholes, _pairs(found.pairing, models), module_groups(graphs, origins, modules))
    names = [short(title_of(model)) for model in models]
    facts = [inspection_json(inspect_model(model)) for model in models]
    codes = (*wholes[0].source.operator_codes, *wholes[1].source.operator_codes)
    document = whole_document(" → ".join(names), codes, first, subgraphs, parts) | {
        "model": {"subgraphs": [one for fact in facts for one in fact["subgraphs"]]},
        "diff": {
            "names": names,
            "split": len(wholes[0]),
            "summary": list(summary_lines(summarize(found, before, after))),
            "changes": list(_changes(found, before, after)),
        },
    }
    return Report(page_html(document))


def _joined(before: Origins, after: Origins) -> Origins:
    """Return the origins of both models as those of one model, with the second's subgraphs after the first's."""
    by = max(before.sources, default=-1) + 1
    return Origins(
        {**before.sources, **{source + by: name for source, name in after.sources.items()}},
        (
            *before.operators,
            *(
                {operator: frozenset(source + by for source in origin) for operator, origin in one.items()}
                for one in after.operators
            ),
        ),
        details={**before.details, **{source + by: one for source, one in after.details.items()}},
    )


def _pairs(pairing: Pairing | None, models: Sequence[Model]) -> _Pairs:
    """Return the matched operators and tensors of each pair of subgraphs, as indices in the subgraphs."""
    if pairing is None:
        counts = (int(columns.splits[-1]) for columns in (models[0].operator_columns, models[0].tensor_columns))
        pairing = Pairing(*(np.arange(count).repeat(2).reshape(-1, 2) for count in counts))
    found: dict[tuple[int, int], list[_Numbers]] = {}
    for rows, splits in (
        (pairing.tensors, [model.tensor_columns.splits for model in models]),
        (pairing.operators, [model.operator_columns.splits for model in models]),
    ):
        sides = list(zip(splits, rows.T, strict=True))
        owners = np.stack([np.searchsorted(split, side, "right") - 1 for split, side in sides], 1)
        inner = np.stack([side - split[owner] for (split, side), owner in zip(sides, owners.T, strict=True)], 1)
        for old, new in np.unique(owners, axis=0).tolist():
            chosen = (owners == (old, new)).all(1)
            found.setdefault((old, new), []).append(inner[chosen])
    nothing = np.zeros((0, 2), np.int64)
    return {key: (one[1] if len(one) > 1 else nothing, one[0]) for key, one in found.items()}


def _lay_out(
    subgraphs: list[dict[str, Any]], wholes: Sequence[ModelGraph], pairs: _Pairs, modules: Sequence[Sequence[int]]
) -> None:
    """Lay out each subgraph together with its counterpart and list the counterparts of its operators."""
    graphs, split, nothing = [*wholes[0].graphs, *wholes[1].graphs], len(wholes[0]), np.zeros((0, 2), np.int64)
    twins: _Pairs = {(at, split + to): one for (at, to), one in pairs.items()}
    alone = set(range(len(graphs))).difference(*twins)
    for places, (operators, tensors) in (twins | {(at,): (nothing, nothing) for at in alone}).items():
        layouts = _layouts([graphs[at] for at in places], operators, tensors, [modules[at] for at in places])
        for side, (at, layout) in enumerate(zip(places, layouts, strict=True)):
            partner = dict(zip(operators[:, side].tolist(), operators[:, 1 - side].tolist(), strict=True))
            known = [partner.get(operator) for operator in range(len(graphs[at]))]
            other = places[1 - side] if len(places) > 1 else None
            subgraphs[at] |= {"twin": other, "partner": known, "layouts": [layout]}


def _layouts(
    graphs: Sequence[Graph], operators: _Numbers, tensors: _Numbers, modules: Sequence[Sequence[int]]
) -> Iterator[dict[str, Any]]:
    """Yield the layout of each graph, taken from a joint layout in which matched operators are merged."""
    own = _united([len(graph) for graph in graphs], operators)
    values = _united([len(graph.values) for graph in graphs], tensors)
    edges = [edges_of(graph) for graph in graphs]
    rows = [
        np.stack((numbers[one.source], numbers[one.target], named[one.tensor]), 1)
        for one, numbers, named in zip(edges, own, values, strict=True)
    ]
    whole, places = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    count = max((int(numbers.max(initial=-1)) for numbers in own), default=-1) + 1
    module, reading = np.zeros(count, np.int64), np.zeros(count, np.bool_)
    for graph, numbers, given in reversed(list(zip(graphs, own, modules, strict=True))):
        module[numbers] = given  # that of the first model if both have the operator
        reading[numbers] |= fed(graph)
    kinds, groups = np.unique(module, return_inverse=True)
    joint = lay_out(groups.astype(np.int64), Edges(*whole.T), reading)
    ends = np.cumsum([0, *map(len, rows)])
    for at, (numbers, one) in enumerate(zip(own, edges, strict=True)):
        lanes = joint.lane[places.reshape(-1)[ends[at] : ends[at + 1]]]
        layout = Layout(joint.group[numbers], joint.level[numbers], joint.column[numbers], lanes, joint.row)
        yield layout_json(layout, one, module_parts(kinds, joint.group[numbers]))


def _united(counts: Sequence[int], pairs: _Numbers) -> list[_Numbers]:
    """Number the elements of one or two lists so that the elements of a pair have the same number."""
    numbers = [np.arange(counts[0]), *(counts[0] + np.arange(count) for count in counts[1:])]
    numbers[-1][pairs[:, -1]] = numbers[0][pairs[:, 0]]
    joined = np.unique(np.concatenate(numbers), return_inverse=True)[1].reshape(-1)
    return [joined[: counts[0]], *([joined[counts[0] :]] if len(counts) > 1 else [])]


def _changes(found: ModelDifference, before: Model, after: Model) -> Iterator[dict[str, Any]]:
    """Yield the changes by kind, with the paths of all changes and descriptions of the first ones."""
    models = before, after
    for section, group, lines in alike(found, before, after, MOST_ALIKE):
        sides = (("added",), ("removed",))
        places = [
            [
                "" if one.kind in kinds else _place(model, path)
                for model, path, kinds in zip(models, (one.path, one.path_after), sides, strict=True)
            ]
            for one in group
        ]
        kind = re.sub(r"\[\d+\]", "[]", group[0].path)
        shown = [[short(place), short(what)] for place, what in lines]
        yield {"section": section, "kind": group[0].kind, "path": short(kind), "at": places, "lines": shown}


def _place(model: Model, path: str) -> str:
    """Return the path of the operator, tensor or subgraph that a change concerns, or an empty string."""
    data, known = _BUFFER.fullmatch(path), _OBJECT.match(path)
    if data is None or not int(data[1]) < len(model.buffers):
        return known[0] if known else ""
    tensor = tensor_with(model, int(data[1]))
    return "" if tensor is None else f"subgraphs[{tensor.subgraph}].tensors[{tensor.index}]"
