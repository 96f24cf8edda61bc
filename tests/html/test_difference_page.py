"""The page of a difference: both graphs, pairs, changes and links."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.kit.browser import Browser
from tests.kit.build import Build
from tests.kit.page_support import Page, difference_of
from tests.kit.page_views import PROGRAM, details, focused, pixels, settled, tab
from tests.kit.profile_support import run
from tests.kit.support import ROOT, bytes_of

DATA = ROOT / "testdata" / "tracking"
NAMES = ("attention_small.optimised.before.circle", "attention_small.optimised.after.circle")
needs_browser = pytest.mark.skipif(PROGRAM is None, reason="no Chromium on the path, nor named by CHROMIUM")


def chain(count: int, without: int = -1) -> bytes:
    """Return a chain of operators, of which one may be left out and the one behind it is another."""
    build = Build()
    graph = build.graph()
    first = last = graph.tensor("x", (1, 4))
    for index in range(count):
        if index != without:
            code = "RELU" if index == without + 1 > 0 else ("TANH", "ADD")[index % 2]
            operands = [last, graph.constant(f"c{index}", np.ones((1, 4), np.float32))] if code == "ADD" else [last]
            last = graph.compute(code, operands, f"net.block{index // 10}::n{index}")
    graph.ends([first], [last])
    return build.to_bytes()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("difference") / "page.html"
    path.write_bytes(difference_of(*(DATA / name for name in NAMES)))
    return path


@pytest.fixture
def shown(browser: Browser, page: Path) -> Iterator[Browser]:
    browser.open(page)
    yield browser
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]


@pytest.mark.parametrize(
    "names",
    [("circle/mlp", "circle/mlp"), ("circle/if_cond", "circle/while_loop"), ("tflite/while_nested", "circle/cnn"),
     ("circle/only_input", "circle/mlp"), ("tflite/cnn", "tflite/cnn_int8")],
)  # fmt: skip
def test_pairs_have_the_same_place(names: tuple[str, str]) -> None:
    """Each pair names the other, and has its place; all operators are laid out."""
    document = Page(difference_of(*map(bytes_of, names))).document
    subgraphs = document["subgraphs"]
    split = document["diff"]["split"]
    assert all(one["twin"] is None or (one["twin"] < split) != (at < split) for at, one in enumerate(subgraphs))
    for at, one in enumerate(subgraphs):
        (layout,) = one["layouts"]
        assert len(layout["level"]) == len(one["partner"]) == len(one["operators"]["code"])
        for operator, other in enumerate(one["partner"]):
            if other is not None:
                twin = subgraphs[one["twin"]]
                assert (twin["partner"][other], twin["twin"]) == (operator, at)
                places = ([side[name][row] for name in ("group", "level", "column")]
                          for side, row in ((layout, operator), (twin["layouts"][0], other)))  # fmt: skip
                assert next(places) == next(places)


def test_the_command_writes_it(tmp_path: Path) -> None:
    made = tmp_path / "page.html"
    paths = [DATA / name for name in NAMES]
    status, out, _ = run(*paths, "--html", made, command="diff")
    document = Page(made.read_bytes()).document
    assert status == 1
    assert document["diff"]["names"] == [*NAMES]
    assert document["diff"]["summary"][0] in out
    assert run(*paths, "--html", paths[0], command="diff")[0] == 2
    assert run(*paths, "--html", made, "--attest", command="diff")[0] == 2


@needs_browser
def test_changes_lead_to_operators_and_these_to_their_pairs(shown: Browser) -> None:
    assert "Summary" in shown.text("#changes")
    links = "[...document.querySelectorAll('#changes details button.link')]"
    found = shown.evaluate(f"{links}.findIndex((one) => one.textContent.includes('.operators['))")
    assert found >= 0
    shown.evaluate(f"{links}[{found}].focus()")
    shown.press("Enter")
    assert shown.evaluate("!document.getElementById('panel-graph').hidden")
    title, *rest = details(shown).splitlines()
    assert title.startswith("Operator")
    assert "Changes" in rest
    settled(shown)
    before = pixels(shown), pixels(shown, "#canvas-b")
    shown.evaluate("document.querySelector('#details dd button.link').click()")
    settled(shown)
    assert details(shown).splitlines()[0] != title
    assert (pixels(shown), pixels(shown, "#canvas-b")) == before  # the pair was chosen with it
    shown.evaluate("document.getElementById('canvas-b').focus()")
    shown.press("ArrowDown")
    settled(shown)
    assert pixels(shown, "#canvas-b") != before[1]
    assert pixels(shown) != before[0]
    assert focused(shown) == "canvas-b"


@needs_browser
def test_both_graphs_fold_together(shown: Browser) -> None:
    tab(shown, "graph")
    settled(shown)
    before = [pixels(shown, name) for name in ("#overview", "#overview-b")]
    shown.evaluate(
        "[...document.querySelectorAll('#tools button')].find((b) => b.textContent === 'Fold all').click()"
    )
    settled(shown)
    assert [pixels(shown, name) == one for name, one in zip(("#overview", "#overview-b"), before, strict=True)] == [
        False, False,
    ]  # fmt: skip


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_two_models_of_500_operators(browser: Browser, tmp_path: Path, scheme: str) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(difference_of(chain(500), chain(500, 250)))
    browser.open(path, scheme=scheme)
    for action in (browser.reload, lambda: tab(browser, "graph"), lambda: browser.click_on("#tools button")):
        assert browser.cpu_seconds(action) < 0.3
    tab(browser, "operators")
    browser.evaluate("document.querySelector('#operators input').focus()")
    browser.write("only in")
    states = browser.evaluate("[...document.querySelectorAll('.grid-row')].map((row) => row.textContent)")
    assert len(states) == 1
    assert "A 250" in states[0]
    assert browser.complaints() == []
