"""What the tests of split share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.split_support import (
    alternating,
    with_devices,
)
from tests.kit.support import (
    bytes_of,
)


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    path = tmp_path / "net.circle"
    path.write_bytes(with_devices(bytes_of("circle/diamond"), alternating))
    return path
