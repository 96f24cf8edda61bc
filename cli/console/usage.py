"""How help and usage errors look: `Usage: circletool compact [OPTIONS] IN [OUT]`, whatever typer's version."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

from ..signature import parameters_of
from .memory import keep_freed
from .progress import working

_TEXTS = (str, str | None, list[str], list[str] | None)


class AsGiven:
    """A command that takes texts, one of its choices, and what nobody gives, as they are.

    typer converts them by a library that takes longer to import than most models to check.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        command: Any = self
        annotations = {one.name: one.annotation for one in parameters_of(command.callback)}
        for parameter in command.get_params(ctx):
            annotation = annotations.get(parameter.name)
            kind = (get_args(annotation) or (annotation,))[0]
            parameter.process_value = partial(_taken, parameter, kind in _TEXTS, _choices(kind))
        read: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return read


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the words among which a parameter of a type has to be; none where it takes others."""
    return next((get_args(one) for one in (kind, *get_args(kind)) if get_origin(one) is Literal), ())


def _taken(parameter: Any, is_text: bool, choices: tuple[Any, ...], ctx: Any, value: Any) -> Any:
    """Return the value of a parameter."""
    is_given = ctx.get_parameter_source(parameter.name).name != "DEFAULT"
    if (not value and parameter.required) or (is_given and not is_text and value not in choices):
        return type(parameter).process_value(parameter, ctx, value)
    if parameter.multiple or parameter.nargs != 1:
        value = list(value or ())
    return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


class Command(AsGiven, TyperCommand):
    """A command whose arguments are shown by their names alone, in brackets where they can be left out."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the command's name in the usage line."""
        arguments = [(argument.metavar, argument.required) for argument in self._only("argument", ctx)]
        return ["[OPTIONS]", *(name if required else f"[{name}]" for name, required in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections about arguments and options."""
        arguments = [(argument.metavar, argument.help) for argument in self._only("argument", ctx)]
        options = [option.get_help_record(ctx) for option in self._only("option", ctx)]
        for title, records in (("Arguments", arguments), ("Options", options)):
            with formatter.section(title):
                formatter.write_dl(records)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a terminal that waits sees that it works."""
        keep_freed()
        with working(ctx.info_name):
            return super().invoke(ctx)

    def _only(self, kind: str, ctx: Any) -> list[Any]:
        return [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == kind]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; of an error, leave out the words that only its maker understands."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise
