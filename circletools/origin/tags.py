"""Tags: tensor names that identify the operator that produces the tensor, for tools that preserve names.

ct.origins.tag(edit)        # `conv/Relu` becomes `circletools:0:17:0`: subgraph, operator, index of the output
the tool                    # `circletools:0:17:0_dequant`, or `circletools:0:17:0;circletools:0:18:0`
ct.track_origins(...)       # operator 17 of subgraph 0
ct.origins.untag(edit, ..)  # `conv/Relu_dequant`
"""

from __future__ import annotations

import re

import numpy as np

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.flatbuf.columns import places_in_rows
from circletools.graph.build import model_graph
from circletools.graph.graph import ModelGraph
from circletools.model.model import Model
from circletools.model.views import text

TAG = re.compile(rb"circletools:(\d{1,9}):(\d{1,9}):(\d{1,9})(?!\d)")


def tags_of(model: ModelGraph) -> list[dict[int, bytes]]:
    """Return, by subgraph, the tag of each tensor that an operator produces; if several do, the last one counts.

    Raises ModelFormatError for a tensor that does not exist.
    """
    tags: list[dict[int, bytes]] = []
    for graph in model.graphs:
        graph.check_values()
        operators, values = graph.definitions
        places = places_in_rows(np.bincount(operators, minlength=len(graph)))
        rows = zip(values.tolist(), operators.tolist(), places.tolist(), strict=True)
        tags.append(
            {value: b"circletools:%d:%d:%d" % (graph.index, operator, place) for value, operator, place in rows}
        )
    return tags


def tag(edit: ModelEdit) -> RewriteResult:
    """Name each tensor after the operator that produces it, to track origins through a tool that preserves names.

    Names in signatures are kept. Raises ModelFormatError for a broken model.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.origins.tag(edit)
    ...     edit.save("tagged.tflite")
    """
    tags = tags_of(model_graph(edit.model))
    for subgraph, own in enumerate(tags):
        for tensor in sorted(own):
            edit.rename_tensor(subgraph, tensor, own[tensor].decode())
    count = sum(map(len, tags))
    return RewriteResult((f"tensors named after the operators that produce them: {count}",) if count else ())


def untag(edit: ModelEdit, before: Model) -> RewriteResult:
    """Give tensors with tags the names that they have in `before`; text that a tool added to a tag is kept.

    Raises ModelFormatError for a broken model.
    """
    old_graph = model_graph(before)
    known = {
        tag: graph.values.names[value]
        for graph, own in zip(old_graph.graphs, tags_of(old_graph), strict=True)
        for value, tag in own.items()
    }
    renamed = 0
    for graph in model_graph(edit.model).graphs:
        for tensor, name in enumerate(graph.values.names):
            old = TAG.sub(lambda found: known.get(found[0], found[0]), name)
            if old and old != name:
                edit.rename_tensor(graph.index, tensor, text(old))
                renamed += 1
    return RewriteResult((f"tensors renamed back to their old names: {renamed}",) if renamed else ())


def only_tags(name: bytes, known: frozenset[bytes]) -> bytes:
    """Return the tags in a name, joined by `;` as TensorFlow joins names; the name itself if it has no tag."""
    found = [tag[0] for tag in TAG.finditer(name) if tag[0] in known]
    return b";".join(found) if found else name
