"""One edit, call by call: what it returns, what it refuses, and what the buffers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from circletools.edit import entries
from circletools.edit.edit import ModelEdit
from circletools.edit.results import AddedOperator, IndexMap
from circletools.errors import CircleToolsError, EditError, UsageError
from circletools.model.model import Model, open_model
from tests.kit.build import Build, Table
from tests.kit.edit_support import two_subgraphs
from tests.kit.outside import PLACES, outside, ranges
from tests.kit.support import bytes_of, edited, field_at, noted, put_u32, target, u32, value_of

FIRST_NEW_CODE = 127  # from here on operator codes do not fit the old field of a byte


def built() -> Build:
    """Return a model of two subgraphs, with a signature for the second and a metadata entry."""
    build = two_subgraphs()
    build.signature("run", [("in", 0)], [("out", 1)], 1)
    build.metadata("held", b"value")
    return build


@pytest.fixture
def model() -> Iterator[Model]:
    with open_model(built().to_bytes()) as opened:
        yield opened


# --- what is refused ----------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[ModelEdit], object], str]] = [
    (lambda edit: edit.set_metadata("a", "text"), "`value` must be bytes, not 'text' (write"),  # type: ignore[arg-type]
    (lambda edit: edit.add_tensor(2, "t", type="INT8", shape=[]), "subgraph 2 does not exist; the count is 2"),
    (lambda edit: edit.add_tensor(-1, "t", type="INT8", shape=[]), "subgraph -1 does not exist; the count is 2"),
    (lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[], buffer=2), "buffer 2 does not exist; the count is"),
    (lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[], buffer=-1), "buffer -1 does not exist"),
    (lambda edit: edit.add_tensor(0, "t", type="INT7", shape=[]), "this format has no tensor type 'INT7'"),
    (lambda edit: edit.add_tensor_like(1, 2, "t"), "subgraphs[1]: tensor 2 does not exist; the count is 2"),
    (lambda edit: edit.add_tensor_like(1, -1, "t"), "subgraphs[1]: tensor -1 does not exist; the count is 2"),
    (lambda edit: edit.add_operator_code("NOTHING"), "this format has no operator code 'NOTHING'"),
    (lambda edit: edit.add_operator(0, 1, [], []), "operator code 1 does not exist; the count is 1"),
    (lambda edit: edit.add_operator(0, -1, [], []), "operator code -1 does not exist; the count is 1"),
    (lambda edit: edit.add_operator(1, 0, [2], []), "tensor 2 does not exist; the count is 2"),
    (lambda edit: edit.add_operator(1, 0, [], [-2]), "tensor -2 does not exist; the count is 2"),
    (lambda edit: edit.add_operator(1, 0, [], [], inherits=[1]), "operator 1 does not exist; the count is 1"),
    (lambda edit: edit.add_operator(1, 0, [], [], inherits=[-1]), "operator -1 does not exist; the count is 1"),
    (lambda edit: edit.add_operator(0, 0, [], [], options=("No", {})), "this format has no options table No"),
    (lambda edit: edit.add_operator(0, 0, [], [], options=("AddOptions", {"a": 1})), "AddOptions has no field a"),
    (lambda edit: edit.set_shape(0, 9, [1]), "tensor 9 does not exist; the count is"),
    (lambda edit: edit.set_shape(0, 0, [2**31]), "Tensor.shape cannot hold this"),
    (lambda edit: edit.set_constant(0, 0, np.zeros(1, np.int16)), "the tensor is FLOAT32, not INT16"),
    (lambda edit: edit.set_inputs(1, [2]), "tensor 2 does not exist; the count is 2"),
    (lambda edit: edit.set_outputs(1, [-1]), "tensor -1 does not exist; the count is 2"),
    (lambda edit: edit.set_outputs(2, []), "subgraph 2 does not exist"),
    (lambda edit: edit.set_signature_entry(1, "inputs", 0, 0), "signature 1 does not exist; the count is 1"),
    (lambda edit: edit.set_signature_entry(-1, "inputs", 0, 0), "signature -1 does not exist; the count is 1"),
    (lambda edit: edit.set_signature_entry(0, "inputs", 1, 0), "signature 0 has no input 1; the count is 1"),
    (lambda edit: edit.set_signature_entry(0, "outputs", -1, 0), "signature 0 has no output -1; the count is 1"),
    (lambda edit: edit.set_signature_entry(0, "outputs", 0, 2), "tensor 2 does not exist; the count is 2"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_does_not_exist_is_refused_and_changes_nothing(
    model: Model, call: Callable[[ModelEdit], object], message: str
) -> None:
    edit = ModelEdit(model)
    with pytest.raises((UsageError, EditError)) as caught:
        call(edit)
    assert message in str(caught.value)
    assert edit.to_bytes() == bytes(model.source.octets)


# --- what is added ------------------------------------------------------------------------------------------


def test_what_is_added_has_the_next_indices_and_is_read_back(model: Model) -> None:
    with ModelEdit(model) as change:
        buffer = change.add_buffer(b"1234")
        tensor = change.add_tensor(1, "t", type="INT8", shape=[4], shape_signature=[-1], buffer=buffer)
        like = change.add_tensor_like(1, 0, "like")
        relu, again = change.add_operator_code("RELU"), change.add_operator_code("RELU", 2)
        custom = change.add_operator_code("CUSTOM", custom_code="mine")
        assert (buffer, tensor, like, relu, again, custom) == (2, 2, 3, 1, 2, 3)
        assert [change.add_operator_code("RELU"), change.add_operator_code("TANH")] == [relu, 0]
        assert change.add_operator(1, relu, [0], [like, -1], inherits=[0]) == 1
        assert change.add_operator(1, custom, [-1, like], [tensor], inherits=[0, 1]) == 2
        change.set_inputs(1, [0, tensor])
        change.set_outputs(1, [like])
        change.set_signature_entry(0, "outputs", 0, like)
        assert change.index_map == IndexMap(
            (AddedOperator(1, 1, "RELU", (b"like", b""), (0,)), AddedOperator(1, 2, "CUSTOM", (b"t",), (0, 1)))
        )
        data = change.to_bytes()
    with open_model(data) as after:
        graph = after.subgraphs[1]
        assert [code.name for code in after.operator_codes] == ["TANH", "RELU", "RELU", "CUSTOM:mine"]
        assert [code.version for code in after.operator_codes] == [1, 1, 2, 1]
        assert [(operator.inputs, operator.outputs) for operator in graph.operators] == [
            ((0,), (1,)), ((0,), (3, -1)), ((-1, 3), (2,)),
        ]  # fmt: skip
        assert (graph.inputs.tolist(), graph.outputs.tolist()) == ([0, 2], [3])
        assert (graph.tensors[2].shape, graph.tensors[2].shape_signature, graph.tensors[2].type) == (
            (4,),
            (-1,),
            "INT8",
        )
        assert bytes(after.buffers[graph.tensors[2].buffer].data) == b"1234"
        assert (graph.tensors[3].shape, graph.tensors[3].shape_signature, graph.tensors[3].buffer) == (
            (1, 4),
            None,
            0,
        )
        assert after.signatures[0].outputs == (("out", 3),)
        assert [len(graph.tensors) for graph in after.subgraphs] == [2, 4]


def test_a_tensor_has_no_data_and_no_signature_of_its_shape_unless_given(model: Model) -> None:
    with open_model(
        edited(bytes(model.source.octets), lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[3]))
    ) as after:
        (tensor,) = after.subgraphs[0].tensors[2:]
        assert (tensor.name, tensor.shape, tensor.shape_signature, tensor.buffer) == ("t", (3,), None, 0)
        assert after.tensor_columns.tables.scalars("has_rank").tolist()[2] == 1


@pytest.mark.parametrize("number", [FIRST_NEW_CODE - 1, FIRST_NEW_CODE, FIRST_NEW_CODE + 1])
def test_codes_around_the_end_of_the_old_field(model: Model, number: int) -> None:
    name = model.schema.enums["BuiltinOperator"][number]
    data = edited(bytes(model.source.octets), lambda edit: edit.add_operator_code(name))
    with open_model(data) as after:
        codes = after.root.children("operator_codes", after.schema)[0]
        assert codes.scalars("deprecated_builtin_code")[1] == min(number, FIRST_NEW_CODE)
        assert codes.scalars("builtin_code")[1] == number
        assert after.operator_codes[1].name == name


def test_options_of_both_unions(model: Model) -> None:
    def add(edit: ModelEdit) -> None:
        edit.add_operator(0, 0, [], [], options=("AddOptions", {"fused_activation_function": 1}))
        edit.add_operator(0, 0, [], [], options=("StablehloConcatenateOptions", {"dimension": 3}))

    with open_model(edited(bytes(model.source.octets), add)) as after:
        tables = after.operator_columns.tables
        codes = [tables.union_codes(tables.field(name)).tolist() for name in ("builtin_options", "builtin_options_2")]
        unions = [after.schema.unions[name] for name in ("BuiltinOptions", "BuiltinOptions2")]
        assert [unions[0][codes[0][1]], unions[1][codes[1][2]]] == ["AddOptions", "StablehloConcatenateOptions"]
        assert (codes[0][2], codes[1][1]) == (0, 0)


def test_followers_are_called_before_every_writing(model: Model) -> None:
    edit = ModelEdit(model)
    seen: list[int] = []
    edit.before_save(lambda change: seen.append(len(change.index_map.added)))
    edit.before_save(lambda change: change.set_metadata("count", bytes(seen[-1:])))
    edit.add_operator(0, 0, [0], [1])
    data = edit.to_bytes()
    assert seen == [1]
    with open_model(data) as after:
        assert value_of(after, "count") == b"\1"


def test_a_model_that_is_open_is_not_the_target(tmp_path: Path) -> None:
    path = tmp_path / "in.circle"
    path.write_bytes(bytes_of("circle/mlp"))
    with open_model(path) as model:
        change = ModelEdit(model)
        with pytest.raises(UsageError, match="same file"):
            change.check_target(path)
        change.check_target(path, in_place=True)
        change.check_target(tmp_path / "out.circle")
        with pytest.raises(CircleToolsError):
            change.check_target(tmp_path / "missing" / "out.circle")


def test_data_outside_moves_with_the_file() -> None:
    data = outside(PLACES)
    after = noted(data)
    before, moved, distance = ranges(data), ranges(after), len(after) - len(data)
    assert moved == [(kind, row, offset + distance, size) for kind, row, offset, size in before]
    assert [row for kind, row, _, _ in before if kind != "Buffer"] == [4, 5]
    assert after.endswith(data)
    again = edited(after, lambda edit: edit.remove_metadata("note"), lambda edit: edit.set_metadata("more", b"more"))
    assert [one[2] - other[2] for one, other in zip(ranges(again), before, strict=True)] == [
        len(again) - len(data)
    ] * len(before)


# --- metadata and buffers -----------------------------------------------------------------------------------


def names_and_values(data: bytes) -> list[tuple[str, bytes]]:
    with open_model(data) as model:
        return [(entry.name, bytes(model.buffers[entry.buffer].data)) for entry in model.metadata]


def contents(data: bytes) -> list[bytes]:
    with open_model(data) as model:
        return [bytes(buffer.data) for buffer in model.buffers]


def test_places_that_an_edit_left_free_are_used_first() -> None:
    data = built().to_bytes()
    for name in ("a", "b", "c"):
        data = edited(data, lambda edit, name=name: edit.set_metadata(name, name.encode()))  # type: ignore[misc]
    assert contents(data) == [b"", b"value", b"a", b"b", b"c"]
    data = edited(data, lambda edit: edit.remove_metadata("b"), lambda edit: edit.remove_metadata("a"))
    assert contents(data) == [b"", b"value", b"", b"", b"c"]
    data = edited(data, lambda edit: edit.set_metadata("d", b"d"))
    assert contents(data) == [b"", b"value", b"d", b"", b"c"]
    data = edited(data, lambda edit: edit.remove_metadata("c"))
    assert contents(data) == [b"", b"value", b"d"]
    assert names_and_values(data) == [("held", b"value"), ("d", b"d")]


def test_a_buffer_is_free_only_when_it_is_empty_and_nothing_names_it() -> None:
    data = edited(built().to_bytes(), lambda edit: edit.set_metadata("empty", b""))
    data = edited(data, lambda edit: edit.add_buffer(b"kept"))
    data = edited(data, lambda edit: edit.set_metadata("new", b"new"))
    assert contents(data) == [b"", b"value", b"", b"kept", b"new"]
    assert names_and_values(data) == [("held", b"value"), ("empty", b""), ("new", b"new")]
    data = edited(data, lambda edit: edit.remove_metadata("new"))
    assert contents(data) == [b"", b"value", b"", b"kept"]


def test_external_data_is_replaced_and_other_fields_of_the_buffer_stay() -> None:
    build = built()
    build.model.buffers[1] = Table("Buffer", offset=4096, size=4)
    data = edited(build.to_bytes().ljust(4096, b"\0") + b"long", lambda edit: edit.set_metadata("held", b"other"))
    with open_model(data) as model:
        assert (value_of(model, "held"), model.buffers[1].external) == (b"other", False)
    build.model.buffers[1] = Table("Buffer", data=b"value", offset=1, size=9)
    data = edited(build.to_bytes(), lambda edit: edit.set_metadata("held", b"other"))
    with open_model(data) as model:
        assert (value_of(model, "held"), model.buffers[1].external) == (b"other", False)
        assert (model.buffers.offsets.tolist(), model.buffers.sizes.tolist()) == ([0, 1], [0, 9])


def test_data_outside_that_an_edit_drops_does_not_move() -> None:
    """A file in which the original has one buffer less than its prefix, as if an edit had added the other one."""
    build = built()
    build.model.metadata = None
    build.model.buffers[1] = Table("Buffer", offset=4096, size=4)
    old = build.to_bytes().ljust(4096, b"\0") + b"long"
    data = noted(old)
    base = len(data) - len(old)
    data = put_u32(data, target(data, field_at(data, base + u32(old, 0), 4)), 1)
    with open_model(data) as model:
        assert [buffer.external for buffer in model.buffers] == [False, True, False]
    assert contents(edited(data, lambda edit: edit.remove_metadata("note"))) == [b""]


def test_a_value_is_that_of_the_edit(model: Model) -> None:
    edit = ModelEdit(model)
    assert (edit.metadata_value("none"), edit.metadata_value("held")) == (None, b"value")
    edit.set_metadata("held", b"other")
    edit.set_metadata("none", b"one")
    assert (edit.metadata_value("none"), edit.metadata_value("held")) == (b"one", b"other")
    edit.remove_metadata("held")
    assert edit.metadata_value("held") is None


def test_an_empty_buffer_of_the_original_is_no_free_place() -> None:
    build = built()
    empty = build.buffer()
    data = edited(build.to_bytes(), lambda edit: edit.set_metadata("new", b"new"))
    assert contents(data) == [b"", b"value", b"", b"new"]
    assert contents(edited(data, lambda edit: edit.remove_metadata("new")))[empty:] == [b""]


def test_without_buffers_the_empty_one_is_added_first() -> None:
    build = Build()
    build.graph().ends([], [])
    build.model.buffers = []
    data = build.to_bytes()
    with_entry = edited(data, lambda edit: edit.set_metadata("a", b"1"))
    assert contents(with_entry) == [b"", b"1"]
    assert contents(edited(with_entry, lambda edit: edit.remove_metadata("a"))) == []
    assert contents(edited(data, lambda edit: edit.add_buffer(b"1"), lambda edit: edit.add_buffer(b"2"))) == [
        b"", b"1", b"2",
    ]  # fmt: skip
    with open_model(edited(data, lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[]))) as after:
        assert after.subgraphs[0].tensors[0].buffer == 0
    with pytest.raises(UsageError, match="buffer 1 does not exist; the count is 0"):
        edited(data, lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[], buffer=1))
    both = edited(data, lambda edit: edit.set_metadata("a", b"1"), lambda edit: edit.remove_metadata("a"))
    assert contents(both) == []


def test_an_entry_without_a_value_gets_a_buffer() -> None:
    build = built()
    build.model.metadata[0].buffer = 0
    data = edited(build.to_bytes(), lambda edit: edit.set_metadata("held", b"new"))
    assert (contents(data), names_and_values(data)) == ([b"", b"value", b"new"], [("held", b"new")])
    data = edited(build.to_bytes(), lambda edit: edit.remove_metadata("held"))
    assert (contents(data), names_and_values(data)) == ([b"", b"value"], [])


def test_data_too_large_for_a_flatbuffer_is_refused(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "MAX_FLATBUFFER_BYTES", 100)
    edit = ModelEdit(model)
    with pytest.raises(EditError, match="2 GiB"):
        edit.add_buffer(bytes(101))
    assert edit.add_buffer(bytes(100)) == 2
    edit.remove_metadata("held")


def test_data_that_two_share_stays_for_the_other() -> None:
    build = built()
    build.model.metadata = [*build.model.metadata, build.model.metadata[0]]
    build.model.subgraphs[0].tensors[0].buffer = 1
    data = edited(build.to_bytes(), lambda edit: edit.set_metadata("held", b"other"))
    assert contents(data) == [b"", b"value", b"other"]
    assert names_and_values(data) == [("held", b"other")]
    data = edited(data, lambda edit: edit.remove_metadata("held"))
    assert contents(data) == [b"", b"value"]


def test_the_last_name_takes_the_data_along() -> None:
    data = edited(built().to_bytes(), lambda edit: edit.remove_metadata("held"))
    assert (contents(data), names_and_values(data)) == ([b"", b""], [])
