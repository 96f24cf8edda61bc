"""The site of the documentation is built without a warning, and leads to every command, option, name and finding."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest
from circletool_cli.console.usage import command_of
from circletool_cli.table import COMMANDS

import circletools as ct
from circletools.findings import explanations
from tests.kit.notebooks import NOTEBOOKS
from tests.kit.support import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Build the site; return the words of each page that its navigation leads to."""
    for name in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(name, reason="the site needs the extra `docs`")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=False)
    assert built.returncode == 0, built.stderr
    start = (out / "index.html").read_text(encoding="utf-8")
    links = re.findall(r'<a href="([^"#:]+)" class="md-nav__link', start)
    found = {link: (out / link / "index.html").read_text(encoding="utf-8") for link in links}
    return {link: html.unescape(re.sub(r"<[^>]+>", "", text)) for link, text in found.items()}


def test_every_command_option_and_name_is_there(pages: dict[str, str]) -> None:
    for row in COMMANDS:
        params = command_of(row.name, row.function, "").params
        options = {word for one in params for word in one.opts if word.startswith("--")}
        start = pages["commands/"].index(f"Usage: circletool {row.name} ")
        text = pages["commands/"][start:].split("Usage:")[1]
        assert not {option for option in options if option not in text}
    assert not {name for name in vars(ct)["__all__"] if name not in pages["reference/"]}
    assert ">>> with ct.open(" in pages["reference/"]  # which Markdown would take for a quotation


def test_every_finding_and_page_is_there(pages: dict[str, str]) -> None:
    assert not {code for code in explanations() if code not in pages["findings/"]}
    there = {path.relative_to(ROOT / "docs").with_suffix("").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    there |= {f"notebooks/{path.stem}" for path in NOTEBOOKS}
    assert not {name for name in there if f"{name}/" not in pages}
    assert all(len(text) > 1000 for text in pages.values())


def test_the_navigation_names_every_page() -> None:
    named = set(re.findall(r"([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in Path(ROOT / "docs").rglob("*.md")}
    made = {
        "index.md",
        "commands.md",
        "reference.md",
        "changes.md",
        "architecture.md",
        "contributing.md",
        "reporting.md",
    }
    notebooks = {path.relative_to(ROOT / "docs").with_suffix(".md").as_posix() for path in NOTEBOOKS}
    assert named == there | made | notebooks
