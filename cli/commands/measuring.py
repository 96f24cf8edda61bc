"""The measure command: time a model on its devices, as a whole and in parts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Exit

import circletools as ct

from ..console.terminal import print_notes, show_as
from ..signature import argument, option
from .parameters import Form


def measure(
    directory: Annotated[Path, argument("DIR", "The directory that `split` wrote.")],
    on: Annotated[
        tuple[str, ...],
        option("--on", "The program for a device, such as npu=litert:xnnpack; may be repeated.", "DEVICE=PROGRAM"),
    ] = (),
    source: Annotated[
        Path | None, option("--source", "The model that was split; by default the one in or next to DIR.", "MODEL")
    ] = None,
    output: Annotated[str | None, option("--output -o", "Save the JSON document to this file.", "FILE")] = None,
    seconds: Annotated[float, option("--seconds", "How long to run each plan.", "SECONDS", min=0.01)] = 2.0,
    seed: Annotated[int, option("--seed", "Seed for the random inputs.", "N", min=0)] = 0,
    timeout: Annotated[float, option("--timeout", "Time limit for measuring one model.", "SECONDS", min=0.1)] = 600.0,
    form: Form = "text",
) -> None:
    """Time a model in parts, and as a whole on each device.

    Programs are litert, onert and openvino, optionally with a colon and a variant; each uses one thread. Alternates
    between the whole model on each device and the chain of parts. Exits with status 1 if the parts do not run.
    """
    if output == "-" and form == "json":
        raise ct.UsageError("--json and the output file would both go to standard output")
    if output is not None:
        ct.files.check_target(output)
    request = ct.planning.MeasureRequest(on=on, seconds=seconds, seed=seed, timeout_s=timeout)
    found = ct.planning.measure(directory, request, source=source)
    if output is not None:
        ct.files.write(output, [ct.render.measurement_file(found).encode()])
    if output != "-":
        show_as(form, found, text=ct.render.measurement_text, json=ct.render.measurement_json, file=str(directory))
    print_notes(found.notes)
    if found.plans[-1].failure:
        raise Exit(1)
