"""The options of the commands for affinity, by the fields of the requests that they fill."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import circletools as ct

Command = Callable[..., None]


def filling(request: type[ct.CostRequest], options: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Let a command take options in place of its parameter `request`.

    `options` has the type of each option by the field of `request` that it fills, whose default it has.
    """
    defaults = {field.name: None if field.default == () else field.default for field in fields(request)}
    made = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
        for name, annotation in options.items()
    ]

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(*arguments: Any, **given: Any) -> None:
            filled = {name: given.pop(name, None) for name in options}
            values: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in filled.items()
                if value is not None
            }
            command(*arguments, request=request(**values), **given)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command, eval_str=True).parameters.values():
            parameters += made if parameter.name == "request" else [parameter.replace(kind=parameter.KEYWORD_ONLY)]
        vars(run)["__signature__"] = inspect.Signature(parameters)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _names(devices: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in devices.split(","))


TRANSFERS = {
    "costs": Annotated[
        Path | None,
        typer.Option("--costs", metavar="FILE", help="Times on each device (JSON); minimise the total time."),
    ],
    "traces": Annotated[
        list[str] | None,
        typer.Option(
            "--trace", metavar="DEVICE=TRACE", help="Times on a device, from an operator trace; may be repeated."
        ),
    ],
    "copy_rate": Annotated[
        float,
        typer.Option(
            "--copy-rate", metavar="BYTES_PER_US", min=1e-9, help="Bandwidth for transfers not listed in --costs."
        ),
    ],
    "copy_overhead": Annotated[
        float,
        typer.Option("--copy-overhead", metavar="US", min=0, help="Overhead of transfers not listed in --costs."),
    ],
}
"""Where the times of operators and transfers come from."""
COSTS = {
    **TRANSFERS,
    "launch": Annotated[
        float,
        typer.Option(
            "--launch", metavar="US", min=0, help="Launch time of partitions on devices without one in --costs."
        ),
    ],
}
PLANNING = {
    "devices": Annotated[
        Any,
        typer.Option(
            "--devices", parser=_names, metavar="A,B,C", help="The devices, the preferred first, as in npu,gpu,cpu."
        ),
    ],
    "rules_file": Annotated[
        Path | None,
        typer.Option("--rules", metavar="FILE", help="Rules: JSON, or a .part file of circle-partitioner."),
    ],
    "rules": Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SELECTOR=DEVICE", help="A rule, as in op:CONV_2D=npu; may be repeated."),
    ],
    "capabilities": Annotated[
        list[str] | None,
        typer.Option(
            "--capabilities",
            metavar="[DEVICE=]TABLE",
            help="Operators that a device supports: FILE.json or a built-in table; may be repeated.",
        ),
    ],
    "default": Annotated[
        str | None, typer.Option("--default", metavar="DEVICE", help="The device of all remaining operators.")
    ],
    "min_size": Annotated[
        int,
        typer.Option(
            "--min-size", metavar="N", min=1, help="Move partitions of fewer operators to the default or last device."
        ),
    ],
    "mode": Annotated[
        Literal["seed", "safe", "min", "epochs"],
        typer.Option("--mode", help="Partitioning algorithm; see docs/affinity.md."),
    ],
    "reproject": Annotated[
        str | None,
        typer.Option(
            "--reproject",
            metavar="MODEL",
            help="Give operators the devices that their sources have in MODEL, which was annotated before.",
        ),
    ],
    **COSTS,
    "parallel": Annotated[
        bool, typer.Option("--parallel", help="Minimise the makespan with devices running in parallel.")
    ],
    "memory": Annotated[
        list[str] | None,
        typer.Option("--memory", metavar="DEVICE=BYTES", help="Memory limit of a device; may be repeated."),
    ],
    "explain": Annotated[bool, typer.Option("--explain", help="Show why each operator is on its device.")],
}
WHAT_IF = {
    **PLANNING,
    "what_if": Annotated[
        list[str] | None,
        typer.Option(
            "--what-if", metavar="SELECTOR=DEVICE", help="Compare with operators moved to a device; may be repeated."
        ),
    ],
}
