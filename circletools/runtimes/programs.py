"""The supported programs: their packages, and the choice of a Python in which a program is installed."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from dataclasses import dataclass
from typing import Literal

from circletools.errors import UnknownNameError
from circletools.wording import suggestion


@dataclass(frozen=True, slots=True)
class Program:
    """A program: the module to import, the distribution that provides it, and its variants.

    The first variant is the default. `limit` is the kind of memory to limit: the address space, or only data if
    drivers reserve more addresses than there is memory.
    """

    module: str
    distribution: str
    variants: tuple[str, ...]
    formats: tuple[str, ...] = ("tflite",)
    limit: Literal["AS", "DATA"] = "AS"


_ACCELERATORS = (
    "ethos-u55-128", "ethos-u55-32", "ethos-u55-64", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512",
    "ethos-u85-256", "ethos-u85-128", "ethos-u85-512", "ethos-u85-1024", "ethos-u85-2048",
)  # fmt: skip

PROGRAMS = {
    "litert": Program("ai_edge_litert", "ai-edge-litert", ("xnnpack", "builtin", "reference")),
    "litert-gpu": Program("ai_edge_litert", "ai-edge-litert", ("gpu",), limit="DATA"),
    "onert": Program("onert", "onert", ("cpu", "ruy", "xnnpack", "builtin"), ("tflite", "circle")),
    "openvino": Program("openvino", "openvino", ("CPU", "GPU", "NPU")),
    "vela": Program("ethosu", "ethos-u-vela", _ACCELERATORS),
    "tflm": Program("tflite_micro", "tflite-micro", ("default",), ("tflite", "circle")),
}


def named(name: str) -> tuple[str, str]:
    """Return the program and variant in `PROGRAM` or `PROGRAM:VARIANT`. Raises UsageError if either is unknown."""
    program, _, variant = name.partition(":")
    if program not in PROGRAMS:
        hint = suggestion(program, known() if "-" in program else PROGRAMS)
        raise UnknownNameError(f"no runtime or compiler is called {program!r}", hint=hint)
    variants = PROGRAMS[program].variants
    if variant and variant not in variants:
        raise UnknownNameError(f"{program} has no variant {variant!r}", hint=suggestion(variant, variants))
    return program, variant or variants[0]


def known() -> list[str]:
    """Return the supported programs, installed or not: `PROGRAM`, and `PROGRAM:VARIANT` if it has several.

    >>> "litert:reference" in ct.checks.programs()
    True
    """
    variants = {name: one.variants if len(one.variants) > 1 else () for name, one in PROGRAMS.items()}
    return [*PROGRAMS, *(f"{name}:{variant}" for name, them in variants.items() for variant in them)]


PROFILERS = ("litert", "onert", "openvino")
"""The programs whose packages have a profiler for operators."""


def variable(program: str) -> str:
    """Return the name of the environment variable for a program's Python."""
    return f"CIRCLETOOLS_{program.upper().replace('-', '_')}_PYTHON"


def command(program: str) -> list[str]:
    """Return the command for a Python that has this program: this Python, or the one in the environment variable.

    Raises UsageError if this Python does not have the program.
    """
    chosen = shlex.split(os.environ.get(variable(program), ""))
    if not chosen and importlib.util.find_spec(PROGRAMS[program].module) is None:
        raise not_installed(program)
    return chosen or [sys.executable]


def not_installed(program: str, reason: str = "") -> UnknownNameError:
    """Return the error for a program that is not installed."""
    message = f"{program} is not installed" + f": {reason}" * bool(reason)
    hint = f"pip install {PROGRAMS[program].distribution}, or name a Python that has it in {variable(program)}"
    return UnknownNameError(message, hint=hint)
