"""A model in a folder of its own, and what it is with one entry more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.support import bytes_of, noted


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Return a copy of a test model in a folder of its own."""
    path = tmp_path / "in.circle"
    path.write_bytes(bytes_of("circle/mlp"))
    return path


@pytest.fixture
def expected(model: Path) -> bytes:
    return noted(model.read_bytes())
