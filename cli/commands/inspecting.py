"""Commands that look at models: inspect, verify, check."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

import circletools as ct

from ..console.captured import record
from ..console.reading import reading
from ..console.terminal import complain, show_as
from .parameters import Input, Json, With, listed


def inspect(
    source: Input,
    digest: Annotated[
        bool, typer.Option("--digest", help="Show digests of the model and its parts, whatever the layout.")
    ] = False,
    json: Json = False,
) -> None:
    """Show format, sizes, operators, signatures and metadata.

    With --digest, instead of these, what is equal for models that say the same, however their files are laid out:
    docs/digest.md.
    """
    kind = "json" if json else "text"
    with reading(source) as model:
        if digest:
            show_as(kind, ct.digests(model), text=ct.render.digests_text, json=ct.render.digests_json)
        else:
            show_as(kind, ct.inspect(model), text=ct.render.inspection_text, json=ct.render.inspection_json)


def verify(source: Input, json: Json = False) -> None:
    """Check the structure of models, and every index in them.

    Exit status 3 when the structure of a model is broken, 1 when an index or external data is out of range, or
    anything else is found.
    """
    raise typer.Exit(_judge(source, json, ct.verify))


def check(
    source: Input,
    with_: With = None,
    seconds: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Time limit for each of --with.")
    ] = 600.0,
    json: Json = False,
) -> None:
    """Verify models, and check outputs, origins and devices.

    docs/findings.md has all codes. Exit status 3 when the structure of a model is broken, 1 when there is an error
    or a warning. --with asks litert, litert-gpu, onert, openvino, vela or tflm whether they load the model.
    """
    names = listed(with_)
    raise typer.Exit(_judge(source, json, lambda model: ct.check(model, names, timeout_s=seconds)))


def _judge(source: str, json: bool, find: Callable[[ct.Model], list[ct.Finding]]) -> int:
    """Show the findings of a model; return the exit status."""
    findings: list[ct.Finding] = []
    broken = None
    try:
        with reading(source) as model:
            findings = find(model)
    except ct.InvalidInputError as error:
        broken = str(error)
    record(len(findings), broken)
    text, as_json = ct.render.findings_text, ct.render.check_json
    show_as("json" if json else "text", source, findings, broken, text=text, json=as_json)
    if broken and not json:
        complain("error", broken)
    return {"ok": 0, "findings": 1, "invalid": 3}[ct.render.verdict(findings, broken)]
