"""Write the page as one HTML file with document, style and script that loads nothing else; link source lines.

The Content-Security-Policy allows only this style and script, by hash, so names in the markup can do no harm. The
document is a data block of ASCII JSON in which `<`, `>` and `&` are escaped, so no name can end it early.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from circletools.errors import UsageError
from circletools.origin.source import SourceDetails

SCRIPTS = (
    *("values", "model", "diff", "graph", "colors", "paint", "view", "details", "tables"),
    *("panels", "fit", "tree", "flames", "timing", "search", "main"),
)
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def page_html(document: Mapping[str, Any]) -> str:
    """Return the page for a document that `page_document` made; equal documents give equal pages."""
    style, scripts = _asset("page.css"), "".join(_asset(f"{name}.js") for name in SCRIPTS)
    script = f"(() => {{\n'use strict';\n{scripts}}})();\n"
    name = document["name"].encode("utf-8", "replace").decode()
    parts = {
        "title": escape(f"{name} - circletools report"),
        "policy": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'",
        "style": style,
        "script": script,
        "document": json.dumps(document, allow_nan=False, separators=(",", ":")).translate(_ESCAPES),
    }
    pieces = _asset("page.html").split("@@")
    return "".join(parts.pop(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def _asset(name: str) -> str:
    return (files("circletools.html") / "assets" / name).read_text(encoding="utf-8")


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"


_ADDRESS = re.compile(
    r"(?=.*\{file\})(?=.*\{line\})(?!javascript:|data:)(https?://[^/{}\s]+[/?#]|(?!https?:)[a-z][a-z0-9+.-]*://)"
    r"(\{file\}|\{line\}|[^{}\s])*",
    re.IGNORECASE,
)
_EXAMPLE = "https://example.org/main/{file}#L{line}"


@dataclass(frozen=True, slots=True)
class SourceLinks:
    """A template for the addresses of source lines, with `{file}` and `{line}`; paths below `root` become relative.

    With `root`, other absolute paths have no address; without a template, no file has one. Raises UsageError if the
    template lacks a scheme such as `https://`, a host, `{file}` or `{line}`, or has other words in braces.
    """

    template: str = ""
    root: str = ""

    def __post_init__(self) -> None:
        if self.root and not self.template:
            raise UsageError("`source_root=` requires `source_url=`")
        if self.template and not _ADDRESS.fullmatch(self.template):
            message = f"`source_url=` {self.template!r} is not an address with {{file}} and {{line}}"
            raise UsageError(message, hint=f"write it as {_EXAMPLE}")

    def of(self, details: SourceDetails) -> str:
        """Return the address of the line that called a source, or an empty string."""
        start = self.root.rstrip("/") + "/" if self.root else ""
        if not self.template or not details.file or (details.file[0] == "/" and not details.file.startswith(start)):
            return ""
        file = quote(details.file.removeprefix(start).encode("utf-8", "surrogateescape"), safe="/")
        return self.template.replace("{line}", str(details.line or 1)).replace("{file}", file)


NO_LINKS = SourceLinks()
