"""Compare the origins of two models: the sources that each operator gained and lost, by name."""

from __future__ import annotations

from collections.abc import Iterator

from circletools.diff.alignment import Indices
from circletools.diff.comparison import ModelComparison
from circletools.diff.tolerance import between, freshness_of, read_or_note
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference
from circletools.origin.read import Origins, check_freshness, read_origins


def origin_differences(comparison: ModelComparison, notes: list[Finding]) -> Iterator[Difference]:
    """Yield the differences of origins: sources by id, then the names of each operator's sources.

    If only one model has origins, that is the only difference. A table that cannot be decoded counts as missing; its
    bytes are compared as a metadata entry.
    """
    models = comparison.before, comparison.after
    old, new = (read_or_note(read_origins, model, "origins", notes) for model in models)
    if old is None or new is None:
        if old is not new:
            yield between("origins", *(None if one is None else _counted(one) for one in (old, new)))
        return
    states = [freshness_of(check_freshness, model, one) for model, one in zip(models, (old, new), strict=True)]
    if states[0] != states[1]:
        yield between("origins.freshness", *states)
    yield from _sources(old, new)
    yield from _operators(comparison, old, new)


def _counted(origins: Origins) -> dict[str, int]:
    return {"sources": len(origins.sources), "operators": sum(map(len, origins.operators))}


def _sources(old: Origins, new: Origins) -> Iterator[Difference]:
    if old.sources == new.sources:
        return
    for source in sorted(old.sources.keys() | new.sources.keys()):
        names = old.sources.get(source), new.sources.get(source)
        if names[0] != names[1]:
            yield between(f"origins.sources[{source}]", *names)


def _operators(comparison: ModelComparison, old: Origins, new: Origins) -> Iterator[Difference]:
    found, subgraphs = comparison.operators, comparison.subgraphs
    same_names = old.sources == new.sources
    columns = subgraphs.before[found.rows], found.before, subgraphs.after[found.rows], found.after
    for ours, before, theirs, after in zip(*(column.tolist() for column in columns), strict=True):
        if same_names and old.of(ours, before) == new.of(theirs, after):
            continue
        names = _names(old, ours, before), _names(new, theirs, after)
        if names[0] != names[1]:
            yield between((_path(ours, before), _path(theirs, after)), *names)
    for path, removed in _one_sided(old, subgraphs.before, found.removed):
        yield between(path, removed, None)
    for path, added in _one_sided(new, subgraphs.after, found.added):
        yield between(path, None, added)


def _one_sided(
    origins: Origins, subgraphs: Indices, which: tuple[Indices, Indices]
) -> Iterator[tuple[str, list[str]]]:
    """Yield path and origins of operators that only one model has."""
    for row, operator in zip(*(side.tolist() for side in which), strict=True):
        subgraph = int(subgraphs[row])
        names = _names(origins, subgraph, operator)
        if names:
            yield _path(subgraph, operator), names


def _names(origins: Origins, subgraph: int, operator: int) -> list[str]:
    return sorted(origins.sources[source] for source in origins.of(subgraph, operator))


def _path(subgraph: int, operator: int) -> str:
    return f"subgraphs[{subgraph}].operators[{operator}].origin"
