"""Options of the affinity commands, by the request fields that they set."""

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
    """Replace the parameter `request` of a command by options.

    `options` maps fields of `request` to option types; the defaults are those of the fields.
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
    "costs": _option(Path | None, "--costs", "Times on each device (JSON); minimize the total time.", "FILE"),
    "traces": _repeated("--trace", "Times on a device, from an operator trace", "DEVICE=TRACE"),
    "copy_rate": _option(
        float, "--copy-rate", "Bandwidth of copies between devices, if not in --costs.", "BYTES_PER_US", min=1e-9
    ),
}
"""Options for the times of operators and copies."""
PLANNING = {
    "devices": _option(
        Any, "--devices", "Devices, the preferred first; the last gets all other operators.", "A,B,C", parser=listed
    ),
    "capabilities": _repeated(
        "--capabilities", "Operators that a device supports: FILE.json or a built-in table", "[DEVICE=]TABLE"
    ),
    "rules": _repeated("--set", "A rule, as in op:CONV_2D=npu", "SELECTOR=DEVICE"),
    "rules_file": _option(Path | None, "--rules", "Rules: JSON, or a .part file of circle-partitioner.", "FILE"),
    "allow_unmatched": _option(bool, "--allow-unmatched", "A rule that matches nothing is a warning, not an error."),
    "default": _option(str | None, "--default", "The device of all remaining operators, if not the last.", "DEVICE"),
    "reproject": _option(
        str | None,
        "--reproject",
        "Give operators the devices that their sources have in this annotated model.",
        "MODEL",
    ),
    **COSTS,
    "memory": _repeated("--memory", "Memory limit of a device", "DEVICE=BYTES"),
    "min_size": _option(int, "--min-size", "Minimum operators per partition; smaller ones move away.", "N", min=1),
    "limits": _repeated(
        "--limit", "Limit on a device's partitions, as in npu:max-partitions=4", "DEVICE:KIND=NUMBER"
    ),
    "keep_together": _repeated(
        "--keep-together",
        "Keep together QUANTIZE and DEQUANTIZE, users of a variable, or producers and readers of large tensors",
        "quantize|variables|BYTES",
    ),
    "mode": _option(Mode, "--mode", "Partitioning algorithm; see docs/affinity.md."),
}
WHAT_IF = PLANNING | {
    "what_if": _repeated("--what-if", "Compare with operators moved to a device", "SELECTOR=DEVICE")
}
