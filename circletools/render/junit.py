"""Findings as JUnit XML, which most services for continuous integration show."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape  # the characters that XML must escape, without importing an XML parser

from circletools.findings import Finding
from circletools.judging import Judgement

JUNIT_BEGIN = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="circletools">\n'
JUNIT_END = "</testsuites>\n"


def junit_suite(file: str, found: Judgement, error: str | None = None) -> str:
    """Return the suite of a model: a case for each new finding, which fails if the finding makes the model fail."""
    failures = sum(finding.severity in found.fails for finding in found.new)
    cases = list(_cases(file, found, error))
    numbers = f'tests="{len(cases)}" failures="{failures}" errors="{int(error is not None)}"'
    return f"<testsuite name={_quoted(file)} {numbers}>{''.join(cases)}</testsuite>\n"


def _cases(file: str, found: Judgement, error: str | None) -> Iterator[str]:
    if error is not None:
        yield _case(file, "read", f"<error message={_quoted(error)}/>")
    elif not found.new:
        yield _case(file, "check", "")
    for one in found.new:
        yield _case(file, f"{one.code} {one.location}", _said(one, one.severity in found.fails))


def _said(finding: Finding, fails: bool) -> str:
    if fails:
        return f"<failure type={_quoted(finding.code)} message={_quoted(finding.message)}/>"
    return f"<system-out>{escape(_plain(f'{finding.severity}: {finding.message}'), quote=False)}</system-out>"


def _case(file: str, name: str, inside: str) -> str:
    return f"<testcase classname={_quoted(file)} name={_quoted(name)}>{inside}</testcase>"


def _quoted(words: str) -> str:
    return f'"{escape(_plain(words))}"'


def _plain(words: str) -> str:
    """Escape characters that XML 1.0 cannot contain."""
    return "".join(one if _is_allowed(ord(one)) else ascii(one)[1:-1] for one in words)


def _is_allowed(code: int) -> bool:
    return 0x20 <= code < 0x7F or 0xA0 <= code < 0xD800 or 0xE000 <= code < 0xFFFE or code > 0xFFFF
