"""How help and usage errors look: `Usage: circletool compact [OPTIONS] IN [OUT]`, whatever typer's version."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand


class Command(TyperCommand):
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

    def _only(self, kind: str, ctx: Any) -> list[Any]:
        return [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == kind]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; of an error, leave out the words that only its maker understands."""
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")
            raise
