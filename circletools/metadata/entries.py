"""Write and remove groups of metadata entries and report the changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from circletools.edit.edit import ModelEdit
from circletools.edit.results import RewriteResult
from circletools.graph.build import model_graph
from circletools.metadata.stamp import encode_stamp, make_stamp, operator_record


def write_entries(edit: ModelEdit, entries: Mapping[str, bytes | None]) -> RewriteResult:
    """Set metadata entries, or remove those whose value is None; return the differences from the model."""
    changes = []
    for name, value in entries.items():
        old = edit.model.metadata_value(name)
        if value is None:
            edit.remove_metadata(name)
        else:
            edit.set_metadata(name, value)
        if value != (None if old is None else bytes(old)):
            changes.append(f"metadata {name}: {'removed' if value is None else f'{len(value)} bytes'}")
    return RewriteResult(tuple(changes))


def remove_entries(edit: ModelEdit, names: Iterable[str]) -> RewriteResult:
    """Remove the metadata entries with these names; return those that existed."""
    removed = [name for name in names if edit.remove_metadata(name)]
    return RewriteResult(tuple(f"metadata {name}: removed" for name in removed))


def stamp_after(edit: ModelEdit) -> bytes:
    """Return the encoded stamp of the operators that the model will have after the edit."""
    model = model_graph(edit.model)
    records = [list(graph.operators.records) for graph in model.graphs]
    for subgraph in {subgraph for subgraph, _ in edit.renamed}:
        graph = model.graphs[subgraph]
        for index, code in enumerate(graph.operators.code_names):
            outputs = zip(graph.results.of(index), graph.operators.result_names[index], strict=True)
            now = [edit.renamed.get((subgraph, tensor), name) for tensor, name in outputs]
            records[subgraph][index] = operator_record(code, now)
    for added in edit.index_map.added:
        records[added.subgraph].append(operator_record(added.code_name, added.output_names))
    return encode_stamp(make_stamp(records))
