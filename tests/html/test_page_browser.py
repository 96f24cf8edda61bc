"""The report in a real browser: a headless Chromium, where one is installed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from circletools.html.html import page_html
from tests.kit.browser import Browser, chromium
from tests.kit.build import Build
from tests.kit.exports_support import codes_of
from tests.kit.page_support import BENCHMARK, NOT_UTF8, ODD_NAMES, document_of, full, odd, onert_trace, page_of
from tests.kit.support import bytes_of

PROGRAM = chromium()
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on the path, nor named by CHROMIUM")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert PROGRAM is not None
    with Browser(PROGRAM) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "full": page_of(full(), onert_trace(folder, codes_of(full())), BENCHMARK),
        "odd": page_of(odd(), name=ODD_NAMES[0]),
        "two": page_of(full(), *(onert_trace(folder, codes_of(full()), runs) for runs in (1, 2))),
        "loop": page_of(bytes_of("tflite/while_nested")),
        "empty": page_of(bytes_of("circle/only_input")),
        "nothing": page_of(Build().to_bytes()),
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


def settled(browser: Browser) -> None:
    """Wait until what was asked for is drawn."""
    browser.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def tab(browser: Browser, name: str) -> None:
    browser.click_on(f"#tab-{name}")
    settled(browser)
    assert browser.evaluate(f"!document.getElementById('panel-{name}').hidden")


def details(browser: Browser) -> str:
    return browser.text("#details")


def focused(browser: Browser) -> str:
    return str(browser.evaluate("document.activeElement.id || document.activeElement.textContent"))


def pixels(browser: Browser, selector: str = "#canvas") -> list[int]:
    """Return the sums of the channels over all pixels of a canvas."""
    found: list[int] = browser.evaluate(
        f"""(() => {{ const c = document.querySelector({selector!r});
        const copy = new OffscreenCanvas(c.width, c.height).getContext('2d', {{ willReadFrequently: true }});
        copy.drawImage(c, 0, 0);
        const d = copy.getImageData(0, 0, c.width, c.height).data; const s = [0, 0, 0];
        for (let i = 0; i < d.length; i += 4) for (let k = 0; k < 3; k++) s[k] += d[i + k]; return s; }})()"""
    )
    return found


TABS = ("summary", "graph", "operators", "origins", "time", "findings")


@pytest.mark.parametrize("name", ["full", "odd", "loop", "empty", "nothing"])
def test_nothing_goes_wrong_and_nothing_is_loaded(browser: Browser, pages: dict[str, Path], name: str) -> None:
    browser.open(pages[name])
    for one in TABS:
        if browser.evaluate(f"document.getElementById('tab-{one}') !== null"):
            tab(browser, one)
            text = browser.text(f"#panel-{one}")
            assert text.strip()
            assert not re.search(r"\d\.\d{4}|NaN|undefined|\[object|null", text)
    assert browser.complaints() == []
    assert browser.requests() == [pages[name].as_uri()]


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


def test_search_finds_and_selects(shown: Browser) -> None:
    shown.press("/")
    assert focused(shown) == "search"
    shown.write("softmax")
    assert "21 SOFTMAX" in shown.text("#found")
    shown.press("Enter")
    settled(shown)
    assert "Operator 21 SOFTMAX" in details(shown)
    assert shown.evaluate("!document.getElementById('panel-graph').hidden")
    assert focused(shown) == "canvas"
    shown.press("/")
    shown.evaluate("document.getElementById('search').value = ''")
    shown.write("tico::x")
    kinds = shown.evaluate("[...document.querySelectorAll('#found .kind')].map((kind) => kind.textContent)")
    assert kinds == ["tensor"]
    shown.press("Enter")
    assert "graph input 0" in details(shown)
    shown.press("/")
    shown.evaluate("document.getElementById('search').value = ''")
    shown.write("layernorm")
    for _ in range(15):
        shown.press("ArrowDown")
    assert "source" in shown.text("#found [aria-selected=true]")
    shown.press("Enter")
    assert details(shown).startswith("Source")
    shown.press("/")
    shown.press("Escape")
    assert shown.evaluate("document.getElementById('found').hidden")


def test_keys_go_along_the_edges(shown: Browser) -> None:
    tab(shown, "graph")
    shown.evaluate("document.getElementById('canvas').focus()")
    document = document_of(full())
    operators = document["subgraphs"][0]["operators"]
    codes = [document["codes"][code] for code in operators["code"]]
    makers = {tensor: row for row, outputs in enumerate(operators["outputs"]) for tensor in outputs}
    shown.press("ArrowDown")
    assert details(shown).startswith(f"Operator 0 {codes[0]}")
    before = 0
    for _ in range(12):
        shown.press("ArrowDown")
        after = int(details(shown).split()[1])
        assert before in [makers.get(tensor) for tensor in operators["inputs"][after]]
        before = after
    shown.press("ArrowUp")
    assert int(details(shown).split()[1]) in [makers.get(tensor) for tensor in operators["inputs"][before]]
    shown.press("Enter")
    assert focused(shown) == "details"
    shown.press("Escape")
    assert focused(shown) == "canvas"
    shown.press("Escape")
    assert details(shown).startswith("Nothing selected")


def test_a_click_selects_what_is_there(shown: Browser) -> None:
    tab(shown, "graph")
    shown.evaluate("document.getElementById('canvas').focus()")
    shown.press("ArrowDown")
    shown.press("0")
    settled(shown)
    before = pixels(shown)
    selected = shown.evaluate("document.getElementById('status').textContent")
    shown.press("Escape")
    settled(shown)
    assert pixels(shown) != before
    shown.press("Home")
    shown.press("ArrowDown")
    settled(shown)
    # The operator is drawn where the picture has it: in the middle of the view's width, at the top.
    box = shown.evaluate("(() => { const b = document.getElementById('canvas').getBoundingClientRect();"
                         " return [b.x + (b.width - 26) / 2, b.y + 70]; })()")  # fmt: skip
    shown.press("Escape")
    for below in range(0, 200, 10):
        shown.click(box[0], box[1] + below)
        if details(shown).startswith("Operator"):
            break
    assert shown.evaluate("document.getElementById('status').textContent") == selected


def test_the_details_lead_to_producers_readers_partitions_and_sources(shown: Browser) -> None:
    shown.press("/")
    shown.write("21 softmax")
    shown.press("Enter")
    text = details(shown)
    assert "cpu" in text
    assert "each execution" in text
    producer = "[...document.querySelectorAll('#details .slots button')][0]"
    label = shown.evaluate(f"{producer}.textContent")
    shown.evaluate(f"{producer}.click()")
    assert details(shown).startswith(f"Operator {label}")
    shown.evaluate("[...document.querySelectorAll('#details dd button')][0].click()")
    assert details(shown).startswith("Partition")
    assert "Comes in across a cut" in details(shown)
    shown.evaluate("[...document.querySelectorAll('#details ul button')].pop().click()")
    shown.evaluate("[...document.querySelectorAll('#details ul button')].pop().click()")
    assert details(shown).startswith("Source")


def test_a_trace_can_be_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["two"])
    assert browser.text("#trace") == "trace_1.chrome.json\ntrace_2.chrome.json"
    tab(browser, "time")
    for choice, executions in ((1, "2"), (0, "1")):
        browser.evaluate(f"(() => {{ const c = document.getElementById('trace'); c.value = {choice};"
                         " c.dispatchEvent(new Event('change')); })()")  # fmt: skip
        assert f"executions\n{executions}\n" in browser.text("#panel-time")
    assert browser.complaints() == []


def test_partitions_fold(shown: Browser) -> None:
    tab(shown, "graph")
    before = pixels(shown, "#overview")
    buttons = "[...document.querySelectorAll('#tools button')]"
    shown.evaluate(f"{buttons}.find((button) => button.textContent === 'Fold all').click()")
    settled(shown)
    assert pixels(shown, "#overview") != before
    shown.evaluate(f"{buttons}.find((button) => button.textContent === 'Unfold all').click()")
    settled(shown)
    assert pixels(shown, "#overview") == before
    shown.evaluate("document.getElementById('canvas').focus()")
    shown.press("ArrowDown")
    shown.press("c")
    settled(shown)
    assert pixels(shown, "#overview") != before


def test_operators_are_sorted_and_filtered(shown: Browser) -> None:
    tab(shown, "operators")
    rows = "[...document.querySelectorAll('.grid-row')].map((row) => row.firstChild.textContent)"
    assert shown.evaluate(rows)[:3] == ["0", "1", "2"]
    shown.evaluate("[...document.querySelectorAll('.grid-head button')][5].click()")
    # In this trace an operator takes longer the later it stands.
    assert shown.evaluate(rows)[:3] == ["40", "39", "38"]
    shown.evaluate("document.querySelector('#operators input').focus()")
    shown.write("softmax")
    assert shown.evaluate(rows) == ["21"]
    shown.evaluate("document.querySelector('.grid-body').focus()")
    shown.press("ArrowDown")
    assert "Operator 21 SOFTMAX" in details(shown)
    assert shown.evaluate("document.querySelector('.grid-body').getAttribute('aria-activedescendant')") == "row-0-21"


def test_the_tree_of_modules(shown: Browser) -> None:
    tab(shown, "origins")
    items = "[...document.querySelectorAll('[role=treeitem]')].filter((item) => item.offsetParent)"
    shown.evaluate(f"{items}[0].focus()")
    count = shown.evaluate(f"{items}.length")
    shown.press("ArrowLeft")
    assert shown.evaluate(f"{items}.length") < count
    shown.press("ArrowRight")
    assert shown.evaluate(f"{items}.length") == count
    shown.press("ArrowDown")
    assert details(shown).startswith("Module")
    shown.press("ArrowRight")
    shown.press("ArrowDown")
    assert details(shown).startswith("Source")
    assert "1 operator" in details(shown)


def test_findings_lead_to_their_place(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_bytes(page_of(bytes_of("circle/output_twice")))
    browser.open(page)
    tab(browser, "findings")
    assert "DUPLICATE_OUTPUT" in browser.text("#panel-findings")
    browser.evaluate("document.querySelector('#panel-findings button').click()")
    assert details(browser).startswith("Tensor")
    assert browser.evaluate("!document.getElementById('panel-graph').hidden")
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
    """Return what the browser tells assistive technology: role -> names."""
    found: dict[str, list[str]] = {}
    for one in browser.send("Accessibility.getFullAXTree")["nodes"]:
        if not one.get("ignored"):
            found.setdefault(one["role"]["value"], []).append(one.get("name", {}).get("value", ""))
    return found


def test_what_assistive_technology_is_told(shown: Browser) -> None:
    tab(shown, "graph")
    told = roles(shown)
    assert told["tab"] == ["Overview", "Graph", "Operators", "Origins", "Time", "Findings"]
    assert {"main", "banner", "search", "tablist", "tabpanel", "complementary", "application"} <= told.keys()
    for role in ("button", "combobox", "application", "tabpanel", "searchbox"):
        assert all(told.get(role, [])), role


def test_subgraphs_can_be_chosen(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["loop"])
    tab(browser, "graph")
    before = pixels(browser)
    browser.evaluate("(() => { const c = document.getElementById('subgraph'); c.value = 1;"
                     " c.dispatchEvent(new Event('change')); })()")  # fmt: skip
    settled(browser)
    assert pixels(browser) != before
    browser.evaluate("document.getElementById('canvas').focus()")
    browser.press("ArrowDown")
    assert browser.text("#details dd").startswith("1")
    assert browser.complaints() == []


def test_what_is_printed(shown: Browser) -> None:
    shown.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    shown.send("Emulation.setEmulatedMedia", media="print")
    text = shown.text("body")
    for part in ("Summary", "Hot spots", "Sources by module", "Layers and phases", "What check says"):
        assert part in text
    assert shown.evaluate("document.getElementById('canvas').offsetParent") is None


def test_a_large_model_is_folded(browser: Browser, tmp_path: Path) -> None:
    """25,000 operators in 50 partitions, made from the document of a small model."""
    document = document_of(full())
    grown(document["subgraphs"][0], 25_000, 50)
    page = tmp_path / "large.html"
    page.write_bytes(page_html(document))
    browser.open(page)
    tab(browser, "graph")
    middle = (
        "(() => { const b = document.getElementById('canvas').getBoundingClientRect(); return b.x + b.width / 2; })()"
    )
    browser.click(browser.evaluate(middle), 400)
    assert details(browser).startswith("Partition")
    assert "500" in browser.text("#details dl")
    browser.press("/")
    browser.write("24999 ")
    browser.press("Enter")
    settled(browser)
    assert details(browser).startswith("Operator 24999")
    assert browser.complaints() == []


def grown(subgraph: dict[str, Any], count: int, parts: int) -> None:
    """Make a subgraph a chain of `count` operators in `parts` partitions."""
    rows, size = range(count), count // parts
    subgraph["operators"] |= {
        "code": [row % 3 for row in rows],
        "inputs": [[row] for row in rows],
        "outputs": [[row + 1] for row in rows],
        "origin": [0 for _ in rows],
        "device": [row // size % 2 for row in rows],
    }
    subgraph["tensors"] |= {"name": [f"t{row}" for row in range(count + 1)]} | {
        column: [0] * (count + 1) for column in ("type", "shape", "constant_bytes")
    }
    subgraph["layout"] = {
        "group": [row // size for row in rows],
        "level": [row % size for row in rows],
        "column": [0 for _ in rows],
        "edges": {
            "source": list(range(count - 1)),
            "target": list(range(1, count)),
            "tensor": list(range(1, count)),
            "lane": [-1] * (count - 1),
        },
        "groups": [{"partition": part, "device": part % 2, "operators": size, "row": part} for part in range(parts)],
    }
    subgraph["transfers"] = None
