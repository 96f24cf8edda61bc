"""Read a project's settings from `circletools.toml`, or from the `tool.circletools` table in `pyproject.toml`.

[check]                                # [tool.circletools.check] in pyproject.toml
ignore = ["NOT_USED"]
fail-on = "error"
baseline = "known.jsonl"

[check.per-file-ignores]
"models/legacy/*" = ["DUPLICATE_OUTPUT"]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from circletools.errors import InvalidInputError, UsageError
from circletools.judging import CheckRequest
from circletools.storage.documents import read_bytes

NAMES = ("circletools.toml", "pyproject.toml")
_KEYS = ("select", "ignore", "fail-on", "baseline", "per-file-ignores")
_MOST_DOTS = 1000  # the memory that the TOML parser needs is quadratic in the number of parts of a key
_MOST_BYTES = 1 << 20


def find_settings(folder: str | os.PathLike[str] = ".") -> Path | None:
    """Return the nearest settings file in a folder or the folders above it, or None."""
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
    name, data = os.fspath(path), read_bytes(path)
    try:
        if len(data) > _MOST_BYTES or max(line.count(b".") for line in data.split(b"\n")) > _MOST_DOTS:
            raise ValueError(f"the file exceeds {_MOST_BYTES >> 20} MiB, or a line has more than {_MOST_DOTS:,} dots")
        document = _toml(name)(data.decode())
        whole = document.get("tool", {}).get("circletools", {}) if Path(name).name == NAMES[1] else document
        table = whole.get("check", {})
        unknown = sorted(({*table} - {*_KEYS}) | ({*whole} - {"check"}))
        if unknown:
            raise ValueError(f"unknown setting {unknown[0]!r}; known settings: {', '.join(_KEYS)}")
        fail_on = table.get("fail-on", "warning")
        if fail_on not in ("warning", "error", "never"):
            raise ValueError(f"fail-on is {fail_on!r}, not 'warning', 'error' or 'never'")
        folder = Path(name).resolve().parent
        return CheckRequest(
            select=_codes(table.get("select", [])),
            ignore=_codes(table.get("ignore", [])),
            baseline=folder / table["baseline"] if "baseline" in table else None,
            fail_on=fail_on,
            per_file_ignores={pattern: _codes(codes) for pattern, codes in table.get("per-file-ignores", {}).items()},
            folder=folder,
        )
    except UsageError as error:
        raise UsageError(error.message, location=name, hint=error.hint) from error
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidInputError(f"invalid settings: {error}", location=name) from error


def _codes(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(code, str) for code in value):
        raise TypeError(f"{value!r} is not a list of codes")
    return tuple(value)


def _toml(name: str) -> Callable[[str], Mapping[str, Any]]:
    for module in ("tomllib", "tomli"):
        try:
            found: Callable[[str], Mapping[str, Any]] = import_module(module).loads
        except ImportError:
            continue
        return found
    raise UsageError("reading TOML requires Python 3.11 or tomli", location=name, hint="pip install tomli")
