"""Select findings by code and compare them with a baseline, by a request or a project's settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from circletools.errors import InvalidInputError, UsageError
from circletools.findings import Finding, Findings, against, explain, finding_of
from circletools.storage.documents import naming_files, of_model, read_baseline, read_bytes
from circletools.wording import Attributes, Tabular

FailOn = Literal["error", "warning", "never"]
_FAILING: Mapping[str, frozenset[str]] = {
    "error": frozenset({"error"}),
    "warning": frozenset({"error", "warning"}),
    "never": frozenset(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRequest(Attributes):
    """The settings that determine how the findings of `check` are selected and judged.

    `select` lists the codes to report (by default, all); `ignore` lists codes not to report. `baseline` is the JSON
    of an earlier run, whose findings are not new; models are matched by path, relative to the folder of the baseline
    or to the current folder. With `renamed`, for a run on one model, a baseline of one model whose path no longer
    exists applies too. `fail_on` is the lowest severity that makes a model fail, or `never`. `per_file_ignores` maps
    `fnmatch` patterns, for paths relative to `folder` or for file names, to more codes to ignore.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    baseline: str | os.PathLike[str] | None = None
    fail_on: FailOn = "warning"
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folder: Path = Path()
    renamed: bool = False

    def __post_init__(self) -> None:
        """Raise UsageError if one of the codes is never reported by `check`."""
        with naming_files():
            for code in (*self.select, *self.ignore, *chain(*self.per_file_ignores.values())):
                if (subject := explain(code).subject) != "check":
                    raise UsageError(f"`check` never reports {code}", hint=f"it is for findings about {subject}")

    def ignored(self, file: str) -> frozenset[str]:
        """Return the codes to ignore for a file."""
        return frozenset(self.ignore).union(*map(self.per_file_ignores.__getitem__, self.patterns_of(file)))

    def patterns_of(self, file: str) -> frozenset[str]:
        """Return the patterns of `per_file_ignores` that match a file."""
        names = {file, os.path.basename(file)}
        with suppress(ValueError):  # this is not a path, or it is on another drive
            names.add(os.path.relpath(file, self.folder).replace(os.sep, "/"))
        return frozenset(one for one in self.per_file_ignores if any(fnmatch(name, one) for name in names))

    def read(self) -> CheckInputs:
        """Read the baseline, which can then serve several models. Raises InvalidInputError."""
        with naming_files():
            earlier = None if self.baseline is None else read_baseline(self.baseline, "check", _findings)
            return CheckInputs(self, earlier)


@dataclass(frozen=True, slots=True)
class CheckInputs(Attributes):
    """A request, and the findings of its baseline (see `read_baseline`), or None if there is no baseline."""

    request: CheckRequest
    baseline: Mapping[str, Sequence[Finding]] | None


@dataclass(frozen=True, slots=True, repr=False)
class Judgement(Tabular):
    """The selected findings, and which of them are new.

    `fixed` is the number of baseline findings that are gone (None if there is no baseline). `fails` holds the
    severities that make a model fail.
    """

    findings: tuple[Finding, ...]
    is_new: tuple[bool, ...]
    fixed: int | None
    fails: frozenset[str]

    @property
    def new(self) -> tuple[Finding, ...]:
        """The findings that are not in the baseline, or all findings if there is no baseline."""
        return tuple(finding for finding, new in zip(self.findings, self.is_new, strict=True) if new)

    @property
    def failing(self) -> bool:
        """Whether the model fails because of the severity of a new finding."""
        return any(finding.severity in self.fails for finding in self.new)

    def to_rows(self) -> list[dict[str, Any]]:
        """Return a row for each finding, including whether it is new."""
        rows = Findings(self.findings).to_rows()
        return [row | {"is_new": new} for row, new in zip(rows, self.is_new, strict=True)]


def _findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return the findings in a document; none if its file could not be read."""
    return list(map(finding_of, () if "exit_status" in document else document["findings"]))


def judge(findings: Sequence[Finding], file: str, request: CheckRequest | CheckInputs) -> Judgement:
    """Return the selected findings about a file.

    `findings.against` determines which are new. Raises InvalidInputError if the baseline cannot be read.
    """
    inputs = request.read() if isinstance(request, CheckRequest) else request
    request = inputs.request
    ignored = request.ignored(file)
    counting = tuple(one for one in findings if _counts(one, request, ignored))
    fails = _FAILING[request.fail_on]
    if inputs.baseline is None:
        return Judgement(counting, (True,) * len(counting), None, fails)
    known = of_model(inputs.baseline, file, request.renamed) or ()
    earlier = [one for one in known if _counts(one, request, ignored)]
    return Judgement(counting, *against(counting, earlier), fails)


def _counts(finding: Finding, request: CheckRequest, ignored: frozenset[str]) -> bool:
    return (not request.select or finding.code in request.select) and finding.code not in ignored


NAMES = ("circletools.toml", "pyproject.toml")
_KEYS = ("select", "ignore", "fail-on", "baseline", "per-file-ignores")
_MOST_DOTS = 2500  # in a line; the time and memory of the TOML parser are quadratic in the parts of a key
_MOST_BYTES = 1 << 20
_MEANINGS: Mapping[type[Exception], str] = {  # of what the TOML parser raises besides errors of its own
    RecursionError: "arrays and tables are nested too deeply",
    UnicodeDecodeError: "the text is not UTF-8",
    ValueError: "an integer has too many digits",
}


def find_settings(folder: str | os.PathLike[str] = ".") -> Path | None:
    """Return the nearest `circletools.toml`, or `pyproject.toml` with settings, in a folder or above it, or None.

    [check]                                # [tool.circletools.check] in pyproject.toml
    ignore = ["NOT_USED"]
    fail-on = "error"
    baseline = "known.jsonl"

    [check.per-file-ignores]
    "models/legacy/*" = ["DUPLICATE_OUTPUT"]
    """
    for place in (start := Path(folder).resolve(), *start.parents):
        for name in NAMES:
            path = place / name
            if path.is_file() and (name == NAMES[0] or b"[tool.circletools." in read_bytes(path)):
                return path
    return None


def read_settings(path: str | os.PathLike[str]) -> CheckRequest:
    """Read the settings of `check` from a file. Raises InvalidInputError, or UsageError if there is no TOML parser.

    File patterns are `fnmatch` patterns for paths relative to the folder of the settings, or for file names.
    """
    name = os.fspath(path)
    document = _document(name, read_bytes(path))
    try:
        whole = _value(_value(document, "tool", {}), "circletools", {}) if Path(name).name == NAMES[1] else document
        table = _value(whole, "check", {})
        unknown = sorted(({*table} - {*_KEYS}) | ({*whole} - {"check"}))
        if unknown:
            raise ValueError(f"unknown setting {unknown[0]!r}; known settings: {', '.join(_KEYS)}")
        fail_on = table.get("fail-on", "warning")
        if fail_on not in ("warning", "error", "never"):
            raise ValueError(f"fail-on must be 'warning', 'error' or 'never', not {fail_on!r}")
        folder, ignores = Path(name).resolve().parent, _value(table, "per-file-ignores", {})
        return CheckRequest(
            select=_codes(table.get("select", [])),
            ignore=_codes(table.get("ignore", [])),
            baseline=folder / _value(table, "baseline", "") if "baseline" in table else None,
            fail_on=fail_on,
            per_file_ignores={pattern: _codes(codes) for pattern, codes in ignores.items()},
            folder=folder,
        )
    except UsageError as error:
        raise InvalidInputError(error.message, location=name, hint=error.hint) from error
    except ValueError as error:
        raise InvalidInputError(f"invalid settings: {error}", location=name) from error


def _value(table: Mapping[str, Any], key: str, default: Any) -> Any:
    if not isinstance(found := table.get(key, default), type(default)):
        raise ValueError(f"{key} must be a {'table' if default == {} else 'string'}")
    return found


def _codes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        raise ValueError(f"{value!r} is not a list of codes")
    return tuple(value)


def _document(name: str, data: bytes) -> Mapping[str, Any]:
    """Return a TOML document. Raises InvalidInputError, whose message is about the document and not about Python."""
    if len(data) > _MOST_BYTES or sum(line.count(b".") ** 2 for line in data.split(b"\n")) > _MOST_DOTS**2:
        message = f"invalid settings: the file exceeds {_MOST_BYTES >> 20} MiB, or its lines have too many dots"
        raise InvalidInputError(message, location=name)
    for module in ("tomllib", "tomli"):
        with suppress(ImportError):
            parse: Callable[[str], Mapping[str, Any]] = import_module(module).loads
            break
    else:
        raise UsageError("reading TOML requires Python 3.11 or tomli", location=name, hint="pip install tomli")
    try:
        return parse(data.decode())
    except (RecursionError, ValueError) as error:
        raise InvalidInputError(f"invalid settings: {_MEANINGS.get(type(error), error)}", location=name) from error
