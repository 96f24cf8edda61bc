"""The registry of findings: what each code means, how severe it is, what to do about it, and how it looks.

`codes.json` has the words, by subject. `Finding` refuses a code that is not there. The tables of docs/findings.md,
`circletool explain`, `--select`, `--ignore` and the rules of SARIF are made of it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from circletools.errors import UsageError
from circletools.wording import suggestion

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of a code.

    `subject`: what it is about, or `check` for all that `check` reports. `severity`: in words, where it differs from
    case to case. `example`: the location and message of a case. `repair`: whether `repair` mends it always, or where
    it is asked to.
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
    """Return all codes, those of the file itself first."""
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
        code: tuple(one for words in rule.severity.split(", ") for one in get_args(Severity) if words.startswith(one))
        for code, rule in explanations().items()
    }


def explain(code: str) -> Explanation:
    """Return the meaning of a code. Raises UsageError for one that does not exist."""
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
