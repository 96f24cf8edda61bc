"""Commands of click made from annotated functions, and how their help and usage errors look."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from .. import moved
from ..signature import Command as Function
from ..signature import Declared, parameters_of
from .memory import keep_freed
from .progress import working


class Command(click.Command):
    """A command whose arguments are shown by their names alone, in brackets where they can be left out."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Return what follows the command's name in the usage line."""
        arguments = [(str(one.metavar), one.required) for one in self.params if isinstance(one, _Argument)]
        return ["[OPTIONS]", *(name if required else f"[{name}]" for name, required in arguments)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the sections about arguments and options."""
        arguments = [(str(one.metavar), one.words) for one in self.params if isinstance(one, _Argument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl(arguments)
        super().format_options(ctx, formatter)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; --json is --format json."""
        try:
            rest = super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            place = moved.OPTIONS.get(error.option_name)
            if place is None:
                raise
            raise click.UsageError(f"{error.option_name} is now {place}", ctx) from error
        if ctx.params.pop("json", False):
            form, source = ctx.params["form"], ctx.get_parameter_source("form")
            if form != "json" and source is not None and source.name == "COMMANDLINE":
                raise click.UsageError(f"--json and --format {form} exclude each other", ctx)
            ctx.params["form"] = "json"
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a terminal that waits sees that it works."""
        keep_freed()
        with working(str(ctx.info_name)):
            return super().invoke(ctx)


class _Argument(click.Argument):
    def __init__(self, name: str, words: str, **settings: Any) -> None:
        super().__init__([name], **settings)
        self.words = words


def command_of(name: str, function: Function, epilog: str) -> Command:
    """Return the command that reads the parameters of a function, and calls it."""
    parameters: list[click.Parameter] = []
    for one in parameters_of(function):
        kind, declared = get_args(one.annotation)[:2]
        parameters.append(_parameter(one, kind, declared))
        if "--format" in declared.names:
            parameters.append(click.Option(["--json"], is_flag=True, help="Short for --format json."))
    text = inspect.getdoc(function)
    return Command(name, params=parameters, callback=function, help=text, epilog=epilog)


def _parameter(one: inspect.Parameter, kind: Any, declared: Declared) -> click.Parameter:
    several = get_origin(kind) is tuple
    if several:
        kind = get_args(kind)[0]
    kind = next((part for part in get_args(kind) if part is not type(None)), kind) if _is_optional(kind) else kind
    required = one.default is inspect.Parameter.empty
    if "shows" in declared.settings:
        return _showing(declared)
    settings: dict[str, Any] = {"required": required, "metavar": declared.metavar, "type": _type(kind, declared)}
    if not required and not several:
        settings["default"] = one.default
    if not declared.names:
        return _Argument(one.name, declared.help, nargs=-1 if several else 1, **settings)
    if kind is bool:
        settings |= {"type": None, "is_flag": True}
    shown = declared.settings.get("show_default", not required and not several)
    return click.Option(
        [*declared.names, one.name], help=declared.help, multiple=several, show_default=shown, **settings
    )


def _showing(declared: Declared) -> click.Option:
    """Return an option in whose presence the command only shows something."""

    def show(ctx: click.Context, _option: click.Parameter, value: str | None) -> None:
        if value is not None and not ctx.resilient_parsing:
            declared.settings["shows"](value)
            ctx.exit()

    return click.Option(
        declared.names, metavar=declared.metavar, help=declared.help, is_eager=True, expose_value=False, callback=show
    )


def _is_optional(kind: Any) -> bool:
    return type(None) in get_args(kind)


def _type(kind: Any, declared: Declared) -> Any:
    """Return the type of click that reads a value."""
    settings = declared.settings
    if "parser" in settings:
        return settings["parser"]
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Path:
        return click.Path(path_type=Path)
    if kind in (int, float) and ("min" in settings or "max" in settings):
        range_type = click.IntRange if kind is int else click.FloatRange
        return range_type(settings.get("min"), settings.get("max"))
    return kind
