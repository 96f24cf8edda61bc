"""Which runtimes there are: not every one has a wheel for every version of Python."""

from __future__ import annotations

import platform
from importlib.util import find_spec

import pytest


def have(module: str) -> bool:
    """Say whether a module is installed."""
    return find_spec(module) is not None


def need(module: str) -> None:
    """Skip the test where a module is not installed."""
    if not have(module):
        pytest.skip(
            f"{module} is not installed; not every version of it is there for Python {platform.python_version()}"
        )
