"""The entry point: commands, and what an error becomes.

Exit statuses: 0 done, 1 findings, 2 usage, 3 unreadable or invalid input, 4 the edit cannot be made. SIGINT,
SIGTERM and SIGHUP end it as they end any program: 130, 143 and 129 in a shell.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Annotated

import typer

from circletools.errors import CircleToolsError

from .commands import (
    affinity,
    affinity_exports,
    attribution,
    comparing,
    inspecting,
    origins,
    outputs,
    page,
    rewriting,
    splitting,
    traces,
    tracking,
)
from .console import signals
from .console.usage import Command

app = typer.Typer(
    name="circletool",
    help="Read, annotate and repair TFLite and Circle models without a compiler.",
    epilog="Exit status: 0 done, 1 findings, 2 usage, 3 unreadable or invalid input, 4 the edit cannot be made.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: half the start-up time, and the same in every terminal
    pretty_exceptions_enable=False,
)
for module in (
    origins, tracking, outputs, affinity, affinity_exports, splitting, rewriting, inspecting, comparing, traces,
    attribution, page,
):  # fmt: skip
    module.register(app)
for command in app.registered_commands:
    command.cls = Command


def _version(shown: bool) -> None:
    if shown:
        from circletools import __version__  # noqa: PLC0415

        typer.echo(f"circletool {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Take the options that stand before the command."""


def main() -> None:
    """Run the command line; an error of the library becomes one line on standard error and an exit status."""
    named = [command for command in app.registered_commands if command.name in sys.argv[1:2]]
    if named:  # the parameters of all the others take longer to set up than many a command takes to run
        app.registered_commands = named
    gc.disable()  # a short run that builds large plain values: looking for cycles costs a third of its time
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # end quietly when the reader of a pipe goes away
    signals.listen()
    try:
        _run()
    except signals.Stopped as stopped:
        signals.end(stopped.number)


def _run() -> None:
    try:
        app()
    except CircleToolsError as error:
        from .console.terminal import fail  # noqa: PLC0415

        sys.exit(fail(error))
    except MemoryError:
        from .console.terminal import complain  # noqa: PLC0415

        complain("error", "out of memory: the input asks for more than this process may have")
        sys.exit(3)
    except OSError as error:  # standard output is full, or gone
        from .console.terminal import complain  # noqa: PLC0415

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
