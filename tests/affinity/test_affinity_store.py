"""The affinity tables: bytes, what is refused, and how they follow other edits."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.affinity.store import AFFINITY_ENTRIES, annotate, follow, strip
from circletools.affinity.tables import (
    AFFINITY_STAMP,
    AFFINITY_TABLE,
    DEVICE_TABLE,
    NONE,
    SubgraphAffinity,
    check_freshness,
    decode_affinity,
    encode_affinity,
    read_affinity,
)
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, TableFormatError
from circletools.metadata.codec import encode_names
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, affinity_of, annotated, ids, with_affinity
from tests.kit.command_support import run
from tests.kit.origin_support import embedded, freshness_of, rebuilt, u32s
from tests.kit.support import bytes_of, edited, path_of, value_of

ID = st.integers(0, 2**32 - 1)


@st.composite
def tables(draw: st.DrawFn) -> dict[int, SubgraphAffinity]:
    subgraphs = {}
    for index in draw(st.sets(ID, max_size=4)):
        rows = draw(st.lists(st.tuples(ID, ID), max_size=6))
        subgraphs[index] = SubgraphAffinity(*(np.array([row[at] for row in rows], np.uint32) for at in (0, 1)))
    return subgraphs


def test_the_bytes() -> None:
    table = {0: SubgraphAffinity(ids(1, None), ids(0, None)), 2: SubgraphAffinity(ids(), ids())}
    expected = u32s(1, 2) + u32s(0, 2, 1, NONE, 0, NONE) + u32s(2, 0)
    assert encode_affinity(table) == expected
    assert decode_affinity(expected) == table


@given(tables())
def test_decoding_gives_what_was_encoded(table: dict[int, SubgraphAffinity]) -> None:
    assert decode_affinity(encode_affinity(table)) == table


BAD_TABLES: list[tuple[bytes, int]] = [
    (b"", 0),
    (u32s(1), 0),
    (u32s(2, 0), 0),
    (u32s(1, 1), 8),
    (u32s(1, 1, 0, 1, 0), 16),
    (u32s(1, 1, 0, 2**31), 16),
    (u32s(1, 2, 0, 0, 0, 0), 16),
    (u32s(1, 0, 0), 8),
]


def test_malformed_tables_are_refused_with_the_place() -> None:
    for data, offset in BAD_TABLES:
        with pytest.raises(TableFormatError) as caught:
            decode_affinity(data)
        assert caught.value.offset == offset


@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_an_error(data: bytes) -> None:
    model = edited(
        bytes_of("circle/diamond"),
        lambda edit: edit.set_metadata(DEVICE_TABLE, encode_names({0: "cpu"})),
        lambda edit: edit.set_metadata(AFFINITY_TABLE, data),
    )
    with open_model(model) as opened, suppress(CircleToolsError):
        found = read_affinity(opened)
        assert found is not None
        check_freshness(opened, found)


def test_a_device_that_does_not_exist_is_refused() -> None:
    data = annotated(bytes_of("circle/diamond"), affinity(["cpu"], ([1] * 6, [0] * 6)))
    with open_model(data) as model, pytest.raises(TableFormatError, match="device 1"):
        read_affinity(model)


def test_writing_again_changes_nothing_and_stripping_gives_the_old_file() -> None:
    data, what = bytes_of("circle/diamond"), affinity(["npu", "cpu"], ([0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1]))
    once = annotated(data, what)
    assert once.endswith(data)
    assert annotated(once, what) == once
    assert edited(once, strip) == data
    with open_model(once) as model:
        assert [entry.name for entry in model.metadata][-3:] == list(AFFINITY_ENTRIES)
        assert annotate(ModelEdit(model), what).changes == ()


def test_stale_origins_stay_stale() -> None:
    """Each has its own stamp: a new one for affinity does not cover origins."""

    def rename(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.operators[2].outputs[0]].name = b"another"

    moved = rebuilt(embedded(bytes_of("circle/diamond")), rename)
    assert freshness_of(moved).state == "stale"
    assert freshness_of(with_affinity(moved, ["cpu"], default="cpu")).state == "stale"


def test_staleness_is_reported_from_the_operator_on() -> None:
    def rename(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.operators[2].outputs[0]].name = b"another"

    data = rebuilt(with_affinity(bytes_of("circle/diamond"), ["cpu"], default="cpu"), rename)
    with open_model(data) as model:
        freshness = check_freshness(model, affinity_of(data))
    assert (freshness.state, freshness.place) == ("stale", "subgraphs[0].operators[2]")


@pytest.mark.parametrize("index", [1, 2**32 - 1])
def test_a_subgraph_that_does_not_exist_is_stale(index: int) -> None:
    table = encode_affinity({index: SubgraphAffinity(ids(), ids())})
    data = edited(bytes_of("circle/diamond"), lambda edit: edit.set_metadata(AFFINITY_TABLE, table))
    with open_model(data) as model:
        assert check_freshness(model, affinity_of(data)).state == "stale"


def test_without_a_stamp_the_operator_count_decides() -> None:
    data = annotated(bytes_of("circle/diamond"), affinity(["cpu"], ([0] * 5, [0] * 5)))
    data = edited(data, lambda edit: edit.remove_metadata(AFFINITY_STAMP))
    with open_model(data) as model:
        freshness = check_freshness(model, affinity_of(data))
    assert (freshness.state, freshness.place) == ("stale", "subgraphs[0].operators[5]")


@pytest.mark.parametrize(("name", "copies"), [("output_twice", [0, 0]), ("input_as_output", [1, 2])])
def test_copies_go_where_the_tensor_is_made(name: str, copies: list[int], tmp_path: Path) -> None:
    """Those of an input by themselves, where most operators are."""
    source = path_of(f"circle/{name}")
    with open_model(source) as model:
        count = len(model.subgraphs[0].operators)
    data = annotated(source.read_bytes(), affinity(["npu", "cpu"], ([0] * count, [0] * count)))
    path = tmp_path / "annotated.circle"
    path.write_bytes(data)
    assert run("fix-outputs", path, "--in-place").returncode == 0
    after = affinity_of(path.read_bytes()).subgraphs[0]
    assert after == SubgraphAffinity(ids(*[0] * (count + len(copies))), ids(*[0] * count, *copies))
    with open_model(path.read_bytes()) as model:
        assert value_of(model, AFFINITY_STAMP) is not None
        assert check_freshness(model, affinity_of(path.read_bytes())).state == "fresh"


DIAMOND = annotated(bytes_of("circle/diamond"), affinity(["npu", "cpu"], ([0, 1, 1, 1, 1, 1], [0, 1, 1, 1, 1, 1])))


def is_fresh(data: bytes) -> bool:
    with open_model(data) as model:
        return check_freshness(model, affinity_of(data)).state == "fresh"


def test_a_renamed_tensor_leaves_it_fresh() -> None:
    with open_model(DIAMOND) as model:
        edit = ModelEdit(model)
        follow(edit)
        edit.rename_tensor(0, int(model.subgraphs[0].operators[2].outputs[0]), "another")
        once = edit.to_bytes()
        assert edit.to_bytes() == once
    assert is_fresh(once)
    assert affinity_of(once) == affinity_of(DIAMOND)


def test_an_edit_is_saved_twice_as_once() -> None:
    """Operators are added before the first time and the second: the table that it wrote is not a new one."""

    def read_output(edit: ModelEdit, name: str) -> None:
        output = int(edit.model.subgraphs[0].outputs[0])
        edit.add_operator(0, edit.add_operator_code("NEG"), [output], [edit.add_tensor_like(0, output, name)])

    found = []
    for saves in (False, True):
        with open_model(DIAMOND) as model:
            edit = ModelEdit(model)
            follow(edit)
            read_output(edit, "one")
            if saves:
                assert edit.to_bytes() == edit.to_bytes()
            read_output(edit, "two")
            found.append(edit.to_bytes())
    assert found[0] == found[1]
    assert is_fresh(found[0])
    after = affinity_of(found[0]).subgraphs[0]
    # They continue nobody's work: where most operators are, each by itself.
    assert (after.devices.tolist(), after.partitions.tolist()) == ([0, *[1] * 7], [0, *[1] * 5, 2, 3])


def test_an_affinity_that_was_replaced_since_is_the_one_that_follows() -> None:
    with open_model(DIAMOND) as model:
        edit = ModelEdit(model)
        follow(edit)
        output = int(model.subgraphs[0].outputs[0])
        edit.add_operator(0, edit.add_operator_code("NEG"), [output], [edit.add_tensor_like(0, output, "one")])
        edit.to_bytes()
        annotate(edit, affinity(["npu", "cpu"], ([1, 0, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1])))
        after = affinity_of(edit.to_bytes()).subgraphs[0]
    assert after.devices.tolist() == [1, *[0] * 6]


def test_what_is_stale_stays_as_it_was() -> None:
    def rename(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.operators[2].outputs[0]].name = b"another"

    with open_model(rebuilt(DIAMOND, rename)) as model:
        table, edit = value_of(model, AFFINITY_TABLE), ModelEdit(model)
        follow(edit)
        output = int(model.subgraphs[0].outputs[0])
        edit.add_operator(0, edit.add_operator_code("NEG"), [output], [edit.add_tensor_like(0, output, "one")])
        after = edit.to_bytes()
    assert not is_fresh(after)
    with open_model(after) as model:
        assert value_of(model, AFFINITY_TABLE) == table
