"""Make typer commands with custom help, completion and usage errors from annotated functions."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from typer.core import TyperCommand

import circletools as ct

from .. import moved
from ..signature import Command as Function
from ..signature import Declared, parameters_of, with_parameters
from .process import keep_freed
from .progress import working
from .terminal import bytes_shown, show_json

HELP = {"help_option_names": ["--help", "-h"]}
_TEXTS = (str, str | None, list[str])
_UsageError: Any = typer.BadParameter.__mro__[1]


def typer_of(**settings: Any) -> typer.Typer:
    """Return a Typer with plain help, which halves the start-up time and looks the same on every terminal."""
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, context_settings=HELP, **settings)


class AsGiven:
    """A command that does not convert strings, choices and defaults.

    typer would convert them with a library that takes longer to import than most models take to check.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        command: Any = self
        known = parameters_of(command.callback) if command.callback else ()
        annotations = {one.name: one.annotation for one in known}
        for parameter in command.get_params(ctx):
            kind, *declared = get_args(annotations.get(parameter.name)) or (None,)
            plain = partial(_read, next(iter(declared), None), (*get_args(kind), kind)[0])
            parameter.process_value = partial(_taken, parameter, kind in _TEXTS, _choices(kind), plain)
        read: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]
        return read


def _choices(kind: Any) -> tuple[Any, ...]:
    """Return the words that a parameter type allows; none if it accepts any text."""
    return next((get_args(one) for one in (kind, *get_args(kind)) if get_origin(one) is Literal), ())


def _read(declared: Any, kind: Any, text: str) -> Any:
    """Return a path, a plain number in its range, or what a parser makes of a text; None if typer has to read it."""
    if parser := getattr(declared, "parser", None):
        with suppress(ValueError):  # typer words the error
            return parser(text)
    if kind is Path and text and (not os.path.exists(text) or os.access(text, os.R_OK)):
        return Path(text)
    if kind in (int, float) and re.fullmatch(r"[0-9]{1,9}" if kind is int else r"[0-9]{1,9}(\.[0-9]{1,9})?", text):
        number = kind(text)
        least, most = (number if bound is None else bound for bound in (declared.min, declared.max))
        return number if least <= number <= most else None
    return None


def _taken(
    parameter: Any, is_text: bool, choices: tuple[Any, ...], read: Callable[[str], Any], ctx: Any, value: Any
) -> Any:
    is_given = ctx.get_parameter_source(parameter.name).name != "DEFAULT"
    if is_given and not is_text and isinstance(value, str) and (taken := read(value)) is not None:
        value = taken
    elif (not value and parameter.required) or (is_given and not is_text and value not in choices):
        if isinstance(value := type(parameter).process_value(parameter, ctx, value), float) and not isfinite(value):
            raise typer.BadParameter(f"{value} is not a finite number.", ctx, parameter)
        return value
    if parameter.multiple or parameter.nargs != 1:
        value = list(value or ())
    return value if parameter.callback is None else parameter.callback(ctx, parameter, value)


class Command(AsGiven, TyperCommand):
    """A command whose usage line shows the names of its arguments, in brackets if they are optional."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the part of the usage line that lists the arguments."""
        arguments = [(one.metavar, one.required) for one in self._only("argument", ctx)]
        return ["[OPTIONS]", *(name if required else f"[{name}]" for name, required in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the sections for arguments and options."""
        arguments = [(one.metavar, one.help) for one in self._only("argument", ctx)]
        options = [one.get_help_record(ctx) for one in self._only("option", ctx)]
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)

    def _only(self, kind: str, ctx: Any) -> list[Any]:
        return [one for one in self.get_params(ctx) if one.param_type_name == kind]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line; --json becomes --format json. Raises UsageError for an option that has moved."""
        ctx.meta["form"] = (
            "json" if "--json" in args or "--format json" in " ".join(args).replace("=", " ") else "text"
        )
        names = {name for one in self.get_params(ctx) for name in one.opts}
        for word in args:
            name = word.partition("=")[0]
            if name in moved.OPTIONS and name not in names:
                raise ct.UsageError(f"{name} is now {moved.OPTIONS[name]}")
        try:
            rest = super().parse_args(ctx, args)
        except _UsageError as error:
            error.message = error.message.removeprefix("Value error, ")
            if "unexpected extra argument" in error.message and "--name" in names:
                error.message += "; write --name NAME"
            if hasattr(error, "possibilities"):
                self._suggest(error, names, ctx)
            raise
        if ctx.params.pop("json_", False):
            form, source = ctx.params["form"], ctx.get_parameter_source("form")
            if form != "json" and source.name == "COMMANDLINE":
                raise ct.UsageError(f"--json and --format {form} cannot be combined")
            ctx.params["form"] = "json"
        return rest

    def _suggest(self, error: Any, names: set[str], ctx: Any) -> None:
        """Name the option that was probably meant; typer would also name options that begin with another letter."""
        wrong, near = error.option_name, error.possibilities or ()
        alike = [one for group in moved.ALIKE if wrong in group for one in sorted(group & names)]
        error.possibilities = alike or [one for one in near if one.lstrip("-")[0] == wrong.lstrip("-")[0]]
        if wrong in moved.ALIKE[1] and any(one.metavar == "OUT" for one in self._only("argument", ctx)):
            error.message, error.possibilities = f"{error.message}; write OUT after IN, without an option", ()

    def invoke(self, ctx: Any) -> Any:
        """Run the command with a progress line. With JSON output, an error also becomes a JSON document."""
        keep_freed()
        shown, (first, *_) = bytes_shown(), [ctx.params[one.name] for one in self._only("argument", ctx)]
        try:
            with working(str(ctx.info_name)):
                return super().invoke(ctx)
        except ct.CircleToolsError as error:
            is_json = ctx.params.get("form") == "json" and not isinstance(error, ct.UsageError)
            if is_json and bytes_shown() == shown:
                file = str(first[0] if isinstance(first, list | tuple) else first)
                show_json(ct.render.error_json(error.exit_code, str(error)), file)
            raise


def command_of(name: str, function: Function, epilog: str) -> Any:
    """Return the command that parses the parameters of a function and calls it."""
    whole = typer_of(add_completion=False)
    whole.command(name, cls=Command, epilog=epilog)(_annotated(function))
    return typer.main.get_command(whole)


def _annotated(function: Function) -> Function:
    """Return the function with its parameters declared for typer."""
    parameters = []
    for one in parameters_of(function):
        parameters.append(_parameter(one, *get_args(one.annotation)))
        if one.name == "form":
            flag = Annotated[bool, typer.Option("--json", help="Short for --format json.")]
            parameters.append(inspect.Parameter("json_", one.KEYWORD_ONLY, default=False, annotation=flag))

    def run(**given: Any) -> None:
        given.pop("json_", None)
        function(**{name: tuple(value) if isinstance(value, list) else value for name, value in given.items()})

    return with_parameters(run, function, [one.replace(kind=one.KEYWORD_ONLY) for one in parameters])


def _parameter(one: inspect.Parameter, kind: Any, declared: Declared) -> inspect.Parameter:
    several = get_origin(kind) is tuple
    required = one.default is inspect.Parameter.empty
    settings = dict(declared.settings) | {"metavar": declared.metavar, "help": declared.help}
    settings["autocompletion"] = _completion_of(declared.metavar)
    shows = settings.pop("shows", None)
    if shows is not None:
        settings |= {"is_eager": True, "expose_value": False, "callback": _showing(shows)}
    if several:  # typer accepts no list of choices
        words = get_args(get_args(kind)[0]) if get_origin(get_args(kind)[0]) is Literal else ()
        settings |= {"callback": _among(words), "metavar": f"[{'|'.join(words)}]"} if words else {}
        kind = list[str] if words else list[get_args(kind)[0]]  # type: ignore[misc]
    settings.setdefault("show_default", not required and not several and one.default is not None)
    if not declared.names:
        settings["show_default"] = False
    made = typer.Option(*declared.names, **settings) if declared.names else typer.Argument(**settings)
    default = one.default if required or not several else list(one.default)
    return one.replace(annotation=Annotated[kind, made], default=default)


def _among(words: Sequence[str]) -> Callable[[list[str]], list[str]]:
    """Return a parser that accepts only these words."""

    def check(values: list[str]) -> list[str]:
        for value in values:
            if value not in words:
                raise typer.BadParameter(f"{value!r} is not one of {', '.join(map(repr, words))}.")
        return values

    return check


def _showing(shows: Callable[[str, str], None]) -> Callable[[typer.Context, str | None], None]:
    """Return the callback of an option that shows something as text or JSON instead of running the command."""

    def show(ctx: typer.Context, value: str | None) -> None:
        if value is not None:
            shows(value, ctx.meta["form"])
            raise typer.Exit

    return show


def _entries(ctx: typer.Context) -> Iterable[str]:
    with ct.open(ctx.params["source"] or ctx.args[0]) as model:  # the file may not be parsed yet
        return [entry.name for entry in model.metadata]


_OFFERS: Mapping[str, Callable[[typer.Context], Iterable[str]]] = {
    "CODE": lambda ctx: ct.checks.codes(),
    "DEVICE=PROGRAM": lambda ctx: ct.checks.programs(),
    "NAME": _entries,
    "OLD=NEW": _entries,
    "PROGRAM": lambda ctx: ct.checks.programs(),
    "RELEASE": lambda ctx: ct.checks.releases(),
    "TARGETS": lambda ctx: ct.affinity.shipped(),
    "[DEVICE=]TABLE": lambda ctx: ct.affinity.shipped(),
}


def _completion_of(metavar: str | None) -> Callable[..., list[str]] | None:
    """Return the callback that completes values; after a comma or equals sign, it completes the next name."""
    if (names := _OFFERS.get((metavar or "").removesuffix(",..."))) is None:
        return None

    def offer(ctx: typer.Context, incomplete: str) -> list[str]:
        end = max(incomplete.rfind(","), incomplete.rfind("=")) + 1
        try:
            return [incomplete[:end] + name for name in names(ctx) if name.startswith(incomplete[end:])]
        except (ct.CircleToolsError, LookupError):  # no model is given yet, or it cannot be read
            return []

    return offer
