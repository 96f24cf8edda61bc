"""The contents of a model according to the published object API, which an edit must not change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from circletools.model.model import open_model
from tests.kit.support import read, read_everything

Table = dict[str, Any]


class Graph(NamedTuple):
    """A subgraph: operators with their codes, and tensors with the contents of their buffers."""

    name: bytes
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: list[Table]
    tensors: list[Table]


class Content(NamedTuple):
    """A model without file positions, and without the indices of buffers and operator codes."""

    metadata: list[tuple[str, object]]
    subgraphs: list[Graph]
    signatures: list[Table]


def content(data: bytes) -> Content:
    """Return the contents of a model whose indices are in range.

    Raises CircleToolsError if so much is shared that the objects would not fit into memory.
    """
    with open_model(data) as model:
        read_everything(model)
    found = _without_nothing(read(data))
    # Buffer 0 means no data, even if there are no buffers.
    buffers = [(buffer.get("data"), buffer.get("offset")) for buffer in found.get("buffers", ())] or [(None, None)]
    codes = [_code(code) for code in found.get("operatorCodes", ())]
    graphs = [_graph(graph, buffers, codes) for graph in found.get("subgraphs", ())]
    metadata = [(_name(entry), buffers[entry.get("buffer", 0)][0]) for entry in found.get("metadata", ())]
    return Content(metadata, graphs, found.get("signatureDefs", []))


def _graph(graph: Table, buffers: Sequence[object], codes: Sequence[object]) -> Graph:
    tensors = [{**tensor, "buffer": buffers[tensor.get("buffer", 0)]} for tensor in graph.get("tensors", ())]
    operators = [
        {**operator, "opcodeIndex": codes[operator.get("opcodeIndex", 0)]} for operator in graph.get("operators", ())
    ]
    return Graph(graph.get("name", b""), graph.get("inputs", ()), graph.get("outputs", ()), operators, tensors)


def _name(entry: Table) -> str:
    name: bytes = entry.get("name", b"")
    return name.decode("utf-8", "surrogateescape")


def _code(code: Table) -> tuple[int, int, bytes | None]:
    number = max(code.get("builtinCode", 0), code.get("deprecatedBuiltinCode", 0))
    return number, code.get("version", 0), code.get("customCode")


def _without_nothing(value: Any) -> Any:
    """Omit fields that are absent, empty (which readers do not distinguish) or 0."""
    if isinstance(value, dict):
        return {name: _without_nothing(item) for name, item in value.items() if item or isinstance(item, bytes)}
    return [_without_nothing(item) for item in value] if isinstance(value, list) else value
