"""Which tasks a command line stands for."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from circletools.errors import InvalidInputError, UsageError
from circletools.model.tree import SUFFIXES, models_below

from .task import Task

if TYPE_CHECKING:
    from .many import Command, Way
    from .task import Heading


def named(
    command: Command,
    sources: Sequence[str],
    given: dict[str, Any],
    way: Way,
    *,
    several: bool,
    heading: Heading = "name",
) -> Iterator[Task]:
    """Yield a task for each file that is named, and for each model below a directory that is."""
    if "-" in sources and (way.jobs != 1 or way.scheduler is not None):
        raise UsageError(
            "standard input cannot be shared out", hint="name a file, or leave out --jobs and --scheduler"
        )
    options = _options(given, way)
    for source in sources:
        for file, path in _below(source) if os.path.isdir(source) else [(source, source)]:
            function = _no_model if os.path.isdir(file) and path == "" else command
            yield Task(function, _name(file, way), options, path, several=several, heading=heading)


def mirror(command: Command, source: str, given: dict[str, Any], way: Way, output: str) -> Iterator[Task]:
    """Yield a task for each model below a directory; what is written has the same path below another one."""
    target = given[output]
    if target is not None:
        _check_mirror(source, os.fspath(target))
    options = _options(given, way)
    for file, path in _below(source):
        if path == "":
            yield Task(_no_model, _name(file, way), options, path)
        elif target is None:  # in place, or nothing is written
            yield Task(command, _name(file, way), options, path)
        else:
            place = type(target)(_name(os.path.join(target, path), way))
            yield Task(command, _name(file, way), {**options, output: place}, path, os.fspath(place))


def refuse_directories(sources: Sequence[str]) -> None:
    """Raise UsageError for a directory: its traces cannot be told from its other files by their names."""
    for source in sources:
        if os.path.isdir(source):
            raise UsageError("this is a directory", location=source, hint="name the files in it")


def _below(directory: str) -> Iterator[tuple[str, str]]:
    """Yield the models below a directory and their paths in it; the directory and no path when it has none."""
    empty = True
    for path in models_below(directory):
        empty = False
        yield os.path.join(directory, path), path
    if empty:
        yield directory, ""


def _no_model(file: str, **_: Any) -> None:
    raise InvalidInputError(f"no model in this directory ({', '.join(SUFFIXES)})", location=file)


def _check_mirror(source: str, target: str) -> None:
    if target == "-":
        raise UsageError("the models of a directory cannot all go to standard output", hint="name a directory")
    if os.path.exists(target) and not os.path.isdir(target):
        raise UsageError("the input is a directory, the output a file", location=target, hint="name a directory")
    inner, outer = os.path.realpath(target), os.path.realpath(source)
    if os.path.commonpath([inner, outer]) == outer:
        hint = "name a directory beside it, or use --in-place"
        raise UsageError("the output lies in the input and would be read as models", location=target, hint=hint)


def _options(given: dict[str, Any], way: Way) -> dict[str, Any]:
    return {name: _path(value, way) if isinstance(value, Path) else value for name, value in given.items()}


def _path(path: Path, way: Way) -> Path:
    return Path(_name(os.fspath(path), way))


def _name(file: str, way: Way) -> str:
    """Return the name that a process finds a file by: those of a cluster are in directories of their own."""
    return file if way.scheduler is None else os.path.abspath(file)
