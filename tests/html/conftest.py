"""Models, traces and pages for the tests of the report."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.browser import Browser
from tests.kit.build import Build
from tests.kit.exports_support import codes_of
from tests.kit.page_support import BENCHMARK, ODD_NAMES, difference_of, full, odd, onert_trace, page_of, small
from tests.kit.page_views import PROGRAM
from tests.kit.program import put
from tests.kit.support import bytes_of


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return put(tmp_path / "full.circle", full())


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return onert_trace(tmp_path, codes_of(full()))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM) as opened:
        yield opened


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "full": page_of(full(), onert_trace(folder, codes_of(full())), BENCHMARK),
        "small": small(folder),
        "odd": page_of(odd(), name=ODD_NAMES[0]),
        "two": page_of(full(), *(onert_trace(folder, codes_of(full()), runs) for runs in (1, 2))),
        "loop": page_of(bytes_of("tflite/while_nested")),
        "empty": page_of(bytes_of("circle/only_input")),
        "nothing": page_of(Build().to_bytes()),
        "difference": difference_of(bytes_of("circle/mlp"), bytes_of("circle/cnn")),
    }
    paths = {}
    for name, data in made.items():
        paths[name] = folder / f"{name}.html"
        paths[name].write_bytes(data)
    return paths


@pytest.fixture
def shown(browser: Browser, pages: dict[str, Path]) -> Iterator[Browser]:
    """Return the browser with the full page open; nothing may go wrong in it."""
    browser.open(pages["full"])
    yield browser
    assert browser.complaints() == []
