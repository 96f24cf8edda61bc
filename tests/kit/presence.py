"""Which runtimes and packages there are: not every one has a wheel for every version of Python.

Whatever is beyond the product's own dependencies, pytest and hypothesis is asked for here when it is used, so that
the tests can be collected without it. What leads here has the marker `runtime`.
"""

from __future__ import annotations

import inspect
import os
import platform
import re
import signal
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

_EXTRAS = {"costs": "scipy", "litert": "ai_edge_litert", "onert": "onert"}
_TESTS = Path(__file__).parents[1]
_OF_SYSTEMS = ("fcntl", "pty", "resource", "termios")
_OURS = ("tests", "fuzz", "benchmarks", "tools")


def have(module: str) -> bool:
    """Say whether a module is installed."""
    return find_spec(module) is not None


def need(module: str) -> None:
    """Skip the test where a module is not installed."""
    if not have(module):
        pytest.skip(
            f"{module} is not installed; not every version of it is there for Python {platform.python_version()}"
        )


def imported(module: str) -> ModuleType:
    """Return a module. The test is skipped where its package as it is installed here needs another system."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name in _OF_SYSTEMS:
            pytest.skip(f"{module} is installed here for a system with {error.name}")
        raise


def need_extra(text: str) -> None:
    """Skip the test if a command reports that an extra or a runtime is not installed."""
    for extra in re.findall(r"pip install 'circletools\[(\w+)\]'|\b(litert|onert) is not installed", text):
        module = _EXTRAS["".join(extra)]
        need(module)
        imported(module)


def missing(error: BaseException | None) -> str | None:
    """Return the package that is not installed and that an error comes of."""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name and not have(error.name.partition(".")[0]):
            return error.name
        error = error.__cause__ or error.__context__
    return None


def lacking(error: BaseException) -> str | None:
    """Return the call of the operating system, or the module for it, that a test itself needs and that is not there.

    What the product asks for and does not find is not a reason: it has to do without.
    """
    trace = error.__traceback__
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    asking = [file for file in files if not file.startswith("<frozen")][-1:]
    if not asking or not Path(asking[0]).is_relative_to(_TESTS):
        return None
    if isinstance(error, ModuleNotFoundError) and error.name in _OF_SYSTEMS:
        return error.name
    if isinstance(error, AttributeError) and error.obj in (os, signal):
        return f"{error.obj.__name__}.{error.name}"
    return None


def not_imported(text: str) -> str | None:
    """Return the module for calls of the operating system that is not there, of what a failed import says."""
    found = re.search(r"No module named '(\w+)'|import of (\w+) halted", text)
    name = found and (found[1] or found[2])
    return name if name in _OF_SYSTEMS else None


class Lazy:
    """A module that is imported at its first use, where the test is skipped if its package is not installed."""

    def __init__(self, name: str, package: str = "") -> None:
        self._name, self._package = name, package or name.partition(".")[0]

    def __getattr__(self, attribute: str) -> Any:
        """Return what the module has."""
        if attribute.startswith(("_", "pytest")):  # which pytest asks of whatever it finds
            raise AttributeError(attribute)
        need(self._package)
        return getattr(imported(self._name), attribute)


def needs_more(values: list[object]) -> bool:
    """Say whether one of these functions may come to `need`, by the names in their code and what they call."""
    seen: set[int] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value is need or isinstance(value, Lazy):
            return True
        if id(value) not in seen:
            seen.add(id(value))
            pending += _within(value)
    return False


def _within(value: object) -> Iterable[object]:
    """Return what of ours a value leads to."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, list | tuple | set | frozenset):
        return value
    if isinstance(value, type):
        return vars(value).values() if value.__module__.startswith(_OURS) else ()
    if type(value).__module__.startswith(_OURS):
        return [type(value)]
    value = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
    value = getattr(getattr(value, "hypothesis", None), "inner_test", value)
    found = inspect.unwrap(value) if callable(value) else value
    return _named(found) if isinstance(found, FunctionType) and found.__module__.startswith(_OURS) else ()


def _named(function: FunctionType) -> list[object]:
    names, known = _names(function.__code__), function.__globals__
    values = [known[name] for name in names if name in known]
    modules = [value for value in values if isinstance(value, ModuleType) and value.__name__.startswith(_OURS)]
    return [*values, *(vars(module)[name] for module in modules for name in names if name in vars(module))]


@cache
def _names(code: CodeType) -> frozenset[str]:
    inner: Iterator[frozenset[str]] = (_names(one) for one in code.co_consts if isinstance(one, CodeType))
    return frozenset(code.co_names).union(*inner)
