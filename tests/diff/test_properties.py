"""What holds for any two models, broken ones too."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.diff.alignment import align
from circletools.diff.difference import compare_models
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, ModelFormatError
from circletools.model.model import open_model
from circletools.render.difference import difference_json, difference_text
from tests.kit.difference_models import fix_all, renumbered, twice_listed
from tests.kit.difference_support import compared, paths
from tests.kit.origin_support import embedded
from tests.kit.partition_support import seeded
from tests.kit.support import bytes_of, edited, packed, unpacked

MLP = bytes_of("circle/mlp")


VARIANTS = 18


@cache
def variants() -> list[bytes]:
    """Return models that are alike and models that are not."""
    circles = ("mlp", "mlp_external", "diamond", "if_cond", "two_signatures", "lstm")
    found = [bytes_of(f"circle/{name}") for name in circles]
    found += [
        bytes_of(f"tflite/{name}") for name in ("cnn", "two_signatures", "while_nested", "zip_tail", "custom_op")
    ]
    found += [twice_listed(), twice_listed("tflite"), edited(twice_listed(), fix_all), embedded(twice_listed())]
    found += [embedded(MLP), renumbered(twice_listed(), seeded(1)), renumbered(bytes_of("circle/lstm"), seeded(2))]
    assert len(found) == VARIANTS
    return found


@pytest.mark.parametrize("first", range(0, VARIANTS, 2))
def test_the_other_way_round_is_the_mirror_image(first: int) -> None:
    other_kind = {"added": "removed", "removed": "added"}
    for after in variants()[first::2]:
        forth, back = (compared(*pair) for pair in ((variants()[first], after), (after, variants()[first])))
        assert forth.notes == back.notes
        assert [(one.section, *one.difference) for one in forth.changes] == [
            (section, other_kind.get(kind, kind), there, here, new, old)
            for section, (kind, here, there, old, new) in back.changes
        ]
        assert (forth.changes == ()) == (
            after == variants()[first] or {after, variants()[first]} == set(variants()[:2])
        )


@given(st.data())
def test_what_an_edit_does_is_reported_and_nothing_else(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from([MLP, bytes_of("tflite/two_signatures"), twice_listed()]))
    expected: set[tuple[str, str]] = set()
    with open_model(base) as model:
        edit, subgraph = ModelEdit(model), data.draw(st.integers(0, len(model.subgraphs) - 1))
        graph = model.subgraphs[subgraph]
        place, tensor = f"subgraphs[{subgraph}]", len(graph.tensors)
        for number in range(data.draw(st.integers(0, 3))):
            name, value = f"entry {number}", data.draw(st.binary(max_size=5))
            edit.set_metadata(name, value)
            expected.add(("added", f"metadata[{name}]"))
        if data.draw(st.booleans()):
            edit.add_buffer(b"a buffer that nothing names")
            expected.add(("added", f"buffers[{len(model.buffers) + sum(kind == 'added' for kind, _ in expected)}]"))
        if data.draw(st.booleans()):
            code = edit.add_operator_code("RELU6", version=data.draw(st.integers(1, 3)))
            expected.add(("added", f"operator_codes[{code}]"))
            edit.add_tensor_like(subgraph, 0, "a new tensor")
            edit.add_operator(subgraph, code, [0], [tensor])
            added = (f"tensors[{tensor}]", f"operators[{len(graph.operators)}]")
            expected |= {("added", f"{place}.{path}") for path in added}
            if data.draw(st.booleans()):
                outputs = graph.outputs.tolist()
                slot = data.draw(st.integers(0, len(outputs) - 1))
                edit.set_outputs(subgraph, [*outputs[:slot], tensor, *outputs[slot + 1 :]])
                expected.add(("changed", f"{place}.outputs[{slot}]"))
        after = edit.to_bytes()
    assert set(paths(base, after)) == expected
    assert paths(after, after) == []


@given(st.lists(st.integers(0, 12), max_size=12), st.lists(st.integers(0, 12), max_size=12), st.booleans())
def test_alignments_are_sound(before: list[int], after: list[int], by_place: bool) -> None:
    found = align([(np.array(before, np.int64), np.array(after, np.int64))], by_place=by_place)
    pairs = list(zip(found.before.tolist(), found.after.tolist(), strict=True))
    assert len({old for old, _ in pairs}) == len({new for _, new in pairs}) == len(pairs)
    assert len({*found.before} & {*range(len(before))}) == len(found.before)
    assert len({*found.after} & {*range(len(after))}) == len(found.after)
    in_order = [new for (_, new), moved in zip(pairs, found.moved.tolist(), strict=True) if not moved]
    assert in_order == sorted(in_order)
    if not by_place:
        assert all(before[old] == after[new] for old, new in pairs)
        if before == after:
            assert pairs == [(index, index) for index in range(len(before))]


@given(st.permutations(range(9)), st.integers(0, 9))
def test_as_little_as_possible_moves(order: list[int], shorter: int) -> None:
    """The longest common subsequence of two lists of distinct things stays, by the textbook's table."""
    before, after = list(range(9)), order[shorter:]
    table = [[0] * (len(after) + 1) for _ in range(len(before) + 1)]
    for i, old in enumerate(before):
        for j, new in enumerate(after):
            table[i + 1][j + 1] = table[i][j] + 1 if old == new else max(table[i][j + 1], table[i + 1][j])
    found = align([(np.array(before, np.int64), np.array(after, np.int64))])
    assert len(found.before) == len(after)
    assert int((~found.moved).sum()) == table[-1][-1]


def test_a_broken_model_is_no_difference() -> None:
    for pair in ((MLP, MLP[:500]), (MLP[:500], MLP), (MLP[:500], MLP[:500])):
        with pytest.raises(ModelFormatError):
            compared(*pair)
    with pytest.raises(ModelFormatError, match="outside the file"):
        compared(bytes_of("circle/mlp_external"), bytes_of("circle/mlp_external")[:-100])


def test_indices_that_lead_nowhere_are_compared_as_numbers() -> None:
    model = unpacked(MLP)
    model.subgraphs[0].operators[0].inputs = model.subgraphs[0].operators[0].inputs.copy()
    model.subgraphs[0].operators[0].inputs[1] = 99
    model.subgraphs[0].tensors[0].buffer = 98
    model.subgraphs[0].operators[1].opcodeIndex = 97
    wild = packed(model, b"CIR0")
    model.subgraphs[0].operators[0].inputs[1] = 100
    assert paths(wild, packed(model, b"CIR0")) == [("changed", "subgraphs[0].operators[0].inputs[1]")]
    assert {path for kind, path in paths(MLP, wild) if kind == "changed"} == {
        "subgraphs[0].operators[0].inputs[1]", "subgraphs[0].tensors[0].buffer",
        "subgraphs[0].operators[1].opcode_index",
    }  # fmt: skip


@given(st.data())
def test_any_bytes_give_differences_or_one_error(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from(variants()))
    broken = bytearray(base)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(base) // 4 - 1)) * 4
        broken[place : place + 4] = data.draw(
            st.sampled_from([0, 1, 4, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF]) | st.integers(0, 2**32 - 1)
        ).to_bytes(4, "little")
    pair = data.draw(st.permutations([base, bytes(broken)]))
    try:
        with open_model(pair[0]) as old, open_model(pair[1]) as new:
            found = compare_models(old, new)
            lines = list(difference_text(found, old, new, full=True))
            json.dumps(difference_json(found, old, new), allow_nan=False)
    except CircleToolsError:
        return
    assert lines[-1].startswith("no differences") == (found.changes == ())
