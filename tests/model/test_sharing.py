"""What is shared is read once: valid files whose objects stand in many places cost no more than others."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest

from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import ModelFormatError
from circletools.flatbuf.budget import Budget
from circletools.flatbuf.columns import OVERLAP, OVERLAP_BYTES, Tables, unknown_slots
from circletools.inspection import inspect_model
from circletools.model.external import external_data
from circletools.model.model import Model, open_model
from circletools.outputs.analysis import output_findings
from tests.kit.build import Raw

MEBIBYTE = 1 << 20


def model(raw: Raw, *, operators: int = 0, outputs: int = 1, name: int = 0, **root: int) -> bytes:
    """Return a file with one tensor; `operators` and `name` are offsets, more of the root by slot, as `s6`."""
    tensor = raw.table({0: raw.ints([1]), 3: name or raw.string("x")})
    ends, ops = raw.ints([0] * outputs), {3: operators} if operators else {}
    graph = raw.table({0: raw.refs([tensor]), 1: raw.ints([0]), 2: ends, **ops})
    codes = raw.refs([raw.table({0: ("i8", 32), 1: raw.string("mine"), 3: ("i32", 32)})])
    slots = {int(key[1:]): value for key, value in root.items()}
    buffers = raw.refs([raw.table()])
    fields: dict[int, int | tuple[str, int]] = {0: ("u32", 3), 1: codes, 2: raw.refs([graph]), 4: buffers, **slots}
    return raw.finish(raw.table(fields))


def cpu(work: Callable[[Model], object], data: bytes) -> float:
    with open_model(data) as opened:
        since = time.process_time()
        work(opened)
        return time.process_time() - since


def test_custom_options_are_looked_at_once() -> None:
    raw = Raw()
    options, tensors = raw.data(b"x" * MEBIBYTE), raw.ints([0])
    operator = raw.table({1: tensors, 2: tensors, 5: options})
    data = model(raw, operators=raw.refs([operator] * 20_000))
    assert cpu(lambda opened: list(external_data(opened)), data) < 2  # 20 GB, read one by one


def test_custom_options_that_overlap_are_refused() -> None:
    raw = Raw()
    region = raw.data(np.full(MEBIBYTE // 2, MEBIBYTE, "<u4").tobytes())
    operators = []
    for index in range(100):
        raw.builder.StartObject(6)
        raw.builder.PrependUOffsetTRelativeSlot(5, region - 4 - 4 * index, 0)
        operators.append(int(raw.builder.EndObject()))
    with open_model(model(raw, operators=raw.refs(operators))) as opened, pytest.raises(ModelFormatError):
        list(external_data(opened))


def test_a_long_vtable_is_read_once() -> None:
    raw = Raw()
    raw.builder.StartObject(32_000)
    raw.builder.PrependUint32Slot(31_999, 7, 0)
    long, short = int(raw.builder.EndObject()), raw.table()
    data = model(raw, s4=raw.refs([short, *[long, short] * 20_000]))
    with open_model(data) as opened:
        tables = opened.buffers.tables
        since = time.process_time()
        assert unknown_slots(tables).tolist() == [False, *[True, False] * 20_000]
        assert time.process_time() - since < 1
        none = Tables(opened.wire, tables.type, tables.at[:1])
        assert unknown_slots(none).tolist() == [False]


def test_long_names_are_short_in_findings_and_not_repeated_for_ever() -> None:
    raw = Raw()
    data = model(raw, name=raw.string("n" * MEBIBYTE), outputs=100)
    with open_model(data) as opened:
        assert max(len(found.message) for found in output_findings(opened)) < 400
        with pytest.raises(ModelFormatError, match="used so often"):
            inspect_model(opened)
    few = Raw()
    with open_model(model(few, name=few.string("n" * MEBIBYTE), outputs=10)) as opened:
        for _ in range(3):
            assert len(inspect_model(opened).subgraphs[0].outputs) == 10


def test_one_entry_in_many_places() -> None:
    def of(count: int) -> bytes:
        raw = Raw()
        entry = raw.table({0: raw.string("name")})
        return model(raw, s6=raw.refs([entry] * count))

    with open_model(of(200)) as opened:
        assert b"".join(map(bytes, [ModelEdit(opened).to_bytes()])) == of(200)
        assert len({id(entry.name) for entry in opened.metadata}) == 1
    with (
        open_model(of(100_000)) as opened,
        pytest.raises(ModelFormatError, match="100000 metadata entries are 1 tables"),
    ):
        ModelEdit(opened)
    with open_model(of(100_000)) as opened:
        assert sum(len(part) for part in compact_parts(opened)) < len(of(100_000)) + 100


def test_a_budget_is_a_multiple_of_the_file() -> None:
    with open_model(model(Raw())) as opened:
        budget = Budget(opened.wire)
        budget.charge(OVERLAP * opened.wire.size + OVERLAP_BYTES - 1)
        budget.charge(1)
        with pytest.raises(ModelFormatError):
            budget.charge(1)
