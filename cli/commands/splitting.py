"""Commands for parts: split, verify-split."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .parameters import Directory, Input, Json

if TYPE_CHECKING:
    from circletools.findings import Finding
    from circletools.split.verify import SplitFiles


class Runtime(StrEnum):
    """What to run models in; `none` compares the files alone."""

    LITERT = "litert"
    ONERT = "onert"
    NONE = "none"


Subgraph = Annotated[int, typer.Option("--subgraph", metavar="N", min=0, help="The subgraph that is split.")]


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
    parts carry.
    """
    from circletools.split.write import split as split_model  # noqa: PLC0415
    from circletools.wording import SCHEMA_VERSION, counted  # noqa: PLC0415

    from ..console.reading import reading  # noqa: PLC0415
    from ..console.terminal import complain, show_json, tell  # noqa: PLC0415

    with reading(source) as model:
        done = split_model(model, directory, subgraph=subgraph, force=force)
    if json:
        parts = [
            {
                "file": piece.file,
                "device": part.device,
                "operators": list(part.operators),
                "inputs": list(piece.inputs),
                "outputs": list(piece.outputs),
            }
            for part, piece in zip(done.plan.parts, done.connections.parts, strict=True)
        ]
        show_json({"schema_version": SCHEMA_VERSION, "subgraph": subgraph, "parts": parts, "notes": list(done.notes)})
    tell(f"{directory}: {counted(len(done.plan.parts), 'part')}")
    for note in done.notes:
        complain("note", f"{source}: {note}")


def verify_split(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", help="The directory that a split wrote.", show_default=False)
    ],
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="MODEL", help="The model that was split; looked for beside DIR."),
    ] = None,
    runtime: Annotated[
        Runtime | None,
        typer.Option("--runtime", help="What to run it in; litert for .tflite and onert for .circle if not given."),
    ] = None,
    subgraph: Subgraph = 0,
    seed: Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Makes the inputs.")] = 0,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long one model may run.")
    ] = 600.0,
    json: Json = False,
) -> None:
    """Check that the parts together equal the original.

    First the files: every input is made before it is read, in the same type, shape and quantization, and the
    operators of the parts are those of the source, each once, wired alike. Then the values, from random inputs.
    Exit status 1 when there is a finding; docs/split.md has all codes.
    """
    from dataclasses import asdict  # noqa: PLC0415

    from circletools.split.verify import open_split  # noqa: PLC0415
    from circletools.wording import SCHEMA_VERSION  # noqa: PLC0415

    from ..console.terminal import show, show_json  # noqa: PLC0415

    files = open_split(directory, source)
    chosen = runtime or (Runtime.ONERT if files.source.suffix == ".circle" else Runtime.LITERT)
    findings = _findings(files, chosen, subgraph, seed, seconds)
    verdict = "findings" if findings else "ok"
    if json:
        show_json(
            {
                "schema_version": SCHEMA_VERSION,
                "verdict": verdict,
                "runtime": chosen.value,
                "findings": [asdict(finding) for finding in findings],
            }
        )
    else:
        show([f"{directory}: {verdict}"])
        show(f"  {item.severity} {item.code} {item.location}: {item.message}" for item in findings)
    raise typer.Exit(1 if findings else 0)


def _findings(files: SplitFiles, runtime: Runtime, subgraph: int, seed: int, seconds: float) -> list[Finding]:
    from circletools.runtimes.worker import Worker  # noqa: PLC0415
    from circletools.split.execute import compare_runs  # noqa: PLC0415
    from circletools.split.verify import verify_split  # noqa: PLC0415

    findings = verify_split(files, subgraph)
    # What a runtime takes for the whole model is subgraph 0.
    broken = any(finding.severity == "error" for finding in findings)
    if not broken and runtime is not Runtime.NONE and subgraph == 0:
        with Worker("onert" if runtime is Runtime.ONERT else "litert", seconds) as worker:
            findings += compare_runs(files, worker, seed=seed)
    return findings
