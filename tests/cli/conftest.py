"""Models for the tests of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.cli_origins import SHOWN
from tests.kit.origin_support import embedded
from tests.kit.program import MLP, put
from tests.kit.support import path_of


@pytest.fixture
def twice(tmp_path: Path) -> Path:
    """Return a model that has origins already."""
    return put(tmp_path / "has.circle", embedded(MLP.read_bytes()))


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """Return a directory of models: equal names in different places, one that is broken, one with findings."""
    top = tmp_path / "models"
    for folder in ("b", "a", "a/deep"):
        (top / folder).mkdir(parents=True)
        put(top / folder / "net.circle", (MLP if folder == "b" else path_of("circle/diamond")).read_bytes())
    put(top / "a" / "broken.tflite", b"no model at all")
    put(top / "odd.TFLITE", path_of("tflite/output_twice").read_bytes())
    put(top / "a" / "notes.txt", "not a model")
    put(top / ".hidden.circle", b"")
    return top


@pytest.fixture
def shown(tmp_path: Path) -> Path:
    """Return a model with the origins `SHOWN`: operator 1 has none, and source 9 no operator."""
    return put(tmp_path / "shown.circle", embedded(MLP.read_bytes(), SHOWN))
