"""Import other packages and wrap their functions temporarily, for recording.

Recording must never break a conversion: a failure here causes a single warning and leaves the record empty.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import reduce, wraps
from importlib import import_module
from importlib.metadata import packages_distributions, version
from typing import Any, TypeVar

from circletools.errors import UsageError

T = TypeVar("T")
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]
Note = Callable[..., None]


def imported(name: str, what: str) -> Any:
    """Import a package that `what` needs. Raises UsageError if it is not installed."""
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{what} needs {name}: {error}", hint=f"pip install {name}") from error


def _with_version(module: str) -> str:
    installed = packages_distributions().get(module, ())
    return next((f"{one} {version(one)}" for one in installed), f"{module} (unknown version)")


class Guard:
    """A guard that keeps failures of the recording from reaching the exporter; the first failure sets `failed`."""

    def __init__(self, exporter: str) -> None:
        self.exporter, self.failed = exporter, False

    def run(self, note: Callable[[], T], otherwise: T) -> T:
        """Return the result of `note`, or `otherwise` if it fails."""
        try:
            return note()
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")
            return otherwise

    def fail(self, reason: str, lost: str = "origins") -> None:
        """Warn once about the loss; the record stays empty if `origins` are lost."""
        if not self.failed:
            used = " with ".join(map(_with_version, (self.exporter, "torch")))
            hint = "the conversion is not affected; docs/origins.md lists the versions to use"
            warnings.warn(f"{lost} are not recorded from {used} ({reason}); {hint}", stacklevel=2)
        self.failed |= lost == "origins"

    def attribute(self, module: str, *names: str, optional: str = "") -> Any:
        """Look up names in a module; return None if one is missing, and warn unless the module is `optional`."""

        def find() -> Any:
            try:
                return reduce(getattr, names, import_module(module))
            except ModuleNotFoundError as error:
                if error.name == optional:
                    return None
                raise

        return self.run(find, None)

    @contextmanager
    def patched(self, owner: Any, name: str, wrap: Wrap, lost: str = "origins") -> Iterator[None]:
        """Replace an attribute of a module or class with `wrap(attribute)` and restore it at the end."""
        original = getattr(owner, name, None)
        if original is None:
            if owner is not None:
                self.fail(f"there is no {getattr(owner, '__name__', owner)}.{name}", lost)
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
