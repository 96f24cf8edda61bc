"""Metadata that PyTorch keeps for a node of an exported program during export.

The `meta` of a node (torch.fx.Node) contains the following, unless PyTorch dropped it:

    nn_module_stack     the modules that contain it, outermost first: (path of the instance, class)
    stack_trace         the source lines of its calls, as text, outermost first
    from_node           the nodes it was made from, one decomposition after the other; the exported program's node,
                        which calls an operator such as `aten.linear.default`, precedes the one it was traced from

A program (torch.export.ExportedProgram) has `graph` and, in `graph_signature`, the names of parameters. Calls under
`torch.autocast` or `torch.no_grad` are in a separate graph, which one node of the program calls. When that graph is
inlined, its calls get the metadata of this node; only the generated code in the calls' stack traces shows what they
call:

    File "<eval_with_key>.39", line 7, in forward
        mul = torch.ops.aten.mul.Tensor(to, 2);  to = None

This module does not import torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from circletools.origin.source import Source, SourceDetails, line_of

_FRAME = re.compile(r'File "([^"]*)", line (\d+)')
_GENERATED = re.compile(r'File "<eval_with_key>[^"]*", line \d+, in \w+\n\s*(\w+) = ')
_OPERATOR = re.compile(r"\w+(?:\.\w+)+")
_NUMBER = re.compile(r"_\d+$")
_CALL = re.compile(r"@\d+")  # `layers.0@1` is the second call of layers.0
_LAYOUT = frozenset(("alias", "clone", "contiguous", "detach", "expand", "flatten", "permute", "reshape"))
_LAYOUT |= {"squeeze", "t", "transpose", "unflatten", "unsqueeze", "view"}


Root = Source
"""A node of the exported program: its name in the program, and its module, class and call."""


Calls = dict[Any, Any]
"""Facts about a program's nodes that its conversion loses.

A name from `uncalled_modules` maps to the path of a module. A graph's identity, the name of a node in it that calls
another graph, and the name of a node in that graph together map to both nodes; the first keeps its graph alive.
"""

NO_CALLS: Calls = {}


def inner_nodes(program: Any) -> Calls:
    """Return the nodes of the separate graphs that nodes of a program call."""
    found: Calls = {}
    for node in program.graph.nodes:
        pending = [(getattr(program, "graph_module", None), node)]
        while pending:
            module, caller = pending.pop()
            given = (str(one.target) for one in caller.all_input_nodes if one.op == "get_attr")
            for graph in (getattr(module, name, None) for name in given):
                for one in getattr(getattr(graph, "graph", None), "nodes", ()):
                    found[id(node.graph), node.name, one.name] = (node, one)
                    pending.append((graph, one))
    return found


def root_of(node: Any, calls: Calls = NO_CALLS) -> Root | None:
    """Return the exported program's node from which a node was made; None if PyTorch recorded none."""
    found, last = _history(node)
    if last is None:
        return None
    code = ["", *_GENERATED.findall(node.meta.get("stack_trace") or "")]
    _, inner = calls.get((getattr(last, "graph_id", 0), last.name, code[-1]), (None, None))
    if inner is None:
        return _noted(node, found or last, calls)
    return _noted(inner, inner)._replace(name=f"{last.name}/{inner.name}")


def root_of_any(node: Any, calls: Calls = NO_CALLS) -> Root:
    """Return the exported program's node from which a node was made; the node itself if PyTorch recorded none."""
    return root_of(node, calls) or _noted(node, node, calls)


def _history(node: Any) -> tuple[Any, Any]:
    """Return the first operator call that a node was made from, and the origin of that call, or None."""
    history, found, last = node.meta.get("from_node"), None, None
    while history:
        last = history[0]
        history = last.from_node
        if _OPERATOR.fullmatch(str(getattr(last, "target", ""))):
            found = last
    return found, last


def uncalled_modules(program: Any) -> Calls:
    """Return, by node name, the path of the module that owns the node's parameters if this module is never called.

    `nn.MultiheadAttention` uses the parameters of its `out_proj` without calling it. Nodes that use parameters of
    several modules are omitted.
    """
    modules = {name: path.rpartition(".")[0] for name, path in program.graph_signature.inputs_to_parameters.items()}
    taken: dict[str, set[str]] = {}
    callers: dict[str, str] = {}
    for node in program.graph.nodes:
        name = (_history(node)[0] or node).name
        callers[name], _ = _module(node)
        given = {_as_given(one).name for one in node.all_input_nodes}
        taken.setdefault(name, set()).update(modules[one] for one in given & modules.keys())
    called = set(callers.values())
    single = {name: min(paths) for name, paths in taken.items() if len(paths) == 1}
    inside = {name: f"{module}." if module else "" for name, module in callers.items()}
    return {one: path for one, path in single.items() if path not in {"", *called} and path.startswith(inside[one])}


def _as_given(node: Any) -> Any:
    """Return the input of a node or chain of nodes that only changes the layout; return any other node unchanged."""
    while is_layout(node) and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    return node


def _noted(node: Any, first: Any, calls: Calls = NO_CALLS) -> Root:
    path, class_name = (calls[first.name], "") if first.name in calls else _module(node)
    file, line, caller = line_of(frames_of(node.meta.get("stack_trace") or ""))
    targets = (str(getattr(one, "target", "")) for one in (first, node))
    call = next(filter(_OPERATOR.fullmatch, targets), "")
    return Root(str(first.name), SourceDetails(path, class_name, file, line, call, caller))


def frames_of(stack_trace: str) -> list[tuple[str, int]]:
    """Return the file and line of each frame of a PyTorch stack trace, the outermost first."""
    return [(file, int(line)) for file, line in _FRAME.findall(stack_trace)]


def is_layout(node: Any) -> bool:
    """Return whether a node only changes the layout of its input."""
    name = str(node.target).removeprefix("aten.").partition(".")[0]
    return name.removeprefix("_unsafe_").removesuffix("_copy") in _LAYOUT


def elements_of(node: Any) -> int | None:
    """Return the number of elements of a node's first value; None if it is not fixed."""
    value = node.meta.get("val")
    value = value[0] if isinstance(value, tuple | list) and value else value
    try:
        return int(value.numel())
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return None


def _module(node: Any) -> tuple[str, str]:
    """Return the path and class of the innermost module; empty if PyTorch recorded none."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return "", ""
    path, kind = list(stack.values())[-1]
    class_name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    return _CALL.sub("", str(path)).removeprefix("L['self'].").removeprefix("L__self___"), class_name


def name_roots(roots: Iterable[Root]) -> Iterator[Source]:
    """Yield the sources of nodes of an exported program, numbered in the given order.

    A source is named after its module and the call, as in `layers.0.attn.q::linear`; if a module makes the same call
    again, the later call has a number, as in `layers.0::add_1`. A call in the top-level module is named after the
    class. If several roots have the same name, the one with the most details is used.
    """
    roots = list(roots)
    details: dict[str, SourceDetails] = {}
    for root in roots:
        if root.name not in details or _known(root.details) > _known(details[root.name]):
            details[root.name] = root.details
    named: dict[str, Source] = {}
    counts: dict[str, int] = {}
    for root in roots:
        if root.name not in named:
            known = details[root.name]
            call = _NUMBER.sub("", root.name.rpartition("/")[2])
            plain = f"{known.path or known.class_name or '?'}::{call}"
            number = counts.get(plain, 0)
            counts[plain] = number + 1
            named[root.name] = Source(f"{plain}_{number}" if number else plain, known)
        yield named[root.name]


def _known(details: SourceDetails) -> int:
    return bool(details.class_name) + bool(details.line)
