"""What the tests of origins share: tables in and out of a model, and edits by tools that know nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from circletools.metadata.stamp import Freshness
from circletools.model.model import open_model
from circletools.origin.embed import embed
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import Origins, check_freshness, read_origins
from circletools.origin.source import Origin
from tests.kit.support import edited, packed, unpacked

SOURCE, OP, EXACT, STAMP = "ONE_source_table", "ONE_op_table", "CIRCLETOOLS_origins", "CIRCLETOOLS_stamp"


def u32s(*numbers: int) -> bytes:
    """Return numbers as u32 little endian."""
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def entries(*subgraphs: dict[int, set[int]]) -> tuple[dict[int, Origin], ...]:
    """Return the origins of operators, one mapping for each subgraph."""
    return tuple({index: frozenset(ids) for index, ids in subgraph.items()} for subgraph in subgraphs)


def origins(sources: dict[int, str], *subgraphs: dict[int, set[int]]) -> Origins:
    """Return origins, with one mapping of operators for each subgraph."""
    return Origins(sources, entries(*subgraphs))


def embedded(
    data: bytes,
    wanted: Origins | None = None,
    *,
    names: NameSource = NameSource.OUTPUT,
    replace: bool = False,
    stamp: bool = True,
) -> bytes:
    """Return a model with origins: `wanted`, or those of `names`."""
    return edited(
        data,
        lambda edit: embed(
            edit, collect_sources(edit.model, names) if wanted is None else wanted, replace=replace, stamp=stamp
        ),
    )


def origins_of(data: bytes) -> Origins:
    """Return the origins in a model that has some."""
    with open_model(data) as model:
        found = read_origins(model)
    assert found is not None
    return found


def freshness_of(data: bytes) -> Freshness:
    """Say whether a model's tables describe its operators."""
    with open_model(data) as model:
        return check_freshness(model, origins_of(data))


def value_of(data: bytes, name: str) -> bytes | None:
    """Return the value of a metadata entry, by the published object API."""
    model = unpacked(data)
    found = [model.buffers[entry.buffer].data for entry in model.metadata or () if entry.name == name.encode()]
    assert len(found) <= 1
    return bytes(found[0]) if found else None


def output_names(data: bytes, subgraph: int = 0) -> list[str]:
    """Return the name of output 0 of each operator, empty where it has none, by the published object API."""
    graph = unpacked(data).subgraphs[subgraph]
    names = []
    for operator in () if graph.operators is None else graph.operators:
        first = [] if operator.outputs is None else operator.outputs[:1]
        names.append("".join((graph.tensors[tensor].name or b"").decode() for tensor in first))
    return names


def rebuilt(data: bytes, change: Callable[[Any], object]) -> bytes:
    """Return a model as a tool writes it that knows nothing of origins: unpacked, changed, packed."""
    model = unpacked(data)
    change(model)
    return packed(model, data[4:8])
