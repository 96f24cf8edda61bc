"""What can be asked of `fit`, and the files that it names, read."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from circletools.affinity.assign.documents import read_bytes
from circletools.affinity.capability.file import load_capability, shipped_devices
from circletools.affinity.capability.table import Capability
from circletools.errors import CircleToolsError, InvalidInputError, UsageError
from circletools.storage.strict_json import read_json
from circletools.wording import SCHEMA_VERSION

Key = tuple[str, str, tuple[str, ...]]
"""What a finding is known by from one run to the next: operator code, reason (less its indices) and origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitRequest:
    """On which targets a model is to run, and what is known of it already.

    `on`: names of built-in capability tables, or files that end in `.json`. `baseline`: the JSON of an earlier run;
    what it has is not new.
    """

    on: tuple[str, ...]
    baseline: str | os.PathLike[str] | None = None

    def tables(self) -> dict[str, Capability]:
        """Return the tables by target, in the order they are named. Raises UsageError, InvalidInputError."""
        if not self.on or not all(self.on):
            raise UsageError("no target is named", hint=f"write --on {','.join(shipped_devices()[:2])}")
        tables: dict[str, Capability] = {}
        for name in dict.fromkeys(self.on):
            table = _read_table(name)
            if table.device in tables:
                raise UsageError(f"a second capability table for {table.device!r}", location=f"--on {name}")
            tables[table.device] = table
        return tables

    def known(self, file: str) -> dict[str, Counter[Key]]:
        """Return the findings of the baseline about a model, by target.

        Of several models the one that was called `file` then counts. Raises InvalidInputError.
        """
        if self.baseline is None:
            return {}
        name = os.fspath(self.baseline)
        try:
            models = _documents(read_bytes(name), name)
            named = [model for model in models if model.get("file") == file]
            chosen = named or (models if len(models) == 1 else [{"targets": []}])
            return {target["target"]: Counter(map(_key, target["findings"])) for target in chosen[0]["targets"]}
        except (KeyError, TypeError, AttributeError) as error:
            hint = "it is what `circletool fit --json` wrote"
            raise _named(InvalidInputError("this is no baseline", location=name, hint=hint)) from error
        except InvalidInputError as error:
            raise _named(error) from None


@cache
def _shipped(name: str) -> Capability:
    return load_capability(name)


def _read_table(name: str) -> Capability:
    try:
        return _shipped(name) if name in shipped_devices() else load_capability(name)
    except CircleToolsError as error:
        raise _named(error) from None


def _named(error: CircleToolsError) -> CircleToolsError:
    """Mark an error as being about a file that it names, not about the model."""
    error.names_file = True
    return error


def _documents(data: bytes, name: str) -> list[Mapping[str, Any]]:
    """Return the documents of a file: one, or one a line; one about a model that could not be read has no targets."""
    lines = data.splitlines() if data.lstrip()[:1] == b"{" and b"\n{" in data else [data]
    found = [read_json(line, name) for line in lines if line.strip()]
    for document in found:
        if document["schema_version"] != SCHEMA_VERSION:
            message = f"schema_version {document['schema_version']!r} is not known"
            raise InvalidInputError(message, location=name)
    return [{"targets": [], **document} if "error" in document else document for document in found]


def key_of(code: str, reason: str, origin: Sequence[str]) -> Key:
    """Return what a finding is known by."""
    return code, re.sub(r"operator \d+", "operator", reason), tuple(origin)


def _key(finding: Mapping[str, Any]) -> Key:
    return key_of(str(finding["code"]), str(finding["reason"]), [str(name) for name in finding["origin"]])
