"""Shell completion of values, chosen by the metavar of an option or argument."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import typer

import circletools as ct


def _entries(ctx: typer.Context) -> Iterable[str]:
    with ct.open(ctx.params["source"] or ctx.args[0]) as model:  # the file may not be parsed yet
        return [entry.name for entry in model.metadata]


def _programs(ctx: typer.Context) -> Iterable[str]:
    return ct.checks.programs()


def _targets(ctx: typer.Context) -> Iterable[str]:
    return ct.affinity.shipped()


_OFFERS: Mapping[str, Callable[[typer.Context], Iterable[str]]] = {
    "CODE": lambda ctx: ct.checks.codes(),
    "DEVICE=PROGRAM": _programs,
    "NAME": _entries,
    "OLD=NEW": _entries,
    "PROGRAM": _programs,
    "RELEASE": lambda ctx: ct.checks.releases(),
    "TARGETS": _targets,
    "[DEVICE=]TABLE": _targets,
}


def completion_of(metavar: str | None) -> Callable[..., list[str]] | None:
    """Return the callback that completes values; after a comma or equals sign, it completes the next name."""
    names = _OFFERS.get((metavar or "").removesuffix(",..."))
    return None if names is None else lambda ctx, incomplete: _offered(names, ctx, incomplete)


def _offered(names: Callable[[typer.Context], Iterable[str]], ctx: typer.Context, incomplete: str) -> list[str]:
    end = max(incomplete.rfind(","), incomplete.rfind("=")) + 1
    try:
        return [incomplete[:end] + name for name in names(ctx) if name.startswith(incomplete[end:])]
    except (ct.CircleToolsError, LookupError):  # no model is given yet, or it cannot be read
        return []
