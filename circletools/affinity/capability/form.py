"""The parts of a capability table: operator forms, tensor patterns, option values, and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Literal

import numpy as np

from circletools.affinity.capability.comparison import Comparison, Term
from circletools.affinity.capability.traits import OperatorTraits, TensorTraits
from circletools.flatbuf.columns import Mask
from circletools.graph.algorithms import Indices
from circletools.graph.graph import Graph

ANY = "*"
_LARGEST_SHOWN = 1 << 31
"""Larger values represent strings."""

Kind = Literal["", "computed", "constant"]


@dataclass(frozen=True, slots=True)
class TensorPattern:
    """A pattern for tensors. An empty field matches anything, type `*` any type, and `none` an omitted input."""

    type: str
    quantization: str = ""
    kind: Kind = ""
    none: bool = False

    def holds(self, tensor: TensorTraits | None) -> bool:
        """Return whether the pattern matches a tensor or, for None, an omitted input."""
        if tensor is None or self.none:
            return tensor is None and self.none
        if tensor.type and (
            self.type not in {"*", tensor.type} or self.quantization not in {"", tensor.quantization or "unquantized"}
        ):
            return False
        return not self.kind or tensor.constant == (self.kind == "constant")

    def __str__(self) -> str:
        """Return the pattern in the syntax of tables."""
        return "none" if self.none else " ".join(filter(None, (self.type, self.quantization, self.kind)))


Patterns = tuple[TensorPattern, ...]


@dataclass(frozen=True, slots=True)
class OptionValues:
    """The allowed values of an option: a list, or the range from `low` to `high`.

    `names` are the names of an enum, or the listed strings if the option is a string.
    """

    values: frozenset[float]
    text: str
    names: Mapping[int, str]
    low: float = inf
    high: float = -inf

    def holds(self, value: float) -> bool:
        """Return whether a value is allowed."""
        return value in self.values or self.low <= value <= self.high

    def show(self, value: float) -> str:
        """Return a value in the syntax of tables."""
        return self.names.get(int(value), "another" if abs(value) > _LARGEST_SHOWN else f"{value:g}")

    def is_foreign(self, value: float) -> bool:
        """Return whether a value is not a member of the enum."""
        return bool(self.names) and abs(value) < _LARGEST_SHOWN and value not in self.names


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers from `low` to `high`; the latter may be infinite."""

    low: int
    high: float

    def holds(self, value: int) -> bool:
        """Return whether a number is within the bounds."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """Return the bounds as text."""
        if self.high == inf:
            return f"at least {self.low}"
        return str(self.low) if self.low == self.high else f"{self.low} to {int(self.high)}"


@dataclass(frozen=True, slots=True)
class Places:
    """The patterns allowed at each place; with `more`, the last place may repeat any number of times."""

    allowed: tuple[Patterns, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Form:
    """One form in which a device accepts an operator; docs/capabilities.md describes each condition.

    None in a field allows anything. `open` indicates which dimensions may be unknown: none (0), only the first (1),
    or any (2). All comparisons in `where` must hold.
    """

    types: Patterns | None
    inputs: Places | None
    outputs: Places | None
    rank: Bounds
    version: Bounds
    open: int
    unpacks: bool
    options: Mapping[str, OptionValues]
    input_count: Bounds
    output_count: Bounds
    where: tuple[Comparison, ...] = ()

    @property
    def terms(self) -> frozenset[Term]:
        """The properties of an operator, other than its tensors, that are needed to match this form."""
        return frozenset(self.options).union(*(comparison.terms for comparison in self.where))

    def is_unlike(self, operator: OperatorTraits) -> bool:
        """Return whether an operator has more outputs than any tested one, or an option value outside its enum."""
        most = len(self.outputs.allowed) if self.outputs and not self.outputs.more else inf
        settings = operator.settings
        return len(operator.outputs) > most or any(
            allowed.is_foreign(settings.get(name, 0)) for name, allowed in self.options.items()
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition under which a device refuses operators, with the message of the device's program, if any.

    A rule applies to operators with a code in `codes`, but not in `without`, that match the form `when`. It refuses
    those that match none of the forms in `needs`; if `needs` is empty, it refuses all of them. If not `known`, the
    device was not tested with these operators. If `wrong`, the device runs them, but computes wrong values.
    """

    codes: frozenset[str]
    without: frozenset[str]
    when: Form | None
    needs: tuple[Form, ...]
    reason: str
    remedy: str
    known: bool
    wrong: bool

    def concerns(self, code: str) -> bool:
        """Return whether the rule applies to an operator code; `CUSTOM:*` matches every custom operator."""
        is_custom = code.startswith("CUSTOM:") and "CUSTOM:*" in self.codes
        return code not in self.without and (is_custom or code in self.codes or "*" in self.codes)

    @property
    def terms(self) -> frozenset[Term]:
        """The properties of an operator that are needed to match the rule's forms."""
        return frozenset[Term]().union(*(form.terms for form in (*self.needs, *([self.when] if self.when else ()))))


Link = Literal["feeds", "shares"]
Side = Mapping[str, tuple[Form, ...]]
"""The forms of the operators on one side of a rule about two operators, by code name or `*`."""


def forms_of(forms: Side, code: str) -> tuple[Form, ...]:
    """Return the forms of an operator code, followed by the forms that apply to every operator."""
    return (*forms.get(code, ()), *forms.get(ANY, ()))


@dataclass(frozen=True, slots=True)
class ContextRule:
    """A rule that refuses `then` if it reads an output of `first` (feeds) or a tensor that `first` reads (shares).

    An operator of `through` that reads such a tensor is treated as `first` if it matches one of the forms in
    `through`, or reads no other tensors. If `returned`, such a tensor is also wrong as an output of the graph.
    """

    first: Side
    then: Side
    link: Link
    reason: str
    remedy: str
    wrong: bool
    through: Side
    returned: bool


def in_context(
    rules: Iterable[ContextRule], facts: Graph, on_side: Callable[[Side], Mask], returned: bool
) -> Iterator[tuple[int, str, ContextRule]]:
    """Yield the operators that a rule refuses, with the reason and the rule; `on_side` finds operators of a side."""
    slots = facts.operands
    lists = cache(lambda: (slots.lists(), facts.results.lists()))  # few rules need them
    readers = np.repeat(np.arange(len(facts)), np.diff(slots.splits))
    for rule in rules:
        first, then = on_side(rule.first), on_side(rule.then)
        uses, what = (facts.uses, "an input") if rule.link == "shares" else (facts.definitions, "an output")
        among = first[uses.operators]
        owners = np.full(len(facts.values) + 1, -1, np.int64)  # the last row represents omitted inputs
        owners[uses.values[among]] = uses.operators[among]
        if rule.through and among.any():
            listed = facts.operators.is_code(*rule.through) | (ANY in rule.through)
            then[_passing(listed, on_side(rule.through), lists(), owners)] = False
        others = owners[slots.values]
        found = np.flatnonzero(then[readers] & (others >= 0) & (others != readers))
        indices, at = np.unique(readers[found], return_index=True)
        for index, other in zip(indices.tolist(), others[found[at]].tolist(), strict=True):
            words = f"it reads {what} of operator {other}, {facts.operators.code_names[other]}: {rule.reason}"
            yield index, words, rule
        if returned and rule.returned:
            ends = np.isin(uses.values, facts.outputs) & (owners[uses.values] >= 0)
            for index, other in zip(uses.operators[ends].tolist(), owners[uses.values[ends]].tolist(), strict=True):
                words = f"the graph returns an output that depends on operator {other}"
                yield index, f"{words}, {facts.operators.code_names[other]}: {rule.reason}", rule


def _passing(listed: Mask, fits: Mask, slots: Sequence[list[list[int]]], owners: Indices) -> list[int]:
    """Propagate owners from inputs to outputs in `owners`; return the `listed` operators that pass an owner on."""
    (operands, results), known, found = slots, owners.tolist(), []
    for index in np.flatnonzero(listed).tolist():
        mine = [known[value] for value in operands[index]]
        if mine and max(mine) >= 0 and (fits[index] or min(mine) >= 0):
            for value in results[index]:
                known[value] = max(mine)
            found.append(index)
    owners[:] = known
    return found
