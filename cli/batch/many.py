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
from functools import cached_property
from typing import Annotated, Any, get_args

import typer

from .options import ANNOTATIONS, BatchOptions
from .sources import mirror, named, refuse_directories
from .task import Command, Heading, Task

_Run = Callable[[str, BatchOptions, dict[str, Any]], None]


def many(command: Command, *, directories: bool = True, heading: Heading = "name") -> Command:
    """Return a command for several files; with `directories`, also for the models below them."""

    def run(first: str, batch: BatchOptions, given: dict[str, Any]) -> None:
        sources: list[str] = given.pop(first)
        several = len(sources) > 1 or os.path.isdir(sources[0])
        if not several:
            batch = batch._replace(jobs=1)
            if batch == BatchOptions():
                command(*sources, **given)
                return
        if not directories:
            refuse_directories(sources)
        raise typer.Exit(_run_all(named(command, sources, given, batch, several=several, heading=heading), batch))

    return _Extended(command, run, several=True, directories=directories)


def mirrored(command: Command, *, output: str = "output") -> Command:
    """Return a command that also takes a directory, and writes what the models below it become below `output`.

    Each result has the place and name there that its model has in the directory.
    """

    def run(first: str, batch: BatchOptions, given: dict[str, Any]) -> None:
        source: str = given.pop(first)
        directory = os.path.isdir(source)
        if not directory:
            batch = batch._replace(jobs=1)
            if batch == BatchOptions():
                command(source, **given)
                return
        if directory:
            tasks = mirror(command, source, given, batch, output)
        else:
            tasks = named(command, [source], given, batch, several=False)
        raise typer.Exit(_run_all(tasks, batch))

    return _Extended(command, run, several=False, directories=True)


def _run_all(tasks: Iterable[Task], batch: BatchOptions) -> int:
    from .run import run  # noqa: PLC0415 - multiprocessing is slow to import

    return run(tasks, batch)


class _Extended:
    """A command with the parameters of another one, the first one widened, and those of `BatchOptions`.

    They are worked out when they are asked for: of all commands, one is run.
    """

    def __init__(self, command: Command, run: _Run, *, several: bool, directories: bool) -> None:
        self._command, self._run, self._several, self._directories = command, run, several, directories
        self.__doc__, self.__name__ = command.__doc__, command.__name__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        first, *others = inspect.signature(self._command, eval_str=True).parameters.values()
        annotation = _argument(first.annotation, self._several, self._directories)
        of_batch = (
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=ANNOTATIONS[name])
            for name, default in BatchOptions._field_defaults.items()
        )
        return inspect.Signature([first.replace(annotation=annotation), *others, *of_batch])

    @cached_property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {parameter.name: parameter.annotation for parameter in self.__signature__.parameters.values()}

    def __call__(self, **given: Any) -> None:
        batch = BatchOptions(**{name: given.pop(name) for name in BatchOptions._fields})
        self._run(next(iter(self.__signature__.parameters)), batch, given)


def _argument(annotation: Any, several: bool, directories: bool) -> Any:
    """Return the type of the first parameter, with what it says of itself."""
    argument = copy(get_args(annotation)[1])
    if directories:
        argument.help = argument.help.replace("to read", "to read, or a directory of models", 1)
    if not several:
        return Annotated[str, argument]
    argument.metavar += "..."
    return Annotated[list[str], argument]
