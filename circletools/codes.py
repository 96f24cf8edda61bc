"""What each code of `verify` and `check` means, and what to do about it.

`codes.json` has the words; the table of docs/findings.md is made of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from circletools.errors import UsageError
from circletools.wording import suggestion


@dataclass(frozen=True, slots=True)
class Explanation:
    """A code: its severity (in words where it differs from place to place), its meaning, and what to do about it."""

    code: str
    severity: str
    meaning: str
    remedy: str


@cache
def explanations() -> Mapping[str, Explanation]:
    """Return all codes, those of the file itself first."""
    document = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return {code: Explanation(code, **words) for code, words in document.items()}


def explain(code: str) -> Explanation:
    """Return what a code means. Raises UsageError for one that does not exist."""
    known = explanations()
    if code not in known:
        raise UsageError(f"there is no finding {code!r}", hint=suggestion(code, known))
    return known[code]
