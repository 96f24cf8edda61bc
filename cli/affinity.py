"""Commands for affinity: annotate-affinity, dump-affinity, partition."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from circletools.errors import UsageError

from .many import many, mirrored
from .parameters import Format, InPlace, Input, Json, Output
from .reading import read_text
from .rewriting import rewrite

if TYPE_CHECKING:
    from circletools.affinity.assign import Assignment
    from circletools.affinity.capability import Capability
    from circletools.affinity.growth import Step
    from circletools.affinity.plan import Plan
    from circletools.affinity.rules import RuleSet
    from circletools.model import Model
    from circletools.model.edit import ModelEdit, RewriteResult
    from circletools.report.reproject import Earlier


class Mode(StrEnum):
    """How to partition; see circletools.affinity.partition."""

    SEED = "seed"
    SAFE = "safe"
    MIN = "min"
    EPOCHS = "epochs"


class By(StrEnum):
    """What a row stands for."""

    OPERATOR = "operator"
    PARTITION = "partition"


Devices = Annotated[
    str | None,
    typer.Option("--devices", metavar="A,B,C", help="The devices, the preferred first; as in npu,gpu,cpu."),
]
RulesFile = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", help="Rules: JSON, or a .part of circle-partitioner.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SELECTOR=DEVICE", help="A rule, as in op:CONV_2D=npu; may be repeated."),
]
Capabilities = Annotated[
    list[str] | None,
    typer.Option(
        "--capabilities", metavar="[DEVICE=]TABLE", help="What a device takes: FILE.json, or a table that is shipped."
    ),
]
DefaultDevice = Annotated[
    str | None, typer.Option("--default", metavar="DEVICE", help="Where operators go that nothing else decides.")
]
MinSize = Annotated[
    int, typer.Option("--min-size", metavar="N", min=1, help="Smaller partitions go to the default or last device.")
]
PartitionMode = Annotated[Mode, typer.Option("--mode", help="How to partition; docs/affinity.md compares them.")]
Reproject = Annotated[
    str | None,
    typer.Option(
        "--reproject", metavar="MODEL", help="Operators go where their sources went in MODEL, annotated earlier."
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say why each operator is where it is.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command(
        "annotate-affinity",
        epilog="Example: circletool annotate-affinity in.circle out.circle --devices npu,cpu --set index:0=npu "
        "--default cpu",
    )(mirrored(annotate_affinity))
    app.command("dump-affinity", epilog="Example: circletool dump-affinity out.circle --by partition")(
        many(dump_affinity)
    )
    app.command(
        "partition",
        epilog="Example: circletool partition in.circle --devices npu,cpu --set index:0=npu --default cpu --json",
    )(many(partition))


def annotate_affinity(
    source: Input,
    output: Output = None,
    devices: Devices = None,
    rules: RulesFile = None,
    settings: Settings = None,
    capabilities: Capabilities = None,
    default: DefaultDevice = None,
    min_size: MinSize = 1,
    mode: PartitionMode = Mode.SAFE,
    reproject: Reproject = None,
    explain: Explain = False,
    in_place: InPlace = False,
    json: Json = False,
) -> None:
    """Write the device of every operator, and the device subgraphs, as metadata.

    A rule counts before a capability table, that before the default. Selectors are index:0-10,15, name:GLOB (an
    output tensor), origin:GLOB (a source), op:GLOB (an operator code); 1/ in front chooses subgraph 1.
    """
    from circletools.affinity.plan import to_affinity  # noqa: PLC0415
    from circletools.affinity.store import annotate  # noqa: PLC0415

    if (json or explain) and output == "-":
        raise UsageError("the report and an output of - would mix on standard output", hint="name an output file")
    wanted = _Wanted(devices, rules, settings, capabilities, default, min_size, mode, reproject)

    def change(edit: ModelEdit) -> RewriteResult:
        plan, assignment, steps = wanted.plan(edit.model, explain)
        if json or explain:
            _show_plan(edit.model, plan, assignment, steps if explain else None, json)
        return annotate(edit, to_affinity(plan))

    rewrite(source, output, in_place, change)


def partition(
    source: Input,
    devices: Devices = None,
    rules: RulesFile = None,
    settings: Settings = None,
    capabilities: Capabilities = None,
    default: DefaultDevice = None,
    min_size: MinSize = 1,
    mode: PartitionMode = Mode.SAFE,
    reproject: Reproject = None,
    explain: Explain = False,
    json: Json = False,
) -> None:
    """Show the device subgraphs, in the order they run, and what they cost; write no model.

    Without any option for devices, those in the model are partitioned anew.
    """
    from .reading import reading  # noqa: PLC0415

    wanted = _Wanted(devices, rules, settings, capabilities, default, min_size, mode, reproject)
    with reading(source) as model:
        plan, assignment, steps = wanted.plan(model, explain)
        _show_plan(model, plan, assignment, steps if explain else None, json)


def dump_affinity(
    source: Input,
    output_format: Annotated[
        Format | None, typer.Option("--format", help="How to write it; `text` unless given.")
    ] = None,
    by: Annotated[By, typer.Option("--by", help="A row for each operator, or for each partition.")] = By.OPERATOR,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Show the device and the partition of each operator.

    Exit status 1 when the model has no affinity, or one that no longer describes its operators.
    """
    from circletools.affinity.store import Affinity, check_freshness, read_affinity  # noqa: PLC0415
    from circletools.report.affinity import affinity_csv, affinity_json, affinity_text  # noqa: PLC0415

    from .reading import reading  # noqa: PLC0415
    from .terminal import complain, show, show_json, show_text  # noqa: PLC0415

    if json and output_format not in (None, Format.JSON):
        raise UsageError(f"--json and --format {output_format} exclude each other")
    by_partition = by is By.PARTITION
    with reading(source) as model:
        affinity = read_affinity(model)
        freshness = None if affinity is None else check_freshness(model, affinity)
        stale = freshness is not None and freshness.state == "stale"
        found = affinity or Affinity({}, {})
        if stale:
            found = Affinity(found.devices, {})
        if json or output_format is Format.JSON:
            show_json(affinity_json(model, found, freshness))
        elif output_format is Format.CSV:
            show_text(affinity_csv(model, found, by_partition=by_partition))
        else:
            show(affinity_text(model, found, by_partition=by_partition))
    if freshness is None:
        complain("warning", f"{source}: the model has no affinity (annotate-affinity adds it)")
    elif stale:
        complain("warning", f"{source}: the affinity is stale from {freshness.place} on: {freshness.reason}")
    if freshness is None or stale:
        raise typer.Exit(1)


class _Wanted:
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
    ) -> None:
        from circletools.affinity.rules import RuleSet, make_default, parse_rules, parse_setting  # noqa: PLC0415

        given = tuple(map(parse_setting, settings or ()))
        chosen = RuleSet(given, None if default is None else make_default(default, "--default"))
        self.rules: RuleSet = chosen if rules is None else parse_rules(read_text(rules), str(rules)).and_then(chosen)
        self.devices = (None if devices is None else _names(devices)) or self.rules.devices or None
        self.tables = _tables(capabilities or ())
        self.earlier = None if reproject is None else _earlier(reproject)
        self.min_size, self.mode = min_size, mode

    def plan(self, model: Model, explain: bool) -> tuple[Plan, Assignment, list[tuple[int, Step]]]:
        """Assign and partition; say what should be known of it."""
        from circletools.affinity.assign import assign  # noqa: PLC0415
        from circletools.affinity.plan import make_plan  # noqa: PLC0415
        from circletools.model.selectors import Chooser  # noqa: PLC0415
        from circletools.report.reproject import kept, reproject, source_names  # noqa: PLC0415

        from .terminal import complain  # noqa: PLC0415

        before = None
        if self.earlier is not None:
            before = reproject(model, self.earlier)
        elif self.devices is None:
            before = kept(model)
        for conflict in () if before is None else before.conflicts:
            complain("warning", conflict)
        devices = self.devices or (before.devices if before else ())
        by_origin = any(rule.selector.kind == "origin" for rule in self.rules.rules)
        assignment = assign(
            Chooser(model, source_names(model) if by_origin else ()),
            devices,
            self.rules,
            self._refusals(model),
            before.before if before else (),
        )
        against = assignment.against_capability()
        if against:
            subgraph, operator = against[0]
            complain(
                "warning",
                f"{len(against)} operators are on a device that does not take them, the first "
                f"subgraphs[{subgraph}].operators[{operator}]: {assignment.why(subgraph, operator)}",
            )
        steps: list[tuple[int, Step]] = []
        fallback = self.rules.default.device if self.rules.default else None
        tell = (lambda number, step: steps.append((number, step))) if explain and self.mode is Mode.SEED else None
        plan = make_plan(model, assignment, self.mode.value, min_size=self.min_size, fallback=fallback, on_step=tell)
        return plan, assignment, steps

    def _refusals(self, model: Model) -> dict[str, list[list[str | None]]]:
        from circletools.affinity.capability import why_not  # noqa: PLC0415

        return {
            device: [why_not(table, model, subgraph) for subgraph in range(len(model.subgraphs))]
            for device, table in self.tables.items()
        }


def _tables(wanted: Sequence[str]) -> dict[str, Capability]:
    if not wanted:
        return {}
    from circletools.affinity.capability import load_capability  # noqa: PLC0415

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
    from circletools.report.reproject import devices_of_sources  # noqa: PLC0415

    from .reading import reading  # noqa: PLC0415

    with reading(name) as annotated:
        return devices_of_sources(annotated)


def _names(devices: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in devices.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise UsageError(f"--devices {devices!r}: each device is named once", hint="write --devices npu,gpu,cpu")
    return names


def _show_plan(
    model: Model, plan: Plan, assignment: Assignment, steps: list[tuple[int, Step]] | None, json: bool
) -> None:
    from circletools.report.affinity import plan_json, plan_text  # noqa: PLC0415

    from .terminal import show, show_json  # noqa: PLC0415

    if json:
        show_json(plan_json(model, plan, assignment, steps))
    else:
        show(plan_text(model, plan, assignment, steps))
