"""Make the tasks for the files and directories on a command line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import circletools as ct

from ..signature import Command
from .options import BatchOptions
from .task import Heading, Task


def named(
    command: Command,
    sources: Sequence[str],
    given: dict[str, Any],
    batch: BatchOptions,
    *,
    several: bool,
    heading: Heading = "name",
) -> Iterator[Task]:
    """Yield a task for each file in `sources`, and for each model below a directory in `sources`."""
    if "-" in sources and batch.jobs != 1:
        raise ct.UsageError("standard input cannot be used with --jobs", hint="name a file, or leave out --jobs")
    for source in sources:
        for file, path in _below(source) if os.path.isdir(source) else [(source, source)]:
            function = _no_model if os.path.isdir(file) and path == "" else command
            yield Task(function, file, given, path, several=several, heading=heading)


def mirror(command: Command, source: str, given: dict[str, Any], output: str) -> Iterator[Task]:
    """Yield a task for each model below a directory; its result has the same relative path below `output`.

    Raises UsageError before the first task if a result would overwrite an input or another result.
    """
    target = given[output]
    models: Iterable[tuple[str, str]] = _below(source)
    if target is not None:
        _check_mirror(source, os.fspath(target))
        models = list(models)
        read = [file for file, _ in models]
        read += [os.fspath(value) for name, value in given.items() if isinstance(value, Path) and name != output]
        _check_places(source, read, [os.path.join(target, path) for _, path in models if path])
    for file, path in models:
        if path == "":
            yield Task(_no_model, file, given, path)
        elif target is None:  # the command works in place, or writes nothing
            yield Task(command, file, given, path)
        else:
            place = type(target)(os.path.join(target, path))
            yield Task(command, file, {**given, output: place}, path, os.fspath(place))


def identities(name: str | os.PathLike[str]) -> set[str | tuple[int, int]]:
    """Return keys that identify a file under any name: the resolved path and, if it exists, device and inode."""
    found: set[str | tuple[int, int]] = {os.path.realpath(name)}
    with suppress(OSError):
        status = os.stat(name)
        found.add((status.st_dev, status.st_ino))
    return found


def refuse_directories(sources: Sequence[str]) -> None:
    """Raise UsageError if a source is a directory, because traces cannot be recognized by their names."""
    for source in sources:
        if os.path.isdir(source):
            raise ct.UsageError("this is a directory", location=source, hint="name the files in it")


def _below(directory: str) -> Iterator[tuple[str, str]]:
    """Yield the models below a directory and their relative paths, or the directory and "" if there are none."""
    empty = True
    for path in ct.files.models_below(directory):
        empty = False
        yield os.path.join(directory, path), path
    if empty:
        yield directory, ""


def _no_model(file: str, **_: Any) -> None:
    raise ct.InvalidInputError(f"no model in this directory ({', '.join(ct.files.SUFFIXES)})", location=file)


def _check_mirror(source: str, target: str) -> None:
    if target == "-":
        raise ct.UsageError("the models of a directory cannot all go to standard output", hint="name a directory")
    if os.path.exists(target) and not os.path.isdir(target):
        raise ct.UsageError("an input directory needs an output directory", location=target, hint="name a directory")
    if _lies_in(target, source):
        hint = "name a directory next to it, or use --in-place"
        raise ct.UsageError("the output directory is inside the input directory", location=target, hint=hint)


def _check_places(source: str, read: Sequence[str], places: Sequence[str]) -> None:
    inputs = set[str | tuple[int, int]]().union(*map(identities, read))
    taken: dict[str | tuple[int, int], str] = {}
    for place in places:
        hint = "name another directory, or remove the link to this path"
        for name in _written(place):
            found = identities(name)
            if not found.isdisjoint(inputs):
                raise ct.UsageError("a result would overwrite an input", location=name, hint=hint)
            if any(taken.setdefault(identity, place) != place for identity in found):
                raise ct.UsageError("two results would be written to this file", location=name, hint=hint)
        if _lies_in(place, source):
            raise ct.UsageError("a result would be inside the input directory", location=place, hint=hint)


def _written(place: str) -> list[str]:
    """Return the path of a result and, if it is a directory, the files in it, any of which may be overwritten."""
    with suppress(OSError):
        return [place, *(os.path.join(place, name) for name in os.listdir(place))]
    return [place]


def _lies_in(name: str, directory: str) -> bool:
    outer = os.path.realpath(directory)
    return os.path.commonpath([os.path.realpath(name), outer]) == outer
