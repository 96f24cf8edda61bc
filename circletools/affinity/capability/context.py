"""Context rules: pairs of operators that a device accepts alone but refuses together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from circletools.affinity.capability.form import Form
from circletools.graph.graph import Graph

Link = Literal["feeds", "shares"]
Side = Mapping[str, tuple[Form, ...]]
"""The forms of the operators on one side of a rule, by code name."""


@dataclass(frozen=True, slots=True)
class ContextRule:
    """`then` is refused if it reads an output of `first` (feeds) or a tensor that `first` reads too (shares)."""

    first: Side
    then: Side
    link: Link
    reason: str
    remedy: str = ""


def in_context(
    rules: Iterable[ContextRule], facts: Graph, on_side: Callable[[Side], NDArray[np.bool_]]
) -> Iterator[tuple[int, str, str]]:
    """Yield the operators that a rule refuses, with reason and remedy; `on_side` finds the operators of a side."""
    slots = facts.operands
    readers = np.repeat(np.arange(len(facts)), np.diff(slots.splits))
    for rule in rules:
        first, then = on_side(rule.first), on_side(rule.then)
        uses, what = (facts.definitions, "an output") if rule.link == "feeds" else (facts.uses, "an input")
        among = first[uses.operators]
        owners = np.full(len(facts.values) + 1, -1, np.int64)  # the last row stands for omitted inputs
        owners[uses.values[among]] = uses.operators[among]
        others = owners[slots.values]
        found = np.flatnonzero(then[readers] & (others >= 0) & (others != readers))
        indices, at = np.unique(readers[found], return_index=True)
        for index, other in zip(indices.tolist(), others[found[at]].tolist(), strict=True):
            words = f"reads {what} of operator {other}, {facts.operators.code_names[other]}: {rule.reason}"
            yield index, words, rule.remedy
