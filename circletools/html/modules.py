"""Sources as a tree of modules, by the parts of their names.

    torch.nn.modules.linear.Linear::linear    torch.nn.modules. > linear.Linear:: > linear
    model/dense/MatMul;model/dense/BiasAdd    model/dense/ > MatMul, BiasAdd

Names are divided after `.`, `::` and `/`; a converter joins the names of fused operators with `;`. A branch with
nothing but one branch below it is drawn as one with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from circletools.origin.source import SourceDetails
from circletools.profile.joining import split

_PARTS = re.compile(r"(?<=[./])(?=.)|(?<=::)(?=.)", re.DOTALL)
_MOST_PARTS = 24
ROOT = -1


@dataclass(slots=True)
class Modules:
    """The branches, each after the one that it belongs to.

    `parents` has the row of that one, ROOT at the top; `labels` the part of the name; `sources` the rows of the
    sources that end here.
    """

    parents: list[int] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    sources: list[list[int]] = field(default_factory=list)


@dataclass(slots=True)
class _Branch:
    below: dict[str, _Branch] = field(default_factory=dict)
    sources: list[int] = field(default_factory=list)


def module_tree(names: Iterable[str]) -> Modules:
    """Return the tree of the names; a source's row is the place of its name."""
    top = _Branch()
    for row, name in enumerate(names):
        for path in list(dict.fromkeys(filter(None, name.split(";")))) or [name]:
            branch = top
            for part in parts_of(path):
                branch = branch.below.setdefault(part, _Branch())
            branch.sources.append(row)
    modules = Modules()
    waiting = [(ROOT, label, branch) for label, branch in reversed(top.below.items())]
    while waiting:
        parent, label, branch = waiting.pop()
        while len(branch.below) == 1 and not branch.sources:
            ((part, branch),) = branch.below.items()
            label += part
        own = len(modules.parents)
        modules.parents.append(parent)
        modules.labels.append(label)
        modules.sources.append(branch.sources)
        waiting += [(own, part, below) for part, below in reversed(branch.below.items())]
    return modules


def name_in_tree(name: str, details: SourceDetails) -> str:
    """Return the name of a source behind the path of its module, where it does not begin with that."""
    return name if name.startswith(details.path) else f"{details.path}::{name}"


def parts_of(path: str) -> list[str]:
    """Divide a path into parts, which joined give the path; the last holds what is beyond the 24th."""
    return _PARTS.split(path, _MOST_PARTS - 1)


def _branches(modules: Modules) -> dict[int, list[int]]:
    """Return the branches that each source ends in."""
    found: dict[int, list[int]] = {}
    for branch, sources in enumerate(modules.sources):
        for source in sources:
            found.setdefault(source, []).append(branch)
    return found


def operators_below(modules: Modules, sets: Sequence[Sequence[int]], uses: Sequence[int]) -> list[int]:
    """Return for each branch how many operators come from sources in it.

    `sets` are rows of sources; `uses` is how many operators have each set.
    """
    above = _branches(modules)
    counts = [0] * len(modules.parents)
    for sources, used in zip(sets, uses, strict=True):
        found: set[int] = set()
        for source in sources:
            for branch in above.get(source, ()):
                at = branch
                while at != ROOT and at not in found:
                    found.add(at)
                    at = modules.parents[at]
        for branch in found:
            counts[branch] += used
    return counts


def time_below(modules: Modules, times: Mapping[int, int]) -> list[int]:
    """Return for each branch the time of the sources in it; `times` goes by row.

    The time of a source in several branches is shared out evenly, so that the branches at the top have all of it.
    """
    places = _branches(modules)
    totals = [0] * len(modules.parents)
    for source, time in times.items():
        for branch, share in zip(places[source], split(time, len(places[source])), strict=True):
            totals[branch] += share
    for branch in range(len(totals) - 1, -1, -1):
        if modules.parents[branch] != ROOT:
            totals[modules.parents[branch]] += totals[branch]
    return totals
