"""How a command declares its parameters, and how it gets other ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import typer

Command = Callable[..., None]
"""What a command does; the first argument is the file. A function of a module."""


BETWEEN = "\0"
"""What a command with two sides gets for the -- between them; no word of a command line has it."""


def argument(metavar: str, words: str) -> Any:
    """Return what help says of an argument."""
    return typer.Argument(metavar=metavar, help=words, show_default=False)


def option(names: str, words: str, metavar: str | None = None, **settings: Any) -> Any:
    """Return what help says of an option; `names` are apart by blanks, `settings` are those of typer."""
    return typer.Option(*names.split(), metavar=metavar, help=words, **settings)


def parameters_of(command: Command) -> list[inspect.Parameter]:
    """Return the parameters of a command, their types evaluated."""
    return list(inspect.signature(command, eval_str=True).parameters.values())


def with_parameters(run: Command, command: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Return `run` with the name and the docstring of `command`, and with these parameters."""
    made = wraps(command)(run)
    vars(made)["__signature__"] = inspect.Signature(parameters)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return made
