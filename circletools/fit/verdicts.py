"""The results of `fit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from circletools.cost.micro import MicroMemory
from circletools.findings import Finding
from circletools.origin.source import NOTHING, SourceDetails
from circletools.wording import Tabular

Verdict = Literal["resident", "not_resident", "not_known"]


class Misfit(NamedTuple):
    """An operator that a target does not take; not `measured`: that it was never asked about.

    `origin` are the names of its sources; where the model has none that describe it (not `from_tables`), that of its
    first output. `is_new`: the baseline does not have it. `details` are what is known of each source beside its name;
    none where nothing is known of any.
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


class Obstacle(NamedTuple):
    """A finding about the model for which a target does not load it, or does not run it; new as misfits are."""

    finding: Finding
    is_new: bool


class Blamed(NamedTuple):
    """A source, the refused operators (subgraph, index) that come from it, and the bytes of what they compute."""

    name: str
    operators: tuple[tuple[int, int], ...]
    size_bytes: int
    details: SourceDetails = NOTHING


@dataclass(frozen=True, slots=True)
class Cuts:
    """The groups in which a delegate would run what its target takes, and the tensors that cross their borders.

    Open dimensions count as 1.
    """

    partitions: int
    tensors: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Disagreement:
    """Where a table is wrong: it takes an operator that the program refuses, or the other way round.

    `operator` is None if the two differ about the model as a whole only. `words` are those of the program.
    """

    subgraph: int | None
    operator: int | None
    table_takes: bool
    words: str


@dataclass(frozen=True, slots=True)
class Asked:
    """The answer of the program that decides about a target; not known where it did not finish."""

    program: str
    version: str
    verdict: Verdict
    words: str
    disagreements: tuple[Disagreement, ...]


@dataclass(frozen=True, slots=True, repr=False)
class TargetFit(Tabular):
    """The verdict of a target about a model.

    `sources` are those whose change would leave no refused operator, the worst first; what was not measured is not
    blamed on any. `obstacles` keep its runtime from loading the model as a whole. `fixed` is the number of findings
    that only the baseline has. `memory` is what TFLM needs, None for other targets.
    `cause` is what explains the verdict of the whole model, where one thing does.
    """

    name: str
    runtime: str
    operators: int
    misfits: tuple[Misfit, ...]
    sources: tuple[Blamed, ...]
    cuts: Cuts
    fixed: int
    asked: tuple[Asked, ...] = ()
    obstacles: tuple[Obstacle, ...] = ()
    memory: MicroMemory | None = None
    cause: str = ""

    @property
    def new_count(self) -> int:
        """The number of misfits and obstacles that the baseline does not have."""
        return sum(one.is_new for one in self.misfits) + sum(one.is_new for one in self.obstacles)

    @property
    def refused(self) -> int:
        """The number of operators that it does not take."""
        return sum(misfit.measured for misfit in self.misfits)

    @property
    def verdict(self) -> Verdict:
        """Whether the model runs there; not known where no operator is refused, but some were never asked about."""
        if self.obstacles or self.refused:
            return "not_resident"
        return "not_known" if self.misfits else "resident"

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the operators that it does not take, or was never asked about."""
        return [
            {
                "subgraph": misfit.subgraph,
                "operator_index": misfit.operator,
                "code": misfit.code,
                "reason": misfit.reason,
                "remedy": misfit.remedy,
                "measured": misfit.measured,
                "origin": list(misfit.origin),
                "origin_from": "tables" if misfit.from_tables else "output",
                "is_new": misfit.is_new,
            }
            for misfit in self.misfits
        ]


@dataclass(frozen=True, slots=True, repr=False)
class Fit(Tabular):
    """The verdicts of all targets about a model, which came from `file`.

    `notes` explain why origins are not those that the model has.
    """

    file: str
    model_format: str
    targets: tuple[TargetFit, ...]
    has_baseline: bool
    notes: tuple[Finding, ...]

    @property
    def unknown_count(self) -> int:
        """The number of targets of which it is not known whether the model runs there."""
        return sum(target.verdict == "not_known" for target in self.targets)

    @property
    def new_refusals(self) -> int:
        """The number of refused operators and obstacles that the baseline does not have, over all targets."""
        operators = sum(misfit.measured and misfit.is_new for target in self.targets for misfit in target.misfits)
        return operators + sum(one.is_new for target in self.targets for one in target.obstacles)

    @property
    def contradictions(self) -> int:
        """The number of programs that disagree with the table, or refuse what it does not know."""
        return sum(
            bool(asked.disagreements) or (asked.verdict, target.verdict) == ("not_resident", "not_known")
            for target in self.targets
            for asked in target.asked
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the verdict about each target, and the numbers it rests on."""
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
