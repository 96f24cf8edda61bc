"""Finds sources that stand for several modules: litert-torch omits the lists that contain modules from names.

    enc.0.attn.query, dec.0.attn.query      both are `0.attn.query` in tensor names

All inputs of a call exist before it, so no path leaves the operators of one call and returns to them. Where a path
does return, there are several calls. They are calls of several modules if their weights differ, and perhaps if the
name ends with a number (a list was omitted) or a sibling module stands for several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

from circletools.graph.algorithms import components
from circletools.graph.graph import Graph
from circletools.origin.source import AnySource, Source

_WEIGHTS = 32  # bytes; smaller data may be an axis or a scalar, which many operators read
_HOLDERS = ("torch.nn.modules.linear.", "torch.nn.modules.conv.")
_ONCE = frozenset(("CONV_2D", "FULLY_CONNECTED", "GELU", "LOGISTIC", "RELU", "RSQRT", "SOFTMAX", "TANH"))
"""Operators that a module of PyTorch has once in each call, if it is not recurrent and has no inner modules."""

Module = tuple[str, str]
"""A name, and the class of a module without inner modules."""

Calls = dict[int, tuple[int, int]]
"""For each operator: a lower bound on the number of calls before its own, and its connected component."""


def merged_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[AnySource]:
    """Return the sources of operators that may stand for several modules, in the order of the operators.

    Raises ModelFormatError for a tensor that does not exist.
    """
    listed = [[one for one in own if isinstance(one, Source) and one.details.path] for own in named]
    calls, weights = _calls(graph, _inside(listed))
    several = {module: own for module, own in calls.items() if len(set(own.values())) > 1}
    merged = {module for module, own in several.items() if _weights_differ(own, weights)}
    beside = {name.rpartition(".")[0] for name, _ in merged}
    for module in several:
        parent, _, last = module[0].rpartition(".")
        if (parent in beside or last.isdecimal()) and (parent, "") not in several:
            merged.add(module)
    found: dict[Source, dict[Module, set[object]]] = {}
    for row, sources in enumerate(listed):
        near = {module for source in sources for module in _around(source)} & merged
        for source in sources:
            for module in near:
                own = module in _around(source)
                if own or row in calls[module]:
                    found.setdefault(source, {}).setdefault(module, set()).add(calls[module].get(row, row))
    return [source for source, parts in found.items() if any(len(own) > 1 for own in parts.values())]


def _around(source: Source) -> list[Module]:
    """Return the modules that contain a source, the outermost first; the last two are itself."""
    parts = source.name.split(".")
    names = [".".join(parts[: end + 1]) for end in range(len(parts))]
    return [*((name, "") for name in names), (source.name, source.details.class_name)]


def _inside(listed: list[list[Source]]) -> dict[Module, list[int]]:
    """Return the operators of each module.

    An operator named after several innermost modules belongs to the one that holds a weight, if only one does.
    """
    outer = {module for own in listed for source in own for module in _around(source)[:-2]}
    inside: dict[Module, list[int]] = defaultdict(list)
    for row, sources in enumerate(listed):
        each = [set(_around(source)) for source in sources] or [set()]
        holders = [source for source in sources if source.details.class_name.startswith(_HOLDERS)]
        leaves = set.intersection(*each) | {_around(one)[-1] for one in holders if len(holders) == 1}
        for module in set.union(*each) & outer | {one for one in leaves if (one[0], "") not in outer}:
            inside[module].append(row)
    return inside


def _calls(graph: Graph, inside: Mapping[Module, list[int]]) -> tuple[dict[Module, Calls], dict[int, set[int]]]:
    """Return the earliest call to which each operator of a module can belong, and the weights of operators."""
    values, (readers, read), codes = graph.values, graph.uses, graph.operators.code_names
    weights: dict[int, set[int]] = defaultdict(set)
    givers: dict[int, list[int]] = defaultdict(list)
    heavy = values.is_constant & (values.bytes >= _WEIGHTS)
    for reader, value in zip(readers.tolist(), read.tolist(), strict=True):
        if graph.producer[value] >= 0:
            givers[reader].append(int(graph.producer[value]))
        elif heavy[value]:
            weights[reader].add(int(values.buffers[value]))
    found = {}
    for module, rows in inside.items():
        own, level, used = dict(zip(rows, range(len(rows)), strict=True)), dict[int, int](), set[tuple[int, str]]()
        has_once = (
            module[1].startswith("torch.nn.modules.") and "Multihead" not in module[1] and ".rnn." not in module[1]
        )
        for row in range(rows[0], rows[-1] + 1):
            before = [level.get(giver, 0) + (giver in own and row not in own) for giver in givers[row]]
            level[row] = max(before, default=0)
            while has_once and row in own and codes[row] in _ONCE and (level[row], codes[row]) in used:
                level[row] += 1
            used.add((level[row], codes[row] if row in own else ""))
        edges = [
            (own[row], own[one]) for row in rows for one in givers[row] if one in own and level[row] == level[one]
        ]
        part = components(len(rows), *([edge[side] for edge in edges] for side in (0, 1)))
        found[module] = {row: (level[row], part[at]) for row, at in own.items()}
    return found, weights


def _weights_differ(calls: Calls, weights: Mapping[int, set[int]]) -> bool:
    """Return whether two calls read different weights."""
    held: dict[int, set[int]] = defaultdict(set)
    for row, (level, _) in calls.items():
        held[level] |= weights.get(row, set())
    return any(one and other and one.isdisjoint(other) for one, other in combinations(held.values(), 2))
