"""Options of the affinity commands, keyed by the request fields that they set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import circletools as ct

from ..signature import Command, option, parameters_of, with_parameters
from .parameters import listed

Mode = Literal["min", "seed"]


def filling(request: type[ct.planning.CostRequest], options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Replace the `request` parameter of a command with options.

    `options` maps fields of `request` to option types; the defaults come from the fields.
    """
    defaults = {field.name: field.default for field in fields(request)}
    made = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
        for name, annotation in options.items()
    ]

    def decorate(command: Command) -> Command:
        def run(*arguments: Any, **given: Any) -> None:
            values: dict[str, Any] = {name: given.pop(name, defaults[name]) for name in options}
            command(*arguments, request=request(**values), **given)

        parameters: list[inspect.Parameter] = []
        for parameter in parameters_of(command):
            parameters += made if parameter.name == "request" else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
        return with_parameters(run, command, parameters)

    return decorate


def _option(kind: Any, name: str, words: str, metavar: str | None = None, **settings: Any) -> Any:
    return Annotated[kind, option(name, words, metavar, **settings)]


def _repeated(name: str, words: str, metavar: str) -> Any:
    return _option(tuple[str, ...], name, f"{words}; may be repeated.", metavar)


COSTS = {
    "costs": _option(Path | None, "--costs", "Operator times on each device (JSON), to minimize the total.", "FILE"),
    "traces": _repeated("--trace", "An operator trace with the times on a device", "DEVICE=TRACE"),
    "copy_rate": _option(
        float, "--copy-rate", "Bandwidth of copies that are not in --costs.", "BYTES_PER_US", min=1e-9
    ),
}
"""Options for the times of operators and copies."""
PLANNING = {
    "devices": _option(
        Any, "--devices", "Devices in order of preference; the last gets the rest.", "A,B,C", parser=listed
    ),
    "capabilities": _repeated(
        "--capabilities", "Operators that a device supports: FILE.json or a built-in table", "[DEVICE=]TABLE"
    ),
    "rules": _repeated("--set", "A rule, such as op:CONV_2D=npu", "SELECTOR=DEVICE"),
    "rules_file": _option(Path | None, "--rules", "Rules, as JSON or a .part file of circle-partitioner.", "FILE"),
    "allow_unmatched": _option(bool, "--allow-unmatched", "Only warn if a rule matches nothing."),
    "default": _option(str | None, "--default", "The device for remaining operators, instead of the last.", "DEVICE"),
    "reproject": _option(
        str | None, "--reproject", "Give operators the devices that their sources have in this model.", "MODEL"
    ),
    **COSTS,
    "memory": _repeated("--memory", "Memory limit of a device", "DEVICE=BYTES"),
    "min_size": _option(int, "--min-size", "Dissolve partitions with fewer operators than this.", "N", min=1),
    "limits": _repeated(
        "--limit", "A limit on a device's partitions, such as npu:max-partitions=4", "DEVICE:KIND=NUMBER"
    ),
    "keep_together": _repeated(
        "--keep-together",
        "Keep QUANTIZE and DEQUANTIZE, the users of a variable, or the users of large tensors together",
        "quantize|variables|BYTES",
    ),
    "mode": _option(Mode, "--mode", "The partitioning algorithm; see docs/affinity.md."),
}
