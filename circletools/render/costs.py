"""Estimated times and memory as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import ceil
from typing import Any

from circletools.affinity.costs.table import Estimate
from circletools.planning.evaluate import Evaluation, Transfers
from circletools.wording import counted


def evaluation_json(found: Evaluation, devices: Sequence[str], caps: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields that costs add to a subgraph; empty without costs."""
    entry: dict[str, Any] = {}
    if found.estimate is not None:
        entry["estimate"] = estimate_json(found.estimate)
        if found.least_us is not None:
            entry |= {"least_us": found.least_us, "is_optimal": found.excess == 0}
    if found.memory is not None:
        entry["memory"] = [
            {"device": device, **asdict(used), "total_bytes": used.total_bytes, "cap_bytes": caps.get(number)}
            for number, (device, used) in enumerate(zip(devices, found.memory, strict=True))
        ]
    return entry


def evaluation_text(found: Evaluation, devices: Sequence[str], caps: Mapping[int, int]) -> Iterator[str]:
    """Yield the costs of a subgraph as lines."""
    if found.estimate is not None:
        yield f"estimated time: {estimate_text(found.estimate)}{_proof(found)}"
    for number, used in enumerate(found.memory or ()):
        of = f" of {caps[number]}" if number in caps else ""
        yield (
            f"memory of {devices[number]}: {used.total_bytes}{of} bytes "
            f"({used.constants_bytes} of constants, {used.activations_bytes} of tensors)"
        )


def _proof(found: Evaluation) -> str:
    """Return the optimality gap of the estimate as text."""
    if found.excess is None:
        return ""
    return ", optimal" if found.excess == 0 else f", within {ceil(found.excess * 10_000) / 100:g} % of the minimum"


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON."""
    return {"total_us": estimate.total_us, **asdict(estimate)}


def estimate_text(estimate: Estimate) -> str:
    """Return the cost of an assignment as one line."""
    count = estimate.operators_without_time
    untimed = f"; {counted(count, 'operator')} without a time" if count else ""
    brought = f", constants {estimate.constants_us:.3f}" if estimate.constants_us else ""
    return (
        f"{estimate.total_us:.3f} us (operators {estimate.operators_us:.3f}, copies {estimate.copies_us:.3f}, "
        f"launches {estimate.launches_us:.3f}{brought}{untimed})"
    )


def transfers_text(sums: Transfers) -> str:
    """Return the transfers between partitions as one line."""
    unknown = f" and {sums.copies_of_unknown_size} of unknown size" if sums.copies_of_unknown_size else ""
    return (
        f"{counted(sums.launches, 'launch', 'launches')}, {counted(len(sums.cuts), 'tensor')} cut, "
        f"{counted(sums.copies, 'copy', 'copies')} between devices ({sums.copied_bytes} bytes{unknown})"
    )
