"""Findings: observations about a model or another file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

from circletools.codes import Severity, explanations
from circletools.wording import Attributes, Tabular, one_of, suggestion

__all__ = ["Finding", "Findings", "Severity", "against", "finding_of", "fingerprint"]


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
        Attributes.__post_init__(self)


@cache
def _codes() -> Callable[[str], str]:
    return one_of("code of a finding", [*explanations()])


class Findings(Tabular, list[Finding]):
    """A list of findings in the order in which they were found; notebooks show it as a table."""

    __slots__ = ()
    __repr__ = list.__repr__

    def to_rows(self) -> list[dict[str, Any]]:
        """Return the code, severity, location and message of each finding."""
        return list(map(asdict, self))


def finding_of(fields: Mapping[str, Any]) -> Finding:
    """Return the finding that a JSON object holds. Raises KeyError, TypeError or ValueError if it holds none."""
    return Finding(*(fields[name] for name in ("code", "severity", "location", "message")))


def against(findings: Sequence[Finding], earlier: Sequence[Finding]) -> tuple[tuple[bool, ...], int]:
    """Return whether each finding is new since an earlier run, and the number of earlier findings that are gone.

    Findings are equal if code, severity, location and message are equal except for numbers; of equal findings, only
    the count is compared.
    """
    new = [True] * len(findings)
    for key in (_exactly, _but_for_numbers):
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


def _exactly(finding: Finding) -> Hashable:
    return finding


def _but_for_numbers(finding: Finding) -> tuple[str, ...]:
    message = re.sub(r"('[^']*')|\d+", lambda found: found[1] or "", finding.message)  # numbers in names are kept
    return finding.code, finding.severity, re.sub(r"\d+", "", finding.location), message


def fingerprint(finding: Finding, *key: str) -> str:
    """Return a hexadecimal fingerprint (8 bytes) of `key`, or else of a finding except for numbers in its message."""
    words = "\0".join(key or _but_for_numbers(finding)).encode("utf-8", "surrogatepass")
    return blake2b(words, digest_size=8).hexdigest()
