"""Files: mapped, copied, and replaced whole or not at all; directories of models. Knows no model.

with ct.files.making_directory(folder):
ct.files.write(folder / "notes.json", [data])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.storage.directories import making_directory
    from circletools.storage.discover import SUFFIXES, models_below
    from circletools.storage.files import check_target, make_directory, same_file, write

__all__ = [
    "SUFFIXES",
    "check_target",
    "make_directory",
    "making_directory",
    "models_below",
    "same_file",
    "write",
]

_PLACES = {
    "SUFFIXES": "circletools.storage.discover",
    "check_target": "circletools.storage.files",
    "make_directory": "circletools.storage.files",
    "making_directory": "circletools.storage.directories",
    "models_below": "circletools.storage.discover",
    "same_file": "circletools.storage.files",
    "write": "circletools.storage.files",
}
__getattr__, __dir__ = face(__name__, _PLACES)
