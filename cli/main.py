"""The entry point: commands, and what an error becomes.

Exit statuses: 0 done, 1 findings, 2 usage, 3 unreadable or invalid input, 4 the edit cannot be made. SIGINT,
SIGTERM and SIGHUP end it as they end any program: 130, 143 and 129 in a shell.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

import circletools as ct

from . import moved
from .console import signals
from .console.reading import use_schema
from .console.terminal import complain, fail
from .console.usage import command_of
from .signature import BETWEEN
from .table import COMMANDS, GROUPS, VERBS, Row

_HELP = {"help_option_names": ["--help", "-h"]}


class _Grouped(click.Group):
    """The list of commands, under headings."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each group."""
        sections = {
            title: {row.name.split()[0]: VERBS.get(row.name.split()[0], row.summary) for row in rows}
            for title, rows in GROUPS.items()
        }
        width = max(len(name) for section in sections.values() for name in section)
        for title, section in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", summary) for name, summary in section.items()])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; of one that moved, raise UsageError with its new place."""
        if cmd_name in moved.COMMANDS:
            raise click.UsageError(f"'{cmd_name}' is now 'circletool {moved.COMMANDS[cmd_name]}'.", ctx)
        return super().get_command(ctx, cmd_name)


class _Deferred(click.Command):
    """A command of the table, which is imported when its own words are to be read."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.name, help=row.summary)
        self._row = row

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **settings: Any) -> click.Context:
        """Read the words of the command: its context has the whole command."""
        words = [BETWEEN if self._row.sides and word == "--" else word for word in args]
        name, example = self._row.name, self._row.example
        whole = command_of(name, self._row.function, f"Example: circletool {name} {example}")
        return whole.make_context(info_name, words, *more, **settings)


def _show_completion(ctx: click.Context, _option: click.Parameter, shell: str | None) -> None:
    if shell is not None and not ctx.resilient_parsing:
        from click.shell_completion import get_completion_class  # noqa: PLC0415 - help does not need it

        kind = get_completion_class(shell)
        assert kind is not None
        click.echo(kind(ctx.command, {}, "circletool", "_CIRCLETOOL_COMPLETE").source())
        ctx.exit()


@click.group(
    "circletool",
    cls=_Grouped,
    context_settings=_HELP,
    help="Inspect, diagnose, repair and annotate TFLite and Circle model files.",
    epilog="Exit status: 0 done, 1 findings, 2 usage, 3 unreadable or invalid input, 4 the edit cannot be made.",
)
@click.version_option(ct.__version__, message="circletool %(version)s", help="Show the version and exit.")
@click.option(
    "--schema",
    metavar="FILE",
    type=Path,
    help="Schema (.bfbs) of a newer format, whose fields edits then carry over.",
)
@click.option(
    "--completion",
    type=click.Choice(["bash", "fish", "zsh"]),
    is_eager=True,
    expose_value=False,
    callback=_show_completion,
    help="Print the completion script of a shell and exit.",
)
def app(schema: Path | None) -> None:
    """Take the options that stand before the command."""
    if schema is not None:
        use_schema(schema)


for _name, _summary in VERBS.items():
    app.add_command(click.Group(_name, help=_summary, context_settings=_HELP, subcommand_metavar="COMMAND ..."))
for _row in COMMANDS:
    _verb, _, _name = _row.name.rpartition(" ")
    _group = app.commands[_verb] if _verb else app
    assert isinstance(_group, click.Group)
    _group.add_command(_Deferred(_row), _name)


def main() -> None:
    """Run the command line; an error of the library becomes one line on standard error and an exit status."""
    gc.disable()  # a short run that builds large plain values: looking for cycles costs a third of its time
    # numpy's library starts threads that else turn for 0.1 s each before they sleep; 2**4 cycles are the least.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when the reader of a pipe goes away
    signals.listen()
    try:
        _run()
    except signals.Stopped as stopped:
        signals.end(stopped.number)
    finally:
        gc.freeze()  # nor is it worth looking at the end, which takes a fifth of `--help`


def _run() -> None:
    try:
        app(prog_name="circletool")
    except ct.CircleToolsError as error:
        sys.exit(fail(error))
    except MemoryError:
        complain("error", "out of memory: the input asks for more than this process may have")
        sys.exit(3)
    except OSError as error:  # standard output is full, or gone
        complain("error", f"cannot write: {error.strerror}")
        sys.exit(4)
    finally:
        _drop_output()


def _drop_output() -> None:
    """Let go of what standard output did not take, so that the interpreter does not try again at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
