"""The commands for the parts of a model: split, verify-split and measure."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from typer import Exit

import circletools as ct

from ..console.captured import reading
from ..console.terminal import print_message, print_notes, show, show_as, show_json
from ..signature import argument, option
from .parameters import Form, Input, OneSubgraph
from .rewriting import check_output


def split(
    source: Input,
    directory: Path = argument("DIR", "The directory to write to."),
    subgraph: OneSubgraph = 0,
    force: bool = option("Overwrite an earlier split in DIR."),
    runner: Literal["openvino"] | None = option("Also write a program that runs each part on its device."),
    form: Form = "text",
) -> None:
    """Write a model for each partition of an annotated model.

    Writes to DIR: the parts, numbered in execution order, as STEM.part.00001_DEVICE.circle (or .tflite) and so on;
    STEM.part.conn.json in the format of circle-partitioner; and metadata/MANIFEST, which makes DIR a package for
    onert. docs/split.md describes the contents of the parts.
    """
    with reading(source) as model:
        done = ct.split(model, directory, subgraph=subgraph, force=force, runner=runner)
    if form == "json":
        show_json(ct.render.split_json(done), source)
    count = len(done.plan.parts)
    print_message(f"{directory}: {count:,} part{'s' * (count != 1)}")
    print_notes(done.notes, source)


def verify_split(
    directory: Path = argument("DIR", "The directory that `split` wrote."),
    source: Path | None = option("The model that was split; by default the one in or next to DIR.", "MODEL"),
    on: Literal["litert", "onert", "none"] | None = option(
        "The runtime; by default litert for .tflite, onert for .circle."
    ),
    subgraph: OneSubgraph = 0,
    inputs: tuple[str, ...] = option("An .npz file, or the bytes of a single input; one run per file.", "FILE"),
    seed: int = option("Seed for the random inputs.", "N", default=0, min=0),
    seconds: float = option(
        "Time limit for running one model.", "SECONDS", default=600.0, names="--timeout", min=0.1
    ),
    form: Form = "text",
) -> None:
    """Check that the parts of a split match the whole model.

    First checks the files: every input must be computed before it is read, with the same type, shape and
    quantization, and the parts must contain each operator of the whole model once, with the same connections. Then
    runs the parts and the whole model on the same inputs and compares the results bit by bit. Exits with status 1 if
    there is an error or a warning; docs/split.md lists all codes.
    """
    found = ct.verify_split(
        directory, source=source, runtime=on, subgraph=subgraph, seed=seed, inputs=inputs, timeout_s=seconds
    )
    if form == "json":
        show_json(ct.render.split_verification_json(found), str(directory))
    else:
        show(ct.render.findings_text(str(directory), found.findings))
    raise Exit(int(ct.render.verdict(found.findings) != "ok"))


def measure(
    directory: Path = argument("DIR", "The directory that `split` wrote."),
    on: tuple[str, ...] = option(
        "The program for a device, such as npu=litert:xnnpack; may be repeated.", "DEVICE=PROGRAM"
    ),
    source: Path | None = option("The model that was split; by default the one in or next to DIR.", "MODEL"),
    output: str | None = option("Save the JSON document to this file.", "FILE", names="--output -o"),
    seconds: float = option(
        "Seconds to spend on the parts, and on the model on each device.", "SECONDS", default=2.0, min=0.01
    ),
    inputs: str | None = option("An .npz file, or the bytes of a single input.", "FILE"),
    seed: int = option("Seed for the random inputs.", "N", default=0, min=0),
    timeout: float = option("Time limit for measuring one model.", "SECONDS", default=600.0, min=0.1),
    form: Form = "text",
) -> None:
    """Time a model in parts, and as a whole on each device.

    Programs are litert, onert and openvino, optionally with a colon and a variant; each uses one thread. Alternates
    between the whole model on each device and the chain of parts. Exits with status 1 if the parts do not run.
    """
    if output == "-" and form == "json":
        raise ct.UsageError("--json and the output file would both go to standard output")
    check_output(output, ())
    request = ct.planning.MeasureRequest(on=on, seconds=seconds, seed=seed, timeout_s=timeout, inputs=inputs)
    found = ct.planning.measure(directory, request, source=source)
    if output is not None:
        ct.files.write(output, [ct.render.measurement_file(found).encode()])
    if output != "-":
        show_as(form, found, text=ct.render.measurement_text, json=ct.render.measurement_json, file=str(directory))
    print_notes(found.notes)
    if found.plans[-1].failure:
        raise Exit(1)
