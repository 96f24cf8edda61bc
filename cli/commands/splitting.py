"""Commands for parts: split, verify-split."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from typer import Exit

import circletools as ct

from ..console.reading import reading
from ..console.terminal import print_message, print_notes, show, show_json
from ..signature import argument, option
from .parameters import Directory, Form, Input, OneSubgraph


def split(
    source: Input,
    directory: Directory,
    subgraph: OneSubgraph = 0,
    force: Annotated[bool, option("--force", "Replace what an earlier split wrote to DIR.")] = False,
    runner: Annotated[
        Literal["openvino"] | None, option("--runner", "Also write a program that runs each part on its device.")
    ] = None,
    form: Form = "text",
) -> None:
    """Write a model for each partition of an annotated model.

    DIR gets STEM.part.00001_DEVICE.circle (or .tflite) and so on, in the order they run, STEM.part.conn.json as
    circle-partitioner writes it, and metadata/MANIFEST, which makes it a package for onert. docs/split.md explains
    what parts contain.
    """
    with reading(source) as model:
        done = ct.split(model, directory, subgraph=subgraph, force=force, runner=runner)
    if form == "json":
        show_json(ct.render.split_json(done), source)
    count = len(done.plan.parts)
    print_message(f"{directory}: {count:,} part{'s' * (count != 1)}")
    print_notes(done.notes, source)


def verify_split(
    directory: Annotated[Path, argument("DIR", "The directory that a split wrote.")],
    source: Annotated[
        Path | None, option("--source", "The model that was split; by default, its name in or beside DIR.", "MODEL")
    ] = None,
    runtime: Annotated[
        Literal["litert", "onert", "none"] | None,
        option("--runtime", "The runtime; by default litert for .tflite, onert for .circle."),
    ] = None,
    subgraph: OneSubgraph = 0,
    seed: Annotated[int, option("--seed", "Seed of the random inputs.", "N", min=0)] = 0,
    seconds: Annotated[float, option("--timeout", "Time limit for running one model.", "SECONDS", min=0.1)] = 600.0,
    form: Form = "text",
) -> None:
    """Check that the parts together equal the original.

    First the files: every input is made before it is read, in the same type, shape and quantization, and the
    operators of the parts are those of the source, each once, wired alike. Then the values: both are run with random
    inputs, and every bit is compared. Exit status 1 when there is an error or a warning; docs/split.md has all codes.
    """
    found = ct.verify_split(
        directory, source=source, runtime=runtime, subgraph=subgraph, seed=seed, timeout_s=seconds
    )
    if form == "json":
        show_json(ct.render.split_verification_json(found), str(directory))
    else:
        show(ct.render.findings_text(str(directory), found.findings))
    raise Exit(int(ct.render.verdict(found.findings) != "ok"))
