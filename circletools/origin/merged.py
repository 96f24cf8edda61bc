"""Finds sources that stand for several modules: litert-torch omits the lists that contain modules from names.

    enc.0.attn.query, dec.0.attn.query      both are `0.attn.query` in tensor names

The operators of one call stand in a row. Several calls are of several modules if their weights differ, and perhaps if
a list was omitted, so that the name ends with a number, or if a module beside or in it stands for several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from circletools.graph.graph import Graph
from circletools.origin.source import AnySource, Source

_WEIGHTS = 32  # bytes; smaller data may be an axis or a scalar, which many operators read
_HOLDERS = ("torch.nn.modules.linear.", "torch.nn.modules.conv.")
_ONCE = frozenset(("CONV_2D", "FULLY_CONNECTED", "GELU", "LOGISTIC", "RELU", "RSQRT", "SOFTMAX", "TANH"))
"""Operators that a module of PyTorch has once in each call, if it is not recurrent and has no inner modules."""

Module = tuple[str, str]
"""A name, and the class of a module without inner modules."""


def merged_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[AnySource]:
    """Return the sources of operators that may stand for several modules, in the order of the operators.

    Raises ModelFormatError for a tensor that does not exist.
    """
    listed = [[one for one in own if isinstance(one, Source) and one.details.path] for own in named]
    outer = {module for own in listed for source in own for module in _around(source)[:-2]}
    calls: dict[Module, dict[int, int]] = defaultdict(dict)
    used: dict[Module, set[str]] = defaultdict(set)
    for row, (sources, code) in enumerate(zip(listed, graph.operators.code_names, strict=True)):
        for module in _inside(sources, outer):
            own = calls[module]
            again = code in used[module] or (own and row - 1 not in own)
            own[row] = max(own.values(), default=0) + bool(again)
            used[module] = (set() if again else used[module]) | ({code} & _ONCE if _is_simple(module[1]) else set())
    several = {module for module, own in calls.items() if len(set(own.values())) > 1}
    merged = {module for module in several if _weights_differ(graph, calls[module])}
    parts = [name.split(".") for name, _ in merged]
    beside = {".".join(own[:end]) for own in parts for end in range(len(own) > 1, len(own))}
    for module in several:
        parent, _, last = module[0].rpartition(".")
        if (parent in beside or last.isdecimal()) and (parent, "") not in several:
            merged.add(module)
    found: dict[Source, dict[Module, set[int]]] = {}
    for row, sources in enumerate(listed):
        for module in {module for source in sources for module in _around(source)} & merged:
            for source in sources:
                if row in calls[module] or module in _around(source):
                    found.setdefault(source, {}).setdefault(module, set()).add(calls[module].get(row, -row))
    return [source for source, parts in found.items() if any(len(own) > 1 for own in parts.values())]


def _around(source: Source) -> list[Module]:
    """Return the modules that contain a source, the outermost first; the last two are itself."""
    parts = source.name.split(".")
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return [*((name, "") for name in names), (source.name, source.details.class_name)]


def _inside(sources: list[Source], outer: set[Module]) -> Iterator[Module]:
    """Yield the modules of an operator; of several without inner modules, only the one that holds a weight."""
    each = [set(_around(source)) for source in sources] or [set()]
    holders = [source for source in sources if source.details.class_name.startswith(_HOLDERS)]
    leaves = set.intersection(*each) | {_around(one)[-1] for one in holders if len(holders) == 1}
    yield from set.union(*each) & outer | {one for one in leaves if (one[0], "") not in outer}


def _is_simple(class_name: str) -> bool:
    return class_name.startswith("torch.nn.modules.") and "Multihead" not in class_name and ".rnn." not in class_name


def _weights_differ(graph: Graph, calls: dict[int, int]) -> bool:
    """Return whether two calls read other weights."""
    values, held = graph.values, defaultdict[int, set[int]](set)
    for row, call in calls.items():
        read = [one for one in graph.operands.of(row) if one >= 0 and values.is_constant[one]]
        held[call].update(int(values.buffers[one]) for one in read if values.bytes[one] >= _WEIGHTS)
    return any(one and other and one.isdisjoint(other) for one, other in combinations(held.values(), 2))
