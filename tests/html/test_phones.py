"""The page on phones: nothing lies beyond the right edge, and tabs wrap."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.browser import Browser
from tests.kit.page_views import PROGRAM, tab

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on the path, nor named by CHROMIUM")

TABS = ("summary", "changes", "graph", "operators", "origins", "time", "findings")
BEYOND = """
[document.documentElement, document.body, ...document.querySelectorAll('header, #tabs, #details, .panel')]
  .map((one) => one.scrollWidth - Math.max(one.clientWidth, 0))
"""


@pytest.mark.parametrize("width", [400, 360])
@pytest.mark.parametrize("name", ["full", "odd", "nothing", "difference"])
def test_nothing_lies_beyond_the_edge(browser: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    browser.open(pages[name], width=width, height=800)
    for one in TABS:
        if browser.evaluate(f"document.getElementById('tab-{one}') !== null"):
            tab(browser, one)
            assert max(browser.evaluate(BEYOND)) <= 0, (one, browser.evaluate(BEYOND))
