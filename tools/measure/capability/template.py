"""Templates: operators with open types, ranks, constants and options, and the probes made from them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from tools.measure.capability.single import QUANTIZABLE, TYPES, Operand, Probe

Shape = Callable[[int], tuple[int, ...]]
Binding = Mapping[str, str]

_SIZES = (2, 3, 4, 2, 3, 2, 2, 3)
KINDS = {"x": "computed", "k": "constant", "v": "variable", "n": "none"}
LAST_VERSION = 16


def d(rank: int) -> tuple[int, ...]:
    """Return a shape of this rank."""
    return _SIZES[:rank]


@dataclass(frozen=True)
class Arg:
    """An operand: `type` is a type, or a variable to which bindings assign one; `shape` depends on the rank.

    `kinds` are the possible kinds: x computed, k constant, v variable, n omitted, and - absent, together with
    everything after it.
    """

    type: str = "T"
    shape: Shape = d
    kinds: str = "x"
    data: Callable[[int], Sequence[float]] | None = None
    range: Mapping[str, tuple[float, int]] = field(default_factory=dict)
    scale: float = 0.5
    channel: int = 0

    def operand(self, rank: int, binding: Binding, kind: str) -> Operand:
        """Return the operand with everything bound."""
        kind_name, type_name = KINDS[kind], binding.get(self.type, self.type)
        element = type_name.partition("/")[0]
        scale, zero_point = self.range.get(element, (self.scale, 0))
        data = None if self.data is None else tuple(self.data(rank))
        return Operand(type_name, self.shape(rank), kind_name, data, scale, zero_point, self.channel)


@dataclass(frozen=True)
class Template:
    """A use of an operator. `vary` holds other option values, `bases` the ranks that decide whether to continue."""

    code: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    bindings: tuple[Binding, ...]
    table: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    vary: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    ranks: tuple[int, ...] = tuple(range(9))
    bases: tuple[int, ...] = (2, 4)
    variadic: bool = False
    version: int = 1

    def bases_of(self) -> Iterator[list[Probe]]:
        """Yield, for each signature, the one or two probes that decide whether to continue."""
        for binding, kinds in product(self.bindings, product(*(arg.kinds for arg in self.inputs))):
            there = kinds.index("-") if "-" in kinds else len(kinds)
            if set(kinds[there:]) <= {"-"}:
                ranks = [rank for rank in self.bases if rank in self.ranks] or [self.ranks[0]]
                yield [self.probe(rank, binding, kinds[:there]) for rank in ranks]

    def probe(self, rank: int, binding: Binding, kinds: Sequence[str]) -> Probe:
        """Return the probe of a signature at a rank."""
        inputs = tuple(
            arg.operand(rank, binding, kind) for arg, kind in zip(self.inputs[: len(kinds)], kinds, strict=True)
        )
        outputs = tuple(arg.operand(rank, binding, "x") for arg in self.outputs)
        options = tuple((name, value(rank) if callable(value) else value) for name, value in self.options)
        return Probe(self.code, inputs, outputs, options, self.table, self.version, variadic=self.variadic)

    def rest_of(self, base: Probe, rank: int) -> Iterator[Probe]:
        """Yield the other probes of a signature whose base was accepted at a rank."""
        for other in self.ranks:
            moved = _moved(self, base, other)
            if other != rank:
                yield moved
            yield replace(moved, dynamic=True, feature="dynamic")
        for version in range(1, LAST_VERSION + 1):
            if version != base.version:
                yield replace(base, version=version, feature="version")
        for name, values in self.vary:
            for value in values:
                options = tuple((key, value if key == name else old) for key, old in base.options)
                if options != base.options:
                    yield replace(base, options=options, feature=name)


def _moved(template: Template, base: Probe, rank: int) -> Probe:
    def at(args: Sequence[Arg], operands: Sequence[Operand]) -> tuple[Operand, ...]:
        return tuple(
            replace(operand, shape=arg.shape(rank), data=None if arg.data is None else tuple(arg.data(rank)))
            for arg, operand in zip(args, operands, strict=False)
        )

    options = tuple(
        (name, value(rank) if callable(value) else old)
        for (name, value), (_, old) in zip(template.options, base.options, strict=True)
    )
    inputs, outputs = at(template.inputs, base.inputs), at(template.outputs, base.outputs)
    return replace(base, inputs=inputs, outputs=outputs, options=options)


def each(*names: str, types: Sequence[str] | None = None) -> tuple[Binding, ...]:
    """Return a binding of all names to each type, by default to every existing type."""
    return tuple(dict.fromkeys(names or ("T",), name) for name in types or EVERY)


def rows(names: str, text: str) -> tuple[Binding, ...]:
    """Return a binding for each line of a text."""
    variables = names.split()
    return tuple(dict(zip(variables, line.split(), strict=True)) for line in text.strip().splitlines())


EVERY = [
    *TYPES,
    *(f"{name}/t" for name in TYPES if name in QUANTIZABLE - {"INT64", "UINT4"}),
    "INT8/c",
]
"""All types without quantization, integer types with one scale, and INT8 with many scales."""
