"""From the options for affinity to a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circletools.errors import UsageError

from ..console.reading import read_text
from .affinity_options import Mode

if TYPE_CHECKING:
    from circletools.affinity.assign.assign import Assignment, Refusals
    from circletools.affinity.assign.rules import RuleSet
    from circletools.affinity.capability.table import Capability
    from circletools.affinity.costs.problem import Problem
    from circletools.affinity.partition.growth import Step
    from circletools.affinity.partitioning import Plan
    from circletools.model import Model
    from circletools.model.selectors import Chooser
    from circletools.planning.evaluate import SubgraphCosts
    from circletools.planning.reproject import Earlier, Reprojection

    from .affinity_costs import CostOptions


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan and how it came about; `problems` are there where costs are known, `caps` go by device number."""

    plan: Plan
    assignment: Assignment
    steps: list[tuple[int, Step]]
    chooser: Chooser
    problems: Sequence[Problem] | None = None
    parallel: bool = False
    caps: dict[int, int] = field(default_factory=dict)

    def costs(self, plan: Plan) -> tuple[SubgraphCosts, ...] | None:
        """Return what a plan for the same model costs, None where no costs are known."""
        if self.problems is None:
            return None
        from circletools.planning.evaluate import plan_costs  # noqa: PLC0415

        return plan_costs(self.chooser.model, plan, self.problems, parallel=self.parallel, memory=bool(self.caps))

    def told(self, as_json: bool) -> dict[int, Any]:
        """Return what to tell of costs, by subgraph: fields, or lines."""
        costs = self.costs(self.plan)
        if costs is None:
            return {}
        from circletools.planning.evaluate import costs_json, costs_text  # noqa: PLC0415

        tell = costs_json if as_json else costs_text
        return {index: tell(each, self.plan.devices, self.caps) for index, each in enumerate(costs)}


class Wanted:
    """What the options ask for, read before any model is."""

    def __init__(
        self,
        devices: str | None,
        rules: Path | None,
        settings: list[str] | None,
        capabilities: list[str] | None,
        default: str | None,
        min_size: int,
        mode: Mode,
        reproject: str | None,
        costs: CostOptions,
    ) -> None:
        from circletools.affinity.assign.rules import RuleSet, make_default, parse_rules, parse_setting  # noqa: PLC0415

        given = tuple(map(parse_setting, settings or ()))
        chosen = RuleSet(given, None if default is None else make_default(default, "--default"))
        self.rules: RuleSet = chosen if rules is None else parse_rules(read_text(rules), str(rules)).and_then(chosen)
        self.devices = (None if devices is None else _names(devices)) or self.rules.devices or None
        self.tables = _tables(capabilities or ())
        self.earlier = None if reproject is None else _earlier(reproject)
        self.costs = costs.read()
        self.min_size, self.mode = min_size, mode
        tables = [name for table in capabilities or () for name in (table, table.partition("=")[2]) if name]
        self.files: list[str | Path | None] = [rules, reproject, *tables, *costs.files]

    def plan(self, model: Model, explain: bool, *, keep: bool = True) -> Planned:
        """Assign and partition; say what should be known of it.

        Without devices, those in the model are kept, where it has any: with costs only if `keep`.
        """
        from circletools.affinity.assign.assign import assign  # noqa: PLC0415
        from circletools.model.selectors import Chooser  # noqa: PLC0415
        from circletools.planning.reproject import source_names  # noqa: PLC0415

        before = self._before(model, keep)
        named = self.devices or (before.devices if before else ())
        devices = named or (self.costs.devices if self.costs else ())
        chooser = Chooser(model, source_names(model) if self._by_origin() else ())
        had = before.before if before else ()
        refusals = self._refusals(model)
        if self.costs is None:
            return self._planned(chooser, assign(chooser, devices, self.rules, refusals, had), explain, None)

        from circletools.affinity.costs.choose import Goal, assign_by_cost  # noqa: PLC0415
        from circletools.affinity.costs.times import make_problems  # noqa: PLC0415

        costs = self.costs.of(model, devices)
        problems = make_problems(chooser, devices, costs)
        self.costs.tell_defaults(costs, devices)
        goal = Goal(self.costs.parallel, self.costs.caps(devices), self.mode.value)
        assignment = assign_by_cost(chooser, devices, self.rules, refusals, had, problems, goal)
        return self._planned(chooser, assignment, explain, problems)

    def _planned(
        self, chooser: Chooser, assignment: Assignment, explain: bool, problems: Sequence[Problem] | None
    ) -> Planned:
        from circletools.affinity.partitioning import make_partitioning  # noqa: PLC0415

        _tell_against(assignment)
        steps: list[tuple[int, Step]] = []
        fallback = self.rules.default.device if self.rules.default else None
        tell = (lambda number, step: steps.append((number, step))) if explain and self.mode is Mode.SEED else None
        plan = make_partitioning(
            chooser.model, assignment, self.mode.value, min_size=self.min_size, fallback=fallback, on_step=tell
        )
        if self.costs is None:
            return Planned(plan, assignment, steps, chooser)

        from circletools.affinity.costs.choose import check_caps  # noqa: PLC0415

        caps = self.costs.caps(assignment.devices)
        check_caps(chooser.model, plan, caps)
        return Planned(plan, assignment, steps, chooser, problems, self.costs.parallel, caps)

    def _before(self, model: Model, keep: bool) -> Reprojection | None:
        """Return the devices that operators had, if they are to count."""
        from circletools.affinity.tables import AFFINITY_TABLE  # noqa: PLC0415
        from circletools.planning.reproject import kept, reproject  # noqa: PLC0415

        from ..console.terminal import complain  # noqa: PLC0415

        chosen_by_cost = self.costs is not None and not (keep and model.metadata_value(AFFINITY_TABLE) is not None)
        if self.earlier is not None:
            before = reproject(model, self.earlier)
        elif self.devices is not None or chosen_by_cost:
            return None
        else:
            before = kept(model)
        for conflict in before.conflicts:
            complain("warning", conflict)
        return before

    def _by_origin(self) -> bool:
        named = any(rule.selector.kind == "origin" for rule in self.rules.rules)
        return named or (self.costs is not None and self.costs.by_origin)

    def _refusals(self, model: Model) -> Refusals:
        from circletools.affinity.capability.table import why_not  # noqa: PLC0415

        return {
            device: [why_not(table, model, subgraph) for subgraph in range(len(model.subgraphs))]
            for device, table in self.tables.items()
        }


def _tell_against(assignment: Assignment) -> None:
    from circletools.wording import counted  # noqa: PLC0415

    from ..console.terminal import complain  # noqa: PLC0415

    against = assignment.against_capability()
    if against:
        subgraph, operator = against[0]
        complain(
            "warning",
            f"{counted(len(against), 'operator')} on a device that does not take it, the first "
            f"subgraphs[{subgraph}].operators[{operator}]: {assignment.why(subgraph, operator)}",
        )


def _tables(wanted: Sequence[str]) -> dict[str, Capability]:
    if not wanted:
        return {}
    from circletools.affinity.capability.table import load_capability  # noqa: PLC0415

    tables: dict[str, Capability] = {}
    for words in wanted:
        device, equals, name = words.partition("=")
        table = load_capability(name if equals else words)
        named = device if equals else table.device
        if named in tables:
            raise UsageError(f"a second capability table for {named!r}", location=f"--capabilities {words}")
        tables[named] = table
    return tables


def _earlier(name: str) -> Earlier:
    from circletools.planning.reproject import devices_of_sources  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415

    with reading(name) as annotated:
        return devices_of_sources(annotated)


def _names(devices: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in devices.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"--devices {devices!r}: each device is named once", hint="write --devices npu,gpu,cpu")
    return names
