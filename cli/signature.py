"""Declare the parameters of a command with annotations of a function.

def expose(source: Input, tensor: Annotated[tuple[str, ...], option("--tensor", "A tensor.", "TENSOR")] = ()) -> None
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

Command = Callable[..., None]
"""The function of a command. It must be defined at module level; its first argument is the file."""

BETWEEN = "\0"
"""Stands for the -- between the two sides of a command; it contains a NUL, which no argument can."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a parameter: an option if it has `names`, otherwise an argument.

    `settings` are min, max, parser (a function of the text), show_default, and shows (a function that the command
    calls with the value instead of running).
    """

    help: str
    metavar: str | None
    names: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)


def argument(metavar: str, words: str) -> Declared:
    """Declare an argument."""
    return Declared(words, metavar)


def option(names: str, words: str, metavar: str | None = None, **settings: Any) -> Declared:
    """Declare an option; `names` is separated by spaces."""
    return Declared(words, metavar, tuple(names.split()), settings)


def parameters_of(command: Command) -> list[inspect.Parameter]:
    """Return the parameters of a command, with evaluated types."""
    return list(inspect.signature(command, eval_str=True).parameters.values())


def with_parameters(run: Command, command: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Return `run` with the name and docstring of `command`, and with `parameters`."""
    made = wraps(command)(run)
    vars(made)["__signature__"] = inspect.Signature(parameters)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return made
