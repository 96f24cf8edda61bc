"""Commands for one file made commands for many. What a command does is written once, for one file.

    many(inspect)                            # IN... instead of IN: files, and directories of models
    many(trace_stats, directories=False)
    mirrored(compact)                        # IN may be a directory; OUT is one too, then

The command is a function of a module, so that another process finds it by its name. Its first parameter is the file;
`mirrored` gives its second one, `output`, the name that the file has in the other directory. It writes
by `terminal`, JSON by `show_json`, counts findings by `captured.record`, and ends with `typer.Exit(status)`.

One file runs as ever. Several run by `batch`: text gets headings, JSON becomes a line for each file, CSV a column
`file`. docs/many.md has it all.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable
from copy import copy
from typing import Annotated, Any, get_args

import typer

from ..signature import Command, parameters_of, with_parameters
from .options import ANNOTATIONS, BatchOptions
from .sources import mirror, named, refuse_directories
from .task import Heading, Task

_Tasks = Callable[[list[str], dict[str, Any], BatchOptions, bool], Iterable[Task]]
"""The tasks for files or directories, given options, and whether there are several files."""


def many(command: Command, *, directories: bool = True, heading: Heading = "name") -> Command:
    """Return a command for several files; with `directories`, also for the models below them."""

    def tasks(sources: list[str], given: dict[str, Any], batch: BatchOptions, several: bool) -> Iterable[Task]:
        if not directories:
            refuse_directories(sources)
        return named(command, sources, given, batch, several=several, heading=heading)

    return _extended(command, tasks, several=True, directories=directories)


def mirrored(command: Command, *, output: str = "output") -> Command:
    """Return a command that also takes a directory, and writes what the models below it become below `output`.

    Each result has the place and name there that its model has in the directory.
    """

    def tasks(sources: list[str], given: dict[str, Any], batch: BatchOptions, several: bool) -> Iterable[Task]:
        if several:
            return mirror(command, sources[0], given, batch, output)
        return named(command, sources, given, batch, several=False)

    return _extended(command, tasks, several=False, directories=True)


def _extended(command: Command, tasks: _Tasks, *, several: bool, directories: bool) -> Command:
    """Return a command with the parameters of another one, the first widened, and those of `BatchOptions`."""
    first, *others = parameters_of(command)

    def run(**given: Any) -> None:
        batch = BatchOptions(**{name: given.pop(name) for name in BatchOptions._fields})
        sources: list[str] = given.pop(first.name) if several else [given.pop(first.name)]
        is_batch = len(sources) > 1 or os.path.isdir(sources[0])
        if not is_batch:
            batch = batch._replace(jobs=1)
            if batch == BatchOptions():
                command(*sources, **given)
                return
        from .run import run as run_all  # noqa: PLC0415 - multiprocessing is slow to import

        raise typer.Exit(run_all(tasks(sources, given, batch, is_batch), batch))

    of_batch = (
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=ANNOTATIONS[name])
        for name, default in BatchOptions._field_defaults.items()
    )
    widened = first.replace(annotation=_argument(first.annotation, several, directories))
    return with_parameters(run, command, [widened, *others, *of_batch])


def _argument(annotation: Any, several: bool, directories: bool) -> Any:
    """Return the type of the first parameter, with what it says of itself."""
    argument = copy(get_args(annotation)[1])
    if directories:
        argument.help = argument.help.replace("to read", "to read, or a directory of models", 1)
    if not several:
        return Annotated[str, argument]
    argument.metavar += "..."
    return Annotated[list[str], argument]
