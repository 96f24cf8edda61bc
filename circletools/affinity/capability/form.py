"""The elements of a capability table: forms of operators, patterns of tensors, values of options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Literal

from circletools.affinity.capability.comparison import Comparison, Term
from circletools.affinity.capability.traits import TensorTraits

_LARGEST_SHOWN = 1 << 31
"""What is larger stands for a text."""

Kind = Literal["", "computed", "constant"]


@dataclass(frozen=True, slots=True)
class TensorPattern:
    """A pattern of tensors. An empty word is any; type `*` is any; `none` is an input that is left out."""

    type: str
    quantization: str = ""
    kind: Kind = ""
    none: bool = False

    def holds(self, tensor: TensorTraits | None) -> bool:
        """Say whether a tensor, or none, is one of these."""
        if tensor is None or self.none:
            return tensor is None and self.none
        if self.type not in {"*", tensor.type}:
            return False
        if self.quantization not in {"", tensor.quantization or "unquantized"}:
            return False
        return not self.kind or tensor.constant == (self.kind == "constant")

    def __str__(self) -> str:
        """Return it as a table has it."""
        return "none" if self.none else " ".join(filter(None, (self.type, self.quantization, self.kind)))


Patterns = tuple[TensorPattern, ...]


@dataclass(frozen=True, slots=True)
class OptionValues:
    """The values that an option may have: those listed, or all from `low` to `high`.

    `names` are those of an enum, or for an option that is a text the listed ones.
    """

    values: frozenset[float]
    low: float
    high: float
    text: str
    names: Mapping[int, str]

    def holds(self, value: float) -> bool:
        """Say whether a value is one of these."""
        return value in self.values or self.low <= value <= self.high

    def show(self, value: float) -> str:
        """Return a value as a table has it."""
        return self.names.get(int(value), "another" if abs(value) > _LARGEST_SHOWN else f"{value:g}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The numbers from `low` to `high`, which may be infinite."""

    low: int
    high: float

    def holds(self, value: int) -> bool:
        """Say whether a number is one of these."""
        return self.low <= value <= self.high

    def __str__(self) -> str:
        """Return them in words."""
        if self.high == inf:
            return f"at least {self.low}"
        return str(self.low) if self.low == self.high else f"{self.low} to {int(self.high)}"


@dataclass(frozen=True, slots=True)
class Places:
    """What may be at each place; with `more`, the last place may come again any number of times."""

    allowed: tuple[Patterns, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Form:
    """One form in which a device takes an operator; docs/capabilities.md describes each condition.

    What is None may be anything. `open` is the most that dimensions may be unknown: none (0), the first (1), any (2).
    `where` has comparisons that are all true.
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
        """The properties to read from an operator, besides its tensors, to match this form."""
        return frozenset(self.options).union(*(comparison.terms for comparison in self.where))


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition under which a device refuses operators, in the words of its program where it has some.

    It is about `codes`, less `without`, that have the form `when`; refused is what has none of the forms `needs`, or
    everything where there are none. Not `known`: the device was not asked about these. `probes` is how many answers
    stand behind it.
    """

    codes: frozenset[str]
    without: frozenset[str]
    when: Form | None
    needs: tuple[Form, ...]
    reason: str
    remedy: str
    known: bool
    probes: int

    def concerns(self, code: str) -> bool:
        """Say whether it is about an operator code; `CUSTOM:*` is every custom one."""
        if code in self.without:
            return False
        return code in self.codes or "*" in self.codes or (code.startswith("CUSTOM:") and "CUSTOM:*" in self.codes)

    @property
    def terms(self) -> frozenset[Term]:
        """The properties to read from an operator, as for a form."""
        return frozenset[Term]().union(*(form.terms for form in (*self.needs, *([self.when] if self.when else ()))))
