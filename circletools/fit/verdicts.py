"""The results of `fit`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, get_args

from circletools.cost.micro import MicroMemory
from circletools.findings import Finding
from circletools.origin.source import NOTHING, SourceDetails
from circletools.wording import Attributes, Tabular, one_of

Verdict = Literal["resident", "not_resident", "not_known"]
_verdict = one_of("verdict", get_args(Verdict))
_Item = TypeVar("_Item")


class LazySequence(Sequence[_Item]):
    """A sequence whose items are all made when one is first read."""

    def __init__(self, make: Callable[[], Iterable[_Item]]) -> None:
        """Keep the function that makes the items."""
        self._make = make

    @cached_property
    def _items(self) -> tuple[_Item, ...]:
        return tuple(self._make())

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        return self._items == (other._items if isinstance(other, LazySequence) else other)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return repr(self._items)

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (self._items,)


class Alike(NamedTuple):
    """Misfits that differ only in location and origin; since there may be many, each is made only when it is read."""

    places: Sequence[int]
    make: Callable[[int], Misfit]

    def first(self, count: int) -> list[Misfit]:
        """Return the first `count` misfits."""
        return list(map(self.make, self.places[:count]))


class Misfit(NamedTuple):
    """An operator that a target does not support or, if not `measured`, with which the target was never tested.

    `origin` holds the names of its sources or, if the model names none for it (not `from_tables`), the name of its
    first output. `is_new`: it is not in the baseline. `details` holds the known details of each source; it is empty
    if there are none. `wrong`: the target runs the operator, but with wrong results.
    """

    subgraph: int
    operator: int
    code: str
    reason: str
    remedy: str
    measured: bool
    origin: tuple[str, ...]
    from_tables: bool
    is_new: bool
    details: tuple[SourceDetails, ...] = ()
    wrong: bool = False


class Misfits(LazySequence[Misfit]):
    """The misfits of a target without a baseline, grouped in `alike`. `named`: some have origins in origin tables."""

    def __init__(self, make: Callable[[], Iterable[Misfit]], alike: Sequence[Alike], named: bool) -> None:
        """Keep the function that makes all misfits."""
        super().__init__(make)
        self.alike, self.named = alike, named

    def __len__(self) -> int:
        return sum(len(group.places) for group in self.alike)

    @cached_property
    def refused(self) -> int:
        """The number of misfits that the target was measured to refuse."""
        return sum(len(group.places) for group in self.alike if group.first(1)[0].measured)


@dataclass(frozen=True, slots=True)
class RefusedOperators:
    """Operators (subgraph, index) of one code that run elsewhere because a device refuses them for the same reason.

    If not `measured`, the table does not cover the operators, so the device may accept them.
    """

    device: str
    code: str
    reason: str
    remedy: str
    measured: bool
    operators: tuple[tuple[int, int], ...]


class Obstacle(NamedTuple):
    """A finding that keeps a target from loading or running the model; `is_new` as in `Misfit`."""

    finding: Finding
    is_new: bool


class Blamed(NamedTuple):
    """A source, its refused operators (subgraph, index), and the bytes of their outputs.

    If not `from_tables`, its name is that of an output, as in `Misfit`.
    """

    name: str
    operators: tuple[tuple[int, int], ...]
    size_bytes: int
    details: SourceDetails = NOTHING
    from_tables: bool = True


@dataclass(frozen=True, slots=True)
class Cuts(Attributes):
    """The groups of operators that a delegate would run, and the tensors that pass into or out of a group.

    Dynamic dimensions count as 1.
    """

    partitions: int
    tensors: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Disagreement(Attributes):
    """An error in a table: it accepts an operator that the program refuses, or vice versa.

    `operator_index` is None if the two only disagree about the model as a whole. `words` is the program's message.
    """

    subgraph: int | None
    operator_index: int | None
    table_takes: bool
    words: str


@dataclass(frozen=True, slots=True)
class Asked(Attributes):
    """The answer of the program that judges a target; the verdict is unknown if the program did not answer.

    `left` is the number of operators that the program named as refused or as running elsewhere.
    """

    program: str
    version: str
    verdict: Verdict
    words: str
    disagreements: tuple[Disagreement, ...]
    left: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, repr=False)
class TargetFit(Tabular):
    """A target's verdict on a model.

    `sources` are the sources to change so that no operator is refused, the worst first; operators that were not
    measured are not considered. `obstacles` keep the runtime from loading the model as a whole. `fixed` is the number
    of findings that only the baseline has. `memory` is what TFLM needs, or None for other targets. `cause` explains
    the verdict on the whole model, if there is a single cause.
    """

    name: str
    runtime: str
    operators: int
    misfits: Sequence[Misfit]
    sources: Sequence[Blamed]
    cuts: Cuts
    fixed: int
    asked: tuple[Asked, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    memory: MicroMemory | None = None
    cause: str = ""

    @property
    def new_count(self) -> int:
        """The number of misfits and obstacles that are not in the baseline."""
        found = self.misfits
        new = len(found) if isinstance(found, Misfits) else sum(one.is_new for one in found)
        return new + sum(one.is_new for one in self.obstacles)

    @property
    def refused(self) -> int:
        """The number of operators that the target refuses."""
        found = self.misfits
        return found.refused if isinstance(found, Misfits) else sum(misfit.measured for misfit in found)

    @property
    def new_refusals(self) -> int:
        """The number of refused operators and obstacles that are not in the baseline."""
        found = self.misfits
        new = found.refused if isinstance(found, Misfits) else sum(one.measured and one.is_new for one in found)
        return new + sum(one.is_new for one in self.obstacles)

    @property
    def verdict(self) -> Verdict:
        """Whether the model runs on the target; unknown if nothing is refused but not everything was measured."""
        if self.obstacles or self.refused:
            return _verdict("not_resident")
        return _verdict("not_known" if self.misfits else "resident")

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the operators that are refused or were not measured."""
        return [
            {
                "subgraph": misfit.subgraph,
                "operator_index": misfit.operator,
                "code": misfit.code,
                "reason": misfit.reason,
                "remedy": misfit.remedy,
                "measured": misfit.measured,
                "wrong": misfit.wrong,
                "origin": list(misfit.origin),
                "origin_from": "tables" if misfit.from_tables else "output",
                "is_new": misfit.is_new,
            }
            for misfit in self.misfits
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Fit(Tabular):
    """The verdicts of all targets on the model in `file`.

    `notes` explain why the model's origins are not used.
    """

    file: str
    model_format: str
    targets: tuple[TargetFit, ...]
    has_baseline: bool
    notes: tuple[Finding, ...]

    @property
    def unknown_count(self) -> int:
        """The number of targets with an unknown verdict of the table (not only in the baseline) or of a program."""
        return sum(
            (target.verdict == "not_known" and target.new_count > 0)
            or any(asked.verdict == "not_known" for asked in target.asked)
            for target in self.targets
        )

    @property
    def new_refusals(self) -> int:
        """The number of refused operators and obstacles that are not in the baseline, over all targets."""
        return sum(target.new_refusals for target in self.targets)

    @property
    def contradictions(self) -> int:
        """The number of programs that disagree with their table, or refuse a model whose verdict is unknown."""
        return sum(
            bool(asked.disagreements) or (asked.verdict, target.verdict) == ("not_resident", "not_known")
            for target in self.targets
            for asked in target.asked
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """Return each target's verdict and the numbers behind it."""
        return [
            {
                "target": target.name,
                "verdict": target.verdict,
                "operator_count": target.operators,
                "refused_count": target.refused,
                "not_measured_count": len(target.misfits) - target.refused,
                "partition_count": target.cuts.partitions,
                "cut_count": target.cuts.tensors,
                "cut_bytes": target.cuts.size_bytes,
            }
            for target in self.targets
        ]
