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
CostsFile = Annotated[
    Path | None,
    typer.Option("--costs", metavar="FILE", help="Times on each device (JSON): choose what takes least."),
]
Traces = Annotated[
    list[str] | None,
    typer.Option("--trace", metavar="DEVICE=TRACE", help="Times on a device, of an operator trace; may be repeated."),
]
CopyRate = Annotated[
    float,
    typer.Option("--copy-rate", metavar="BYTES_PER_US", min=1e-9, help="Of copies that the costs say nothing of."),
]
CopyOverhead = Annotated[
    float, typer.Option("--copy-overhead", metavar="US", min=0, help="What each of these copies takes anyway.")
]
Launch = Annotated[
    float, typer.Option("--launch", metavar="US", min=0, help="Of devices whose launch the costs do not tell.")
]
AtOnce = Annotated[bool, typer.Option("--parallel", help="Devices run at the same time: what ends first counts.")]
Memory = Annotated[
    list[str] | None,
    typer.Option("--memory", metavar="DEVICE=BYTES", help="What fits on a device; may be repeated."),
]
WhatIf = Annotated[
    list[str] | None,
    typer.Option("--what-if", metavar="SELECTOR=DEVICE", help="Compare with operators moved; may be repeated."),
]
