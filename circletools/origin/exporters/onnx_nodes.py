"""Metadata about nodes that exporters leave in an ONNX file.

    torch.onnx, dynamo      metadata_props: pkg.torch.onnx.name_scopes, class_hierarchy, stack_trace
    torch.onnx, TorchScript names: /layers/layers.0/conv/Conv is the Conv of layers.0.conv
    others                  arbitrary names

Nothing here needs onnx.
"""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Container, Iterable, Iterator
from typing import Any

from circletools.origin.exporters.nodes import Root, frames_of, name_roots
from circletools.origin.source import Source, SourceDetails, line_of

_TORCH = "pkg.torch.onnx."
_LONGEST = 1 << 16


def sources_of_nodes(nodes: Iterable[Any], weights: Container[str] = ()) -> list[list[Source]]:
    """Return the sources of each node (onnx.NodeProto); nodes made from the same call have the same sources.

    If a node with torch.onnx metadata reads a parameter of another module (one of `weights`), that module is a source
    too, since a convolution may also stand for the batch normalization after it.
    """
    nodes = list(nodes)
    roots = [_root(node) for node in nodes]
    named = name_roots(root for root in roots if root is not None)
    return [
        [_named(node)] if root is None else [next(named), *_of_parameters(node, root.details.path, weights)]
        for node, root in zip(nodes, roots, strict=True)
    ]


def _of_parameters(node: Any, path: str, weights: Container[str]) -> Iterator[Source]:
    for name in node.input:
        module, dot, _ = name.rpartition(".")
        if dot and name in weights and module != path:
            yield Source(f"{module}::{node.op_type}", SourceDetails(path=module, call=node.op_type))


def _root(node: Any) -> Root | None:
    """Return the exported program's node from which a node was made; None if it is not recorded."""
    recorded = {
        prop.key.removeprefix(_TORCH): prop.value for prop in node.metadata_props if prop.key.startswith(_TORCH)
    }
    scopes, classes = _texts(recorded.get("name_scopes", "")), _texts(recorded.get("class_hierarchy", ""))
    if not scopes:
        return None
    file, line, caller = line_of(frames_of(recorded.get("stack_trace", "")))
    path, class_name = "".join(scopes[-2:-1]), "".join(classes[-2:-1])
    return Root(scopes[-1], SourceDetails(path, class_name, file, line, "".join(classes[-1:]), caller))


def _texts(written: str) -> list[str]:
    """Return the strings of a list in Python syntax; empty if the text is not such a list."""
    if not written.startswith("[") or len(written) > _LONGEST:  # a syntax tree takes 200 times the memory
        return []
    try:
        found = literal_eval(written)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return []
    return [str(one) for one in found] if isinstance(found, list) else []


def _named(node: Any) -> Source:
    """Return a source named after the node."""
    name = str(node.name or (node.output[0] if node.output else ""))
    if not name.startswith("/"):
        return Source(name, SourceDetails(call=node.op_type))
    *scopes, leaf = name[1:].split("/")
    path: list[str] = []
    for scope in scopes:  # a list of modules precedes its items: layers, layers.0
        if path and scope.startswith(f"{path[-1]}."):
            path.pop()
        path.append(scope)
    details = SourceDetails(path=".".join(path), call=node.op_type)
    return Source(f"{details.path}::{leaf}" if path else leaf, details)
