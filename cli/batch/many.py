"""Extend commands for one file to many files, so that each command only has to handle a single file.

    many(inspect)                            # takes IN... instead of IN: files, and directories of models
    many(trace_stats, directories=False)     # takes only files
    mirrored(compact)                        # IN may be a directory; then OUT is a directory too

The command must be defined at module level, so that another process can find it by name. Its first parameter is the
file; `mirrored` sets its second parameter, `output`, to the file's place in the other directory. The command writes
through `terminal` (JSON by `show_json`), counts findings with `captured.record`, and ends with `Exit(status)`.

For a single file, the command runs unchanged. `batch` runs it on several files: text gets headings, JSON becomes one
line for each file, and CSV gets a `file` column (docs/many.md).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, get_args

from typer import BadParameter, Exit

import circletools as ct

from ..console.terminal import print_diagnostic
from ..signature import Command, Declared, option, parameters_of, with_parameters
from .task import Heading, Task

_Tasks = Callable[[list[str], dict[str, Any]], Iterable[Task]]
"""A function that makes the tasks for files or directories and the other arguments of a command."""


def many(
    command: Command,
    *,
    directories: bool = True,
    heading: Heading = "name",
    output: str | None = None,
    joint: str | None = None,
    only: str = "",
) -> Command:
    """Return a command for several files and, with `directories`, for the models below directories.

    `output` names the option for the output directory; if IN is a directory, each model gets its own path below it.
    `joint` names the option for a file about all models: the command runs once, with the other models as `also`.
    In a directory, models whose names do not end in `only` are skipped, with a note.
    """

    def tasks(sources: list[str], given: dict[str, Any]) -> Iterable[Task]:
        if not directories and (wrong := next(filter(os.path.isdir, sources), None)):
            # traces cannot be recognized by their names
            raise ct.UsageError("this is a directory", location=wrong, hint="name the files in it")
        if output is not None and given.get(output) is not None:
            if len(sources) > 1:
                raise ct.UsageError(f"--{output} takes one model, or one directory of models")
            return mirror(command, sources[0], given, output, only)
        made = named(command, sources, given, heading, only)
        if joint is not None and given.get(joint) is not None:
            one, *others = (task.file for task in made)
            command(one, **{**given, "also": (*given["also"], *others)})
            return []
        return made

    return _extended(command, tasks, several=True, directories=directories)


def mirrored(command: Command) -> Command:
    """Return a command that also accepts a directory and writes a result for each model in it to `output`.

    Each result has the same relative path below `output` as its model below the input directory.
    """
    return _extended(
        command, lambda sources, given: mirror(command, sources[0], given, "output"), several=False, directories=True
    )


def jobs_of(words: str | int) -> int:
    """Return the number of processes that --jobs asks for. Raises BadParameter."""
    number = str(words)  # the default needs no conversion
    if number in ("0", "auto"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not number.isascii() or not number.isdigit():
        raise BadParameter(f"{number!r} is neither a number of processes nor 'auto'.")
    return int(number)


_JOBS = option("Process several files in N processes; 0 or auto: one per core.", "N", parser=jobs_of)


def _extended(command: Command, tasks: _Tasks, *, several: bool, directories: bool) -> Command:
    """Return a command with the parameters of `command`, for one or several files, and --jobs."""
    first, *others = parameters_of(command)

    def run(*, jobs: int, **given: Any) -> None:
        sources: list[str] = list(given.pop(first.name)) if several else [given.pop(first.name)]
        if len(sources) == 1 and not os.path.isdir(sources[0]):
            command(sources[0], **given)
            return
        if "-" in sources and jobs != 1:
            raise ct.UsageError("standard input cannot be used with --jobs", hint="name a file, or leave out --jobs")
        from .workers import run as run_all  # noqa: PLC0415 - multiprocessing is slow to import

        raise Exit(run_all(tasks(sources, given), jobs))

    widened = first.replace(annotation=_argument(first.annotation, several, directories))
    jobs = inspect.Parameter("jobs", inspect.Parameter.KEYWORD_ONLY, default=1, annotation=Annotated[int, _JOBS])
    return with_parameters(run, command, [widened, *others, jobs])


def _argument(annotation: Any, several: bool, directories: bool) -> Any:
    """Return the type of the first parameter, with its help."""
    argument: Declared = get_args(annotation)[1]
    if directories:
        argument = replace(argument, help=argument.help.replace("to read,", "to read, a directory of models,", 1))
    if not several:
        return Annotated[str, argument]
    return Annotated[tuple[str, ...], replace(argument, metavar=f"{argument.metavar}...")]


def named(
    command: Command, sources: Sequence[str], given: dict[str, Any], heading: Heading = "name", only: str = ""
) -> Iterator[Task]:
    """Yield a task for each file in `sources`, and for each model below a directory in `sources`."""
    for source in sources:
        for file, path in _below(source, only) if os.path.isdir(source) else [(source, source)]:
            yield Task(command if path else _no_model, file, given, heading=heading)


def mirror(command: Command, source: str, given: dict[str, Any], output: str, only: str = "") -> Iterator[Task]:
    """Yield a task for each model below a directory; its result has the same relative path below `output`.

    Raises UsageError before the first task if a result would overwrite an input or another result.
    """
    target = given[output]
    models = _below(source, only)
    if target is not None:
        _check_mirror(source, os.fspath(target))
        read = [file for file, _ in models]
        read += [os.fspath(value) for name, value in given.items() if isinstance(value, Path) and name != output]
        _check_places(source, read, [os.path.join(target, path) for _, path in models if path])
    for file, path in models:
        if target is None or path == "":  # the command works in place, or writes nothing
            yield Task(command if path else _no_model, file, given)
        else:
            place = type(target)(os.path.join(target, path))
            yield Task(command, file, {**given, output: place}, os.fspath(place))


def identities(name: str | os.PathLike[str]) -> set[str | tuple[int, int]]:
    """Return keys that identify a file under any name: the resolved path and, if it exists, device and inode."""
    found: set[str | tuple[int, int]] = {os.path.realpath(name)}
    with suppress(OSError):
        status = os.stat(name)
        found.add((status.st_dev, status.st_ino))
    return found


def _below(directory: str, only: str) -> list[tuple[str, str]]:
    """Return the models below a directory and their relative paths, or the directory and "" if there are none.

    Notes give the numbers of models whose names do not end in `only`, and of bundles.
    """
    if bundles := sum(1 for _ in ct.files.models_below(directory, ct.files.BUNDLES)):
        words = f"{bundles:,} skipped ({', '.join(ct.files.BUNDLES)})"
        print_diagnostic("note", f"{directory}: {words}; name the models in them, as in face.task!face.tflite")
    paths = list(ct.files.models_below(directory))
    read = [path for path in paths if path.lower().endswith(only)]
    if skipped := len(paths) - len(read):
        print_diagnostic("note", f"{directory}: {skipped:,} skipped, since only {only} files are read")
    return [(os.path.join(directory, path), path) for path in read] or [(directory, "")]


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
