"""The models below a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator

SUFFIXES = (".circle", ".tflite")


def models_below(directory: str) -> Iterator[str]:
    """Yield the paths, relative to `directory`, of the models in it and below, sorted by name.

    A model is a file whose name ends in .tflite or .circle, in any case, and does not begin with a dot. Links are
    followed; each directory is entered once, so cyclic links terminate. A dangling link and an unreadable directory
    are yielded too, so opening them gives the error.
    """
    entered: set[tuple[int, int]] = set()
    waiting = [""]  # the next one last
    while waiting:
        name = waiting.pop()
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            try:
                waiting += reversed(_inside(path, name, entered))
            except OSError:
                yield name or os.curdir
        elif name.lower().endswith(SUFFIXES) and (os.path.isfile(path) or not os.path.exists(path)):
            yield name


def _inside(path: str, name: str, entered: set[tuple[int, int]]) -> list[str]:
    """Return the entries of a directory, sorted; empty if it was entered before."""
    status = os.stat(path)
    identity = status.st_dev, status.st_ino
    if identity in entered:
        return []
    entered.add(identity)
    return [os.path.join(name, entry) for entry in sorted(os.listdir(path)) if not entry.startswith(".")]
