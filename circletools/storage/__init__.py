"""Files: mapped, copied, and replaced whole or not at all. Knows no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from circletools.lazy import face

if TYPE_CHECKING:
    from circletools.storage.directories import making_directory as making_directory
    from circletools.storage.discover import SUFFIXES as SUFFIXES
    from circletools.storage.discover import models_below as models_below
    from circletools.storage.files import check_target as check_target
    from circletools.storage.files import make_directory as make_directory
    from circletools.storage.files import same_file as same_file
    from circletools.storage.files import write as write
    from circletools.storage.platform import locked as locked

__all__ = [
    "SUFFIXES",
    "check_target",
    "locked",
    "make_directory",
    "making_directory",
    "models_below",
    "same_file",
    "write",
]

_PLACES = {
    "SUFFIXES": "circletools.storage.discover",
    "check_target": "circletools.storage.files",
    "locked": "circletools.storage.platform",
    "make_directory": "circletools.storage.files",
    "making_directory": "circletools.storage.directories",
    "models_below": "circletools.storage.discover",
    "same_file": "circletools.storage.files",
    "write": "circletools.storage.files",
}
if not TYPE_CHECKING:  # else every name would be taken for one of the face
    __getattr__, __dir__ = face(__name__, _PLACES)
