"""Saving a model with one entry more, and what is there afterwards."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

from circletools.edit.edit import ModelEdit
from circletools.model.model import open_model


def save(source: Path, to: Path | str, **options: Any) -> None:
    with open_model(source) as opened:
        edit = ModelEdit(opened)
        edit.set_metadata("note", b"a value")
        edit.save(to, **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)
