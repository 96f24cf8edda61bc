"""Limits on the partitions of a device.

    npu:max-partitions=4        at most 4 partitions: the most profitable ones
    npu:min-operators=5         at least 5 operators each; likewise min-bytes and min-us
    npu:max-operators=100       at most 100 operators each; likewise max-bytes

The bytes of a partition are the constants that it reads, each counted once, and the tensors that it produces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from circletools.errors import EditError, UsageError
from circletools.wording import Attributes, suggestion

Kind = Literal["max-partitions", "min-operators", "min-bytes", "min-us", "max-operators", "max-bytes"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Limit(Attributes):
    """A limit on each partition of a device, or on the number of its partitions."""

    device: str
    kind: Kind
    number: float

    def __str__(self) -> str:
        """Return the limit in the syntax of the option."""
        return f"limit {self.device}:{self.kind}={self.number:g}"

    @property
    def is_upper(self) -> bool:
        """Whether it is an upper limit on the size of each partition."""
        return self.kind in ("max-operators", "max-bytes")

    @property
    def measure(self) -> str:
        """Return the limited quantity: partitions, operators, bytes or us."""
        return self.kind[4:]


def parse_limit(words: str) -> Limit:
    """Parse DEVICE:KIND=NUMBER. Raises UsageError."""
    left, _, number = words.rpartition("=")
    device, _, said = left.rpartition(":")
    kind = next((kind for kind in KINDS if kind == said), None)
    if not device or kind is None:
        hint = suggestion(said, KINDS) or f"kinds: {', '.join(KINDS)}"
        raise UsageError(f"`limits={words}` is not DEVICE:KIND=NUMBER", hint=hint)
    try:
        limit = float(number) if kind == "min-us" else int(number)
    except ValueError:
        limit = -1
    if not 0 <= limit <= 1e15:
        raise UsageError(f"`limits={words}`: {number!r} is not a number from 0 to 1e15")
    return Limit(device, kind, limit)


def check_limits(limits: Sequence[Limit], devices: Sequence[str], *, has_costs: bool) -> None:
    """Raise UsageError for limits that are not valid, EditError for two limits that exclude each other."""
    for number, limit in enumerate(limits):
        if limit.device not in devices:
            hint = suggestion(limit.device, devices)
            raise UsageError(f"{limit}: device {limit.device!r} is not among the devices", hint=hint)
        if limit.kind == "min-us" and not has_costs:
            raise UsageError(f"{limit} needs costs", hint="give `costs=FILE` or `traces=DEVICE=TRACE`")
        if any((other.device, other.kind) == (limit.device, limit.kind) for other in limits[:number]):
            raise UsageError(f"{limit}: a second {limit.kind} for {limit.device!r}")
    for least, most in product(limits, limits):
        same = (least.device, least.measure) == (most.device, most.measure)
        if same and least.kind.startswith("min") and most.kind.startswith("max") and least.number > most.number:
            raise EditError(f"{least} and {most} cannot be met together")
