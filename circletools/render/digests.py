"""Digests and attestations of models, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import PurePath
from typing import Any

from circletools.model.digests import Attestation, ContentDigests
from circletools.model.model import Model
from circletools.render.table import document_json
from circletools.wording import counted

PREDICATE = "urn:circletools:identical-except:1"
"""The predicate type of the in-toto statement."""


def digests_text(found: ContentDigests) -> Iterator[str]:
    """Yield the lines that `inspect --digest` shows."""
    yield f"{found.digest}  {found.format}"
    for part, digest in found.parts.items():
        yield f"{digest}  {part}"


def attestation_statement(found: Attestation, before: Model, after: Model) -> dict[str, Any]:
    """Return the in-toto statement (version 1) about the second model, which contains the attestation as JSON.

    The statement names the files, and has SHA-256 digests of all their bytes.
    """
    old, new = (
        {"name": PurePath(model.source.name).name, "digest": {"sha256": sha256(model.wire.memory).hexdigest()}}
        for model in (before, after)
    )
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [new],
        "predicateType": PREDICATE,
        "predicate": {"from": old, **document_json(found)},
    }


def attestation_text(found: Attestation) -> Iterator[str]:
    """Yield the lines that `attest` shows."""
    for change in found.changes:
        kind = "added" if change.before is None else "removed" if change.after is None else "changed"
        yield f"{kind:8} {change.part}"
    yield f"{counted(found.equal_parts, 'part')} equal, {len(found.changes)} not"
