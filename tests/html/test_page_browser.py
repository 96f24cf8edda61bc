"""The page in a browser: what a click, a key and a search do."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from circletools.html.html import page_html
from tests.kit.browser import Browser
from tests.kit.page_support import document_of, full, page_of
from tests.kit.page_views import PROGRAM, details, focused, pixels, settled, tab
from tests.kit.support import bytes_of

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on the path, nor named by CHROMIUM")


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
    assert "Enters across a cut" in details(shown)
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
    shown.evaluate("[...document.querySelectorAll('.grid-head button')][6].click()")
    # In this trace, later operators take longer.
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


def test_a_frame_of_the_flame_graph_is_as_wide_as_its_module_is_slow(shown: Browser) -> None:
    tab(shown, "time")
    document = shown.evaluate("JSON.parse(document.getElementById('document').textContent)")
    modules, times = document["modules"], document["operator_traces"][0]
    paths: list[str] = []
    for above, label in zip(modules["parent"], modules["label"], strict=True):
        paths.append((paths[above] if above >= 0 else "") + label)
    shares = [time_ns / times["total_ns"] for time_ns in times["modules_ns"]]
    expected = dict(zip([path.lstrip("./:") for path in paths], shares, strict=True))
    items = "[...document.querySelectorAll('.flames [role=treeitem]')]"
    widths = f"{items}.map((one) => [one.ariaLabel.split(': ')[0], one.offsetWidth / {items}[0].offsetWidth])"
    before = dict(shown.evaluate(widths))
    assert [name for name, part in expected.items() if abs(before[name] - part) > 0.005] == []
    shown.evaluate(f"{items}[0].focus()")
    for key in ("ArrowDown", "ArrowRight", "Enter"):
        shown.press(key)
    chosen = shown.evaluate("document.activeElement.ariaLabel").split(": ")[0]
    assert [name for name, part in shown.evaluate(widths) if part == 1] == ["model", chosen]
    assert details(shown).startswith(f"Module\n\n{chosen}")
    assert f"{100 * expected[chosen]:.1f}%" in details(shown)
    shown.click_on(".flames .line")
    assert dict(shown.evaluate(widths)) == before


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


def test_a_large_model_is_folded(browser: Browser, tmp_path: Path) -> None:
    """25,000 operators in 50 partitions, made from the document of a small model."""
    document = document_of(full())
    grown(document["subgraphs"][0], 25_000, 50)
    page = tmp_path / "large.html"
    page.write_text(page_html(document), "utf-8")
    browser.open(page)
    assert browser.cpu_seconds(browser.reload) < 0.3
    for name in ("operators", "origins", "graph"):
        assert browser.cpu_seconds(partial(tab, browser, name)) < 0.3, name
    middle = (
        "(() => { const b = document.getElementById('canvas').getBoundingClientRect(); return b.x + b.width / 2; })()"
    )
    browser.click(browser.evaluate(middle), 400)
    assert details(browser).startswith("Partition")
    assert "500" in browser.text("#details dl")
    for key in ("/", *"24999 ", "Enter"):
        assert browser.cpu_seconds(partial(browser.press, key)) < 0.3
    assert details(browser).startswith("Operator 24999")
    assert browser.complaints() == []


def grown(subgraph: dict[str, Any], count: int, parts: int) -> None:
    """Make a subgraph a chain of `count` operators in `parts` partitions."""
    rows, size = range(count), count // parts
    subgraph["operators"] |= {
        "code": [row % 3 for row in rows],
        "inputs": [[row] for row in rows],
        "outputs": [[row + 1] for row in rows],
        "macs": [0 for _ in rows],
        "origin": [0 for _ in rows],
        "device": [row // size % 2 for row in rows],
    }
    subgraph["tensors"] |= {"name": [f"t{row}" for row in range(count + 1)]} | {
        column: [0] * (count + 1) for column in ("type", "shape", "constant_bytes")
    }
    layout = {
        "group": [row // size for row in rows],
        "level": [row % size for row in rows],
        "column": [0 for _ in rows],
        "edges": {
            "source": list(range(count - 1)),
            "target": list(range(1, count)),
            "tensor": list(range(1, count)),
            "lane": [-1] * (count - 1),
        },
        "groups": [
            {"partition": part, "module": None, "device": part % 2, "operators": size, "row": part}
            for part in range(parts)
        ],
    }
    subgraph |= {"layouts": [layout], "transfers": None}
