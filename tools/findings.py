"""Regenerate the tables of docs/findings.md from the registry of findings: `python -m tools.findings`.

A test compares the document with the result of `document`.
"""

from __future__ import annotations

import re
from itertools import groupby
from pathlib import Path

from circletools.findings import Explanation, explanations

DOCUMENT = Path(__file__).parents[1] / "docs" / "findings.md"
_HEADINGS = {
    "check": "Models: `check`",
    "edits": "Edits",
    "origins": "Origins",
    "devices": "Devices and partitions",
    "parts": "Parts of models",
    "verify-split": "Splits: `verify-split`",
    "measured time": "Measured time",
    "comparison": "Comparing two models",
    "report": "The report page",
    "traces": "NNAPI traces",
}
_TABLES = re.compile(r"(?<=<!-- made by tools/findings.py -->\n).*(?=<!-- end -->)", re.DOTALL)


def document(text: str) -> str:
    """Return the document with regenerated tables."""
    return _TABLES.sub(lambda _: _tables(), text)


def _tables() -> str:
    lines: list[str] = []
    for subject, rules in groupby(explanations().values(), lambda rule: rule.subject):
        lines += ["", f"## {_HEADINGS[subject]}", ""]
        lines += ["| code | severity | what it means | what to do | for example |", "|---|---|---|---|---|"]
        lines += map(_row, rules)
    return "\n".join([*lines, "", ""])


def _row(rule: Explanation) -> str:
    example = rule.example.replace("|", "\\|")
    return f"| `{rule.code}` | {rule.severity} | {rule.meaning} | {rule.remedy} | {example} |"


if __name__ == "__main__":
    DOCUMENT.write_text(document(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
