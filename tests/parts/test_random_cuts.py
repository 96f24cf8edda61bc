"""Random cuts verify, cutting them whole gives them again, and runtimes compute the same bits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.cuts import cuts_of
from tests.kit.presence import need
from tests.kit.support import own_models

_COUNT = 3


@pytest.mark.parametrize("path", own_models(), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_random_cuts(path: Path, tmp_path: Path) -> None:
    need("onert" if path.suffix == ".circle" else "ai_edge_litert")
    found = cuts_of(path, _COUNT, 5, tmp_path)
    assert found.total() == _COUNT
    assert [verdict for verdict in found if verdict.startswith(("WRONG", "not run", "not cut"))] == []
