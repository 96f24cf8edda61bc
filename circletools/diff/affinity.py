"""Compare the affinity of two models: operators on other devices, and partitions with other operators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from circletools.affinity.tables import NONE, Affinity, check_freshness, read_affinity
from circletools.diff.alignment import Indices
from circletools.diff.comparison import ModelComparison
from circletools.diff.tolerance import between, freshness_of, read_or_note
from circletools.findings import Finding
from circletools.flatbuf.comparison import Difference
from circletools.wording import ranges


def affinity_differences(comparison: ModelComparison, notes: list[Finding]) -> Iterator[Difference]:
    """Yield the differences of affinity: devices, freshness, the device of each operator, partitions.

    If only one model has an affinity, that is the only difference.
    """
    models = comparison.before, comparison.after
    old, new = (read_or_note(read_affinity, model, "affinity", notes) for model in models)
    if old is None or new is None:
        if old is not new:
            yield between("affinity", *(None if one is None else {"devices": _devices(one)} for one in (old, new)))
        return
    states = [freshness_of(check_freshness, model, one) for model, one in zip(models, (old, new), strict=True)]
    for path, values in (("affinity.devices", [_devices(old), _devices(new)]), ("affinity.freshness", states)):
        if values[0] != values[1]:
            yield between(path, *values)
    subgraphs = comparison.subgraphs
    for row, pair in enumerate(zip(subgraphs.before.tolist(), subgraphs.after.tolist(), strict=True)):
        yield from _subgraph(comparison, old, new, row, pair)


def _devices(affinity: Affinity) -> list[str]:
    return [affinity.devices[device] for device in sorted(affinity.devices)]


def _subgraph(
    comparison: ModelComparison, old: Affinity, new: Affinity, row: int, pair: tuple[int, int]
) -> Iterator[Difference]:
    if pair[0] not in old.subgraphs and pair[1] not in new.subgraphs:
        return
    operators = comparison.operators
    first, end = np.searchsorted(operators.rows, [row, row + 1]).tolist()
    before, after = operators.before[first:end], operators.after[first:end]
    devices = _device_ids(old, pair[0], before), _device_ids(new, pair[1], after)
    other = devices[0] != devices[1] if old.devices == new.devices else np.ones(len(before), np.bool_)
    for index in np.flatnonzero(other).tolist():
        names = [one.devices.get(int(ids[index])) for one, ids in zip((old, new), devices, strict=True)]
        if names[0] != names[1]:
            places = (pair[0], before[index]), (pair[1], after[index])
            paths = (f"subgraphs[{subgraph}].operators[{operator}].device" for subgraph, operator in places)
            yield Difference("changed", *paths, *names)
    ours = _partitions(old, pair[0], None)
    theirs = _partitions(new, pair[1], dict(zip(after.tolist(), before.tolist(), strict=True)))
    for least in sorted(ours.keys() | theirs.keys()):
        found = [side.get(least, (None, None, None)) for side in (ours, theirs)]
        if found[0][1] != found[1][1]:
            known = [f"subgraphs[{at}].partitions[{one[0]}]" for at, one in zip(pair, found, strict=True) if one[2]]
            yield between((known[0], known[-1]), *(one[2] for one in found))


def _device_ids(affinity: Affinity, subgraph: int, operators: Indices) -> Indices:
    """Return the device id of each operator; NONE for operators beyond a (perhaps stale) table."""
    ids = np.full(len(operators), NONE, np.int64)
    if subgraph in affinity.subgraphs:
        known = affinity.subgraphs[subgraph].devices
        ids[operators < len(known)] = known[operators[operators < len(known)]]
    return ids


def _partitions(affinity: Affinity, subgraph: int, partner: Mapping[int, int] | None) -> dict[int, Any]:
    """Return number, identity and description of the partitions, by their lowest operator in the first model."""
    if subgraph not in affinity.subgraphs:
        return {}
    known, found = affinity.subgraphs[subgraph], {}
    for number in np.unique(known.partitions[known.partitions != NONE]).tolist():
        own = np.flatnonzero(known.partitions == number).tolist()
        members = {one if partner is None else partner.get(one, -1 - one) for one in own}  # negative: a new operator
        device = affinity.devices.get(int(known.devices[own[0]]))
        shown = {"device": device, "operators": ranges(own)}
        found[min(members, key=lambda one: (one < 0, one))] = number, (device, members), shown
    return found
