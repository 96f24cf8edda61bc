"""The options of the commands for affinity."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Mode(StrEnum):
    """How to partition; see circletools.affinity.partition.partitions."""

    SEED = "seed"
    SAFE = "safe"
    MIN = "min"
    EPOCHS = "epochs"


Devices = Annotated[
    str | None,
    typer.Option("--devices", metavar="A,B,C", help="The devices, the preferred first, as in npu,gpu,cpu."),
]
RulesFile = Annotated[
    Path | None, typer.Option("--rules", metavar="FILE", help="Rules: JSON, or a .part file of circle-partitioner.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SELECTOR=DEVICE", help="A rule, as in op:CONV_2D=npu; may be repeated."),
]
Capabilities = Annotated[
    list[str] | None,
    typer.Option(
        "--capabilities",
        metavar="[DEVICE=]TABLE",
        help="Operators that a device supports: FILE.json or a built-in table; may be repeated.",
    ),
]
DefaultDevice = Annotated[
    str | None, typer.Option("--default", metavar="DEVICE", help="The device of all remaining operators.")
]
MinSize = Annotated[
    int,
    typer.Option(
        "--min-size", metavar="N", min=1, help="Move partitions of fewer operators to the default or last device."
    ),
]
PartitionMode = Annotated[Mode, typer.Option("--mode", help="Partitioning algorithm; see docs/affinity.md.")]
Reproject = Annotated[
    str | None,
    typer.Option(
        "--reproject",
        metavar="MODEL",
        help="Give operators the devices that their sources have in MODEL, which was annotated before.",
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Show why each operator is on its device.")]
CostsFile = Annotated[
    Path | None,
    typer.Option("--costs", metavar="FILE", help="Times on each device (JSON); minimise the total time."),
]
Traces = Annotated[
    list[str] | None,
    typer.Option(
        "--trace", metavar="DEVICE=TRACE", help="Times on a device, from an operator trace; may be repeated."
    ),
]
CopyRate = Annotated[
    float,
    typer.Option(
        "--copy-rate", metavar="BYTES_PER_US", min=1e-9, help="Bandwidth for transfers not listed in --costs."
    ),
]
CopyOverhead = Annotated[
    float,
    typer.Option("--copy-overhead", metavar="US", min=0, help="Overhead of transfers not listed in --costs."),
]
Launch = Annotated[
    float,
    typer.Option(
        "--launch", metavar="US", min=0, help="Launch time of partitions on devices without one in --costs."
    ),
]
Parallel = Annotated[bool, typer.Option("--parallel", help="Minimise the makespan with devices running in parallel.")]
Memory = Annotated[
    list[str] | None,
    typer.Option("--memory", metavar="DEVICE=BYTES", help="Memory limit of a device; may be repeated."),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option(
        "--what-if", metavar="SELECTOR=DEVICE", help="Compare with operators moved to a device; may be repeated."
    ),
]
