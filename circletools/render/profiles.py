"""The profiles of a model in several runtimes, as text and JSON."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any

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
