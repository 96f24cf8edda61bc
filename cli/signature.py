"""Declare the parameters of a command as annotations or defaults of its function.

def expose(source: Input, tensor: tuple[str, ...] = option("A tensor; may be repeated.", "TENSOR")) -> None
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Annotated, Any, get_args, get_origin

Command = Callable[..., None]
"""The function of a command. It must be defined at module level; its first argument is the file."""

BETWEEN = "\0"
"""Represents the -- between the two sides of a command; it contains a NUL, which no argument can."""

REQUIRED = inspect.Parameter.empty
_DEFAULTS: Mapping[Any, Any] = {bool: False, tuple: ()}
_OPTIONS = {
    "form": "format",
    "limits": "limit",
    "rules": "set",
    "rules_file": "rules",
    "subgraphs": "subgraph",
    "target": "to",
    "traces": "trace",
}
"""The options whose names differ from those of their parameters or fields."""
_FIELD = re.compile(r"`([a-z_]+)=([^`]*)`")
_PYTHON = re.compile(r"[,;] (?:or|for NNAPI,) ct\.[\w.]+\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Declared:
    """The declaration of a parameter: an option if it has `names`, otherwise an argument.

    `settings` are min, max, parser (a function of the text), show_default, and shows (a function that the command
    calls with the value instead of running).
    """

    help: str
    metavar: str | None
    names: tuple[str, ...] = ()
    default: Any = REQUIRED
    settings: Mapping[str, Any] = field(default_factory=dict)


def argument(metavar: str, words: str, **default: Any) -> Any:
    """Declare an argument, required unless `default` is given."""
    return Declared(words, metavar, **default)


def option(words: str, metavar: str | None = None, *, names: str = "--", default: Any = ..., **settings: Any) -> Any:
    """Declare an option; `names` holds its names, separated by spaces.

    By default, it is named after the parameter. Without a default value, flags are off, lists are empty, and values
    are None if they can be; others are required.
    """
    return Declared(words, metavar, tuple(names.split()), default, settings)


def option_of(name: str) -> str:
    """Return the option for a parameter, or for a field of a request."""
    return f"--{_OPTIONS.get(name, name.strip('_').replace('_', '-'))}"


def as_options(message: str) -> str:
    """Return a message of the library with fields (`min_size=0`, or just `min_size=`) as options, without Python."""

    def shown(found: re.Match[str]) -> str:
        name = "--by operator" if found[1] == "explain" else option_of(found[1])
        value = found[2].removeprefix("('").removesuffix("',)")
        return name if value in ("", "True") else f"{name} {value}"

    return _FIELD.sub(shown, _PYTHON.sub("", message))


def parameters_of(command: Command) -> list[inspect.Parameter]:
    """Return the parameters of a command, annotated with their evaluated types and declarations."""
    return [_annotated(one) for one in inspect.signature(command, eval_str=True).parameters.values()]


def _annotated(one: inspect.Parameter) -> inspect.Parameter:
    kind, declared, default = one.annotation, one.default, one.default
    if get_origin(kind) is Annotated:
        kind, declared = get_args(kind)
    elif isinstance(declared, Declared):
        absent = None if type(None) in get_args(kind) else _DEFAULTS.get(get_origin(kind) or kind, REQUIRED)
        default = absent if declared.default is ... else declared.default
    if not isinstance(declared, Declared):
        return one
    if declared.names == ("--",):
        declared = replace(declared, names=(option_of(one.name),))
    return one.replace(annotation=Annotated[kind, declared], default=default)


def with_parameters(run: Command, command: Command, parameters: Sequence[inspect.Parameter]) -> Command:
    """Return `run` with the name and docstring of `command`, and with `parameters`."""
    made = wraps(command)(run)
    vars(made)["__signature__"] = inspect.Signature(parameters)
    made.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return made
