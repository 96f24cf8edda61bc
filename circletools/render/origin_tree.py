"""Origins as a tree of modules: the parts of their paths, and in each the sources with their operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from circletools.origin.describe import OriginTable
from circletools.origin.modules import modules_of
from circletools.origin.source import SourceDetails
from circletools.render.origins import operator_label
from circletools.render.table import table_text
from circletools.wording import counted

_HEAD = ("module", "operators", "class or line")


@dataclass(slots=True)
class _Module:
    class_name: str = ""
    below: dict[str, _Module] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)
    operators: set[tuple[int, int]] = field(default_factory=set)


def origins_tree(table: OriginTable, depth: int | None = None) -> Iterator[str]:
    """Yield the modules with how many operators came from each, down to the sources, or to `depth` parts of a path.

    Nothing without origins. A module has its class, a source the line that called it and its operators.
    """
    top = _Module()
    for source, operators in table.by_source.items():
        details = table.origins.details_of(source)
        for path in modules_of(table.origins.sources[source], details):
            module = top
            for part in _parts(path, details)[:depth]:
                module = module.below.setdefault(part, _Module())
                module.operators.update(operators)
            if depth is None:
                module.class_name = details.class_name
                module.sources.append(source)
    rows = list(_rows(table, top))
    yield from table_text([_HEAD, *rows]) if rows else ()


def _parts(path: str, details: SourceDetails) -> list[str]:
    """Return the parts of a path: of instances by dots, of scopes by slashes; a class is one."""
    return path.split("/" if "/" in path or not details.path else ".")


def _rows(table: OriginTable, top: _Module) -> Iterator[tuple[str, str, str]]:
    several = table.subgraph_count > 1
    waiting = [(0, name, module) for name, module in reversed(top.below.items())]
    while waiting:
        level, name, module = waiting.pop()
        yield "  " * level + name, counted(len(module.operators), "operator"), module.class_name
        for source in module.sources:
            details = table.origins.details_of(source)
            operators = (operator_label(*one, several) for one in table.by_source[source])
            called = table.origins.sources[source].rpartition("::")[2].rpartition("/")[2]
            yield "  " * (level + 1) + called, " ".join(operators) or "(none)", details.place
        waiting += [(level + 1, part, below) for part, below in reversed(module.below.items())]
