"""Targets that read tables in metadata entries, separately and in a model.

The first byte of an input selects the table; the rest is its value.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from circletools.affinity.store import annotate
from circletools.affinity.tables import AFFINITY_STAMP, AFFINITY_TABLE, DEVICE_TABLE, decode_affinity, encode_affinity
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.graph.build import model_graph
from circletools.metadata.codec import decode_names, encode_names
from circletools.metadata.stamp import STAMP, decode_stamp, encode_stamp
from circletools.model.model import open_model
from circletools.model.verify import DEBUG_METADATA
from circletools.origin.embed import embed
from circletools.origin.locations import operator_locations
from circletools.origin.names import collect_sources
from circletools.origin.read import EXACT_TABLE, decode_exact, encode_exact
from circletools.origin.source import DETAILS_TABLE, SourceDetails, decode_details, encode_details
from circletools.origin.tables import (
    EXECUTION_PLAN_TABLE,
    OP_TABLE,
    SOURCE_TABLE,
    decode_execution_plan,
    decode_op_table,
    decode_source_table,
    encode_op_table,
    encode_source_table,
)
from circletools.planning.reproject import devices_before
from fuzz.models import dump, look, plan_of
from fuzz.seeds import model_seed

_SOURCES = range(64)


def _again(decode: Callable[[bytes], object], encode: Callable[..., bytes]) -> Callable[[bytes], None]:
    """Return a check that decoded values survive encoding and decoding."""

    def check(data: bytes) -> None:
        value = decode(data)
        assert decode(encode(value)) == value

    return check


def _exact(data: bytes) -> None:
    subgraphs = decode_exact(data, _SOURCES)
    count = max(subgraphs, default=-1) + 1
    if count < 1000:
        known = {index: entries for index, entries in subgraphs.items() if entries}
        assert decode_exact(encode_exact([known.get(index, {}) for index in range(count)]), _SOURCES) == known


def _plan(data: bytes) -> None:
    assert all(decode_execution_plan(data).values())


def _details(data: bytes) -> None:
    names = dict.fromkeys(_SOURCES, "a")
    details = decode_details(data, names)
    assert decode_details(encode_details(details, names), names) == {
        source: known for source, known in details.items() if known != SourceDetails()
    }


CODECS: dict[str, Callable[[bytes], None]] = {
    SOURCE_TABLE: _again(decode_source_table, encode_source_table),
    OP_TABLE: _again(decode_op_table, encode_op_table),
    EXACT_TABLE: _exact,
    EXECUTION_PLAN_TABLE: _plan,
    DETAILS_TABLE: _details,
    STAMP: _again(decode_stamp, encode_stamp),
    DEVICE_TABLE: _again(lambda data: decode_names(data, DEVICE_TABLE), encode_names),
    AFFINITY_TABLE: _again(decode_affinity, encode_affinity),
    AFFINITY_STAMP: _again(decode_stamp, encode_stamp),
    DEBUG_METADATA: lambda data: None,
}
NAMES = tuple(CODECS)


def tables(data: bytes) -> None:
    """Decode one table, then show and check a model that contains it."""
    if not data:
        return
    name, value = NAMES[data[0] % len(NAMES)], data[1:]
    changed = _with(name, value)
    look(changed)
    dump(changed)
    with open_model(changed) as model:
        for read in (operator_locations, partial(devices_before, earlier=None, needed=True)):
            try:
                read(model_graph(model))
            except CircleToolsError:
                continue
    CODECS[name](value)


@cache
def annotated() -> bytes:
    """Return a model with several subgraphs and all tables; its operators refer to its debug metadata."""
    with open_model(model_seed("tflite/debug_metadata")) as model:
        edit = ModelEdit(model)
        embed(edit, collect_sources(model))
        annotate(edit, plan_of(model))
        return edit.to_bytes()


def _with(name: str, value: bytes) -> bytes:
    with open_model(annotated()) as model:
        edit = ModelEdit(model)
        edit.set_metadata(name, value)
        return edit.to_bytes()


def table_seeds() -> list[bytes]:
    """Return each table in the annotated model, and the shortest possible value of each other table."""
    found = []
    with open_model(annotated()) as model:
        for index, name in enumerate(NAMES):
            value = model.metadata_value(name)
            found.append(bytes([index]) + (bytes(8) if value is None else bytes(value)))
    exact = encode_exact([{0: frozenset({0})}, {1: frozenset({1, 2})}])
    return [*found, bytes([NAMES.index(EXACT_TABLE)]) + exact]
