"""Origins as a tree of modules, one level for each part of a path, with their sources and operators."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from circletools.origin.describe import OriginTable
from circletools.origin.modules import ROOT, module_tree
from circletools.render.origins import operator_label
from circletools.render.table import table_text
from circletools.wording import counted

_HEAD = ("module", "operators", "class or line")


def origins_tree(table: OriginTable, depth: int | None = None) -> Iterator[str]:
    """Yield the modules and their numbers of operators, down to the sources or to `depth` parts of a path.

    Yields nothing if there are no origins. Modules are shown with their class, sources with their line and operators.
    """
    shown = {source: table.origins.sources[source] for source in table.by_source}
    tree = module_tree(replace(table.origins, sources=shown), depth)
    sources: list[list[int]] = [[] for _ in tree.parents]
    operators: list[set[tuple[int, int]]] = [set() for _ in tree.parents]
    for source, places in table.by_source.items():
        for module in tree.of_source[source]:
            sources[module].append(source)
        for module in tree.around([source]):
            operators[module].update(places)
    levels: dict[int, int] = {ROOT: -1}
    rows = []
    for module, parent in enumerate(tree.parents):
        levels[module] = levels[parent] + 1
        classes = [table.origins.details_of(source).class_name for source in sources[module]] if depth is None else []
        label = "  " * levels[module] + tree.labels[module].lstrip("./:")
        rows.append((label, counted(len(operators[module]), "operator"), next(filter(None, classes), "")))
        rows += [_source(table, source, levels[module] + 1) for source in sources[module]] if depth is None else []
    yield from table_text([_HEAD, *rows]) if rows else ()


def _source(table: OriginTable, source: int, level: int) -> tuple[str, str, str]:
    labels = (operator_label(*one, table.subgraph_count > 1) for one in table.by_source[source])
    called = table.origins.sources[source].rpartition("::")[2].rpartition("/")[2]
    return "  " * level + called, " ".join(labels) or "(none)", table.origins.details_of(source).place
