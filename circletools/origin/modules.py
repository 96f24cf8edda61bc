"""The modules that sources belong to, as one tree for everything that lists or aggregates modules.

    layers.0.attn.q             layers > 0 > attn > q     the path of an instance, from the details of a source
    /net_0.25/attn/             net_0.25 > attn           only a path without slashes is split at dots
    layers::0::attn             layers > 0 > attn         one module may be written with several separators
    net.Attention::linear_2     net > Attention           a name without a path: the part before `::` or `/`
    model/dense/MatMul;model/dense/BiasAdd                a converter joins the names of fused operators with `;`

A module that contains only one other module is merged with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from circletools.origin.grammar import LONGEST, parts_of
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails

_DOTTED, _SLASHED = (re.compile(rf"(?:{one})*((?:(?!{one}).)+)", re.DOTALL) for one in (r"::|\.", "::|/"))
_SEPARATORS = re.compile(r"[./]+")
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
    start: int = 0
    below: list[_Branch] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)


def module_tree(origins: Origins, depth: int | None = None) -> ModuleTree:
    """Return the tree of the modules of sources, with paths truncated to `depth` parts."""
    top, known = _Branch(), dict[str, _Branch]()
    for source, name in sorted(origins.sources.items()):
        for modules in modules_of(name, origins.details_of(source)):
            paths = [module.path for module in modules[:depth]]
            keys = [_SEPARATORS.sub("/", path.replace("::", "/")).strip("/") or path for path in paths]
            first = max((at for at, key in enumerate(keys, 1) if key in known), default=0)
            branch = known[keys[first - 1]] if first else top
            for key, module in zip(keys[first:], modules[first:depth], strict=True):
                known[key] = _Branch(module.path, module.start)
                branch.below.append(known[key])
                branch = known[key]
            branch.sources.append(source)
    tree = ModuleTree()
    waiting = [(ROOT, branch) for branch in reversed(top.below)]
    while waiting:
        parent, branch = waiting.pop()
        start = branch.start
        while len(branch.below) == 1 and not branch.sources:
            (branch,) = branch.below
        row = len(tree.parents)
        tree.parents.append(parent)
        tree.paths.append(branch.path)
        tree.labels.append(branch.path[start:])
        for source in dict.fromkeys(branch.sources):
            tree.of_source.setdefault(source, []).append(row)
        waiting += [(row, below) for below in reversed(branch.below)]
    return tree


class Module(NamedTuple):
    """A module in a path: its name, the path up to its end, and where the separators before it start."""

    name: str
    path: str
    start: int


def modules_of(name: str, details: SourceDetails) -> list[list[Module]]:
    """Return the modules of each path of a source, the outermost first.

    The paths are from its details or its name; a name without a path is a module.
    """
    if details.path:
        return [_modules(details.path, details.path)]
    return [_modules(part, _scope(part)) for part in parts_of(name)] or [_modules(name, name)]


def _scope(path: str) -> str:
    end = max(path.rfind("::"), path.rfind("/"))
    return path[:end] if end > 0 else path


def _modules(name: str, path: str) -> list[Module]:
    """Return the modules in a path, which `name` begins with; the 24th is the whole remainder."""
    pattern, most = _SLASHED if "/" in name else _DOTTED, _MOST_PARTS if len(path) <= LONGEST else 0
    matches = [*islice(pattern.finditer(path), most)]
    found = [Module(match[1], path[: match.end()], match.start()) for match in matches]
    if len(found) == _MOST_PARTS:
        found[-1] = Module(path[matches[-1].start(1) :], path, matches[-1].start())
    return found or [Module(path, path, 0)]


def split(total: int, count: int) -> list[int]:
    """Divide `total` into `count` parts that differ by at most 1, the larger ones first."""
    part, rest = divmod(total, count)
    return [part + (position < rest) for position in range(count)]
