"""Findings, and the registry of their codes: meaning, severity, remedy and an example of each.

`codes.json` holds the texts by subject. `Finding` refuses codes that are not listed there. The tables of
docs/findings.md, `--explain`, `--select`, `--ignore` and the SARIF rules are generated from `codes.json`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from hashlib import blake2b
from operator import ge, gt, le, lt
from pathlib import Path
from typing import Any, Literal, get_args

from circletools.errors import UsageError
from circletools.wording import Attributes, EnumName, Tabular, one_of, suggestion

Severity = Literal["error", "warning", "info"]


def _ranked(ordered: Callable[[int, int], bool]) -> Callable[[EnumName, object], Any]:
    def _compare(self: EnumName, other: object) -> Any:
        if other in (words := get_args(Severity)):
            return ordered(words.index(other), words.index(self))
        EnumName._compare(self, other)
        return NotImplemented

    return _compare


class _SeverityName(EnumName):
    """A severity; the order is info, warning, error."""

    __slots__ = ()
    __lt__, __le__, __gt__, __ge__ = map(_ranked, (lt, le, gt, ge))


_severity = one_of("severity", get_args(Severity), _SeverityName)


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
    document = json.loads(Path(__file__).with_name("codes.json").read_text(encoding="utf-8"))
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


@dataclass(frozen=True, slots=True)
class Finding(Attributes):
    """One observation about a model.

    `code` is stable and defined in `circletools/codes.json`; `location` is a path such as
    `subgraphs[0].operators[5]`. Raises ValueError for an unknown code.
    """

    code: str
    severity: Severity
    location: str
    message: str

    def __post_init__(self) -> None:
        """Refuse an unknown code."""
        if self.code not in explanations():
            raise ValueError(f"there is no code {self.code!r} ({suggestion(self.code, explanations())})")
        object.__setattr__(self, "code", _codes()(self.code))
        object.__setattr__(self, "severity", _severity(self.severity))
        Attributes.__post_init__(self)


_FIELDS = tuple(field.name for field in fields(Finding))


@cache
def _codes() -> Callable[[str], str]:
    return one_of("code of a finding", [*explanations()])


class Findings(Tabular, list[Finding]):
    """A list of findings in the order in which they were found; notebooks show it as a table."""

    __slots__ = ()
    __repr__ = list.__repr__

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the code, severity, location and message of each finding."""
        return [{name: getattr(one, name) for name in _FIELDS} for one in self]


def finding_of(written: Mapping[str, Any]) -> Finding:
    """Return the finding that a JSON object holds. Raises KeyError, TypeError or ValueError if it holds none."""
    return Finding(*(written[name] for name in _FIELDS))


def against(findings: Sequence[Finding], earlier: Sequence[Finding]) -> tuple[tuple[bool, ...], int]:
    """Return whether each finding is new since an earlier run, and the number of earlier findings that are gone.

    Findings are equal if code, severity, location and message are equal except for numbers; of equal findings, only
    the count is compared.
    """
    new = [True] * len(findings)
    keys: tuple[Callable[[Finding], Hashable], ...] = (lambda finding: finding, _but_for_numbers)
    for key in keys:
        earlier = list(_match(findings, earlier, new, key))
    return tuple(new), len(earlier)


def _match(
    findings: Sequence[Finding], earlier: Sequence[Finding], new: list[bool], key: Callable[[Finding], Hashable]
) -> Iterator[Finding]:
    """Clear `new` for findings that match an earlier one; yield the earlier findings without a match."""
    left = Counter(map(key, earlier))
    for number, finding in enumerate(findings):
        if new[number] and left[key(finding)]:
            left[key(finding)] -= 1
            new[number] = False
    for finding in earlier:
        if left[key(finding)]:
            left[key(finding)] -= 1
            yield finding


def _but_for_numbers(finding: Finding) -> tuple[str, ...]:
    message = re.sub(r"('[^']*')|\d+", lambda found: found[1] or "", finding.message)  # numbers in names are kept
    return finding.code, finding.severity, re.sub(r"\d+", "", finding.location), message


def fingerprint(finding: Finding, *key: str) -> str:
    """Return a hexadecimal fingerprint (8 bytes) of `key`, or else of a finding, without numbers in its message."""
    words = "\0".join(key or _but_for_numbers(finding)).encode("utf-8", "surrogatepass")
    return blake2b(words, digest_size=8).hexdigest()
