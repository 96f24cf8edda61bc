"""A hook for mkdocs: pages generated from the program, and links to files that are not pages.

mkdocs loads this file as a hook and calls its `on_...` functions:

    mkdocs build --strict
"""

from __future__ import annotations

import inspect
import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from circletool_cli.console.usage import command_of
from circletool_cli.table import GROUPS
from mkdocs.structure.files import File

import circletools as ct
from circletools.lazy import places_of

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "CHANGELOG.md": "changes.md",
}
"""Pages next to `docs`, and their names on the site."""
_DECISIONS = "docs/decisions"
_LINK = re.compile(r"(!?)\[([^][]*)\]\((?!\w+:)([^)#\s]*)((?:#[^)\s]*)?)\)")
_FENCE = re.compile(r"^```(\w+) (\S+)$", re.MULTILINE)
_COLUMNS = 100
_HIDDEN = (["diff"], ["metadata"])
"""Packages hidden by objects of the same name in the facade, so that mkdocstrings does not find them."""


def commands() -> str:
    """Return a page with the help of all commands."""
    parts = ["# Commands\n"]
    width = {"terminal_width": _COLUMNS, "max_content_width": _COLUMNS}
    for title, rows in GROUPS.items():
        parts.append(f"## {title}\n")
        for row in rows:
            name = f"circletool {row.name}"
            context = command_of(row.name, row.function, "").make_context(name, [], resilient_parsing=True, **width)
            parts.append(f"### {row.name}\n\n```text\n{context.get_help()}\n```\n")
    return "\n".join(parts)


def reference() -> str:
    """Return the reference page of the library, generated from docstrings."""
    parts = ["# From Python\n\n    import circletools as ct\n"]
    facade: ModuleType = ct
    modules = [(f"ct.{name}", getattr(ct, name)) for name in facade.__all__]
    for title, place in (("ct", facade), *(one for one in modules if isinstance(one[1], ModuleType))):
        parts.append(f"## {title}\n")
        parts += _described(place)
    return "\n".join(parts)


def _described(place: ModuleType) -> Iterator[str]:
    stub = Path(str(place.__file__)).with_suffix(".pyi")
    places = places_of(stub) if stub.exists() else {name: (place.__name__, name) for name in place.__all__}
    for name in place.__all__:
        value = getattr(place, name)
        if callable(value) and places[name][0].split(".")[1:2] in _HIDDEN:
            yield f"### `{name}{inspect.signature(value)}`\n\n{inspect.getdoc(value)}\n"
        elif callable(value):
            yield f"::: {'.'.join(places[name])}\n"
        elif not isinstance(value, ModuleType):
            yield f"### `{name}`\n\n`{value!r}`\n"


def notebook(document: Mapping[str, Any]) -> str:
    """Return the page of a notebook: its text, its code, and the code's output."""
    parts = []
    for cell in document["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        parts += [_shown(output.get("data", {}), output.get("text", ())) for output in cell.get("outputs", ())]
    return "\n\n".join(parts) + "\n"


def _shown(data: Mapping[str, Any], printed: Any) -> str:
    if "text/html" in data:
        return "".join(data["text/html"]).replace("\n", " ")
    return "```text\n{}\n```".format("".join(data.get("text/plain", printed)).rstrip("\n"))


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are not files in `docs`."""
    made = {site: (ROOT / name).read_text(encoding="utf-8") for name, site in PAGES.items()}
    made |= {"commands.md": commands(), "reference.md": reference()}
    for path in (ROOT / "docs" / "notebooks").glob("*.ipynb"):
        made[f"notebooks/{path.stem}.md"] = notebook(json.loads(path.read_text(encoding="utf-8")))
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Redirect links to pages of the site; replace links to other files by their text."""
    source = {site: name for name, site in PAGES.items()}.get(page.file.src_uri, f"docs/{page.file.src_uri}")

    def lead(match: re.Match[str]) -> str:
        image, words, target, place = match.groups()
        if not target:
            return match[0]
        there = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        if there == _DECISIONS:
            there = min(path.relative_to(ROOT).as_posix() for path in (ROOT / _DECISIONS).glob("*.md"))
        site = PAGES.get(there, re.sub(r"\.ipynb$", ".md", there.removeprefix("docs/")))
        if there not in PAGES and not there.startswith("docs/") and (ROOT / there).exists():
            return words
        return f"{image}[{words}]({posixpath.relpath(site, posixpath.dirname(page.file.src_uri) or '.')}{place})"

    return _FENCE.sub(r"```\1", _LINK.sub(lead, markdown))
