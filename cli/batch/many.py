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
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Annotated, Any, get_args

from typer import Exit

import circletools as ct

from ..console.terminal import bytes_shown, show_json
from ..signature import Command, Declared, parameters_of, with_parameters
from .options import ANNOTATIONS, BatchOptions
from .sources import mirror, named, refuse_directories
from .task import Heading, Task

_Tasks = Callable[[list[str], dict[str, Any], BatchOptions, bool], Iterable[Task]]
"""Makes the tasks for files or directories; the last argument is whether there are several files."""


def many(
    command: Command, *, directories: bool = True, heading: Heading = "name", output: str | None = None
) -> Command:
    """Return a command for several files and, with `directories`, for the models below directories.

    `output` names the option for the output directory; if IN is a directory, each model gets its own path below it.
    """

    def tasks(sources: list[str], given: dict[str, Any], batch: BatchOptions, several: bool) -> Iterable[Task]:
        if not directories:
            refuse_directories(sources)
        if several and output is not None and given.get(output) is not None:
            if len(sources) > 1:
                raise ct.UsageError(f"--{output} takes one model, or one directory of models")
            return mirror(command, sources[0], given, output)
        return named(command, sources, given, batch, several=several, heading=heading)

    return _extended(command, tasks, several=True, directories=directories)


def mirrored(command: Command, *, output: str = "output") -> Command:
    """Return a command that also takes a directory and writes a result for each model in it to `output`.

    Each result has the same relative path below `output` as its model below the input directory.
    """

    def tasks(sources: list[str], given: dict[str, Any], batch: BatchOptions, several: bool) -> Iterable[Task]:
        if several:
            return mirror(command, sources[0], given, output)
        return named(command, sources, given, batch, several=False)

    return _extended(command, tasks, several=False, directories=True)


def _extended(command: Command, tasks: _Tasks, *, several: bool, directories: bool) -> Command:
    """Return a command with the parameters of `command`, for one or several files, and those of `BatchOptions`."""
    first, *others = parameters_of(command)

    def run(**given: Any) -> None:
        batch = BatchOptions(**{name: given.pop(name) for name in BatchOptions._fields})
        sources: list[str] = list(given.pop(first.name)) if several else [given.pop(first.name)]
        is_batch = len(sources) > 1 or os.path.isdir(sources[0])
        if not is_batch:
            batch = batch._replace(jobs=1)
            if batch == BatchOptions():
                _alone(command, sources[0], given)
                return
        from .run import run as run_all  # noqa: PLC0415 - multiprocessing is slow to import

        raise Exit(run_all(tasks(sources, given, batch, is_batch), batch))

    of_batch = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=ANNOTATIONS[name])
        for name, default in BatchOptions._field_defaults.items()
    )
    widened = first.replace(annotation=_argument(first.annotation, several, directories))
    return with_parameters(run, command, [widened, *others, *of_batch])


def _alone(command: Command, source: str, given: dict[str, Any]) -> None:
    """Run a command on one file. With JSON output, an error also becomes a JSON document, as for several files."""
    shown = bytes_shown()
    try:
        command(source, **given)
    except ct.CircleToolsError as error:
        if given.get("form") == "json" and not isinstance(error, ct.UsageError) and bytes_shown() == shown:
            show_json(ct.render.error_json(error.exit_code, str(error)), source)
        raise


def _argument(annotation: Any, several: bool, directories: bool) -> Any:
    """Return the type of the first parameter, with its help."""
    argument: Declared = get_args(annotation)[1]
    if directories:
        words = argument.help.replace("to read,", "to read, a directory of models,", 1)
        argument = replace(argument, help=words)
    if not several:
        return Annotated[str, argument]
    return Annotated[tuple[str, ...], replace(argument, metavar=f"{argument.metavar}...")]
