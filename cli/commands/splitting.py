"""Commands for the parts of a model: split and verify-split."""

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
    force: Annotated[bool, option("--force", "Overwrite an earlier split in DIR.")] = False,
    form: Form = "text",
) -> None:
    """Write a model for each partition of an annotated model.

    Writes to DIR: the parts, numbered in execution order, as STEM.part.00001_DEVICE.circle (or .tflite) and so on;
    STEM.part.conn.json in the format of circle-partitioner; and metadata/MANIFEST, which makes DIR a package for
    onert. docs/split.md describes the contents of the parts.
    """
    with reading(source) as model:
        done = ct.split(model, directory, subgraph=subgraph, force=force)
    if form == "json":
        show_json(ct.render.split_json(done), source)
    count = len(done.plan.parts)
    print_message(f"{directory}: {count:,} part{'s' * (count != 1)}")
    print_notes(done.notes, source)


def verify_split(
    directory: Annotated[Path, argument("DIR", "The directory that `split` wrote.")],
    source: Annotated[
        Path | None, option("--source", "The model that was split; by default the one in or next to DIR.", "MODEL")
    ] = None,
    runtime: Annotated[
        Literal["litert", "onert", "none"] | None,
        option("--runtime", "The runtime; by default litert for .tflite, onert for .circle."),
    ] = None,
    subgraph: OneSubgraph = 0,
    seed: Annotated[int, option("--seed", "Seed for the random inputs.", "N", min=0)] = 0,
    seconds: Annotated[float, option("--timeout", "Time limit for running one model.", "SECONDS", min=0.1)] = 600.0,
    form: Form = "text",
) -> None:
    """Check that the parts of a split match the whole model.

    First checks the files: every input must be computed before it is read, with the same type, shape and
    quantization, and the parts must contain each operator of the whole model once, with the same connections. Then
    runs the parts and the whole model on random inputs and compares the results bit by bit. Exits with status 1 if
    there is an error or a warning; docs/split.md lists all codes.
    """
    found = ct.verify_split(
        directory, source=source, runtime=runtime, subgraph=subgraph, seed=seed, timeout_s=seconds
    )
    if form == "json":
        show_json(ct.render.split_verification_json(found), str(directory))
    else:
        show(ct.render.findings_text(str(directory), found.findings))
    raise Exit(int(ct.render.verdict(found.findings) != "ok"))
