"""The structure and the indices of a file: what is sound is accepted, what is not is told, nothing leaks."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, EditError, InvalidInputError, ModelFormatError
from circletools.findings import Finding
from circletools.flatbuf.verify import walk
from circletools.model.model import Model, open_model
from circletools.model.verify import check_model
from tests.kit.build import Raw
from tests.kit.public import SHARED
from tests.kit.support import (
    bytes_of,
    edited,
    entry_at,
    field_at,
    locate,
    noted,
    packed,
    put,
    put_u32,
    read_everything,
    target,
    u32,
    unpacked,
    value_of,
    vtable_of,
    within,
)


def verify(data: bytes) -> list[Finding]:
    with open_model(data) as model:
        walk(model.wire, model.schema)
        return check_model(model)


def refusal(data: bytes) -> ModelFormatError:
    """Return the error that the structure of a file gives."""
    with pytest.raises(ModelFormatError) as caught:
        verify(data)
    return caught.value


# --- sound models, and the official verifier ----------------------------------------------------------------


def test_every_test_model_is_accepted(own_model: Path) -> None:
    assert verify(own_model.read_bytes()) == []


@pytest.mark.parametrize("name", ["circle/mlp", "tflite/cnn"])
def test_what_is_reached_ends_inside_the_file(name: str) -> None:
    data = bytes_of(name)
    with open_model(data + bytes(100)) as model:
        assert len(data) - 16 < model.reachable.end <= len(data)


@cache
def verdicts() -> dict[str, list[dict[str, Any]]]:
    """Return the verdicts of the official C++ verifier by model; none where the public folder is missing."""
    path, grouped = SHARED / "verifier" / "verdicts.jsonl.gz", defaultdict(list)
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                verdict = json.loads(line)
                grouped[verdict["model"]].append(verdict)
    return dict(grouped)


@pytest.mark.parametrize("name", sorted(verdicts()) or [None])
def test_the_verdict_is_that_of_the_official_verifier(name: str | None, shared: Path) -> None:
    assert name is not None
    original, different = (shared / "models" / name).read_bytes(), []
    for verdict in verdicts()[name]:
        data = original
        for offset, new in verdict["set"]:
            data = put(data, offset, bytes.fromhex(new))
        with within(2):
            found = "ok" if is_sound(data[: verdict["cut"]]) else "fail"
        if found != verdict["verdict"]:
            different.append(verdict)
    assert different == []


def is_sound(data: bytes) -> bool:
    try:
        with open_model(data) as model:
            walk(model.wire, model.schema)
    except ModelFormatError:
        return False
    return True


def test_all_verdicts_are_there(shared: Path) -> None:
    assert sum(map(len, verdicts().values())) == 24_000
    assert len({verdict["verdict"] for found in verdicts().values() for verdict in found}) == 2


# --- files that somebody changed ----------------------------------------------------------------------------

BASES = (
    "circle/mlp_external", "circle/while_loop", "circle/quantized_linear", "circle/lstm_cell",
    "tflite/if_cond", "tflite/variable", "tflite/sparse", "tflite/debug_metadata", "tflite/composite",
    "tflite/custom_options_external", "tflite/zip_tail", "tflite/two_signatures",
)  # fmt: skip
INTERESTING = (0, 1, 2, 3, 4, 5, 8, 12, 16, 0x7F, 0x80, 0xFC, 0xFE, 0xFF)


@dataclass(frozen=True)
class Damage:
    """A test model, perhaps edited first, with words and bytes overwritten, and perhaps cut."""

    name: str
    edited: bool
    writes: tuple[tuple[int, bytes], ...]
    cut: int | None

    def done(self) -> bytes:
        data = noted(bytes_of(self.name)) if self.edited else bytes_of(self.name)
        for at, new in self.writes:
            place = at % (len(data) - 4)
            data = put(data, place & ~3 if len(new) == 4 else place, new)
        return data if self.cut is None else data[: self.cut % len(data)]


single = st.one_of(st.sampled_from(INTERESTING), st.integers(0, 255)).map(lambda value: bytes([value]))
word = st.one_of(st.integers(-64, 4000), st.sampled_from((-(2**31), 2**31 - 1)))
word_bytes = word.map(lambda value: value.to_bytes(4, "little", signed=True))
write = st.tuples(st.integers(0, 20_000), st.one_of(single, word_bytes))
damages = st.builds(
    Damage,
    name=st.sampled_from(BASES),
    edited=st.booleans(),
    writes=st.lists(write, min_size=1, max_size=8).map(tuple),
    cut=st.one_of(st.none(), st.none(), st.none(), st.integers(0, 20_000)),
)


USES: dict[str, Callable[[Model], object]] = {
    "walk": lambda model: walk(model.wire, model.schema),
    "check": check_model,
    "versions": lambda model: (model.version, model.description),
    "codes": lambda model: model.operator_codes,
    "metadata": lambda model: [model.metadata_value(entry.name) for entry in model.metadata],
    "signatures": lambda model: model.signatures,
    "buffers": lambda model: [bytes(buffer.data) for buffer in model.buffers],
    "names": lambda model: [subgraph.name for subgraph in model.subgraphs],
    "slots": lambda model: [(subgraph.inputs, subgraph.outputs) for subgraph in model.subgraphs],
    "operators": lambda model: [list(subgraph.operators) for subgraph in model.subgraphs],
    "tensors": lambda model: [list(subgraph.tensors) for subgraph in model.subgraphs],
    "output names": lambda model: [model.output_names(subgraph.index) for subgraph in model.subgraphs],
    "columns": lambda model: (model.tensor_columns.names, model.operator_columns.first_outputs),
    "set": lambda model: changed(model, "set_metadata", "note", b"value"),
    "remove": lambda model: changed(model, "remove_metadata", "note"),
    "outputs": lambda model: changed(model, "set_outputs", 0, [0]),
    "like": lambda model: changed(model, "add_tensor_like", 0, 0, "like"),
}


def changed(model: Model, method: str, *arguments: object) -> bytes:
    edit = ModelEdit(model)
    getattr(edit, method)(*arguments)
    return edit.to_bytes()


@settings(max_examples=300)
@given(damages)
def test_any_file_gives_a_value_or_our_error(damage: Damage) -> None:
    data = damage.done()
    with within(2):
        try:
            open_model(data).close()
        except CircleToolsError:
            return
    for use in USES.values():
        with within(2), open_model(data) as model, suppress(CircleToolsError):
            use(model)


def accepted(data: bytes) -> bool:
    try:
        return not any(finding.severity == "error" for finding in verify(data))
    except ModelFormatError:
        return False


@settings(max_examples=300)
@given(damages)
def test_an_accepted_file_can_be_read_and_edited(damage: Damage) -> None:
    data = damage.done()
    if not accepted(data):
        return
    with open_model(data) as model:
        read_everything(model)
    try:
        after = noted(data)
    except (EditError, InvalidInputError):
        return
    assert accepted(after)
    with open_model(data) as old, open_model(after) as new:
        assert views(new) == views(old)
        assert value_of(new, "note") == b"a value"


def views(model: Model) -> list[object]:
    """Return what an edit of the metadata entry `note` must leave alone."""
    buffers = model.buffers
    return [
        model.version,
        model.description,
        model.operator_codes,
        model.signatures,
        [(subgraph.name, list(subgraph.operators)) for subgraph in model.subgraphs],
        [list(subgraph.tensors) for subgraph in model.subgraphs],
        [(subgraph.inputs.tolist(), subgraph.outputs.tolist()) for subgraph in model.subgraphs],
        [[bytes(buffers[t.buffer].data) for t in subgraph.tensors if len(buffers)] for subgraph in model.subgraphs],
        [(entry.name, bytes(buffers[entry.buffer].data)) for entry in model.metadata if entry.name != "note"],
    ]


@pytest.mark.parametrize("name", ["circle/mlp_external", "tflite/zip_tail"])
def test_a_cut_file_is_sound_while_all_that_is_reached_is_there(name: str) -> None:
    data = bytes_of(name)
    with open_model(data) as model:
        end = model.reachable.end
    assert [cut for cut in (*range(0, end, 7), end - 1) if is_sound(data[:cut])] == []
    assert is_sound(data[:end])


# --- the words of a refusal ---------------------------------------------------------------------------------

MODEL = "tflite/if_cond"
OPERATOR = "subgraphs[0].operators[0]"


def base() -> bytes:
    return bytes_of(MODEL)


@pytest.mark.parametrize(("slot", "field"), [(1, "inputs"), (2, "outputs"), (4, "builtin_options")])
def test_a_reference_out_of_the_file_is_told_with_path_and_offset(slot: int, field: str) -> None:
    data = base()
    at = field_at(data, locate(data, "subgraphs", 0, "operators", 0), slot)
    error = refusal(put_u32(data, at, len(data)))
    assert (error.location, error.offset) == (f"{OPERATOR}.{field}", at)
    assert str(error) == f"{OPERATOR}.{field}: a reference leads outside the file at byte {at}"


@pytest.mark.parametrize("value", [0, 2**31])
def test_a_reference_must_lead_forward(value: int) -> None:
    data = base()
    at = field_at(data, locate(data, "subgraphs", 1), 1)
    error = refusal(put_u32(data, at, value))
    assert (error.location, error.offset) == ("subgraphs[1].inputs", at)


def test_a_vector_with_too_many_elements() -> None:
    data = base()
    at = target(data, field_at(data, locate(data, "subgraphs", 0, "operators", 0), 1))
    error = refusal(put_u32(data, at, 2**32 - 1))
    assert (error.location, error.offset) == (f"{OPERATOR}.inputs", at)
    assert "a vector ends outside the file" in error.message


def test_a_misaligned_vector() -> None:
    data = base()
    at = field_at(data, locate(data, "subgraphs", 0), 2)
    error = refusal(put_u32(data, at, u32(data, at) + 2))
    assert (error.location, error.offset) == ("subgraphs[0].outputs", at + u32(data, at) + 2)
    assert "misaligned" in error.message


def test_a_string_without_its_nul() -> None:
    data = base()
    at = target(data, field_at(data, locate(data, "subgraphs", 0, "tensors", 1), 3))
    end = at + 4 + u32(data, at)
    error = refusal(put(data, end, b"x"))
    assert (error.location, error.offset) == ("subgraphs[0].tensors[1].name", end)
    assert "NUL" in error.message


def test_a_vtable_outside_the_file() -> None:
    data = base()
    at = locate(data, "subgraphs", 0, "tensors", 1)
    error = refusal(put_u32(data, at, 0x7FFF0000))
    assert (error.location, error.offset) == ("subgraphs[0].tensors[1]", at - 0x7FFF0000)


def test_a_vtable_of_odd_size() -> None:
    data = base()
    vtable = vtable_of(data, locate(data, "subgraphs", 0))
    error = refusal(put(data, vtable, b"\x07"))
    assert error.location in ("subgraphs[0]", "subgraphs[1]", "subgraphs[2]")  # they may share it
    assert (error.offset, "odd" in error.message) == (vtable, True)


def test_a_misaligned_field() -> None:
    data = base()
    tensor = locate(data, "subgraphs", 0, "tensors", 0)
    entry = entry_at(data, tensor, 2)
    error = refusal(put(data, entry, bytes([data[entry] + 1])))
    assert error.location is not None
    assert error.location.endswith("].buffer")
    assert "a field is misaligned" in error.message


@pytest.mark.parametrize("root", [0, 1, 2**31, 2**32 - 1])
def test_a_root_outside_the_file(root: int) -> None:
    error = refusal(put_u32(base(), 0, root))
    assert error.offset is not None


def test_a_path_goes_through_a_union() -> None:
    data = base()
    options = target(data, field_at(data, locate(data, "subgraphs", 0, "operators", 0), 4))
    error = refusal(put_u32(data, options, 0x7FFF0000))
    assert error.location == f"{OPERATOR}.builtin_options"


# --- indices that lead nowhere ------------------------------------------------------------------------------


def broken(name: str, change: Callable[[Any], None]) -> list[tuple[str, str, str]]:
    """Return the findings about a test model after `change` of its objects."""
    data = bytes_of(name)
    model = unpacked(data)
    change(model)
    return [(found.code, found.severity, found.location) for found in verify(packed(model, data[4:8]))]


def test_packing_again_is_no_finding() -> None:
    for name in ("tflite/if_cond", "circle/while_loop", "tflite/composite", "tflite/variable"):
        assert broken(name, lambda _: None) == []


def put_in(owner: str, path: str, value: int) -> Callable[[Any], None]:
    """Return a function that sets the attribute or element `path` of an object of the model to `value`."""

    def change(model: Any) -> None:
        holder, name = owner.rsplit(".", 1) if path.isdecimal() else (owner, path)
        thing = eval(f"model.{holder}", {"model": model})  # noqa: S307 - the text is in this file
        if path.isdecimal():
            values = getattr(thing, name).tolist()
            values[int(path)] = value
            setattr(thing, name, values)
        else:
            setattr(thing, name, value)

    return change


INDICES = [
    ("tflite/if_cond", "subgraphs[0].tensors[1]", "buffer", "subgraphs[0].tensors[1].buffer"),
    ("tflite/if_cond", "subgraphs[1].operators[0]", "opcodeIndex", "subgraphs[1].operators[0].opcode_index"),
    ("tflite/if_cond", "subgraphs[1].operators[0].inputs", "0", "subgraphs[1].operators[0].inputs[0]"),
    ("tflite/if_cond", "subgraphs[1].operators[0].outputs", "0", "subgraphs[1].operators[0].outputs[0]"),
    ("tflite/if_cond", "subgraphs[2].inputs", "1", "subgraphs[2].inputs[1]"),
    ("tflite/if_cond", "subgraphs[2].outputs", "0", "subgraphs[2].outputs[0]"),
    ("tflite/if_cond", "metadata[0]", "buffer", "metadata[0].buffer"),
    ("tflite/if_cond", "signatureDefs[0]", "subgraphIndex", "signature_defs[0].subgraph_index"),
    ("tflite/if_cond", "signatureDefs[0].inputs[1]", "tensorIndex", "signature_defs[0].inputs[1].tensor_index"),
    ("tflite/if_cond", "signatureDefs[0].outputs[0]", "tensorIndex", "signature_defs[0].outputs[0].tensor_index"),
    (
        "circle/two_signatures", "signatureDefs[1].inputs[0]", "tensorIndex",
        "signature_defs[1].inputs[0].tensor_index",
    ),
]  # fmt: skip
CALLS = [
    ("tflite/if_cond", "IF", "thenSubgraphIndex", "builtin_options.then_subgraph_index"),
    ("tflite/if_cond", "IF", "elseSubgraphIndex", "builtin_options.else_subgraph_index"),
    ("circle/while_loop", "WHILE", "condSubgraphIndex", "builtin_options.cond_subgraph_index"),
    ("tflite/while_loop", "WHILE", "bodySubgraphIndex", "builtin_options.body_subgraph_index"),
    ("tflite/variable", "CALL_ONCE", "initSubgraphIndex", "builtin_options.init_subgraph_index"),
    (
        "tflite/composite", "STABLEHLO_COMPOSITE", "decompositionSubgraphIndex",
        "builtin_options_2.decomposition_subgraph_index",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "owner", "path", "location"), INDICES)
def test_an_index_that_leads_nowhere_is_found(name: str, owner: str, path: str, location: str) -> None:
    assert broken(name, put_in(owner, path, 1000)) == [("INDEX_OUT_OF_RANGE", "error", location)]


@pytest.mark.parametrize(("name", "owner", "path", "location"), INDICES)
def test_the_first_index_that_does_not_exist_is_found(name: str, owner: str, path: str, location: str) -> None:
    """The bound itself, not only a large number."""
    model = unpacked(bytes_of(name))
    if owner.startswith("signatureDefs"):
        subgraph = model.signatureDefs[int(owner[14])].subgraphIndex
    else:
        subgraph = int(owner[10]) if owner.startswith("subgraphs") else 0
    bound = {
        "buffer": len(model.buffers),
        "opcodeIndex": len(model.operatorCodes),
        "subgraphIndex": len(model.subgraphs),
    }.get(path, len(model.subgraphs[subgraph].tensors))
    assert broken(name, put_in(owner, path, bound)) == [("INDEX_OUT_OF_RANGE", "error", location)]
    below = [finding for finding in broken(name, put_in(owner, path, bound - 1)) if finding[2] == location]
    assert below == []


@pytest.mark.parametrize(("name", "code", "field", "location"), CALLS)
@pytest.mark.parametrize("index", [-2, 1000])
def test_a_called_subgraph_that_does_not_exist_is_found(
    name: str, code: str, field: str, location: str, index: int
) -> None:
    with open_model(bytes_of(name)) as model:
        found = [operator.index for operator in model.subgraphs[0].operators if operator.code.name == code]
    operator = f"subgraphs[0].operators[{found[0]}]"

    def change(model: Any) -> None:
        made = model.subgraphs[0].operators[found[0]]
        setattr(made.builtinOptions or made.builtinOptions2, field, index)

    assert broken(name, change) == [("INDEX_OUT_OF_RANGE", "error", f"{operator}.{location}")]


def test_an_input_may_be_left_out_but_not_a_subgraphs() -> None:
    assert broken("tflite/if_cond", put_in("subgraphs[1].operators[0].inputs", "0", -1)) == []
    assert broken("tflite/if_cond", put_in("subgraphs[1].operators[0].inputs", "0", -2)) != []
    assert broken("tflite/if_cond", put_in("subgraphs[2].inputs", "1", -1)) != []


def test_external_data_outside_the_file_is_found() -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        last = int(np.argmax(model.buffers.offsets))
    found = verify(data[:-1])
    assert [(f.code, f.severity, f.location) for f in found] == [
        ("EXTERNAL_DATA_OUTSIDE_FILE", "error", f"buffers[{last}]")
    ]


@pytest.mark.parametrize(("slot", "value"), [(1, 2**64 - 8), (2, 2**64 - 1), (1, 10**6), (2, 10**6)])
def test_external_data_with_hostile_numbers_is_found(slot: int, value: int) -> None:
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        last = int(np.argmax(model.buffers.offsets))
    data = put(data, field_at(data, locate(data, "buffers", last), slot), value.to_bytes(8, "little"))
    assert [(f.code, f.location) for f in verify(data)] == [("EXTERNAL_DATA_OUTSIDE_FILE", f"buffers[{last}]")]


def test_external_custom_options_outside_the_file_are_found() -> None:
    found = verify(bytes_of("tflite/custom_options_external")[:-1])
    place = "subgraphs[0].operators[1].large_custom_options"
    assert [(f.code, f.severity, f.location) for f in found] == [("EXTERNAL_DATA_OUTSIDE_FILE", "error", place)]


def test_a_first_buffer_with_data_is_found() -> None:
    def fill(model: Any) -> None:
        model.buffers[0].data = np.frombuffer(b"data", np.uint8)

    assert broken("circle/mlp", fill) == [("SENTINEL_BUFFER_NOT_EMPTY", "warning", "buffers[0]")]


def test_many_findings_of_one_kind_are_told_in_short() -> None:
    def break_all(model: Any) -> None:
        for tensor in model.subgraphs[0].tensors:
            tensor.buffer = 999

    found = broken("circle/transformer_block", break_all)
    assert len(found) == 21


# --- hostile shapes -----------------------------------------------------------------------------------------


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
"""What looks at a whole model at once. A loop over views is as long as the file says."""


def use_hostile(data: bytes, uses: Iterable[str] = AT_ONCE) -> None:
    for name in uses:
        with within(2), open_model(data) as model, suppress(CircleToolsError):
            USES[name](model)


def test_many_references_to_one_table_are_refused() -> None:
    data = many_subgraphs(2000)
    with within(2):
        assert "more than 1000000 tables" in refusal(data).message
    use_hostile(data)


@pytest.mark.parametrize("count", [100_000, 1_000_000])
def test_references_by_the_million_end_soon(count: int) -> None:
    use_hostile(many_subgraphs(count))


@pytest.mark.parametrize(("slot", "field"), [(1, "inputs"), (2, "outputs"), (8, "intermediates")])
def test_overlapping_vectors_of_indices_are_refused(slot: int, field: str) -> None:
    data = overlapping_vectors(50_000, slot, 3)
    with within(2), pytest.raises(ModelFormatError, match="overlap"):
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
    assert "verify" in str(caught.value)
