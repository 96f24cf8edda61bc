"""Commands for one file made commands for many. What a command does is written once, for one file.

    app.command("inspect", ...)(many(inspect))                 # IN... instead of IN: files, and directories of models
    app.command("trace-stats", ...)(many(trace_stats, directories=False))
    app.command("compact", ...)(mirrored(compact))             # IN may be a directory; OUT is one too, then

The command is a function of a module, so that another process finds it by its name. Its first parameter is the file;
`mirrored` gives its second one, `output`, the name that the file has in the other directory. It says all that it has
to say by `terminal`, JSON by `show_json`, counts findings by `kept.record`, and ends with `typer.Exit(status)`.

One file runs as ever. Several run by `batch`: text gets headings, JSON becomes a line for each file, CSV a column
`file`. docs/many.md has it all.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args

import typer

if TYPE_CHECKING:
    from .task import Heading


def _jobs(given: str | int) -> int:
    """Return how many processes that is. Raises BadParameter."""
    number = str(given)  # the default comes as it is
    if number in ("0", "auto"):
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not number.isascii() or not number.isdigit():
        raise typer.BadParameter(f"{number!r} is no number of processes, and not auto.")
    return int(number)


Jobs = Annotated[
    int,
    typer.Option(
        "--jobs",
        metavar="N",
        parser=_jobs,
        help="Share several models out to N processes; 0 or auto: one for each core.",
    ),
]
Log = Annotated[Path | None, typer.Option("--log", metavar="FILE", help="Add a line of JSON for each model to FILE.")]
Resume = Annotated[bool, typer.Option("--resume", help="Leave out the models that --log FILE has as done.")]
Scheduler = Annotated[
    str | None, typer.Option("--scheduler", metavar="ADDRESS", help="Share several models out to a Dask cluster.")
]

Command = Callable[..., None]


class Way(NamedTuple):
    """How to run over many files; the options that every such command has."""

    jobs: int = 1
    log: Path | None = None
    resume: bool = False
    scheduler: str | None = None


_Run = Callable[[str, Way, dict[str, Any]], None]
_OPTIONS = dict(zip(Way._fields, (Jobs, Log, Resume, Scheduler), strict=True))


def many(command: Command, *, directories: bool = True, heading: Heading = "name") -> Command:
    """Return a command for several files; with `directories`, also for the models below them."""

    def run(first: str, way: Way, given: dict[str, Any]) -> None:
        sources: list[str] = given.pop(first)
        several = len(sources) > 1 or os.path.isdir(sources[0])
        if not several:
            way = way._replace(jobs=1)
            if way == Way():
                command(*sources, **given)
                return
        from .run import run as run_all  # noqa: PLC0415
        from .sources import named, refuse_directories  # noqa: PLC0415

        if not directories:
            refuse_directories(sources)
        raise typer.Exit(run_all(named(command, sources, given, way, several=several, heading=heading), way))

    return _Extended(command, run, several=True, directories=directories)


def mirrored(command: Command, *, output: str = "output") -> Command:
    """Return a command that also takes a directory, and writes what the models below it become below `output`.

    Each result has the place and name there that its model has in the directory.
    """

    def run(first: str, way: Way, given: dict[str, Any]) -> None:
        source: str = given.pop(first)
        directory = os.path.isdir(source)
        if not directory:
            way = way._replace(jobs=1)
            if way == Way():
                command(source, **given)
                return
        from .run import run as run_all  # noqa: PLC0415
        from .sources import mirror, named  # noqa: PLC0415

        if directory:
            tasks = mirror(command, source, given, way, output)
        else:
            tasks = named(command, [source], given, way, several=False)
        raise typer.Exit(run_all(tasks, way))

    return _Extended(command, run, several=False, directories=True)


class _Extended:
    """A command with the parameters of another one, the first one widened, and those of `Way`.

    They are worked out when they are asked for: of all commands, one is run.
    """

    def __init__(self, command: Command, run: _Run, *, several: bool, directories: bool) -> None:
        self._command, self._run, self._several, self._directories = command, run, several, directories
        self.__doc__, self.__name__ = command.__doc__, command.__name__

    @cached_property
    def __signature__(self) -> inspect.Signature:
        first, *others = inspect.signature(self._command, eval_str=True).parameters.values()
        annotation = _argument(first.annotation, self._several, self._directories)
        ways = (
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=_OPTIONS[name])
            for name, default in Way._field_defaults.items()
        )
        return inspect.Signature([first.replace(annotation=annotation), *others, *ways])

    @cached_property
    def __annotations__(self) -> dict[str, Any]:  # type: ignore[override]
        return {parameter.name: parameter.annotation for parameter in self.__signature__.parameters.values()}

    def __call__(self, **given: Any) -> None:
        way = Way(**{name: given.pop(name) for name in Way._fields})
        self._run(next(iter(self.__signature__.parameters)), way, given)


def _argument(annotation: Any, several: bool, directories: bool) -> Any:
    """Return the type of the first parameter, with what it says of itself."""
    argument = copy(get_args(annotation)[1])
    if directories:
        argument.help = argument.help.replace("to read", "to read, or a directory of models", 1)
    if not several:
        return Annotated[str, argument]
    argument.metavar += "..."
    return Annotated[list[str], argument]
