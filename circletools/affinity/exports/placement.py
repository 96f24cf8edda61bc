"""What every export starts from: the affinity of the model as it is, by name; and what flows between operators."""

from __future__ import annotations

from dataclasses import dataclass

from circletools.affinity.store import Affinity, check_freshness, read_affinity
from circletools.affinity.tables import NONE
from circletools.errors import EditError, ModelFormatError
from circletools.model import Model

ANNOTATE = "annotate-affinity"


@dataclass(frozen=True, slots=True)
class Flow:
    """A tensor that one operator makes and another reads."""

    tensor: int
    producer: int
    reader: int


def current_affinity(model: Model) -> Affinity:
    """Return the affinity in a model. Raises EditError where there is none, or it is no longer true."""
    affinity = read_affinity(model)
    if affinity is None:
        raise EditError("the model has no affinity", hint=f"{ANNOTATE} adds it")
    if not model.subgraphs:
        raise EditError("the model has no subgraph")
    freshness = check_freshness(model, affinity)
    if freshness.state == "stale":
        message = f"the affinity is stale from here on: {freshness.reason}"
        raise EditError(message, location=freshness.place, hint=f"run {ANNOTATE} again")
    return affinity


def devices_of(model: Model, affinity: Affinity, subgraph: int) -> list[str | None]:
    """Return the device of each operator of a subgraph, None where it has none."""
    known = affinity.subgraphs.get(subgraph)
    if known is None:
        return [None] * len(model.subgraphs[subgraph].operators)
    return [None if device == NONE else affinity.devices[device] for device in known.devices.tolist()]


def partitions_of(model: Model, affinity: Affinity, subgraph: int) -> list[int | None]:
    """Return the partition of each operator of a subgraph, None where it has none."""
    known = affinity.subgraphs.get(subgraph)
    if known is None:
        return [None] * len(model.subgraphs[subgraph].operators)
    return [None if partition == NONE else partition for partition in known.partitions.tolist()]


def every_device_of(model: Model, affinity: Affinity, subgraph: int, why: str) -> list[str]:
    """Return the device of each operator of a subgraph. Raises EditError, with `why`, where one has none."""
    devices = []
    for index, device in enumerate(devices_of(model, affinity, subgraph)):
        if device is None:
            raise EditError(f"the operator has no device; {why}", location=at(subgraph, index), hint=ANNOTATE)
        devices.append(device)
    return devices


def at(subgraph: int, operator: int) -> str:
    """Return the path of an operator."""
    return f"subgraphs[{subgraph}].operators[{operator}]"


def flows(model: Model, subgraph: int) -> list[Flow]:
    """Return who feeds whom, by reader. Raises ModelFormatError for a tensor that does not exist."""
    operators, count = model.subgraphs[subgraph].operators, len(model.subgraphs[subgraph].tensors)
    producer: dict[int, int] = {}
    found = []
    for operator in operators:
        for tensor in (*operator.inputs, *operator.outputs):
            if not -1 <= tensor < count:
                raise ModelFormatError(f"tensor {tensor} does not exist", location=at(subgraph, operator.index))
        producer |= dict.fromkeys(operator.outputs, operator.index)
    for operator in operators:
        for tensor in dict.fromkeys(operator.inputs):
            if tensor >= 0 and tensor in producer:
                found.append(Flow(tensor, producer[tensor], operator.index))
    return found


def tensor_names(model: Model, subgraph: int) -> list[bytes]:
    """Return the names of the tensors of a subgraph."""
    low, high = model.tensor_columns.splits[subgraph : subgraph + 2].tolist()
    return model.tensor_columns.names[low:high]
