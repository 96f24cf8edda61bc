"""Find errors in the names that litert-torch writes: sources of other modules, and one source for several modules.

The converter stores equal constants once, named after the first module that reads one, and appends that name to the
names of all operators that it fuses the constant with. It omits lists of modules from names:

    LOGISTIC `0.act`, LOGISTIC `1.act;0.act`    both read a 1.0 that is named `0.act`
    enc.0.attn.query, dec.0.attn.query          both are `0.attn.query` in tensor names

All inputs of a call exist before it, so no path can leave the operators of one call and return to them. If a path
does return, there are several calls. The calls belong to several modules if their weights differ, and perhaps if the
name ends with a number (a list was omitted) or a sibling module stands for several.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from circletools.graph.algorithms import components
from circletools.graph.graph import Graph
from circletools.origin.source import AnySource, Source

_WEIGHTS = 32  # bytes; smaller data may be an axis or a scalar, which many operators read
_HOLDERS = ("torch.nn.modules.linear.", "torch.nn.modules.conv.")
_ONCE = frozenset(("CONV_2D", "FULLY_CONNECTED", "GELU", "LOGISTIC", "RELU", "RSQRT", "SOFTMAX", "TANH"))
"""Operators that a PyTorch module runs once in each call, if it is not recurrent and has no inner modules."""

Module = tuple[str, str]
"""A module's name, and its class if it has no inner modules."""

Calls = dict[int, tuple[int, int, int]]
"""For each operator: a lower bound on the number of calls before its own, and its connected components among the
operators with that number and among all operators of the module."""


def own_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[list[AnySource]]:
    """Return the sources `named` in operators' outputs, without those that come only from a shared constant.

    The first source is the operator's own. Any other source must be connected, through operators that share it, to an
    operator whose own source it is, if any. Its class must differ from the other sources' classes, unless this
    operator is the first to have it.
    """
    pairs = [(row, source) for row, own in enumerate(named) for source in own]
    number = {pair: at for at, pair in enumerate(pairs)}
    born = {source: row for row, source in reversed(pairs)}
    givers = graph.producer[graph.uses.values]
    sets = [*map(frozenset, named), frozenset()]  # the last set is for -1: no operator produces the value
    edges = [
        (number[giver, source], number[reader, source])
        for giver, reader in set(zip(givers.tolist(), graph.uses.operators.tolist(), strict=True))
        for source in sets[giver] & sets[reader]
    ]
    part = dict(zip(pairs, components(len(pairs), *([edge[side] for edge in edges] for side in (0, 1))), strict=True))
    first = {own[0] for own in named if own}
    led = {part[row, own[0]] for row, own in enumerate(named) if own}
    led |= {part[row, source] for source, row in born.items() if source not in first}
    found = []
    for row, own in enumerate(named):
        near = [source for source in own if source not in first or part[row, source] in led]
        sure = {one for one in near if born[one] == row or (one not in first and part[row, one] in led)} | {*own[:1]}
        classes = set(map(_class_of, sure))
        others = {_class_of(source): source for source in reversed(near) if _class_of(source) not in classes}
        found.append([source for source in near if source in sure or others.get(_class_of(source)) == source])
    return found


def _class_of(source: AnySource) -> str:
    return source if isinstance(source, str) else source.details.class_name


def merged_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[AnySource]:
    """Return the sources of operators that may stand for several modules, in the order of the operators.

    Raises ModelFormatError for a tensor that does not exist.
    """
    listed = [[one for one in own if isinstance(one, Source) and one.details.path] for own in named]
    calls, weights = _calls(graph, _inside(listed))
    several = {module: own for module, own in calls.items() if len(set(own.values())) > 1}
    merged = {module for module, own in several.items() if _weights_differ(own, weights)}
    beside = {parent for parent, _, last in (name.rpartition(".") for name, _ in merged) if not last.isdecimal()}
    for module in several:
        parent, _, last = module[0].rpartition(".")
        if (parent in beside or last.isdecimal()) and (parent, "") not in several:
            merged.add(module)
    single = _of_one_module(graph, listed, calls, several)
    found: dict[Source, dict[Module, set[object]]] = {}
    for row, sources in enumerate(listed):
        near = {module for source in sources for module in _around(source)} & merged
        for source in sources:
            around = _around(source)
            for module in () if source in single else near:
                if module in around or (row in calls[module] and around[-2] not in calls):
                    found.setdefault(source, {}).setdefault(module, set()).add(calls[module].get(row, row))
    return [source for source, parts in found.items() if any(len(own) > 1 for own in parts.values())]


def _of_one_module(
    graph: Graph, listed: list[list[Source]], calls: Mapping[Module, Calls], several: Collection[Module]
) -> set[Source]:
    """Return the sources that stand for one module: all their operators are in its only call, or fused next to it.

    If modules of different classes have the same name, such as `0` in an encoder and a decoder, the class decides:
    connected operators of a class belong to one module.
    """
    above = {".".join(parts[:end]) for parts in (name.split(".") for name, _ in several) for end in range(len(parts))}
    rows, classes = defaultdict[Source, set[int]](set), defaultdict[str, set[str]](set)
    for row, sources in enumerate(listed):
        for source in sources:
            rows[source].add(row)
            classes[source.name].add(source.details.class_name)
    near: dict[int, set[int]] = defaultdict(set)
    for one, other in zip(graph.producer[graph.uses.values].tolist(), graph.uses.operators.tolist(), strict=True):
        near[one].add(other)
        near[other].add(one)
    found = set()
    for source, own in rows.items():
        outer, leaf = _around(source)[-2:]
        each = calls.get(leaf) or calls.get(outer) or {}
        places = {each.get(row) for row in own if row in each or not any(one in each for one in near[row])}
        connected = (
            leaf not in calls and len(classes[source.name]) > 1 and len({one and one[-1] for one in places}) == 1
        )
        if None not in places and (connected or (source.name not in above and len(set(each.values())) == 1)):
            found.add(source)
    return found


def _around(source: Source) -> list[Module]:
    """Return the modules that contain a source, the outermost first; the last two are the source itself."""
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
        edges = [(row, one) for row in rows for one in givers[row] if one in own]
        near = [edge for edge in edges if level[edge[0]] == level[edge[1]]]
        part, whole = (
            components(len(rows), *([own[edge[side]] for edge in some] for side in (0, 1))) for some in (near, edges)
        )
        found[module] = {row: (level[row], part[at], whole[at]) for row, at in own.items()}
    return found, weights


def _weights_differ(calls: Calls, weights: Mapping[int, set[int]]) -> bool:
    """Return whether two calls read different weights."""
    held: dict[int, set[int]] = defaultdict(set)
    for row, (level, *_) in calls.items():
        held[level] |= weights.get(row, set())
    return any(one and other and one.isdisjoint(other) for one, other in combinations(held.values(), 2))
