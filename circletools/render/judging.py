"""Selected findings as text, JSON, SARIF, JUnit, GitHub workflow commands and GitLab code quality reports."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from html import escape  # the characters that XML must escape, without importing an XML parser
from itertools import islice
from typing import Any

from circletools.codes import Explanation
from circletools.findings import Finding
from circletools.judging import Judgement
from circletools.render.findings import findings_text, verdict
from circletools.render.sarif import host_path, sarif_result, sarif_run
from circletools.render.table import table_text
from circletools.wording import SCHEMA_VERSION, counted

# --- findings as JUnit XML, which most services for continuous integration show -------------------------------


JUNIT_BEGIN = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="circletools">\n'
JUNIT_END = "</testsuites>\n"
_FORBIDDEN = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def junit_suite(file: str, found: Judgement, error: str | None = None) -> str:
    """Return the suite of a model: a test case for each new finding, failed if the finding makes the model fail."""
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
    """Escape control characters, and characters that XML 1.0 does not allow."""
    return _FORBIDDEN.sub(lambda found: ascii(found[0])[1:-1], words)


Tally = Mapping[tuple[str, str], int]
"""The number of new findings by severity and code, and the number of `_KNOWN` ones."""
_KNOWN = "known", ""

_SPECIAL = "%\r\n"
_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}
_GITLAB = {"error": "critical", "warning": "major", "info": "info"}


def judgement_text(file: str, found: Judgement, error: str | None = None) -> Iterator[str]:
    """Yield the verdict on a file, and a line for each new finding."""
    return findings_text(file, found.new, error)


def headline_text(file: str, found: Judgement, error: str | None = None) -> Iterator[str]:
    """Yield only the verdict on a file."""
    return islice(judgement_text(file, found, error), 1)


def judgement_json(file: str, found: Judgement, error: str | None = None) -> dict[str, Any]:
    """Return the JSON of `check`. With a baseline, new findings are marked. `error` says why there are none."""
    document = {"file": file, "schema_version": SCHEMA_VERSION, "verdict": verdict(found.new, error), "error": error}
    if found.fixed is None:
        return document | {"findings": [asdict(finding) for finding in found.new]}
    counts = {"new_count": sum(found.is_new), "fixed_count": found.fixed}
    both = zip(found.findings, found.is_new, strict=True)
    return document | counts | {"findings": [asdict(finding) | {"is_new": new} for finding, new in both]}


def judgement_sarif(file: str, found: Judgement, error: str | None = None) -> dict[str, Any]:
    """Return the run of a SARIF log."""
    results = (_result(file, *one, found.fixed is not None) for one in zip(found.findings, found.is_new, strict=True))
    return sarif_run("check", file, [one.code for one in found.findings], results, error)


def _result(file: str, finding: Finding, new: bool, has_baseline: bool) -> dict[str, Any]:
    state = {"baselineState": "new" if new else "unchanged"} if has_baseline else {}
    return sarif_result(file, finding) | state


def judgement_gitlab(file: str, found: Judgement, error: str | None = None) -> str:
    """Return the new findings as a line of JSON: an array for GitLab (docs.gitlab.com/ci/testing/code_quality)."""
    broken = [] if error is None else [("blocker", "cannot be read", "", error)]
    rows = [*broken, *((_GITLAB[one.severity], one.code, one.location, one.message) for one in found.new)]
    seen, path = Counter[tuple[str, ...]](), host_path(file)
    issues = []
    for row in rows:
        severity, name, place, message = row
        known = "\0".join((path, name, place, message, str(seen[row]))).encode("utf-8", "surrogatepass")
        seen[row] += 1
        issue = {"description": f"{place}: {message}" if place else message, "check_name": name, "severity": severity}
        issue["fingerprint"] = blake2b(known, digest_size=16).hexdigest()
        issues.append(issue | {"location": {"path": path, "lines": {"begin": 1}}})
    return json.dumps(issues) + "\n"


def judgement_github(file: str, found: Judgement, error: str | None = None) -> Iterator[str]:
    """Yield a line for each new finding, which GitHub workflows show as an annotation of the file."""
    if error is not None:
        yield _workflow_command("error", file, "cannot be read", error)
    for one in found.new:
        yield _workflow_command(_COMMANDS[one.severity], file, one.code, f"{one.location}: {one.message}")


def _workflow_command(command: str, file: str, title: str, message: str) -> str:
    path = _escaped(host_path(file), _SPECIAL + ":,")
    return f"::{command} file={path},title={title}::{_escaped(message, _SPECIAL)}"


def _escaped(words: str, characters: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in characters else one for one in words)


def tally(found: Judgement) -> Tally:
    """Count the new findings by severity and code; those of the baseline count as `known`, without a code."""
    return Counter(
        (one.severity, one.code) if new else _KNOWN for one, new in zip(found.findings, found.is_new, strict=True)
    )


def statistics_text(counts: Tally) -> Iterator[str]:
    """Yield a table of the codes, the most frequent first."""
    ordered = sorted((-count, what) for what, count in counts.items() if what != _KNOWN)
    rows = [[f"{-count:,}", severity, code] for count, (severity, code) in ordered]
    yield from table_text([["count", "severity", "code"], *rows], right=(0,), indent="") if rows else ()


def summary_text(counts: Tally, models: int, failed: int) -> str:
    """Return the number of findings by severity, the number of models, and how many of these could not be read."""
    known = counts.get(_KNOWN, 0)
    of_severity: Counter[str] = Counter()
    for (severity, _), count in counts.items():
        of_severity[severity] += count
    words = [counted(of_severity["error"], "error"), counted(of_severity["warning"], "warning")]
    words.append(f"{of_severity['info']:,} informational")
    totals = ", ".join(word for word in words if word[0] != "0") or f"no {'new ' * bool(known)}findings"
    totals += f", {known:,} known" * bool(known)
    return f"{counted(models, 'model')}: {totals}" + (f"; {failed:,} cannot be read" if failed else "")


def explanation_text(found: Explanation) -> Iterator[str]:
    """Yield the meaning of a code, its remedy and an example."""
    yield f"{found.code} ({found.severity})"
    yield f"  {found.meaning}"
    yield f"  To do: {found.remedy}"
    if found.repair:
        yield f"  Repaired by: circletool repair{f' --only {found.code}' if found.repair == 'asked' else ''}"
    yield f"  Example: {found.example}"
