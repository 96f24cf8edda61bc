"""Check that a directory holds what a split writes, and nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from circletools.findings import Finding
from circletools.split.connections import Connections, encode_manifest, manifest_difference
from circletools.split.write import MANIFEST, package_obstacle, written


def manifest_findings(directory: Path, connections: Connections, *, expected: bool) -> Iterator[Finding]:
    """Compare the manifest with the connections; `expected` where nothing but these could have kept it away."""
    path = directory / MANIFEST
    if not os.path.lexists(path):
        if expected and package_obstacle(connections) is None:
            message = "missing, so onert cannot load the directory as a package; split again"
            yield Finding("MANIFEST_MISSING", "warning", MANIFEST, message)
        return
    if not path.is_file():
        yield Finding("MANIFEST_DIFFERS", "error", MANIFEST, "not a regular file")
        return
    model_type = Path(connections.parts[0].file).suffix[1:] if connections.parts else ""
    try:
        difference = manifest_difference(path.read_bytes(), encode_manifest(connections, model_type))
    except OSError as error:
        difference = f"cannot read it: {error.strerror}"
    except KeyError as error:  # an output that no part gives
        difference = f"no part produces the output {error}"
    if difference is not None:
        yield Finding("MANIFEST_DIFFERS", "error", MANIFEST, difference)


def stray_files(directory: Path, name: str, connections: Connections, source: Path) -> Iterator[Finding]:
    """Yield what the split did not write; the source may be there. Of a directory no more is told than itself."""
    ours, whole = written(name, connections), os.path.realpath(source)
    stray: set[Path] = set()
    for path in sorted(directory.rglob("*")):
        place = path.relative_to(directory)
        if str(place) in ours or os.path.realpath(path) == whole:
            continue
        if stray.isdisjoint(place.parents):
            yield Finding(
                "STRAY_FILE", "warning", str(place), "not written by split: the connections do not name it; remove it"
            )
        stray.add(place)
