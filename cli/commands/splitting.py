"""Commands for parts: split, verify-split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

import circletools as ct

from ..console.reading import reading
from ..console.terminal import show, show_json, tell, tell_notes
from .parameters import Directory, Input, Json

Subgraph = Annotated[int, typer.Option("--subgraph", metavar="N", min=0, help="The subgraph to split.")]


def split(
    source: Input,
    directory: Directory,
    subgraph: Subgraph = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace what an earlier split wrote to DIR.")] = False,
    json: Json = False,
) -> None:
    """Write a model for each partition of an annotated model.

    DIR gets STEM.part.00001_DEVICE.circle (or .tflite) and so on, in the order they run, STEM.part.conn.json as
    circle-partitioner writes it, and metadata/MANIFEST, which makes it a package for onert. docs/split.md tells what
    parts contain.
    """
    with reading(source) as model:
        done = ct.split(model, directory, subgraph=subgraph, force=force)
    if json:
        show_json(ct.render.split_json(done))
    count = len(done.plan.parts)
    tell(f"{directory}: {count:,} part{'s' * (count != 1)}")
    tell_notes(done.notes, source)


def verify_split(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The directory that a split wrote.")],
    source: Annotated[
        Path | None,
        typer.Option(
            "--source", metavar="MODEL", help="The model that was split; by default, its name in or beside DIR."
        ),
    ] = None,
    runtime: Annotated[
        Literal["litert", "onert", "none"] | None,
        typer.Option("--runtime", help="The runtime; by default litert for .tflite, onert for .circle."),
    ] = None,
    subgraph: Subgraph = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of the random inputs.")] = 0,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Time limit for running one model.")
    ] = 600.0,
    json: Json = False,
) -> None:
    """Check that the parts together equal the original.

    First the files: every input is made before it is read, in the same type, shape and quantization, and the
    operators of the parts are those of the source, each once, wired alike. Then the values: both are run with random
    inputs, and every bit is compared. Exit status 1 when there is a finding; docs/split.md has all codes.
    """
    found = ct.verify_split(
        directory, source=source, runtime=runtime, subgraph=subgraph, seed=seed, timeout_s=seconds
    )
    if json:
        show_json(ct.render.split_verification_json(found))
    else:
        show(ct.render.findings_text(str(directory), found.findings))
    raise typer.Exit(1 if found.findings else 0)
