"""What a runtime keeps between operators other than by tensors that it hands on, and which operators use it.

A variable tensor keeps its value from run to run, and variables and hash tables keep theirs. `CALL_ONCE` gives first
values. What nothing else writes may be in several parts, each with its own operators that name it and give it its
value; all else must be in one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from circletools.findings import Finding
from circletools.graph.build import graph_of
from circletools.graph.graph import Graph
from circletools.model.model import Model
from circletools.split.uses import UNKNOWN, Kept, Named, Uses, UsesReader

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class State:
    """What operators of a subgraph keep.

    `users` has the operators that use what is written, ascending, at least one each. `copied` are operators that name
    something or give it its first value, with the operators that use it: each part of these needs its own. `giving`
    has those that give first values, and what they use.
    """

    users: Mapping[Kept, list[int]]
    copied: Mapping[int, list[int]]
    giving: Mapping[int, set[Kept]]


def read_state(model: Model, subgraph: int) -> State:
    """Return what the operators of a subgraph keep. Raises ModelFormatError for a broken structure."""
    return state_of(UsesReader(model), subgraph)


def state_of(reader: UsesReader, subgraph: int) -> State:
    """Return it of one of several subgraphs of a model."""
    facts, own = graph_of(reader.model, subgraph), reader.uses(subgraph)
    once, written = _giving(own)
    giving = {operator: _here(own.by_operator[operator].used) for operator in once}
    by_kept: dict[Kept, list[int]] = defaultdict(list)
    for operator in sorted(own.by_operator.keys() - own.naming.keys() - giving.keys()):
        for one in _here(own.by_operator[operator].used):
            by_kept[one].append(operator)
    copied = {operator: {kept} for operator, kept in own.naming.items()} | giving
    users_of = {operator: {user for one in kept for user in by_kept[one]} for operator, kept in copied.items()}
    for maker, taker, tensor in _handed_on(facts):
        if maker in own.naming:
            users_of[maker].add(taker)
        else:  # such a tensor cannot go from part to part
            by_kept[kept := f"what tensor {tensor} names"] += [maker, taker]
            written.add(kept)
    for later, earlier in combinations(reversed(giving), 2):  # what one gives, another may read
        if giving[earlier] & giving[later]:
            users_of[earlier] |= users_of[later]
    return State(
        {kept: sorted(set(users)) for kept, users in by_kept.items() if kept in written},
        {operator: sorted(users) for operator, users in users_of.items()},
        giving,
    )


def _giving(uses: Uses) -> tuple[list[int], set[Kept]]:
    """Return the operators that only give first values, and what others write.

    One that reads what others write gives what these left there: it cannot be copied.
    """
    giving = list(uses.giving)
    while True:
        others = (one.written for operator, one in uses.by_operator.items() if operator not in giving)
        written = _here(set().union(*others))
        left = [operator for operator in giving if written.isdisjoint(_here(uses.by_operator[operator].read))]
        if len(left) == len(giving):
            return giving, written
        giving = left


def _handed_on(facts: Graph) -> Iterator[tuple[int, int, int]]:
    """Yield who makes and who reads a tensor that names what is kept, and the tensor."""
    held = facts.is_handle[facts.reads.values]
    for reader, tensor in zip(*(numbers[held].tolist() for numbers in facts.reads), strict=True):
        if (maker := int(facts.producer[tensor])) >= 0:
            yield maker, reader, tensor


def _here(names: Iterable[Named]) -> set[Kept]:
    """Return what a runtime keeps, where nobody knows what the inputs of the subgraph name."""
    return {name if isinstance(name, str) else UNKNOWN for name in names}


def set_elsewhere(uses: UsesReader, used: Collection[Named], left_out: Iterable[int]) -> Iterator[Finding]:
    """Yield a finding for what is used and also set by subgraphs that are left out. Raises ModelFormatError."""
    for subgraph in sorted(left_out):
        for name in sorted(_giving(uses.uses(subgraph))[1].intersection(used)):
            message = f"subgraph {subgraph}, which is left out, sets {name} too"
            yield Finding("STATE_APART", "warning", f"subgraphs[{subgraph}]", message)
