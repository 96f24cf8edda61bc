"""What is shared is read once: valid files whose objects stand in many places cost no more than others."""

from __future__ import annotations

import tracemalloc
from functools import partial

import numpy as np
import pytest

from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import ModelFormatError
from circletools.flatbuf.budget import OBJECT_BYTES, PLACE_BYTES, REPEATED_BYTES, REPEATS, Budget
from circletools.flatbuf.columns import Tables, unknown_slots
from circletools.graph.build import graph_of, model_graph
from circletools.inspection import inspect_model
from circletools.model import external
from circletools.model.columns import MOST_SUBGRAPHS
from circletools.model.external import external_data
from circletools.model.model import open_model
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


def test_custom_options_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []
    monkeypatch.setattr(external, "_bytecode", lambda options: looked.append(len(options)))
    raw = Raw()
    options, tensors = raw.data(b"x" * MEBIBYTE), raw.ints([0])
    operator = raw.table({1: tensors, 2: tensors, 5: options})
    data = model(raw, operators=raw.refs([operator] * 20_000))
    with open_model(data) as opened:
        assert list(external_data(opened)) == []
    assert looked == [MEBIBYTE]  # 20 GB, read one by one


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
        assert len(tables) == 40_001
        tracemalloc.start()
        try:
            assert unknown_slots(tables).tolist() == [False, *[True, False] * 20_000]
            assert tracemalloc.get_traced_memory()[1] < 16 * MEBIBYTE  # 1.2 GB, read for each table
        finally:
            tracemalloc.stop()
        none = Tables(opened.wire, tables.type, tables.at[:1])
        assert unknown_slots(none).tolist() == [False]


def test_long_names_are_short_in_findings_and_not_repeated_for_ever() -> None:
    raw = Raw()
    data = model(raw, name=raw.string("n" * MEBIBYTE), outputs=100)
    with open_model(data) as opened:
        assert max(len(found.message) for found in output_findings(model_graph(opened))) < 400
        with pytest.raises(ModelFormatError, match="what is listed of subgraphs"):
            inspect_model(opened)
    few = Raw()
    with open_model(model(few, name=few.string("n" * MEBIBYTE), outputs=9)) as opened:
        for _ in range(3):
            assert len(inspect_model(opened).subgraphs[0].outputs) == 9


def test_a_long_name_of_many_subgraphs_is_not_repeated_for_ever() -> None:
    for count, refused in ((10, False), (100, True)):
        raw = Raw()
        name = raw.string("n" * MEBIBYTE)
        subgraphs = [raw.table({4: name}) for _ in range(count)]
        with open_model(model(raw, s2=raw.refs(subgraphs))) as opened:
            if refused:
                with pytest.raises(ModelFormatError, match="what is listed of subgraphs"):
                    inspect_model(opened)
            else:
                assert len(inspect_model(opened).subgraphs) == count


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
    most = 100 + REPEATS * 100 + REPEATED_BYTES
    Budget(100).charge("names", most)
    with pytest.raises(ModelFormatError, match=f"names have {most + 1} bytes together, in a file of 100"):
        Budget(100).charge("names", most + 1)


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
    with pytest.raises(ModelFormatError, match="names have"):
        charge(1)


def test_an_operator_in_many_places_is_charged_where_each_place_is_made_an_object() -> None:
    def of(count: int) -> bytes:
        raw = Raw()
        return model(raw, operators=raw.refs([raw.table({1: raw.ints([0]), 2: raw.ints([0])})] * count))

    few = REPEATED_BYTES // OBJECT_BYTES
    with open_model(of(few)) as opened:
        assert opened.code_names(0) == ["CUSTOM:mine"] * few
    with open_model(of(2 * few)) as opened:
        assert inspect_model(opened).subgraphs[0].operator_count == 2 * few
        for ask in (opened.code_names, opened.output_names, partial(graph_of, opened)):
            with pytest.raises(ModelFormatError, match="tables Operator in several places"):
                ask(0)
    with open_model(of(2 * REPEATED_BYTES // PLACE_BYTES)) as opened, pytest.raises(ModelFormatError, match="tables"):
        inspect_model(opened)


def test_a_long_code_name_is_charged_for_each_operator() -> None:
    raw = Raw()
    codes = raw.refs([raw.table({0: ("i8", 32), 1: raw.string("c" * MEBIBYTE), 3: ("i32", 32)})])
    ends = raw.ints([0])
    operators = raw.refs([raw.table({1: ends, 2: ends}) for _ in range(12)])
    with open_model(model(raw, operators=operators, s1=codes)) as opened:
        with pytest.raises(ModelFormatError, match="the names of operators"):
            opened.code_names(0)
        assert inspect_model(opened).operators == {"CUSTOM:" + "c" * MEBIBYTE: 12}


def test_subgraphs_are_limited() -> None:
    def of(count: int) -> bytes:
        raw = Raw()
        return model(raw, s2=raw.refs([raw.table()] * count))

    with open_model(of(MOST_SUBGRAPHS)) as opened:
        assert len(opened.subgraphs) == MOST_SUBGRAPHS
    with open_model(of(MOST_SUBGRAPHS + 1)) as opened, pytest.raises(ModelFormatError, match="10001 subgraphs"):
        _ = opened.subgraph_tables
