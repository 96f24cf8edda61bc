"""Temporary wrappers around functions of another package, for recording.

Recording must never break a conversion: a failure here is a single warning, and the record stays empty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

T = TypeVar("T")
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Note = Callable[..., None]


class Guard:
    """Keeps failures of recording away from the recorded exporter; the first failure sets `failed`."""

    def __init__(self, package: str) -> None:
        self.package, self.failed = package, False

    def run(self, note: Callable[[], T], otherwise: T) -> T:
        """Return the result of `note`, or `otherwise` if it fails."""
        try:
            return note()
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
            return otherwise

    def fail(self, reason: str) -> None:
        """Warn once."""
        if not self.failed:
            try:
                found = version(self.package)
            except PackageNotFoundError:
                found = "of an unknown version"
            hint = "the conversion is not affected; see docs/origins.md for the versions that are tried"
            warnings.warn(f"origins of {self.package} {found} are not recorded ({reason}); {hint}", stacklevel=2)
        self.failed = True

    def attribute(self, module: str, *names: str) -> Any:
        """Look these names up in a module; None, with a warning, if one is missing."""

        def find() -> Any:
            found = import_module(module)
            for name in names:
                found = getattr(found, name)
            return found

        return self.run(find, None)

    @contextmanager
    def patched(self, owner: Any, name: str, wrap: Wrap, *, required: bool = True) -> Iterator[None]:
        """Replace an attribute of a module or class by `wrap(attribute)`, and restore it at the end."""
        original = getattr(owner, name, None)
        if original is None:
            if owner is not None and required:
                self.fail(f"it has no {getattr(owner, '__name__', owner)}.{name}")
            yield
            return
        setattr(owner, name, wraps(original)(wrap(original)))
        try:
            yield
        finally:
            setattr(owner, name, original)

    def observed(
        self, owner: Any, name: str, before: Note | None = None, after: Note | None = None
    ) -> AbstractContextManager[None]:
        """Call `before` with the arguments of a function, and `after` with its result."""

        def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
            def observing(*args: Any, **kwargs: Any) -> Any:
                if before is not None:
                    self.run(lambda: before(*args, **kwargs), None)
                result = function(*args, **kwargs)
                if after is not None:
                    self.run(lambda: after(result), None)
                return result

            return observing

        return self.patched(owner, name, wrap)
