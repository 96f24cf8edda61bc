"""The documents read well: proselint has no complaint about their words; code and numbers are left out."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import count
from pathlib import Path

from tests.kit.presence import need
from tests.kit.support import ROOT

CONFIGURATION = ROOT / ".proselintrc.json"
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY", "CHANGELOG")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`|^(?: {4}|\t).*$", re.MULTILINE)
_TARGET = re.compile(r"\]\([^)]*\)")
_NUMBER = re.compile(r"\b\d[\d.,]*")


def prose(text: str) -> str:
    """Return the words of a document, each on its line: code, numbers and targets of links are not among them."""
    counter = count()
    text = _FENCE.sub(lambda found: "\n" * found[0].count("\n"), text)
    text = _TARGET.sub("]", _CODE.sub(lambda _: f"w{next(counter)}", text))  # no two alike, which would be repeated
    return _NUMBER.sub(lambda _: f"n{next(counter)}", text)


def complaints(folder: Path) -> list[str]:
    """Return what proselint has against the documents of a folder."""
    need("proselint")
    command = [sys.executable, "-m", "proselint", "check", "--config", str(CONFIGURATION), str(folder)]
    done = subprocess.run(command, cwd=folder, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode in (0, 1), done.stderr
    return [line.replace(f"{folder}/", "") for line in done.stdout.splitlines()]


def test_the_words_of_the_documents(tmp_path: Path) -> None:
    for path in DOCUMENTS:
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(prose(path.read_text(encoding="utf-8")), encoding="utf-8")
    assert complaints(tmp_path) == []


def test_a_bad_phrase_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(prose("The the end.\n\n```\nthe the\n```\nVery unique `a a` is past history.\n"))
    assert len(complaints(tmp_path)) >= 3
    assert not [line for line in complaints(tmp_path) if not line.startswith(("a.md:1:", "a.md:6:"))]


def test_lines_stay_where_they_are() -> None:
    for path in DOCUMENTS:
        text = path.read_text(encoding="utf-8")
        assert prose(text).count("\n") == text.count("\n")
