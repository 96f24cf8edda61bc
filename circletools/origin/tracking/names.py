"""Pairs by the names of output tensors, where names can be trusted.

A tool that numbers tensors anew gives old names to other tensors. So names count only where most operators whose
outputs have the same name are of the same code, hold the same constants and stand in the same place; and one that
stands elsewhere, while another of its code stands in its place, is not trusted even if the others are. Where neither
constants nor neighbours tell, what the graph says of others comes first.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from itertools import chain

import numpy as np

from circletools.origin.tracking.match import Matcher
from circletools.origin.tracking.side import NONE, Indices, Side, main_inputs
from circletools.origin.tracking.witnesses import Witnesses

_ADDED = re.compile(rb"(_(de|re)?quant(ize|ized)?|_(u?int(4|8|16)|fp?16|float16))+$")
_STEPS_BACK = 6
_BELIEVED = 0.5  # the share of equal names that operators of one code have


def pair_by_name(matcher: Matcher) -> dict[int, list[int]]:
    """Pair operators whose first outputs have the same name.

    Return, by operator of AFTER, the operators of BEFORE that share its output name without being its partner: the
    last of those that were fused into it.
    """
    pairs = _same_names(matcher)
    groups = [pairs] if matcher.tagged else _trusted(matcher, pairs)
    if not groups:
        return {}
    matcher.names_count = True
    for group in groups:
        for old, new in group:  # first the same operator: going back below must not take it
            if matcher.pairs.are_free(old, new) and matcher.fits(old, new, by_size=False):
                matcher.pairs.add(old, new)
        if group is not groups[-1]:
            matcher.match(choosing=False)
    ends: dict[int, list[int]] = defaultdict(list)
    main = main_inputs(matcher.before)
    for old, new in chain.from_iterable(groups):
        if matcher.pairs.to_after[old] == NONE:
            ends[new].append(old)
            _pair_back(matcher, main, old, new)
    return dict(ends)


def _trusted(matcher: Matcher, pairs: list[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    """Return the pairs that names can be trusted for, if any: those of which nothing else tells come last."""
    before, after = matcher.before, matcher.after
    alike = [(old, new) for old, new in pairs if before.codes[old] == after.codes[new]]
    opaque = matcher.opaque()  # it has the name of the last that it swallowed
    if not alike or len(alike) < _BELIEVED * sum(new not in opaque for _, new in pairs):
        return []
    at = {new: old for old, new in pairs if new in opaque}
    made = [(int(before.producer[old]), int(after.producer[new])) for old, new in matcher.anchors.outputs]
    if any(at.get(new, old) != old for old, new in made):  # what makes an output has the name of another
        return []
    witnesses = Witnesses(matcher, alike)
    if not witnesses.believed():
        return []
    pairs = [pair for pair in pairs if pair not in witnesses.contradicted]
    silent = [pair for pair in pairs if pair in witnesses.silent]
    return [[pair for pair in pairs if pair not in witnesses.silent], silent] if silent else [pairs]


def _pair_back(matcher: Matcher, main: Indices, old: int, new: int) -> None:
    """Pair an operator of AFTER with the one of BEFORE some steps in front of that whose name it has."""
    for _ in range(_STEPS_BACK):
        if main[old] == NONE or matcher.before.producer[main[old]] == NONE:
            return
        old = int(matcher.before.producer[main[old]])
        if matcher.pairs.to_after[old] != NONE:
            return
        if matcher.pairs.are_free(old, new) and matcher.fits(old, new, by_size=False):
            matcher.pairs.add(old, new)
            return


def _same_names(matcher: Matcher) -> list[tuple[int, int]]:
    """Return the operators, one of each model, that share an output name which no other operator has."""
    subgraphs = matcher.anchors.subgraphs
    inverse = {new: old for old, new in subgraphs.items()}
    before, after = matcher.before, matcher.after
    new_names = _names(after, inverse)
    old_names = _names(before, {s: s for s in subgraphs}) if new_names else {}
    pairs = [(old_names[key], new) for key, new in new_names.items() if key in old_names]
    taken = {old for old, _ in pairs}
    more = len(subgraphs) < len(after.model.subgraphs)
    anywhere = {name: old for (_, name), old in old_names.items()} if more else {}
    for (subgraph, name), new in new_names.items():
        if (subgraph, name) in old_names:
            continue
        if subgraph == NONE and name in anywhere and anywhere[name] not in taken:  # moved to a subgraph of its own
            pairs.append((anywhere[name], new))
            taken.add(anywhere[name])
            continue
        parts = name.split(b";") if b";" in name else [_ADDED.sub(b"", name)]
        for part in parts:
            old = old_names.get((subgraph, part))
            if old is not None and old not in taken:
                pairs.append((old, new))
                taken.add(old)
    return pairs


def _names(side: Side, numbers: dict[int, int]) -> dict[tuple[int, bytes], int]:
    """Return the operator of each name of a first output that stands once; subgraphs by `numbers`, else -1."""
    names, first = side.names, side.outputs.position == 0
    operators, tensors = side.outputs.operator[first], side.outputs.tensor[first].tolist()
    subgraphs = (np.searchsorted(side.operator_splits, operators, "right") - 1).tolist()
    keys = [(numbers.get(subgraph, NONE), names[tensor]) for subgraph, tensor in zip(subgraphs, tensors, strict=True)]
    counts = Counter(keys)
    return {key: row for key, row in zip(keys, operators.tolist(), strict=True) if key[1] and counts[key] == 1}
