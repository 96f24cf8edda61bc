"""Drop the sources that litert-torch takes from the constants of other modules.

The converter stores equal constants once, named after the first module that reads one, and appends that name to the
names of all operators that it fuses the constant with:

    LOGISTIC `0.act`, LOGISTIC `1.act;0.act`    both read a 1.0 that is named `0.act`
"""

from __future__ import annotations

from collections.abc import Sequence

from circletools.graph.algorithms import components
from circletools.graph.graph import Graph
from circletools.origin.source import AnySource


def own_sources(graph: Graph, named: Sequence[Sequence[AnySource]]) -> list[list[AnySource]]:
    """Return the sources `named` in operators' outputs, without those that come only from a shared constant.

    The first source is the operator's own. Any other source must be connected, through operators that share it, to an
    operator whose own source it is, if one exists. Its class must differ from the other sources' classes, unless this
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
