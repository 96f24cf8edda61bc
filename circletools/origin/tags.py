"""Tags: names of tensors that say which operator makes them, for tools that keep names.

ct.origins.tag(edit)        # `conv/Relu` becomes `circletools:0:17:0`: subgraph, operator, place among its outputs
the tool                    # `circletools:0:17:0_dequant`, or `circletools:0:17:0;circletools:0:18:0`
ct.track_origins(...)       # operator 17 of subgraph 0
ct.origins.untag(edit, ..)  # `conv/Relu_dequant`
"""

from __future__ import annotations

import re

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.graph.build import model_graph
from circletools.model.model import Model
from circletools.model.views import text

TAG = re.compile(rb"circletools:(\d{1,9}):(\d{1,9}):(\d{1,9})(?!\d)")


def tags_of(model: Model) -> dict[int, bytes]:
    """Return the tag of each tensor that an operator makes, by row; of several that make one, the last.

    Raises ModelFormatError for a tensor that does not exist.
    """
    tags: dict[int, bytes] = {}
    for subgraph, facts in enumerate(model_graph(model).graphs):
        facts.check_values()
        first, seen = int(model.tensor_columns.splits[subgraph]), dict[int, int]()
        for operator, tensor in zip(
            facts.definitions.operators.tolist(), facts.definitions.values.tolist(), strict=True
        ):
            place = seen[operator] = seen.get(operator, -1) + 1
            tags[first + tensor] = b"circletools:%d:%d:%d" % (subgraph, operator, place)
    return tags


def tag(edit: ModelEdit) -> RewriteResult:
    """Name each tensor that an operator makes after the operator, to track origins through a tool that keeps names.

    Names in signatures stay. Raises ModelFormatError for a broken model.

    >>> with ct.open("in.tflite") as model, ct.edit(model) as edit:
    ...     ct.origins.tag(edit)
    ...     edit.save("tagged.tflite")
    """
    model, tags = edit.model, tags_of(edit.model)
    for subgraph in range(len(model.subgraphs)):
        for tensor, row in enumerate(model.tensor_columns.rows_of(subgraph)):
            if row in tags:
                edit.rename_tensor(subgraph, tensor, tags[row].decode())
    return RewriteResult((f"{len(tags)} tensors are named after the operators that make them",) if tags else ())


def untag(edit: ModelEdit, before: Model) -> RewriteResult:
    """Give tensors that have tags of `before` the names that they had there; what a tool added to a name stays.

    Raises ModelFormatError for a broken model.
    """
    model = edit.model
    names = before.tensor_columns.names
    known = {tag: names[row] for row, tag in tags_of(before).items()}
    renamed = 0
    for subgraph in range(len(model.subgraphs)):
        rows = model.tensor_columns.rows_of(subgraph)
        for tensor, row in enumerate(rows):
            name = model.tensor_columns.names[row]
            old = TAG.sub(lambda found: known.get(found[0], found[0]), name)
            if old and old != name:
                edit.rename_tensor(subgraph, tensor, text(old))
                renamed += 1
    return RewriteResult((f"{renamed} tensors have their names again",) if renamed else ())


def only_tags(name: bytes, known: frozenset[bytes]) -> bytes:
    """Return the tags in a name, joined by `;` as TensorFlow joins names; the name itself where it has none."""
    found = [tag[0] for tag in TAG.finditer(name) if tag[0] in known]
    return b";".join(found) if found else name
