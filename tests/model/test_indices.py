"""Indices by their roles: each one that leads nowhere is found, at its place, whatever field it is in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from circletools.errors import EditError
from circletools.findings import Finding
from circletools.flatbuf.schema import RoleKind, load_roles, load_schema
from circletools.model.indices import model_indices
from circletools.model.model import open_model
from circletools.model.verify import check_model
from tests.kit.every_field import INDEX, reader
from tests.kit.every_field import every_field as written
from tests.kit.support import bytes_of, edited, packed, unpacked

FORMATS = ("circle", "tflite")
every_field = cache(written)


class Index(NamedTuple):
    """An index in a file: the field, where its bytes are, what it points at."""

    key: tuple[str, str]
    at: int
    dtype: str
    kind: RoleKind


@cache
def places(name: Any) -> dict[str, Index]:
    """Return every index of the model with every field by its path, as the kit's own reader finds them."""
    found: dict[str, Index] = {}
    for path, (owner, item, at, length) in reader(every_field(name)).numbers.items():
        role = load_roles().get((owner, item.name))
        if role is None or role.kind not in INDEX:
            continue
        for index in range(length):
            whole = path if item.kind == "scalar" else f"{path}[{index}]"
            found[whole] = Index((owner, item.name), at + index * item.dtype.itemsize, item.dtype.str, role.kind)
    return found


def with_numbers(data: bytes, numbers: Mapping[Index, int]) -> bytes:
    """Return the file with other numbers in the place of indices."""
    changed = bytearray(data)
    for index, number in numbers.items():
        raw = np.array([number]).astype(index.dtype).tobytes()
        changed[index.at : index.at + len(raw)] = raw
    return bytes(changed)


def errors(data: bytes) -> dict[str, str]:
    """Return place -> message of every index that leads nowhere."""
    with open_model(data) as model:
        found = check_model(model)
    assert {finding.code for finding in found} <= {"INDEX_OUT_OF_RANGE"}
    assert len({finding.location for finding in found}) == len(found)
    return {finding.location: finding.message for finding in found}


# --- every field --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_the_model_with_every_field_has_every_index(name: Any) -> None:
    schema = load_schema(name)
    expected = {
        (table, field)
        for (table, field), role in load_roles().items()
        if role.kind in INDEX and table in schema.tables and field in schema.tables[table].by_name
    }
    assert {index.key for index in places(name).values()} == expected
    assert len(expected) > 25
    assert errors(every_field(name)) == {}


@pytest.mark.parametrize("name", FORMATS)
def test_an_index_out_of_range_is_found_in_every_field(name: Any) -> None:
    """One field after the other, without other findings."""
    tried: set[tuple[str, str]] = set()
    for path, index in places(name).items():
        if index.key not in tried:
            tried.add(index.key)
            ((place, message),) = errors(with_numbers(every_field(name), {index: 1 << 20})).items()
            assert place == path
            assert message.startswith(f"{index.kind.replace('_', ' ')} {1 << 20} does not exist")


@pytest.mark.parametrize("name", FORMATS)
@given(data=st.data())
def test_what_is_out_of_range_is_found_and_nothing_else(name: Any, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(sorted(places(name))), min_size=1, max_size=15, unique=True))
    numbers = {}
    for path in chosen:
        index = places(name)[path]
        signed = np.dtype(index.dtype).kind == "i"
        numbers[index] = data.draw(
            st.integers(1000, 2**31 - 1) | (st.integers(-(2**31), -2) if signed else st.nothing())
        )
    # Names in a signature of a missing subgraph cannot be checked.
    unchecked = [
        path.rpartition(".")[0] for path in chosen if places(name)[path].key == ("SignatureDef", "subgraph_index")
    ]
    shown = {path for path in chosen if not path.startswith(tuple(f"{one}.inputs" for one in unchecked))}
    shown = {path for path in shown if not path.startswith(tuple(f"{one}.outputs" for one in unchecked))}
    assert errors(with_numbers(every_field(name), numbers)).keys() == shown


# --- the bounds ---------------------------------------------------------------------------------------------


def blockwise(**fields: int) -> bytes:
    """Return the int4 model with other numbers in the first tensor that is quantized in blocks."""
    model = unpacked(bytes_of("tflite/blockwise_int4"))
    for name, value in fields.items():
        setattr(model.subgraphs[0].tensors[1].quantization.details, name, value)
    return packed(model, b"TFL3")


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("scales", 12, False), ("scales", 13, True), ("scales", -1, True), ("scales", 0, False),
        ("zeroPoints", -1, False), ("zeroPoints", 12, False), ("zeroPoints", 13, True), ("zeroPoints", -2, True),
    ],
)  # fmt: skip
def test_scales_of_blocks_must_exist_and_zero_points_may_be_left_out(field: str, value: int, found: bool) -> None:
    name = {"scales": "scales", "zeroPoints": "zero_points"}[field]
    place = f"subgraphs[0].tensors[1].quantization.details.{name}"
    expected = {place: f"tensor {value} does not exist; the count is 13"} if found else {}
    assert errors(blockwise(**{field: value})) == expected


def test_a_broken_index_of_blocks_is_no_model_to_edit() -> None:
    with pytest.raises(EditError, match=r"details\.scales: tensor 13 does not exist"):
        edited(blockwise(scales=13), lambda edit: edit.set_metadata("note", b""))


def test_an_index_counts_in_the_subgraph_that_its_tensor_is_in() -> None:
    """The same tensors in two subgraphs: what they name is in one of them only."""
    model = unpacked(bytes_of("tflite/blockwise_int4"))
    small = type(model.subgraphs[0])()
    small.tensors, small.operators, small.inputs, small.outputs = model.subgraphs[0].tensors[:2], [], [0], [1]
    model.subgraphs.append(small)
    ((place, message),) = errors(packed(model, b"TFL3")).items()
    assert (place, message) == (
        "subgraphs[1].tensors[1].quantization.details.scales", "tensor 10 does not exist; the count is 2"
    )  # fmt: skip


# --- debug metadata -----------------------------------------------------------------------------------------


def debug(subgraph: int | None = None, operator: int | None = None, *, entry: bytes | None = None) -> list[Finding]:
    """Return the findings of a model whose debug metadata has one subgraph; `entry` replaces that."""
    model = unpacked(bytes_of("tflite/debug_metadata"))
    if subgraph is not None:
        model.subgraphs[0].debugMetadataIndex = subgraph
    if operator is not None:
        model.subgraphs[0].operators[0].debugMetadataIndex = operator
    data = packed(model, b"TFL3")
    if entry is not None:
        data = edited(data, lambda edit: edit.set_metadata("debug_metadata", entry))
    with open_model(data) as opened:
        return check_model(opened)


def test_an_index_into_debug_metadata_is_checked() -> None:
    assert debug() == []
    (finding,) = debug(operator=1000)
    assert (finding.code, finding.severity) == ("INDEX_OUT_OF_RANGE", "warning")
    assert finding.location == "subgraphs[0].operators[0].debug_metadata_index"
    (finding,) = debug(subgraph=1)
    assert (finding.severity, finding.location) == ("warning", "subgraphs[0].debug_metadata_index")
    assert finding.message == "debug metadata 1 does not exist; the count is 1"
    assert debug(subgraph=-1, operator=1000) == []  # the subgraph is not reported, so neither are its operators
    for subgraph in (1, 2, 1000, -2, -1000):
        (finding,) = debug(subgraph=subgraph, operator=1000)
        assert finding.location == "subgraphs[0].debug_metadata_index"


@pytest.mark.parametrize("entry", [b"", b"\xff" * 40, bytes(40), b"short"])
def test_debug_metadata_that_cannot_be_read_bounds_nothing(entry: bytes) -> None:
    assert debug(operator=1000, entry=entry) == []


def test_places_name_every_level() -> None:
    with open_model(bytes_of("tflite/blockwise_int4")) as model:
        found = {indices.key: indices for indices in model_indices(model, "tensor")}
    inputs, scales = found["Operator", "inputs"], found["BlockwiseQuantization", "scales"]
    assert [inputs.place(index) for index in (0, 2, 3, 5)] == [
        f"subgraphs[0].operators[{place}]" for place in ("0].inputs[0", "0].inputs[2", "1].inputs[0", "2].inputs[1")
    ]
    assert scales.place(2) == "subgraphs[0].tensors[7].quantization.details.scales"
    assert scales.level.rows_of("Tensor") is not None
    assert scales.level.rows_of("Operator") is None
