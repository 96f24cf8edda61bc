"""Findings as text, JSON, SARIF, JUnit, GitHub workflow commands and GitLab code quality reports."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from hashlib import blake2b
from html import escape  # escapes all that XML requires, without an XML parser
from itertools import islice
from typing import Any
from urllib.parse import quote

from circletools.edit.results import RewriteResult
from circletools.findings import Explanation, Finding, explain, fingerprint
from circletools.judging import Judgement
from circletools.render.table import table_text
from circletools.version import __version__
from circletools.wording import SCHEMA_VERSION, counted


def verdict(findings: Iterable[Finding], error: str | None = None) -> str:
    """Return `invalid` for an unreadable file, `findings` if there is an error or a warning, otherwise `ok`."""
    if error is not None:
        return "invalid"
    return "findings" if any(finding.severity != "info" for finding in findings) else "ok"


def error_json(exit_status: int, error: str) -> dict[str, Any]:
    """Return the JSON document for a file on which a command failed."""
    return {"schema_version": SCHEMA_VERSION, "exit_status": exit_status, "error": error or None}


def findings_text(name: str, findings: Sequence[Finding], error: str | None = None) -> Iterator[str]:
    """Yield the verdict on a file or a directory, and a line for each finding."""
    yield f"{name}: {verdict(findings, error)}"
    for finding in findings:
        yield f"  {finding.severity} {finding.code} {finding.location}: {finding.message}"


def rewrite_json(result: RewriteResult) -> dict[str, Any]:
    """Return the JSON document of `fix-outputs`."""
    return {"schema_version": SCHEMA_VERSION, "changes": list(result.changes)}


_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document of several models, with one merged run, since code hosts accept few runs in a document."""
    text = SarifText()
    results = [result for run in runs for result in text.merge(run)]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"results": results, **text.rest()}]}


class SarifText:
    """Writes the text of `sarif_log` model by model, without keeping all results in memory."""

    def __init__(self) -> None:
        """Start with no models."""
        self._rules: dict[str, Any] = {}
        self._artifacts: dict[str, Any] = {}
        self._notifications: list[Any] = []
        self._details: dict[str, Any] = {}
        self._before = f'{{"$schema": {json.dumps(SCHEMA)}, "version": "2.1.0", "runs": [{{"results": [\n'

    def add(self, run: Mapping[str, Any]) -> str:
        """Return the text of a model's run."""
        results = ",\n".join(map(json.dumps, self.merge(run)))
        before, self._before = (self._before, ",\n") if results else ("", self._before)
        return before + results

    def end(self) -> str:
        """Return the text that follows the last model."""
        before = "" if self._before == ",\n" else self._before
        return f"{before}\n], {json.dumps(self.rest())[1:]}]}}\n"

    def merge(self, run: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Add the run of a model to the merged run; return its results."""
        self._rules |= {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
        self._artifacts |= {artifact["location"]["uri"]: artifact for artifact in run["artifacts"]}
        self._notifications += run["invocations"][0].get("toolExecutionNotifications", ())
        self._details = self._details or run.get("automationDetails", {})
        results: list[dict[str, Any]] = run["results"]
        return results

    def rest(self) -> dict[str, Any]:
        """Return the merged run, without results."""
        return _run(list(self._rules.values()), list(self._artifacts.values()), self._notifications, self._details)


def sarif_run(
    command: str, file: str, codes: Iterable[str], results: Iterable[Mapping[str, Any]], error: str | None = None
) -> dict[str, Any]:
    """Return the run of one model; `codes` are those of the results, `error` says why the file could not be read."""
    notifications = []
    if error is not None:
        broken = Finding("UNREADABLE_MODEL", "error", "model", error)
        codes, results = [*codes, broken.code], [*results, sarif_result(file, broken)]
        notifications = [{"level": "error", "message": {"text": error}}]
    artifacts = [{"location": _artifact(file)}]
    rules = [
        {"id": one.code, "help": {"text": f"To do: {one.remedy}"}}
        | {key: {"text": one.meaning} for key in ("shortDescription", "fullDescription")}  # GitHub requires both
        for one in map(explain, dict.fromkeys(codes))
    ]
    details = {"id": f"circletools/{command}/"} if command else {}
    return _run(rules, artifacts, notifications, details) | {"results": list(_numbered(results))}


def _numbered(results: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Number the results of a rule that have the same fingerprint, since GitHub would treat them as one."""
    seen: Counter[tuple[str, str]] = Counter()
    for result in results:
        ((name, value),) = result["partialFingerprints"].items()
        seen[result["ruleId"], value] += 1
        yield {**result, "partialFingerprints": {name: f"{value}:{seen[result['ruleId'], value]}"}}


def _run(rules: list[Any], artifacts: list[Any], notifications: list[Any], details: dict[str, Any]) -> dict[str, Any]:
    invocation: dict[str, Any] = {"executionSuccessful": not notifications}
    if notifications:
        invocation["toolExecutionNotifications"] = notifications
    run = {
        "tool": {"driver": {"name": "circletools", "version": __version__, "rules": rules}},
        "artifacts": artifacts,
        "invocations": [invocation],
    }
    return run | ({"automationDetails": details} if details else {})


def sarif_result(file: str, finding: Finding, *key: str) -> dict[str, Any]:
    """Return a finding as a result; `key` identifies it in other runs, if its message does not."""
    return {
        "ruleId": finding.code,
        "level": _LEVELS[finding.severity],
        "message": {"text": finding.message},
        "locations": [sarif_location(file, finding.location)],
        "partialFingerprints": {"primaryLocationLineHash": fingerprint(finding, *key)},  # GitHub reads only this name
    }


def sarif_location(file: str, place: str) -> dict[str, Any]:
    """Return a location such as `subgraphs[0].operators[5]` for SARIF, at line 1, since GitHub requires a line."""
    return {
        "physicalLocation": {"artifactLocation": _artifact(file), "region": {"startLine": 1}},
        "logicalLocations": [{"fullyQualifiedName": place}],
    }


def _artifact(file: str) -> dict[str, str]:
    return {"uri": quote(os.fsencode(host_path(file)))}


def host_path(file: str) -> str:
    """Return the path of a file as code hosts expect it: relative to the current directory, if the file is inside."""
    with suppress(ValueError):  # on another drive
        path = os.path.relpath(file).replace(os.sep, "/")
        return file if path.startswith("../") else path
    return file


# --- findings as JUnit XML, which most services for continuous integration show -------------------------------


JUNIT_BEGIN = '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="circletools">\n'
JUNIT_END = "</testsuites>\n"
_FORBIDDEN = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def junit_suite(file: str, found: Judgement, error: str | None = None) -> str:
    """Return the suite of a model: a test case for each new finding, failed if the finding makes the model fail."""
    cases = [] if error is None else [("read", _element("error", error, message=error))]
    titles = Counter((one.code, one.location) for one in found.new)
    for one in found.new:
        inside = _element("system-out", f"{one.severity}: {one.message}")
        if one.severity in found.fails:
            inside = _element("failure", one.message, type=one.code, message=one.message)
        repeated = titles[one.code, one.location] > 1  # GitLab ignores the second of two cases with one name
        cases.append((f"{one.code} {one.location}" + f": {one.message}" * repeated, inside))
    cases = cases or [("check", "")]
    failures = sum(finding.severity in found.fails for finding in found.new)
    numbers = f'tests="{len(cases)}" failures="{failures}" errors="{int(error is not None)}"'
    name = _quoted(file)
    tests = (f"<testcase classname={name} name={_quoted(title)}>{inside}</testcase>" for title, inside in cases)
    return f"<testsuite name={name} {numbers}>{''.join(tests)}</testsuite>\n"


def _element(tag: str, words: str, **attributes: str) -> str:
    """Return an XML element; GitLab shows only the words inside it, other services its attribute `message`."""
    named = "".join(f" {name}={_quoted(value)}" for name, value in attributes.items())
    return f"<{tag}{named}>{escape(_printable(words), quote=False)}</{tag}>"


def _quoted(words: str) -> str:
    return f'"{escape(_printable(words))}"'


def _printable(words: str) -> str:
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
    lines = iter(findings_text(file, found.new, error))
    yield next(lines) + (f" ({found.fixed:,} fixed since the baseline)" if found.fixed else "")
    yield from lines


def headline_text(file: str, found: Judgement, error: str | None = None) -> Iterator[str]:
    """Yield only the verdict on a file."""
    return islice(judgement_text(file, found, error), 1)


def judgement_json(file: str, found: Judgement, error: str | None = None) -> dict[str, Any]:
    """Return the JSON of `check`; a baseline marks new findings. `error` says why there are no findings."""
    document = {"file": file, "schema_version": SCHEMA_VERSION, "verdict": verdict(found.new, error), "error": error}
    if found.fixed is None:
        return document | {"findings": [asdict(finding) for finding in found.new]}
    counts = {"new_count": sum(found.is_new), "fixed_count": found.fixed}
    both = zip(found.findings, found.is_new, strict=True)
    return document | counts | {"findings": [asdict(finding) | {"is_new": new} for finding, new in both]}


def judgement_sarif(file: str, found: Judgement, error: str | None = None) -> dict[str, Any]:
    """Return the run of a SARIF log; with a baseline, it states which results are new."""
    results = [sarif_result(file, one) for one in found.findings]
    run = sarif_run("check", file, [one.code for one in found.findings], results, error)
    if found.fixed is not None:  # a baseline holds no files that cannot be read, so that they are new
        for result, new in zip(run["results"], (*found.is_new, True), strict=False):
            result["baselineState"] = "new" if new else "unchanged"
    return run


def judgement_gitlab(file: str, found: Judgement, error: str | None = None) -> str:
    """Return the new findings as a line of JSON: an array for GitLab (docs.gitlab.com/ci/testing/code_quality)."""
    broken = [] if error is None else [("blocker", "UNREADABLE_MODEL", "", error)]
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
    ordered = sorted((-count, (str(word), code)) for (word, code), count in counts.items() if (word, code) != _KNOWN)
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
