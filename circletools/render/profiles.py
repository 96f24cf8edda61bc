"""Profiles of a model in several runtimes as text and JSON; times as stacks, in collapsed form and for speedscope."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Sequence
from typing import Any

from circletools.origin.modules import modules_of, split
from circletools.origin.source import NOTHING
from circletools.profile.attribution import Attribution
from circletools.profile.recording import Profile
from circletools.render.attribution import EVERY, TOP, attribution_json, attribution_text
from circletools.wording import SCHEMA_VERSION


def profile_json(profiles: Sequence[Profile], by: Container[str] = EVERY) -> dict[str, Any]:
    """Return the JSON document of `profile`: for each runtime, that of `attribute`, and data about the run."""
    found = [
        {"program": one.program, "version": one.version} | attribution_json(one.attribution, by) for one in profiles
    ]
    for document in found:
        del document["schema_version"]
    return {"schema_version": SCHEMA_VERSION, "profiles": found}


def profile_text(profiles: Sequence[Profile], by: Container[str] = EVERY, top: int = TOP) -> Iterator[str]:
    """Yield the program that ran the model, and the tables of its attribution."""
    for at, one in enumerate(profiles):
        if at:
            yield ""
        yield f"{one.program} {one.version}".rstrip()
        yield from attribution_text(one.attribution, by, top)


Stack = tuple[str, ...]


def stacks(attribution: Attribution) -> Iterator[tuple[Stack, int]]:
    """Yield the frames of each stack, outermost first, and its time in ns; the times add up to the measured total.

    Frames are the parts of a source's path, the source, and the operator; several sources of an operator share its
    time evenly. Without origins, an operator is placed below its operator code.
    """
    details = {row.source: row.details for row in attribution.sources}
    for row in attribution.operators:
        if row.time is None:
            continue
        label = f"{row.subgraph}/{row.index} {row.code}"
        if attribution.named or not row.sources:
            yield (row.code, f"{label} {row.output}"), row.time.total_ns
            continue
        for source, part in zip(row.sources, split(row.time.total_ns, len(row.sources)), strict=True):
            name = attribution.source_names[source]
            modules = modules_of(name, details.get(source, NOTHING))[0]
            yield (*(one.name for one in modules), *[name] * (modules[-1].path != name), label), part
    for kind in attribution.types if attribution.whole.types else ():
        yield (kind.name or "",), kind.time.total_ns
    for group in attribution.groups:
        yield (group.name, f"{len(group.operators)} operators"), group.time.total_ns
    for added in attribution.added:
        if added.kind != "inside":
            yield (f"({added.kind})", added.name), added.time.total_ns


def collapsed_text(attribution: Attribution) -> Iterator[str]:
    """Yield a line for each stack in the format of flamegraph.pl and its successors: `a;b;c 1234`."""
    for frames, time_ns in stacks(attribution):
        yield f"{';'.join(frame.replace(';', ',') for frame in frames)} {time_ns}"


def speedscope_text(attribution: Attribution, name: str = "") -> Iterator[str]:
    """Yield a document for speedscope (https://www.speedscope.app/file-format-schema.json): a sampled profile."""
    frames: dict[str, int] = {}
    samples, weights = [], []
    for stack, time_ns in stacks(attribution):
        samples.append([frames.setdefault(frame, len(frames)) for frame in stack])
        weights.append(time_ns)
    profile = {
        "type": "sampled",
        "name": name or attribution.runtime,
        "unit": "nanoseconds" if attribution.unit == "ns" else "none",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    yield json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": [{"name": frame} for frame in frames]},
            "profiles": [profile],
        }
    )
