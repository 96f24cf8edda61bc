"""Requests to the planner: plain values that a program or a command line supplies."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from circletools.affinity.solvers.groups import Join
from circletools.affinity.solvers.partitions import Mode
from circletools.wording import Attributes

Path = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRequest(Attributes):
    """The inputs that determine the times of operators and copies.

    `costs` is a document (docs/costs.md); `traces` names operator traces of runs on a device, as `DEVICE=FILE`. A
    copy that the document does not list takes `copy_overhead` (us) plus its bytes divided by `copy_rate` (bytes/us);
    if the document has no launch time for a device, launching a partition takes `launch` (us).
    """

    costs: Path | None = None
    traces: tuple[str, ...] = ()
    copy_rate: float = 1000.0
    copy_overhead: float = 0.0
    launch: float = 0.0

    @property
    def has_costs(self) -> bool:
        """Whether the request includes any times."""
        return self.costs is not None or bool(self.traces)

    @property
    def files(self) -> tuple[str, ...]:
        """The files to read."""
        return _cost_files(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest(CostRequest):
    """A request to place operators on devices, with options for the report.

        PlanRequest(devices=("npu", "cpu"), rules=("op:CONV_2D=npu",), default="cpu")

    `devices`: their names, preferred devices first; by default those in the rules, the model, or the costs.
    `rules`: `SELECTOR=DEVICE`; they take precedence over `rules_file` (JSON, or a `.part` of circle-partitioner).
    `capabilities`: `[DEVICE=]TABLE`, the operators a device accepts: a file, or the name of a built-in table.
    `allow_unmatched`: report a rule that matches nothing as a note, as is always done for rules of a `.part` file.
    `default`: the device of the remaining operators; by default the last of several devices, if it has no table.
    `mode`, `min_size`: how partitions are formed, and the minimum number of operators in each.
    `limits`: `DEVICE:KIND=NUMBER`, limits on the device's partitions (circletools/affinity/problem.py).
    `keep_together`: operators to put in one partition: `quantize` (QUANTIZE with DEQUANTIZE), `variables` (the users
    of a variable or hash table), or a number of bytes (producer and readers of any tensor of at least that size).
    `join`: which operators may share a partition: `connected`, `shared` (with a common constant or input), or `any`.
    `reproject`: an annotated model; each operator gets the device that its sources have in it.
    `keep`: without `devices`, use the devices in the model, even if there are costs.
    `solve_time`: the seconds, for all subgraphs together, that the integer program may spend on a better choice of
    devices, or on proving that there is none.
    `memory`: `DEVICE=BYTES`, the memory of a device.
    `explain`: also return the steps by which each partition grew, in mode `seed`.

    docs/affinity.md and docs/costs.md explain each field.
    """

    devices: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    rules_file: Path | None = None
    allow_unmatched: bool = False
    capabilities: tuple[str, ...] = ()
    default: str | None = None
    mode: Mode = "min"
    min_size: int = 1
    limits: tuple[str, ...] = ()
    keep_together: tuple[str, ...] = ()
    join: Join = "connected"
    reproject: Path | None = None
    keep: bool = True
    solve_time: float = 10.0
    memory: tuple[str, ...] = ()
    explain: bool = False

    @property
    def has_choices(self) -> bool:
        """Whether the request does more than evaluate the affinity in a model."""
        kept = {one.name: getattr(self, one.name) for one in fields(CostRequest)}
        return self != PlanRequest(**kept, explain=self.explain)

    @property
    def files(self) -> tuple[str, ...]:
        """The files to read."""
        named = [os.fspath(name) for name in (self.rules_file, self.reproject) if name is not None]
        tables = [name for table in self.capabilities for name in (table, table.partition("=")[2]) if name]
        return (*named, *tables, *_cost_files(self))


def _cost_files(request: CostRequest) -> tuple[str, ...]:
    named = [] if request.costs is None else [os.fspath(request.costs)]
    return (*named, *(trace.partition("=")[2] for trace in request.traces))
