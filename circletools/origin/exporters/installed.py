"""Imports packages that are needed only to read certain files."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from circletools.errors import UsageError


def imported(name: str, what: str) -> Any:
    """Import a package that `what` needs. Raises UsageError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{what} needs {name}: {error}", hint=f"pip install {name}") from error
