"""What the tests of split share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from circletools.runtimes.worker import Worker
from tests.kit.presence import need
from tests.kit.split_support import alternating, with_devices
from tests.kit.support import bytes_of


@pytest.fixture
def annotated(tmp_path: Path) -> Path:
    path = tmp_path / "net.circle"
    path.write_bytes(with_devices(bytes_of("circle/diamond"), alternating))
    return path


@pytest.fixture(scope="module")
def litert() -> Iterator[Worker]:
    need("ai_edge_litert")
    with Worker("litert:builtin", 60) as worker:
        yield worker
