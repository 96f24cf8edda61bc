"""The modules that sources belong to, as one tree for everything that lists or aggregates modules.

    layers.0.attn.q             layers > 0 > attn > q     the path of an instance, from the details of a source
    /layers/0/attn/             layers > 0 > attn         all separators are equivalent, also at the end
    net.Attention::linear_2     net > Attention           a name without a path: the part before `::` or `/`
    model/dense/MatMul;model/dense/BiasAdd                a converter joins the names of fused operators with `;`

A module that contains only one other module is merged with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from circletools.origin.grammar import parts_of
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails

_DIVIDERS = re.compile(r"::|[./]")
_MOST_PARTS = 24
ROOT = -1


@dataclass(slots=True)
class ModuleTree:
    """Modules as rows; each comes after its parent.

    `parents` are the rows of the parents (ROOT at the top); `paths` are as given by the sources; `labels` are their
    last parts with the separators before them. `of_source` holds the innermost modules of each source.
    """

    parents: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    of_source: dict[int, list[int]] = field(default_factory=dict)

    def upwards(self, row: int) -> Iterator[int]:
        """Yield a module and all modules around it, the outermost last."""
        while row != ROOT:
            yield row
            row = self.parents[row]

    def around(self, sources: Iterable[int]) -> set[int]:
        """Return all modules that contain one of the sources."""
        return {above for source in sources for row in self.of_source[source] for above in self.upwards(row)}

    def parent(self, row: int) -> str | None:
        """Return the path of a module's parent; None at the top."""
        return None if self.parents[row] == ROOT else self.paths[self.parents[row]]


@dataclass(slots=True)
class _Branch:
    path: str = ""
    below: dict[str, _Branch] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)


def module_tree(origins: Origins, depth: int | None = None) -> ModuleTree:
    """Return the tree of the modules of sources, with paths truncated to `depth` parts."""
    top = _Branch()
    for source, name in sorted(origins.sources.items()):
        for path in module_paths(name, origins.details_of(source)):
            branch = top
            for part, _, end in _parts(path)[:depth]:
                branch = branch.below.setdefault(part, _Branch(path[:end]))
            branch.sources.append(source)
    tree = ModuleTree()
    waiting = [(ROOT, 0, branch) for branch in reversed(top.below.values())]
    while waiting:
        parent, level, branch = waiting.pop()
        first = level
        while len(branch.below) == 1 and not branch.sources:
            (branch,) = branch.below.values()
            level += 1
        row = len(tree.parents)
        tree.parents.append(parent)
        tree.paths.append(branch.path)
        tree.labels.append(branch.path[_parts(branch.path)[first][1] :])
        for source in dict.fromkeys(branch.sources):
            tree.of_source.setdefault(source, []).append(row)
        waiting += [(row, level + 1, below) for below in reversed(branch.below.values())]
    return tree


def module_paths(name: str, details: SourceDetails) -> list[str]:
    """Return the paths of a source's modules, from its details or its name; a name without a path is a module."""
    found = [details.path] if details.path else [_scope(part) for part in parts_of(name)] or [name]
    return [path[: _parts(path)[-1][2]] for path in found]


def parts_of_path(path: str) -> list[str]:
    """Return the names of the modules in a path, the outermost first."""
    return [part for part, _, _ in _parts(path)]


def _scope(path: str) -> str:
    end = max(path.rfind("::"), path.rfind("/"))
    return path[:end] if end > 0 else path


def _parts(path: str) -> list[tuple[str, int, int]]:
    """Return each part of a path, the start of its separators, and its end; the 24th part is the whole remainder."""
    found: list[tuple[str, int, int]] = []
    start = before = 0
    for divider in _DIVIDERS.finditer(path):
        if divider.start() > start and len(found) < _MOST_PARTS - 1:
            found.append((path[start : divider.start()], before, divider.start()))
            before = divider.start()
        elif divider.start() > start:
            break
        start = divider.end()
    if start < len(path):
        found.append((path[start:], before, len(path)))
    return found or [(path, 0, len(path))]


def split(total: int, count: int) -> list[int]:
    """Divide `total` into `count` parts that differ by at most 1, the larger ones first."""
    part, rest = divmod(total, count)
    return [part + (position < rest) for position in range(count)]
