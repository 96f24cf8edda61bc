"""Estimated times, makespans and memory as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from circletools.affinity.costs.evaluate import Estimate
from circletools.affinity.transfers import Transfers
from circletools.planning.evaluate import Evaluation
from circletools.wording import counted


def evaluation_json(found: Evaluation, devices: Sequence[str], caps: Mapping[int, int]) -> dict[str, Any]:
    """Return the fields that costs add to a subgraph; none where no costs are known."""
    entry: dict[str, Any] = {}
    if found.estimate is not None:
        entry["estimate"] = estimate_json(found.estimate)
    if found.parallel is not None:
        entry["parallel"] = {
            "makespan_us": found.parallel.makespan_us,
            "partitions_makespan_us": found.parallel.partitions_makespan_us,
            **asdict(found.parallel.bounds),
            "lower_bound_us": found.parallel.bounds.least_us,
        }
    if found.memory is not None:
        entry["memory"] = [
            {
                "device": devices[number],
                **asdict(used),
                "total_bytes": used.total_bytes,
                "cap_bytes": caps.get(number),
            }
            for number, used in enumerate(found.memory)
        ]
    return entry


def evaluation_text(found: Evaluation, devices: Sequence[str], caps: Mapping[int, int]) -> Iterator[str]:
    """Yield what costs tell of a subgraph, in lines."""
    if found.estimate is not None:
        yield f"estimated time: {estimate_text(found.estimate)}"
    if found.parallel is not None:
        yield (
            f"devices in parallel: {found.parallel.makespan_us:.3f} us by operators, "
            f"{found.parallel.partitions_makespan_us:.3f} us by partitions; "
            f"at least {found.parallel.bounds.least_us:.3f} us"
        )
    for number, used in enumerate(found.memory or ()):
        of = f" of {caps[number]}" if number in caps else ""
        yield (
            f"memory of {devices[number]}: {used.total_bytes}{of} bytes "
            f"({used.constants_bytes} of constants, {used.activations_bytes} of tensors)"
        )


def estimate_json(estimate: Estimate) -> dict[str, Any]:
    """Return an estimate as JSON."""
    return {
        "total_us": estimate.total_us,
        "operators_us": estimate.operators_us,
        "copies_us": estimate.copies_us,
        "launches_us": estimate.launches_us,
        "operators_without_time": estimate.untimed,
    }


def estimate_text(estimate: Estimate) -> str:
    """Say what an assignment costs in one line."""
    untimed = f"; {counted(estimate.untimed, 'operator')} without a time" if estimate.untimed else ""
    return (
        f"{estimate.total_us:.3f} us (operators {estimate.operators_us:.3f}, copies {estimate.copies_us:.3f}, "
        f"launches {estimate.launches_us:.3f}{untimed})"
    )


def transfers_json(sums: Transfers) -> dict[str, Any]:
    """Return what crosses between partitions as JSON."""
    return {
        "launches": sums.launches,
        "copies": sums.copies,
        "copied_bytes": sums.copied_bytes,
        "copies_of_unknown_size": sums.unsized,
        "cuts": [
            {
                "tensor_index": cut.tensor,
                "name": cut.name,
                "producer_partition": cut.producer,
                "consumer_partitions": cut.consumers,
                "copies": cut.devices,
                "size_bytes": cut.size_bytes,
            }
            for cut in sums.cuts
        ],
    }


def transfers_text(sums: Transfers) -> str:
    """Say what crosses between partitions in one line."""
    unsized = f" and {sums.unsized} of unknown size" if sums.unsized else ""
    return (
        f"{counted(sums.launches, 'launch', 'launches')}, {counted(len(sums.cuts), 'tensor')} cut, "
        f"{counted(sums.copies, 'copy', 'copies')} between devices ({sums.copied_bytes} bytes{unsized})"
    )
