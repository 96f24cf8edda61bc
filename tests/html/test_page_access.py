"""The page in a browser: safety, narrow windows, keyboard, assistive technology, print."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from tests.kit.browser import Browser
from tests.kit.page_support import NOT_UTF8, ODD_NAMES
from tests.kit.page_views import PROGRAM, details, focused, pixels, settled, tab
from tests.kit.presence import need

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on the path, nor named by CHROMIUM")

TABS = "[...document.querySelectorAll('[role=tab]')].map((one) => one.id.slice(4))"
BEYOND = """
[document.documentElement, document.body, ...document.querySelectorAll('header, #tabs, #details, .panel')]
  .map((one) => one.scrollWidth - Math.max(one.clientWidth, 0))
"""


@pytest.mark.parametrize("name", ["full", "small", "odd", "loop", "empty", "nothing", "difference"])
def test_the_page_has_no_errors_requests_or_overflow(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    for one in browser.evaluate(TABS):
        tab(browser, one)
        text = browser.text(f"#panel-{one}")
        assert text.strip()
        digits = "" if one == "changes" else r"|\d\.\d{4}"
        assert not re.search(r"NaN|undefined|\[object|null" + digits, text)
        for width in (400, 360, 1440):
            browser.resize(width, 800)
            assert max(browser.evaluate(BEYOND)) <= 0, (one, width)
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].as_uri()]


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("name", ["small", "difference"])
def test_axe_has_no_finding(browser: Browser, pages: dict[str, Path], name: str, width: int) -> None:
    """All rules on the first view, and within each other view; those about colors in the dark too."""
    need("axe_core_python")
    browser.open(pages[name], width=width)
    script = resources.files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    browser.send("Runtime.evaluate", expression=script)
    found = browser.evaluate(violations("document"))
    for one in browser.evaluate(TABS):
        tab(browser, one)
        found += browser.evaluate(violations(f"'#panel-{one}'"))
        browser.click_on("#theme")
        found += browser.evaluate(violations(f"'#panel-{one}'", "color-contrast"))
        browser.click_on("#theme")
    assert found == []


def violations(within: str, *rules: str) -> str:
    """Return an expression: what axe finds, as rule, impact and the first element."""
    options = {"runOnly": list(rules)} if rules else {}
    listed = "({ id, impact, nodes }) => [id, impact, nodes[0].html]"
    return f"axe.run({within}, {options}).then((done) => done.violations.map({listed}))"


def test_every_link_leads_somewhere(browser: Browser, pages: dict[str, Path]) -> None:
    """A button selects what it names or opens another view; an address is a place of the page, or a source line."""
    browser.open(pages["small"])
    for one in ("summary", "time", "fit", "findings"):
        tab(browser, one)
        buttons = f"document.querySelectorAll('#panel-{one} button.link')"
        labels = browser.evaluate(f"[...{buttons}].map((button) => button.innerText)")
        assert labels
        for at, label in enumerate(labels):
            tab(browser, one)
            browser.evaluate(f"{buttons}[{at}].click()")
            left = browser.evaluate(f"document.getElementById('panel-{one}').hidden")
            assert left or label.split()[-1] in details(browser)
    tab(browser, "origins")
    found = set(browser.evaluate("[...document.querySelectorAll('a')].map((one) => one.getAttribute('href'))"))
    assert found == {"#main", "https://example.org/net.py#L3", "https://example.org/other.py#L4"}
    assert browser.evaluate("document.getElementById('main') !== null")
    assert browser.complaints() == []


def test_the_policy_stops_a_script_that_is_not_ours(browser: Browser, pages: dict[str, Path], tmp_path: Path) -> None:
    """The page would be safe even if a name became markup."""
    page = pages["full"].read_bytes()
    mark = b"<main "
    assert page.count(mark) == 1
    hostile = b"<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"
    (tmp_path / "hostile.html").write_bytes(page.replace(mark, hostile + mark))
    browser.open(tmp_path / "hostile.html")
    assert browser.evaluate("document.title") == "model.circle - circletools report"
    assert browser.requests() == [(tmp_path / "hostile.html").as_uri()]
    assert len(browser.complaints()) >= 2


def test_names_are_shown_and_do_nothing(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["odd"])
    assert browser.evaluate("document.title") == f"{ODD_NAMES[0]} - circletools report"
    assert browser.text("#name") == ODD_NAMES[0]
    tab(browser, "graph")
    browser.evaluate("document.getElementById('canvas').focus()")
    seen = ""
    for _ in ODD_NAMES:
        browser.press("ArrowDown")
        seen += details(browser)
    for name in ODD_NAMES:
        if len(name) < 1000 and name.isprintable():
            assert name in seen
    assert NOT_UTF8 not in seen
    for spelled in (r"bytes\xff\x80", r"turned\u202egnp.exe\u2066", r"line\u2028and\x0alines\x1b[31m"):
        assert spelled in seen
    assert "… (10000 characters)" in seen
    assert browser.evaluate("document.querySelectorAll('script, img').length") == 2
    assert browser.complaints() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_theme_is_the_systems_until_it_is_changed(browser: Browser, pages: dict[str, Path], scheme: str) -> None:
    browser.open(pages["full"], scheme=scheme)
    tab(browser, "graph")
    background = "getComputedStyle(document.body).backgroundColor"

    def is_dark() -> bool:
        levels = [int(level) for level in browser.evaluate(background)[4:-1].split(",")]
        assert abs(sum(levels) / 3 - 128) > 60
        return sum(levels) / 3 < 128

    first, painted = is_dark(), pixels(browser)
    assert first == (scheme == "dark")
    browser.click_on("#theme")
    settled(browser)
    assert is_dark() != first
    assert (sum(pixels(browser)) < sum(painted)) != first
    assert browser.complaints() == []


def test_tab_reaches_all_controls_and_shows_where_it_is(shown: Browser) -> None:
    tab(shown, "graph")
    reached: list[str] = []
    for _ in range(14):
        shown.press("Tab")
        reached.append(focused(shown))
        assert shown.evaluate(
            "document.activeElement === document.body || document.activeElement.matches(':focus-visible')"
            " && getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        ), reached
    assert {"canvas", "color", "Show all", "Fold all"} <= set(reached)
    shown.evaluate("document.getElementById('tab-graph').focus()")
    shown.press("ArrowRight")
    assert focused(shown) == "tab-operators"


def roles(browser: Browser) -> dict[str, list[str]]:
    """Return what the browser exposes to assistive technology: role -> names."""
    found: dict[str, list[str]] = {}
    for one in browser.send("Accessibility.getFullAXTree")["nodes"]:
        if not one.get("ignored"):
            found.setdefault(one["role"]["value"], []).append(one.get("name", {}).get("value", ""))
    return found


def test_names_and_roles_for_assistive_technology(shown: Browser) -> None:
    tab(shown, "graph")
    listed = roles(shown)
    assert listed["tab"] == ["Overview", "Graph", "Operators", "Origins", "Time", "Findings"]
    assert {"main", "banner", "search", "tablist", "tabpanel", "complementary", "application"} <= listed.keys()


def test_what_is_printed(shown: Browser) -> None:
    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    shown.send("Emulation.setEmulatedMedia", media="print")
    text = shown.text("body")
    for part in ("Summary", "Hot spots", "Sources by module", "Layers and phases", "Findings of check"):
        assert part in text
    assert shown.evaluate("document.getElementById('canvas').offsetParent") is None
