"""A function of another program, wrapped for as long as something is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextmanager
def patched(owner: Any, name: str, wrap: Wrap) -> Iterator[None]:
    """Replace an attribute of a module or class by what `wrap` makes of it, and put it back at the end."""
    original = getattr(owner, name)
    setattr(owner, name, wraps(original)(wrap(original)))
    try:
        yield
    finally:
        setattr(owner, name, original)
