"""The page holds the document and refers to nothing outside."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

from circletools.html.html import SCRIPTS
from tests.kit.page_support import BENCHMARK, ODD_NAMES, Page, document_of, full, odd, page_of
from tests.kit.support import ROOT, bytes_of

ASSETS = ROOT / "circletools" / "html" / "assets"


def test_the_page_contains_the_document(model: Path, trace: Path) -> None:
    page = Page(page_of(model.read_bytes(), trace, BENCHMARK))
    assert page.document == document_of(model.read_bytes(), trace, BENCHMARK)
    assert page.contents["title"] == ["model.circle - circletools report"]


def test_the_policy_allows_the_style_and_the_script_and_nothing_else() -> None:
    page = Page(page_of(bytes_of("circle/mlp")))

    def hashed(source: str) -> str:
        return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"

    (style,), (_, script) = page.contents["style"], page.contents["script"]
    assert page.policy.split("; ") == [
        "default-src 'none'", f"script-src {hashed(script)}", f"style-src {hashed(style)}",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    assert page.elements.index("meta") < page.elements.index("style")


def test_the_page_refers_to_nothing_outside() -> None:
    page = Page(page_of(full(), BENCHMARK))
    loading = ("src", "href", "action", "srcset", "data", "poster", "style")
    assert [value for _, name, value in page.attributes if name in loading or name.startswith("on")] == ["#main"]
    style, script = page.contents["style"][0], page.contents["script"][1]
    assert not re.search(r"@import|url\(|https?:", style)
    assert not re.search(r"https?:|import\b|\bfetch\b|XMLHttp|WebSocket|innerHTML|insertAdjacent|\beval\b", script)


def test_names_are_never_markup() -> None:
    plain, hostile = Page(page_of(full())), Page(page_of(odd(), name=ODD_NAMES[0]))
    assert hostile.elements == plain.elements
    assert hostile.attributes == plain.attributes
    assert hostile.contents["script"][1:] == plain.contents["script"][1:]
    shown = hostile.document["subgraphs"][0]["tensors"]["name"]
    assert {name for name in ODD_NAMES if len(name) < 1000} <= set(shown)
    data = page_of(odd(), name=ODD_NAMES[0])
    block = data[data.index(b'id="document">') + 14 :]
    assert not re.search(rb"[<>&\x80-\xff\x00-\x1f]", block[: block.index(b"</script>")])


def test_all_scripts_are_in_the_page() -> None:
    assert {f"{name}.js" for name in SCRIPTS} == {path.name for path in ASSETS.glob("*.js")}


@pytest.mark.parametrize("path", sorted(ASSETS.iterdir()), ids=lambda path: path.name)
def test_the_assets_are_of_a_size_to_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert "</script" not in text or path.suffix == ".html"
    assert max(map(len, text.splitlines())) <= 118
    assert not re.search(r"[^\S\n]$", text, re.M)
