"""Hostile shapes: overlapping vectors, shared tables and wrong counts end soon, in little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from contextlib import suppress

import pytest

from circletools.errors import CircleToolsError, EditError, ModelFormatError
from circletools.model.model import open_model
from tests.kit.build import Raw
from tests.kit.soundness import USES, refusal, verify
from tests.kit.support import bytes_of, edited, packed, unpacked, within


def model_of(raw: Raw, subgraphs: list[int]) -> bytes:
    sentinel = raw.table()
    return raw.finish(raw.table({2: raw.refs(subgraphs), 4: raw.refs([sentinel]), 0: ("u32", 3)}))


def many_subgraphs(count: int) -> bytes:
    """One subgraph of many operators, `count` times; all operators are one table."""
    raw = Raw()
    operator = raw.table({1: raw.ints([0] * 50), 0: ("u32", 0)})
    subgraph = raw.table({3: raw.refs([operator] * count)})
    return model_of(raw, [subgraph] * count)


def overlapping_vectors(count: int, slot: int, owner_slot: int) -> bytes:
    """Tables whose vectors start one word after the other, each as long as all of them."""
    raw = Raw()
    raw.ints([count] * (3 * count))
    area = raw.builder.Offset()
    tables = []
    for index in range(count):
        raw.builder.StartObject(slot + 1)
        raw.builder.PrependUOffsetTRelativeSlot(slot, area - 4 * index, 0)
        tables.append(int(raw.builder.EndObject()))
    return model_of(raw, [raw.table({owner_slot: raw.refs(tables)})])


AT_ONCE = ("walk", "check", "codes", "metadata", "signatures", "columns", "set", "remove", "outputs", "like")
"""Functions that read a whole model at once. A loop over views is as long as the file demands."""


def use_hostile(data: bytes, uses: Iterable[str] = AT_ONCE) -> None:
    for name in uses:
        with within(2), open_model(data) as model, suppress(CircleToolsError):
            USES[name](model)


def test_many_references_to_one_table_are_refused() -> None:
    data = many_subgraphs(2000)
    with within(2):
        assert "all uses of" in refusal(data).message
    use_hostile(data)


@pytest.mark.parametrize("count", [100_000, 1_000_000])
def test_references_by_the_million_end_soon(count: int) -> None:
    use_hostile(many_subgraphs(count))


@pytest.mark.parametrize("slot", [1, 2, 8], ids=["inputs", "outputs", "intermediates"])
def test_overlapping_vectors_of_indices_are_refused(slot: int) -> None:
    data = overlapping_vectors(50_000, slot, 3)
    with within(2), pytest.raises(ModelFormatError, match="all uses of "):
        verify(data)
    use_hostile(data)


@pytest.mark.parametrize("slot", [0, 7], ids=["shape", "shape_signature"])
def test_overlapping_shapes_end_soon(slot: int) -> None:
    use_hostile(overlapping_vectors(50_000, slot, 0))


@pytest.mark.parametrize("slot", [0, 7], ids=["shape", "shape_signature"])
def test_all_views_of_overlapping_shapes_end_soon(slot: int) -> None:
    use_hostile(overlapping_vectors(20_000, slot, 0), ["tensors"])


def test_overlapping_vectors_of_tables_end_soon() -> None:
    """Subgraphs whose vectors of tensors share their elements."""
    raw, count = Raw(), 20_000
    raw.ints([count] * (3 * count))
    area = raw.builder.Offset()
    subgraphs = []
    for index in range(count):
        raw.builder.StartObject(1)
        raw.builder.PrependUOffsetTRelativeSlot(0, area - 4 * index, 0)
        subgraphs.append(int(raw.builder.EndObject()))
    data = model_of(raw, subgraphs)
    with within(2):
        refusal(data)
    use_hostile(data)


@pytest.mark.parametrize("slot", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_a_count_of_four_billion_is_refused(slot: int) -> None:
    """In every vector and string of the root table."""
    raw = Raw()
    vector = raw.ints([-1]) - 4  # its element taken for a count
    data = raw.finish(raw.table({slot: vector}))
    with within(2):
        assert "a vector ends outside the file" in refusal(data).message
    use_hostile(data)


def long_names(owner: str) -> bytes:
    """A thousand references to one table with one long name."""
    raw = Raw()
    name = raw.string(b"x" * 100_000)
    sentinel = raw.table()
    slots = {"metadata": (0, 6), "signature_defs": (2, 7), "operator_codes": (1, 1)}
    slot, owner_slot = slots.get(owner, (3, 0))
    rows = raw.refs([raw.table({slot: name})] * 1000)
    if owner == "tensors":
        return model_of(raw, [raw.table({0: rows})])
    return raw.finish(raw.table({4: raw.refs([sentinel]), owner_slot: rows}))


@pytest.mark.parametrize("owner", ["metadata", "signature_defs", "operator_codes", "tensors"])
def test_a_long_name_that_many_tables_share_takes_no_memory_for_each(owner: str) -> None:
    data = long_names(owner)
    tracemalloc.start()
    try:
        use_hostile(data)
        assert tracemalloc.get_traced_memory()[1] < 30 * len(data)
    finally:
        tracemalloc.stop()


def test_an_edit_of_a_changed_index_is_refused() -> None:
    """Appending a buffer would make the index valid, and mean our metadata."""
    model = unpacked(bytes_of("circle/mlp"))
    model.subgraphs[0].tensors[2].buffer = len(model.buffers)
    data = packed(model, b"CIR0")
    with pytest.raises(EditError) as caught:
        edited(data)
    assert caught.value.location == "subgraphs[0].tensors[2].buffer"
    assert "check --structure-only" in str(caught.value)
