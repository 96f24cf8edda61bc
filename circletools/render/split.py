"""The results of splits and of their verification, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from circletools.parts.split import Split
from circletools.parts.verify import SplitVerification
from circletools.render.findings import verdict
from circletools.wording import SCHEMA_VERSION


def split_json(done: Split) -> dict[str, Any]:
    """Return the JSON document of `split`."""
    parts = [
        {
            "file": piece.file,
            "device": part.device,
            "operators": list(part.operators),
            "inputs": list(piece.inputs),
            "outputs": list(piece.outputs),
            "bytes": size,
        }
        for part, piece, size in zip(done.plan.parts, done.connections.parts, done.sizes, strict=True)
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "subgraph": done.plan.subgraph,
        "parts": parts,
        "notes": [note.message for note in done.notes],
    }


def split_verification_json(found: SplitVerification) -> dict[str, Any]:
    """Return the JSON document of `verify-split`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict(found.findings),
        "runtime": found.runtime,
        "findings": [asdict(finding) for finding in found.findings],
    }
