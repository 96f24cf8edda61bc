"""Objects in many places: what a file describes is held against its size before anything of it is read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from circletools.check import check
from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import ModelFormatError
from circletools.flatbuf.columns import OBJECT_BYTES, REPEATED_BYTES, REPEATS, Budget
from circletools.graph.build import graph_of, model_graph
from circletools.inspection import inspect_model
from circletools.model.columns import MOST_SUBGRAPHS
from circletools.model.digests import content_digests
from circletools.model.model import Model, open_model
from circletools.outputs.analysis import output_findings
from tests.kit.build import Raw

MEBIBYTE = 1 << 20


def model(raw: Raw, *, operators: int = 0, outputs: int = 1, tensor: int = 0, **root: int) -> bytes:
    """Return a file with one tensor; `operators` and `tensor` are offsets, more of the root by slot, as `s6`."""
    tensor = tensor or raw.table({0: raw.ints([1]), 3: raw.string("x")})
    ends, ops = raw.ints([0] * outputs), {3: operators} if operators else {}
    graph = raw.table({0: raw.refs([tensor]), 1: raw.ints([0]), 2: ends, **ops})
    codes = raw.refs([raw.table({0: ("i8", 32), 1: raw.string("mine"), 3: ("i32", 32)})])
    slots = {int(key[1:]): value for key, value in root.items()}
    buffers = raw.refs([raw.table()])
    fields: dict[int, int | tuple[str, int]] = {0: ("u32", 3), 1: codes, 2: raw.refs([graph]), 4: buffers, **slots}
    return raw.finish(raw.table(fields))


def shared_tensor(count: int) -> bytes:
    """Return a file with one tensor in many places."""
    raw = Raw()
    tensor = raw.table({0: raw.ints([1]), 3: raw.string("x")})
    graph = raw.table({0: raw.refs([tensor] * count)})
    return raw.finish(raw.table({0: ("u32", 3), 2: raw.refs([graph]), 4: raw.refs([raw.table()])}))


def operators_with_options(length: int, count: int) -> bytes:
    """Return a file with operators that share their custom options."""
    raw = Raw()
    options, tensors = raw.data(b"x" * length), raw.ints([0])
    return model(raw, operators=raw.refs([raw.table({1: tensors, 2: tensors, 5: options}) for _ in range(count)]))


def overlapping_options(length: int, count: int) -> bytes:
    """Return a file with operators whose custom options begin four bytes apart."""
    raw = Raw()
    region = raw.data(np.full(count + length // 4, length, "<u4").tobytes())
    operators = []
    for index in range(count):
        raw.builder.StartObject(6)
        raw.builder.PrependUOffsetTRelativeSlot(5, region - 4 - 4 * index, 0)
        operators.append(int(raw.builder.EndObject()))
    return model(raw, operators=raw.refs(operators))


def subgraphs_with_name(length: int, count: int) -> bytes:
    """Return a file with subgraphs that share their name."""
    raw = Raw()
    name = raw.string("n" * length)
    return model(raw, s2=raw.refs([raw.table({4: name}) for _ in range(count)]))


def one_entry(count: int) -> bytes:
    """Return a file with a metadata entry in many places."""
    raw = Raw()
    return model(raw, s6=raw.refs([raw.table({0: raw.string("name")})] * count))


MANY = 3 * REPEATED_BYTES // OBJECT_BYTES
READERS: tuple[Callable[[Model], object], ...] = (
    inspect_model, ModelEdit, compact_parts, check, content_digests,
    lambda model: model.subgraphs, lambda model: model.metadata, lambda model: graph_of(model, 0),
)  # fmt: skip


@pytest.mark.parametrize(
    ("few", "many"),
    [
        (shared_tensor(100), shared_tensor(MANY)),
        (operators_with_options(100, 100), operators_with_options(1 << 16, 1000)),
        (overlapping_options(100, 100), overlapping_options(1 << 20, 100)),
        (subgraphs_with_name(100, 100), subgraphs_with_name(MEBIBYTE, 100)),
        (one_entry(100), one_entry(MANY)),
    ],
    ids=["tensors", "options", "overlapping options", "subgraphs", "metadata"],
)
def test_reading_objects_shared_too_often_is_refused(few: bytes, many: bytes) -> None:
    for read in READERS:
        with open_model(few) as opened:
            read(opened)
        with open_model(many) as opened, pytest.raises(ModelFormatError, match="all uses of "):
            read(opened)
    with open_model(many) as opened:
        assert opened.reachable.visits > 0  # its structure is sound


@pytest.mark.parametrize(("outputs", "refused"), [(6, False), (100, True)])
@pytest.mark.parametrize("slot", [0, 3, 7], ids=["shape", "name", "shape signature"])
def test_a_long_name_or_shape_is_not_repeated_for_ever(outputs: int, refused: bool, slot: int) -> None:
    raw = Raw()
    long = raw.string("n" * MEBIBYTE) if slot == 3 else raw.ints([1] * (MEBIBYTE // 8))
    data = model(raw, tensor=raw.table({0: raw.ints([1]), 3: raw.string("x"), slot: long}), outputs=outputs)
    for read in (lambda one: one.tensor_columns.names, inspect_model, lambda one: output_findings(model_graph(one))):
        with open_model(data) as opened:
            if refused:
                with pytest.raises(ModelFormatError, match="all uses of the names and shapes of tensors"):
                    read(opened)
            else:
                read(opened)


def test_a_budget_is_a_multiple_of_the_file() -> None:
    most = 100 + REPEATS * 100 + REPEATED_BYTES
    Budget(100).charge("names", most)
    with pytest.raises(ModelFormatError, match=f"a.tflite: names total {most + 1} bytes in a file of 100"):
        Budget(100, "a.tflite").charge("names", most + 1)


def test_all_readers_share_the_budget_and_each_counts_once() -> None:
    budget = Budget(100)
    for _ in range(3):
        budget.charge("shapes", 100 + REPEATED_BYTES)
        budget.charge("names", 100)  # once over the file is free
    budget.charge("names", 300)
    for _ in range(2):
        with pytest.raises(ModelFormatError, match="types"):
            budget.charge("types", 101)


def test_a_tally_charges_what_it_was_given_in_all() -> None:
    charge = Budget(100).tally("names")
    charge(200 + REPEATED_BYTES)
    charge(100)
    with pytest.raises(ModelFormatError, match="names total"):
        charge(1)


def test_a_long_code_name_is_charged_for_each_operator() -> None:
    raw = Raw()
    codes = raw.refs([raw.table({0: ("i8", 32), 1: raw.string("c" * MEBIBYTE), 3: ("i32", 32)})])
    ends = raw.ints([0])
    operators = raw.refs([raw.table({1: ends, 2: ends}) for _ in range(12)])
    data = model(raw, operators=operators, s1=codes)
    for read in (inspect_model, lambda one: one.code_names(0), lambda one: one.subgraphs[0].operators[0]):
        with open_model(data) as opened, pytest.raises(ModelFormatError, match="the names of operators"):
            read(opened)


def test_subgraphs_are_limited() -> None:
    def of(count: int) -> bytes:
        raw = Raw()
        return model(raw, s2=raw.refs([raw.table() for _ in range(count)]))

    with open_model(of(MOST_SUBGRAPHS)) as opened:
        assert len(opened.subgraphs) == MOST_SUBGRAPHS
    with open_model(of(MOST_SUBGRAPHS + 1)) as opened, pytest.raises(ModelFormatError, match="1501 subgraphs"):
        _ = opened.subgraph_tables
