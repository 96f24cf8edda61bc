"""The models below a directory."""

from __future__ import annotations

import os
from collections.abc import Iterator

SUFFIXES = (".circle", ".tflite")


def models_below(directory: str) -> Iterator[str]:
    """Yield the paths, relative to `directory`, of the models in it and below, in the order of their names.

    A model is a file that ends in .tflite or .circle, in capitals too. What begins with a dot is left out. Links are
    followed; each directory is entered once, whichever way leads to it first, so that links in a circle come to an
    end. A dangling link and a directory that cannot be read are yielded too: who opens them learns why.
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
    """Return the entries of a directory, sorted; none when it has been entered before."""
    status = os.stat(path)
    identity = status.st_dev, status.st_ino
    if identity in entered:
        return []
    entered.add(identity)
    return [os.path.join(name, entry) for entry in sorted(os.listdir(path)) if not entry.startswith(".")]
