"""A model with its lists in another order, and every index changed with them: by the object API and the roles.

The walk over the objects is not the product's: a field is found by its table's class and its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from circletools.flatbuf.schema import Role, load_roles
from tests.kit.support import packed, unpacked

Order = Sequence[int]
"""For each place of the new list the index in the old one."""


@dataclass(frozen=True, slots=True)
class Orders:
    """The new order of each list; buffer 0 and subgraph 0 have to stay."""

    subgraphs: Order
    tensors: Sequence[Order]  # by old subgraph
    buffers: Order
    codes: Order


def orders_of(data: bytes, shuffle: Callable[[list[int]], list[int]]) -> Orders:
    """Return an order for each list of a model; `shuffle` gets the indices that may change places."""

    def order(things: Any, fixed: int = 0) -> list[int]:
        indices = list(range(len(things or ())))
        return indices[:fixed] + shuffle(indices[fixed:])

    model = unpacked(data)
    return Orders(
        order(model.subgraphs, 1),
        [order(subgraph.tensors) for subgraph in model.subgraphs],
        order(model.buffers, 1),
        order(model.operatorCodes),
    )


def renumbered(data: bytes, orders: Orders) -> bytes:
    """Return the model with its lists in these orders. Its operators keep theirs."""
    model = unpacked(data)
    maps = {
        "subgraph": inverse(orders.subgraphs),
        "buffer": inverse(orders.buffers),
        "operator_code": inverse(orders.codes),
    }
    for signature in model.signatureDefs or ():
        tensors = inverse(orders.tensors[signature.subgraphIndex])
        for entry in (*(signature.inputs or ()), *(signature.outputs or ())):
            change(entry, {"tensor": tensors})
    for index, subgraph in enumerate(model.subgraphs):
        change(subgraph, {**maps, "tensor": inverse(orders.tensors[index])})
        subgraph.tensors = [subgraph.tensors[old] for old in orders.tensors[index]]
    rest = [*(model.metadata or ()), *(model.signatureDefs or ())]
    for table in rest:
        change(table, maps, deep=False)
    if model.metadataBuffer is not None:
        model.metadataBuffer = [maps["buffer"].get(buffer, buffer) for buffer in model.metadataBuffer]
    model.subgraphs = [model.subgraphs[old] for old in orders.subgraphs]
    model.buffers = [model.buffers[old] for old in orders.buffers]
    model.operatorCodes = [model.operatorCodes[old] for old in orders.codes]
    return packed(model, data[4:8])


def inverse(order: Order) -> dict[int, int]:
    """Return old index -> new index."""
    return {old: new for new, old in enumerate(order)}


def change(table: Any, maps: Mapping[str, Mapping[int, int]], *, deep: bool = True) -> None:
    """Give the indices in an object, and in those below it, their new values."""
    for name, value in vars(table).items():
        role = role_of(table, name)
        if role is not None and role.kind in maps and value is not None:
            new = maps[role.kind]
            one = isinstance(value, int)
            values = [number if number in role.none else new[number] for number in ([value] if one else value)]
            setattr(table, name, values[0] if one else np.array(values, np.asarray(value).dtype))
        elif deep:
            for below in value if isinstance(value, list) else [value]:
                if hasattr(below, "__dict__"):
                    change(below, maps)


def role_of(table: Any, attribute: str) -> Role | None:
    """Return the role of a field of an object."""
    return ROLES.get((type(table).__name__.removesuffix("T").lower(), attribute.lower()))


ROLES = {
    (table.lower(), field.replace("_", "").lower()): role for (table, field), role in load_roles().items()
}  # fmt: skip
