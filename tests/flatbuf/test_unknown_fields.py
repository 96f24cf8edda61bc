"""Fields that the schema does not know, or no longer knows, survive."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from circletools.edit.edit import ModelEdit
from tests.kit.build import Raw
from tests.kit.support import bytes_of, edited, field_at, find_field, locate, noted, read, target, u32

UNKNOWN_SLOT, UNKNOWN_VALUE = 30, 0x1234567


def with_unknown(table: str) -> bytes:
    """Build a model in which the tables of one type have a number far beyond the schema."""
    raw = Raw()

    def make(name: str, fields: dict[int, int | tuple[str, int]]) -> int:
        return raw.table(fields | ({UNKNOWN_SLOT: ("i32", UNKNOWN_VALUE)} if name == table else {}))

    buffers = raw.refs([make("Buffer", {}), make("Buffer", {0: raw.string(b"value")})])
    tensor = make("Tensor", {0: raw.ints([1, 2]), 3: raw.string(b"x"), 2: ("u32", 0)})
    maps = raw.refs([make("TensorMap", {0: raw.string(b"in"), 1: ("u32", 0)})])
    signature = make("SignatureDef", {0: maps, 2: raw.string(b"key"), 3: raw.string(b"old tag"), 4: ("u32", 0)})
    code = make("OperatorCode", {0: ("i8", 0), 3: ("i32", 0)})
    operator = make("Operator", {1: raw.ints([0, 0]), 2: raw.ints([0]), 0: ("u32", 0)})
    subgraph = make(
        "SubGraph",
        {0: raw.refs([tensor]), 1: raw.ints([0]), 2: raw.ints([0]), 3: raw.refs([operator]), 4: raw.string(b"main")},
    )
    entry = make("Metadata", {0: raw.string(b"old"), 1: ("u32", 1)})
    root = {1: raw.refs([code]), 2: raw.refs([subgraph]), 4: buffers, 6: raw.refs([entry]), 7: raw.refs([signature])}
    return raw.finish(make("Model", {**root, 0: ("u32", 3)}))


def remap(edit: ModelEdit) -> None:
    edit.set_signature_entry(0, "inputs", 0, edit.add_tensor_like(0, 0, "t"))


CHANGES: dict[str, Callable[[ModelEdit], object]] = {
    "metadata": lambda edit: edit.set_metadata("note", b"a value"),
    "outputs": lambda edit: edit.set_outputs(0, [0, 0]),
    "tensor": lambda edit: edit.add_tensor(0, "t", type="INT8", shape=[1]),
    "like": lambda edit: edit.add_tensor_like(0, 0, "t"),
    "code": lambda edit: edit.add_operator_code("MUL"),
    "operator": lambda edit: edit.add_operator(0, 0, [0, 0], [0]),
    "entry": lambda edit: edit.set_signature_entry(0, "inputs", 0, 0),
    "remap": remap,
}
PLACES = {
    "Model": (),
    "SubGraph": ("subgraphs", 0),
    "Tensor": ("subgraphs", 0, "tensors", 0),
    "Operator": ("subgraphs", 0, "operators", 0),
    "OperatorCode": ("operator_codes", 0),
    "Buffer": ("buffers", 0),
    "Metadata": ("metadata", 0),
    "SignatureDef": ("signature_defs", 0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("table", PLACES)
def test_a_number_that_the_schema_does_not_know_survives(table: str, change: str) -> None:
    """What could be a reference is carried or refused in tests/edit/test_lossless.py."""
    for data in (with_unknown(table), edited(with_unknown(table), CHANGES[change])):
        after = edited(data, CHANGES[change])
        place = locate(after, *PLACES[table])
        assert u32(after, field_at(after, place, UNKNOWN_SLOT)) == UNKNOWN_VALUE


def text_at(data: bytes, at: int) -> bytes:
    start = target(data, at)
    return data[start + 4 : start + 4 + u32(data, start)]


def test_the_deprecated_tag_of_a_signature_survives_that_its_table_is_written_again() -> None:
    after = edited(with_unknown("none"), CHANGES["remap"])
    assert read(after)["signatureDefs"][0]["inputs"][0]["tensorIndex"] == 1
    for data in (after, noted(after), noted(noted(after, "two", b"2"))):
        assert text_at(data, field_at(data, locate(data, "signature_defs", 0), 3)) == b"old tag"


def test_the_deprecated_format_of_a_circle_subgraph_survives() -> None:
    raw = Raw()
    tensor = raw.table({0: raw.ints([1]), 3: raw.string(b"x"), 1: ("i8", 0)})
    subgraph = raw.table({0: raw.refs([tensor]), 1: raw.ints([0]), 2: raw.ints([0]), 5: ("i8", 1), 6: ("i32", 7)})
    data = raw.finish(raw.table({2: raw.refs([subgraph]), 4: raw.refs([raw.table()])}), b"CIR0")
    after = noted(edited(data, CHANGES["outputs"]))
    assert after[field_at(after, locate(after, "subgraphs", 0), 5)] == 1
    assert read(after)["subgraphs"][0]["debugMetadataIndex"] == 7


def test_an_absent_field_stays_absent_and_a_written_default_stays_written() -> None:
    data = with_unknown("none")
    after = edited(data, CHANGES["outputs"])
    assert find_field(after, locate(after, "subgraphs", 0), 5) == find_field(data, locate(data, "subgraphs", 0), 5)
    data = bytes_of("tflite/if_cond")
    subgraph = find_field(data, locate(data, "subgraphs", 1), 5)
    after = edited(data, lambda edit: edit.set_outputs(1, [0]))
    assert bool(find_field(after, locate(after, "subgraphs", 1), 5)) == bool(subgraph)
