"""Findings: the results of a check."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from circletools.codes import Severity, explanations
from circletools.wording import Tabular

__all__ = ["Finding", "Findings", "Severity", "against", "finding_of", "fingerprint"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One observation about a model.

    `code` is stable, and one of `circletools/codes.json`; `location` is a path such as `subgraphs[0].operators[5]`.
    Raises ValueError for another code.
    """

    code: str
    severity: Severity
    location: str
    message: str

    def __post_init__(self) -> None:
        """Refuse an unknown code."""
        if self.code not in explanations():
            raise ValueError(f"no finding has the code {self.code!r}")


class Findings(Tabular, list[Finding]):
    """Findings, in the order in which they were found; a list, which a notebook shows as a table."""

    __slots__ = ()
    __repr__ = list.__repr__

    def to_rows(self) -> list[dict[str, Any]]:
        """Return code, severity, location and message of each."""
        return list(map(asdict, self))


def finding_of(fields: Mapping[str, Any]) -> Finding:
    """Return the finding of a JSON object. Raises KeyError, TypeError and ValueError where it is none."""
    return Finding(*(fields[name] for name in ("code", "severity", "location", "message")))


def against(findings: Sequence[Finding], earlier: Sequence[Finding]) -> tuple[tuple[bool, ...], int]:
    """Return which findings are new against those of an earlier run, and how many of these are gone.

    A finding is known by its code, severity, place and message; a second one of the same, or one whose numbers alone
    differ, is as many times known as it was there.
    """
    new = [True] * len(findings)
    for key in (_exactly, _but_for_numbers):
        earlier = list(_match(findings, earlier, new, key))
    return tuple(new), len(earlier)


def _match(
    findings: Sequence[Finding], earlier: Sequence[Finding], new: list[bool], key: Callable[[Finding], Hashable]
) -> Iterator[Finding]:
    """Mark in `new` the findings that have a partner among the earlier ones; yield those left over."""
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
    message = re.sub(r"('[^']*')|\d+", lambda found: found[1] or "", finding.message)  # names keep theirs
    return finding.code, finding.severity, re.sub(r"\d+", "", finding.location), message


def fingerprint(finding: Finding) -> str:
    """Return eight bytes, in hexadecimal, by which a finding is known though its numbers change."""
    words = "\0".join(_but_for_numbers(finding)).encode("utf-8", "surrogatepass")
    return blake2b(words, digest_size=8).hexdigest()
