"""Read documents from files, such as the output of an earlier run as a baseline for a later one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.storage.files import open_source
from circletools.storage.strict_json import read_json
from circletools.wording import SCHEMA_VERSION

_Known = TypeVar("_Known")


@contextmanager
def naming_files() -> Iterator[None]:
    """Mark errors as concerning a file that they name, or a request, and not the model."""
    try:
        yield
    except CircleToolsError as error:
        error.names_file = True
        raise


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the contents of a file. Raises InvalidInputError."""
    source = open_source(path)
    try:
        return bytes(source.memory)
    finally:
        source.close()


def read_baseline(
    path: str | os.PathLike[str], command: str, known: Callable[[Mapping[str, Any]], _Known]
) -> dict[str, _Known]:
    """Read the documents that a command wrote with `--json` (one document, or JSON Lines), each with `known`.

    Returns the first of each model by its absolute path; a relative one starts from the folder of the baseline, or
    else from the current one. Raises InvalidInputError if the file cannot be read, has another version, or `known`
    finds missing fields (KeyError, TypeError, AttributeError) or invalid values (ValueError).
    """
    name, data = os.fspath(path), read_bytes(path)
    if not data.strip():
        hint = "record it in another file: a shell's `>` empties this one first"
        raise InvalidInputError("not JSON: it is empty", location=name, hint=hint)
    lines = data.splitlines() if b"\n{" in data else [data]
    documents = [read_json(line, name) for line in lines if line.strip()]
    try:
        for document in documents:
            if document["schema_version"] != SCHEMA_VERSION:
                message = f"schema_version {document['schema_version']!r} is not known"
                raise InvalidInputError(message, location=name)
        models = [(document.get("file", ""), known(document)) for document in documents]
        found = {"": models[0][1]} if len(dict(models)) == 1 else {}
        for folder in (os.path.dirname(name), ""):
            for file, value in models:
                found.setdefault(os.path.abspath(os.path.join(folder, file)), value)
        return found
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        hint = f"it is what `circletool {command} --json` wrote"
        message = "this is not a baseline" + (f": {error}" if isinstance(error, ValueError) else "")
        raise InvalidInputError(message, location=name, hint=hint) from error


def of_model(baseline: Mapping[str, _Known], file: str) -> _Known | None:
    """Return what a baseline has about a model, however its path is spelled; the only model may have another name."""
    return baseline.get(os.path.abspath(file), baseline.get(""))
