"""Rules of context: two operators that a device takes, each alone, and does not take together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from circletools.affinity.capability.form import Form
from circletools.affinity.capability.traits import SubgraphTraits
from circletools.model.operator_facts import OperatorFacts

Link = Literal["feeds", "shares"]
Side = Mapping[str, tuple[Form, ...]]
"""The forms of the operators on one side of a rule, by code name."""


@dataclass(frozen=True, slots=True)
class ContextRule:
    """`then` is not taken where it reads an output of `first` (feeds) or a tensor that `first` reads too (shares)."""

    first: Side
    then: Side
    link: Link
    reason: str


def in_context(
    rules: tuple[ContextRule, ...], traits: SubgraphTraits, facts: OperatorFacts, fits: Callable[[Side, int], bool]
) -> Iterator[tuple[int, str]]:
    """Yield operators that are not taken because of another one, and why; `fits` says who is on a side of a rule."""
    for rule in rules:
        then = [index for index in traits.with_codes(rule.then.keys()) if fits(rule.then, index)]
        first = [index for index in traits.with_codes(rule.first.keys()) if fits(rule.first, index)] if then else []
        if not first:
            continue
        uses = facts.outputs if rule.link == "feeds" else facts.inputs
        among = np.isin(uses.operators, first)
        owners = dict(zip(uses.tensors[among].tolist(), uses.operators[among].tolist(), strict=True))
        for index in then:
            for tensor in facts.input_slots.of(index):
                other = owners.get(tensor, index)
                if other != index:
                    what = "an output" if rule.link == "feeds" else "an input"
                    yield index, f"reads {what} of operator {other}, {facts.code_names[other]}: {rule.reason}"
                    break
