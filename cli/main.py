"""The entry point: finds the command, and handles errors.

Exit statuses: 0 success, 1 findings, 2 usage error, 3 unreadable or invalid input, 4 edit not possible, 5 not known
(fit). SIGINT, SIGTERM and SIGHUP end the process as usual (130, 143 and 129 in a shell).
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import warnings
from errno import EMFILE, ENOENT, ENOSPC
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import circletools as ct

from . import moved
from .console import bounds, process
from .console.terminal import fail, print_diagnostic
from .console.usage import HELP, AsGiven, command_of, typer_of
from .signature import BETWEEN
from .table import COMMANDS, GROUPS, VERBS, Row


class _Grouped(AsGiven, TyperGroup):
    """The list of commands, grouped under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write a section for each group."""
        sections = {
            title: {row.name.split()[0]: VERBS.get(row.name.split()[0], row.summary) for row in rows}
            for title, rows in GROUPS.items()
        }
        width = max(len(name) for section in sections.values() for name in section)
        for title, section in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in section.items()])

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command. Raises UsageError with the new name if it has moved."""
        if cmd_name in moved.COMMANDS:
            raise ct.UsageError(f"'{cmd_name}' is now 'circletool {moved.COMMANDS[cmd_name]}'")
        found = super().get_command(ctx, cmd_name)
        if found is None and os.path.isfile(cmd_name):
            raise ct.UsageError("no command is given", hint=f"write circletool check {cmd_name}")
        return found


class _Verb(AsGiven, TyperGroup):
    """The list of the commands of a verb."""


class _Deferred(TyperCommand):
    """A command in the table, which is imported only when its arguments are parsed."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.name, help=row.summary, rich_markup_mode=None)
        self._row = row

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **settings: Any) -> Any:
        """Import the command, parse its arguments, and limit its time and memory."""
        words = [BETWEEN if self._row.sides and word == "--" else word for word in args]
        name, example = self._row.name, self._row.example
        whole = command_of(name, self._row.function, f"Example: circletool {name} {example}")
        bounds.allow(self._row.allowance)
        whole.callback = bounds.watched(args)(whole.callback)
        return whole.make_context(info_name, words, *more, **settings)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"circletool {ct.__version__}")
        raise typer.Exit


_Version = Annotated[
    bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
]


def _options(version: _Version = False) -> None:
    """Process the options in front of the command."""


def _command_line() -> Any:
    whole = typer_of(
        name="circletool",
        cls=_Grouped,
        help="Inspect, diagnose, repair and annotate TFLite and Circle model files.",
        epilog="Exit status: 0 success, 1 findings, 2 usage error, 3 unreadable or invalid input, "
        "4 edit not possible, 5 not known (fit).",
        no_args_is_help=True,
    )
    whole.callback()(_options)
    group: Any = typer.main.get_command(whole)
    for name, summary in VERBS.items():
        verb = _Verb(
            name=name, help=summary, context_settings=HELP, subcommand_metavar="COMMAND ...", rich_markup_mode=None
        )
        group.add_command(verb)
    for row in COMMANDS:
        verb_name, _, name = row.name.rpartition(" ")
        (group.commands[verb_name] if verb_name else group).add_command(_Deferred(row), name)
    return group


app = _command_line()


def main() -> None:
    """Run the command line; an error in the library becomes a line on standard error and an exit status."""
    gc.disable()  # a short run creates many plain objects: looking for garbage cycles would take a third of its time
    # Otherwise, each OpenBLAS thread spins for 0.1 s before it sleeps; 2**4 cycles are the minimum.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when the reader of a pipe goes away
    process.listen()
    bounds.enable()
    try:
        _run()
    except process.Stopped as stopped:
        process.end(stopped.number)
    finally:
        gc.freeze()  # skip the search at exit too, which would take a fifth of the time of `--help`


def _run() -> None:
    try:
        app(prog_name="circletool")
    except (ct.CircleToolsError, bounds.Exceeded) as error:
        warnings.simplefilter("ignore", ct.CallWarning)  # the error is why the edit was not saved
        sys.exit(fail(error.error if isinstance(error, bounds.Exceeded) else error))
    except MemoryError:
        print_diagnostic("error", "out of memory: the input needs more memory than this process may use")
        sys.exit(3)
    except OSError as error:
        if error.errno in (ENOENT, EMFILE) or (error.filename is not None and error.errno != ENOSPC):
            is_folder = error.errno == ENOENT and error.filename is None  # `os.getcwd` names no file
            place = "the working directory" if is_folder else error.filename
            sys.exit(fail(ct.InvalidInputError(f"{error.strerror}", location=place)))
        print_diagnostic("error", f"cannot write: {error.strerror}")  # standard output is full or closed
        sys.exit(4)
    finally:
        _drop_output()


def _drop_output() -> None:
    """Drop unwritten output, so that the interpreter does not try to write it again at exit."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
