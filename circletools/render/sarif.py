"""Findings as SARIF 2.1.0 for code hosts and editors: https://docs.oasis-open.org/sarif/sarif/v2.1.0/."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from circletools.codes import explain
from circletools.findings import Finding, fingerprint
from circletools.version import __version__

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(runs: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the document of several models, with one merged run, since code hosts accept few runs in a document."""
    merged = _Merged()
    results = [result for run in runs for result in merged.add(run)]
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"results": results, **merged.rest()}]}


class SarifText:
    """Writes the text of `sarif_log` model by model, without keeping all results in memory."""

    def __init__(self) -> None:
        """Start with no models."""
        self._merged = _Merged()
        self._before = f'{{"$schema": {json.dumps(SCHEMA)}, "version": "2.1.0", "runs": [{{"results": [\n'

    def add(self, run: Mapping[str, Any]) -> str:
        """Return the text of a model's run."""
        results = ",\n".join(map(json.dumps, self._merged.add(run)))
        before, self._before = (self._before, ",\n") if results else ("", self._before)
        return before + results

    def end(self) -> str:
        """Return the text that follows the last model."""
        before = "" if self._before == ",\n" else self._before
        return f"{before}\n], {json.dumps(self._merged.rest())[1:]}]}}\n"


class _Merged:
    """The merged fields of several models' runs, except for results."""

    def __init__(self) -> None:
        self._rules: dict[str, Any] = {}
        self._artifacts: dict[str, Any] = {}
        self._notifications: list[Any] = []
        self._details: dict[str, Any] = {}

    def add(self, run: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Merge the run of a model and return its results."""
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
    """Number the results of a rule that have the same fingerprint, since GitHub takes equal ones for one."""
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
    """Return a finding as a result; `key` identifies it in other runs, if its own words do not."""
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
