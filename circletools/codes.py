"""The registry of findings: meaning, severity, remedy and an example of each code.

`codes.json` holds the texts by subject. `Finding` refuses codes that are not listed there. The tables of
docs/findings.md, `--explain`, `--select`, `--ignore` and the SARIF rules are generated from `codes.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from circletools.errors import UsageError
from circletools.wording import Attributes, suggestion

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Explanation(Attributes):
    """The explanation of a code.

    `subject` is `check` for all codes that `check` reports. `severity` is one word, or a phrase if the severity
    varies. `example` is the location and message of an example. `repair` states whether the `repair` command fixes
    the finding: always, only if asked, or never (empty).
    """

    code: str
    subject: str
    severity: str
    meaning: str
    remedy: str
    example: str
    repair: Literal["", "always", "asked"] = ""


@cache
def explanations() -> Mapping[str, Explanation]:
    """Return the explanations by code, those of `check` first."""
    document = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {
        code: Explanation(code, subject, **words)
        for subject, codes in document.items()
        for code, words in codes.items()
    }


@cache
def severities() -> Mapping[str, tuple[Severity, ...]]:
    """Return the severities that each code can have, the usual one first."""
    return {
        code: tuple(one for words in rule.severity.split("; ") for one in get_args(Severity) if words.startswith(one))
        for code, rule in explanations().items()
    }


def explain(code: str) -> Explanation:
    """Return the explanation of a code. Raises UsageError if the code does not exist."""
    known = explanations()
    if code not in known:
        raise UsageError(f"there is no finding {code!r}", hint=suggestion(code, known))
    return known[code]


def selectable() -> list[str]:
    """Return the codes that `check` reports.

    >>> "DUPLICATE_OUTPUT" in ct.checks.codes()
    True
    """
    return [code for code, one in explanations().items() if one.subject == "check"]
