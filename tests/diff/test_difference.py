"""Differences between models: each field where it is and nothing else, and what belongs together found again."""

from __future__ import annotations

import copy
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.affinity.store import annotate
from circletools.diff.alignment import align
from circletools.diff.difference import compare_models
from circletools.edit.compact import compact_parts
from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, ModelFormatError
from circletools.flatbuf.comparison import Difference, Kind
from circletools.model.model import open_model
from circletools.outputs.rewrite import fix_outputs
from circletools.render.difference import difference_json, difference_text
from circletools.storage.files import view
from tests.kit.affinity_support import affinity
from tests.kit.build import Build, Raw
from tests.kit.difference_support import Site, compared, differences, mutated, paths, repacked, schema_of, sites
from tests.kit.origin_support import STAMP, embedded, origins
from tests.kit.partition_support import seeded
from tests.kit.renumbered import orders_of
from tests.kit.renumbered import renumbered as in_orders
from tests.kit.support import ENDINGS, bytes_of, edited, generated, noted, own_models, packed, read, title, unpacked

FORMATS = [pytest.param(identifier, id=name) for identifier, name in ENDINGS.items()]
MLP = bytes_of("circle/mlp")


# --- every field, by the published object API ---------------------------------------------------------------


def own_sites(identifier: bytes) -> Iterator[tuple[bytes, Any, Site]]:
    """Yield the fields of all models of a format, with the model as bytes and as objects."""
    for path in own_models():
        data = path.read_bytes()
        if data[4:8] == identifier and "external" not in path.stem:  # packing loses what is behind the flatbuffer
            model = unpacked(data)
            base = packed(model, identifier)
            yield from ((base, model, site) for site in sites(model, schema_of(identifier)))


@pytest.mark.parametrize("identifier", FORMATS)
def test_each_field_is_reported_where_it_is_and_nothing_else(identifier: bytes) -> None:
    """Change each field of each table in the test models, one by one, somewhere."""
    chosen, schema = seeded(7), schema_of(identifier)
    found: dict[tuple[str, str], list[tuple[bytes, Any, Site]]] = {}
    for one in own_sites(identifier):
        found.setdefault((one[2].type, one[2].field.name), []).append(one)
    wrong, tried = [], 0
    for candidates in found.values():
        base, model, site = chosen.choice(candidates)
        change = mutated(site, schema, identifier, chosen)
        if change is not None:
            tried += 1
            got = paths(base, repacked(model, identifier, {site: change[0]}), "structure", "metadata")
            if {path for _, path in got} != expected_paths(model, site, *change):
                wrong.append((site.path, got))
    assert wrong == []
    assert tried > 90


def expected_paths(model: Any, site: Site, value: Any, path: str) -> set[str]:
    """Return where the difference is to be reported: metadata by name, data behind the flatbuffer by content."""
    entries = [(f"metadata[{entry.name.decode()}]", entry.buffer) for entry in model.metadata or ()]
    named = {tensor.buffer for graph in model.subgraphs for tensor in graph.tensors}
    of_metadata = {buffer: name for name, buffer in entries if buffer not in named}
    if ("_options_" in site.field.name and site.field.name.startswith("large")) or (
        site.type == "Buffer" and site.field.name in ("offset", "size")
    ):
        return set()  # a position up to 1 means that there is nothing
    if site.type == "Buffer" and (owner := of_metadata.get(int(path.split("[")[1].split("]", maxsplit=1)[0]))):
        return {owner}
    if (site.type, site.field.name) == ("Metadata", "name"):
        return {f"metadata[{site.owner.name.decode()}]", f"metadata[{value.decode()}]"}
    if (site.type, site.field.name) == ("Metadata", "buffer"):  # nothing names the old buffer now
        return {f"metadata[{site.owner.name.decode()}]", f"buffers[{site.owner.buffer}]"}
    if (site.type, site.field.name) == ("Tensor", "buffer") and value in of_metadata:
        return {path, f"buffers[{value}]"}
    return {path}


@pytest.mark.parametrize("identifier", FORMATS)
def test_each_field_of_all_options(identifier: bytes) -> None:
    """Give an operator each options table of the schema in turn, then change all of its fields."""
    chosen, schema = seeded(7), schema_of(identifier)
    model = unpacked(bytes_of("tflite/scalar" if identifier == b"TFL3" else "circle/diamond"))
    operator, wrong = model.subgraphs[0].operators[0], list[Any]()
    for union, attribute, field in (
        ("BuiltinOptions", "builtinOptions", "builtin_options"),
        ("BuiltinOptions2", "builtinOptions2", "builtin_options_2"),
    ):
        path = f"subgraphs[0].operators[0].{field}"
        old = getattr(operator, f"{attribute}Type"), getattr(operator, attribute)
        base = packed(model, identifier)
        for code, member in schema.unions[union].items():
            if member == "NONE" or (identifier == b"CIR0" and member in schema_of(b"TFL3").tables):
                continue
            setattr(operator, f"{attribute}Type", code)
            setattr(operator, attribute, generated(f"{member}T", identifier)())
            last, base = base, packed(model, identifier)
            got = [(one.path, one.after) for one in differences(last, base, "structure")]
            wrong += [] if old[0] == code or got == [(path, {"type": member})] else [got]
            found = [site for site in sites(model, schema) if site.owner is getattr(operator, attribute)]
            changes = {site: mutated(site, schema, identifier, chosen) or (None, "") for site in found}
            other = repacked(model, identifier, {site: value for site, (value, _) in changes.items()})
            reported = {where for _, where in paths(base, other, "structure")}
            wrong += [] if reported == {where for _, where in changes.values()} else [(member, reported)]
        setattr(operator, f"{attribute}Type", old[0])
        setattr(operator, attribute, old[1])
    assert wrong == []


# --- the same model in other bytes --------------------------------------------------------------------------


def test_a_repacked_model_is_the_same(any_model: Path) -> None:
    """But for deprecated fields, which the published reader does not see, and what is behind the model."""
    data = any_model.read_bytes()
    again = packed(unpacked(data), data[4:8])
    if read(data) != read(again):
        pytest.skip("the object API loses something")
    left = [path for _, path in paths(data, again) if not path.endswith((".deprecated_tag", ".data_format"))]
    assert [path for path in left if "archive" not in path and path != "trailing_bytes"] == []


def test_a_compact_model_is_the_same(own_model: Path) -> None:
    with open_model(own_model) as model:
        small = b"".join(view(part) for part in compact_parts(model))
    found = compared(own_model.read_bytes(), small)
    assert (found.changes, found.identical, found.notes) == ((), False, ())


@pytest.mark.parametrize("name", ["circle/mlp", "circle/cnn"])
def test_data_behind_the_flatbuffer_is_the_same_data(name: str) -> None:
    assert paths(bytes_of(name), bytes_of(f"{name}_external")) == []
    other = bytearray(bytes_of(f"{name}_external"))
    other[-1] ^= 1
    assert [kind for kind, _ in paths(bytes_of(name), bytes(other))] == ["changed"]


def test_one_model_in_two_formats() -> None:
    found = paths(odd_outputs("tflite"), odd_outputs("circle"))
    assert found == [("changed", "version"), ("changed", "format")]


def test_different_models_differ(own_model: Path) -> None:
    """In some field that both formats have, by the published reader."""
    others = [path for path in own_models() if own_model.stem.removesuffix("_external") not in path.stem]
    other = seeded(len(own_model.name)).choice(others)
    assert read(own_model.read_bytes()) != read(other.read_bytes())
    assert paths(own_model.read_bytes(), other.read_bytes(), "structure") != []


# --- what belongs together although its index changed ---------------------------------------------------------


def odd_outputs(kind: str = "circle") -> bytes:
    """Return a model with a chain of three operators, whose outputs are one tensor twice."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    a = graph.compute("ADD", [x, graph.constant("one", np.ones((2, 2), np.float32))], "a")
    b = graph.compute("MUL", [a, graph.constant("two", np.full((2, 2), 2, np.float32))], "b")
    c = graph.compute("TANH", [b], "c")
    graph.ends([x], [c, c])
    build.signature("main", [("x", x)], [("first", c), ("second", c)])
    return build.to_bytes(kind)


def fix_all(edit: ModelEdit) -> object:
    return fix_outputs(edit, [0])


def renumbered(data: bytes, chosen: random.Random) -> bytes:
    """Return the model with its tensors, buffers and operator codes in another order."""
    orders = orders_of(data, lambda indices: chosen.sample(indices, len(indices)))
    return in_orders(data, replace(orders, subgraphs=range(len(orders.subgraphs))))


@pytest.mark.parametrize("path", [path for path in own_models() if "external" not in path.stem], ids=title)
def test_another_order_is_only_moves(path: Path) -> None:
    data = path.read_bytes()
    names = [[tensor.name for tensor in graph.tensors] for graph in unpacked(data).subgraphs]
    if any(len(set(row)) < len(row) for row in names):
        pytest.skip("tensors of one name")
    base = packed(unpacked(data), data[4:8])
    found = paths(base, renumbered(data, seeded(3)), "structure", "metadata")
    assert {kind for kind, _ in found} <= {"moved"}
    assert {path.split("[")[0] if "tensors" not in path else "tensors" for _, path in found} <= {
        *("tensors", "buffers", "operator_codes"),
    }


def test_an_operator_in_front() -> None:
    """All that is behind it has another index, and is no difference."""
    model = unpacked(odd_outputs())
    graph = model.subgraphs[0]
    graph.tensors.insert(0, copy.deepcopy(graph.tensors[0]))
    graph.tensors[0].name, graph.tensors[1].name = "x", "negated"
    for owner in (graph, *graph.operators):
        owner.inputs, owner.outputs = ([index + 1 for index in field] for field in (owner.inputs, owner.outputs))
    for entry in (*model.signatureDefs[0].inputs, *model.signatureDefs[0].outputs):
        entry.tensorIndex += 1
    graph.inputs, model.signatureDefs[0].inputs[0].tensorIndex = [0], 0
    model.operatorCodes.insert(0, generated("OperatorCodeT", b"CIR0")())
    model.operatorCodes[0].builtinCode = model.operatorCodes[0].deprecatedBuiltinCode = 59  # NEG
    for operator in graph.operators:
        operator.opcodeIndex += 1
    graph.operators.insert(0, generated("OperatorT", b"CIR0")())
    graph.operators[0].inputs, graph.operators[0].outputs = [0], [1]
    assert paths(odd_outputs(), packed(model, b"CIR0")) == [
        ("added", "operator_codes[0]"),
        ("added", "subgraphs[0].tensors[1]"),
        ("changed", "subgraphs[0].operators[0].inputs[0]"),
        ("added", "subgraphs[0].operators[0]"),
    ]


def test_what_fix_outputs_does() -> None:
    before = odd_outputs()
    after = edited(before, fix_all)
    assert paths(before, after) == [
        ("added", "operator_codes[3]"),
        ("added", "subgraphs[0].tensors[6]"),
        ("added", "subgraphs[0].tensors[7]"),
        ("changed", "subgraphs[0].outputs[1]"),
        ("added", "subgraphs[0].operators[3]"),
        ("added", "buffers[3]"),
        ("changed", "signature_defs[0].outputs[1].tensor_index"),
    ]
    (added,) = [one for one in differences(before, after) if one.path == "subgraphs[0].operators[3]"]
    assert (added.before, added.after) == (
        None,
        {"opcode_index": 3, "inputs": [5, 7], "outputs": [6], "builtin_options": {"type": "TransposeOptions"}},
    )


def at(kind: Kind, path: str, before: Any, after: Any) -> Difference:
    """Return a difference at one path in both models."""
    return Difference(kind, path, path, before, after)


# --- metadata, origins, affinity, files behind ---------------------------------------------------------------


def test_metadata_by_name() -> None:
    def shown(value: bytes, **more: str) -> dict[str, Any]:
        return {"bytes": len(value), **more, "blake2b": hashlib.blake2b(value, digest_size=8).hexdigest()}

    before, after = noted(noted(MLP, "a", b"\1\2"), "b", b"text"), noted(noted(MLP, "b", b"other\0"), "c", b"")
    assert differences(before, after) == [
        at("removed", "metadata[a]", shown(b"\1\2"), None),
        at("changed", "metadata[b]", shown(b"text", text="text"), shown(b"other\0", text="other")),
        at("added", "metadata[c]", None, shown(b"", text="")),
    ]


def test_what_embed_origins_does() -> None:
    entries = [f"metadata[{name}]" for name in ("ONE_source_table", "ONE_op_table", "CIRCLETOOLS_stamp")]
    assert paths(MLP, embedded(MLP)) == [("added", path) for path in (*entries, "origins")]
    assert paths(embedded(MLP), MLP, "origins") == [("removed", "origins")]


def test_origins_gained_and_lost() -> None:
    """Sources are told by name: an id may change."""
    before = embedded(MLP, origins({1: "a", 2: "b", 3: "c"}, {0: {1}, 1: {1, 2}, 2: {3}}))
    after = embedded(MLP, origins({1: "a", 5: "b", 3: "d"}, {0: {1}, 1: {1, 5}, 2: {1, 3}}))
    assert [one for one in differences(before, after, "origins") if "sources" not in one.path] == [
        at("changed", "subgraphs[0].operators[2].origin", ["c"], ["a", "d"])
    ]
    assert [(kind, path) for kind, path in paths(before, after, "origins") if "sources" in path] == [
        ("removed", "origins.sources[2]"), ("changed", "origins.sources[3]"), ("added", "origins.sources[5]"),
    ]  # fmt: skip


def test_origins_of_operators_that_moved_back() -> None:
    data = odd_outputs()
    before = embedded(data, origins({1: "a", 2: "b", 3: "c"}, {0: {1}, 1: {2}, 2: {3}}))
    model = unpacked(data)
    graph = model.subgraphs[0]
    graph.operators.insert(0, generated("OperatorT", b"CIR0")())
    graph.operators[0].inputs, graph.operators[0].outputs = [0], []
    after = embedded(packed(model, b"CIR0"), origins({1: "a", 2: "b", 3: "c"}, {0: {3}, 1: {1}, 2: {2}, 3: {3}}))
    assert differences(before, after, "origins") == [at("added", "subgraphs[0].operators[0].origin", None, ["c"])]


def test_devices_and_partitions() -> None:
    def with_devices(*given: Any) -> bytes:
        return edited(odd_outputs(), lambda edit: annotate(edit, affinity(("cpu", "npu"), given)))

    before, after = with_devices((0, 0, 1), (0, 0, 1)), with_devices((0, 1, 1), (0, 1, 1))
    assert differences(before, after, "affinity") == [
        at("changed", "subgraphs[0].operators[1].device", "cpu", "npu"),
        at("changed", "subgraphs[0].partitions[0]",
                   {"device": "cpu", "operators": "0-1"}, {"device": "cpu", "operators": "0"}),
        at("added", "subgraphs[0].partitions[1]", None, {"device": "npu", "operators": "1-2"}),
        at("removed", "subgraphs[0].partitions[1]", {"device": "npu", "operators": "2"}, None),
    ]  # fmt: skip
    assert paths(odd_outputs(), after, "affinity") == [("added", "affinity")]


def test_tables_that_cannot_be_decoded_are_compared_as_bytes() -> None:
    found = compared(embedded(MLP), noted(embedded(MLP), "ONE_op_table", b"broken"))
    assert [(one.difference.kind, one.difference.path) for one in found.changes] == [
        ("changed", "metadata[ONE_op_table]"), ("removed", "origins"),
    ]  # fmt: skip
    assert found.changes[0].difference.after["malformed"].startswith("an entry is cut off")
    assert "the origins cannot be decoded and are ignored: ONE_op_table" in found.notes[0].message


def test_stamps_that_cannot_be_decoded() -> None:
    before = edited(embedded(MLP), lambda edit: annotate(edit, affinity(("cpu",), ((0, 0, 0), (0, 0, 0)))))
    after = noted(noted(before, STAMP, b"broken"), "CIRCLETOOLS_affinity_stamp", b"broken")
    assert differences(before, after, "origins", "affinity") == [
        at("changed", "origins.freshness", "fresh", "unknown"),
        at("changed", "affinity.freshness", "fresh", "unknown"),
    ]


def test_files_behind_the_model(tmp_path: Path) -> None:
    name = "tflite/zip_tail"
    data = bytes_of(name)
    with open_model(data) as model:
        end = model.reachable.end
    assert paths(data, data[:end] + bytes(7)) == [("removed", "archive[labels.txt]")]
    assert paths(data[:end], data[:end] + bytes(7)) == []
    assert paths(data[:end], data[:end] + b"more") == [("changed", "trailing_bytes")]
    assert paths(data, edited(data, lambda edit: edit.set_metadata("note", b"x"))) == [("added", "metadata[note]")]


def test_fields_that_the_schema_does_not_know() -> None:
    """Whether they are there is compared; what is in them cannot be."""

    def with_code(value: int | None) -> bytes:
        raw = Raw()
        code = raw.table({0: ("i8", 1)} | ({} if value is None else {9: ("u32", value)}))
        return raw.finish(raw.table({1: raw.refs([code])}), b"CIR0")

    plain, unknown, other = with_code(None), with_code(5), with_code(6)
    assert paths(plain, unknown) == [("changed", "operator_codes[0].slot_9")]
    found = compared(unknown, other)
    assert (found.changes, found.identical) == ((), False)
    assert [(note.code, note.severity, note.message) for note in found.notes] == [
        ("UNKNOWN_FIELD", "info", "not compared, since the schema does not know the field: operator_codes[0].slot_9")
    ]


# --- properties ---------------------------------------------------------------------------------------------

VARIANTS = 18


@cache
def variants() -> list[bytes]:
    """Return models that are alike and models that are not."""
    circles = ("mlp", "mlp_external", "diamond", "if_cond", "two_signatures", "lstm")
    found = [bytes_of(f"circle/{name}") for name in circles]
    found += [
        bytes_of(f"tflite/{name}") for name in ("cnn", "two_signatures", "while_nested", "zip_tail", "custom_op")
    ]
    found += [odd_outputs(), odd_outputs("tflite"), edited(odd_outputs(), fix_all), embedded(odd_outputs())]
    found += [embedded(MLP), renumbered(odd_outputs(), seeded(1)), renumbered(bytes_of("circle/lstm"), seeded(2))]
    assert len(found) == VARIANTS
    return found


@pytest.mark.parametrize("first", range(VARIANTS))
def test_the_other_way_round_is_the_mirror_image(first: int) -> None:
    other_kind = {"added": "removed", "removed": "added"}
    for after in variants()[first:]:
        forth, back = (compared(*pair) for pair in ((variants()[first], after), (after, variants()[first])))
        assert forth.notes == back.notes
        assert [(one.section, *one.difference) for one in forth.changes] == [
            (section, other_kind.get(kind, kind), there, here, new, old)
            for section, (kind, here, there, old, new) in back.changes
        ]
        assert (forth.changes == ()) == (
            after == variants()[first] or {after, variants()[first]} == set(variants()[:2])
        )


@settings(max_examples=40)
@given(st.data())
def test_what_an_edit_does_is_reported_and_nothing_else(data: st.DataObject) -> None:
    base = data.draw(st.sampled_from([MLP, bytes_of("tflite/two_signatures"), odd_outputs()]))
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
    assert sorted([*found.before, *found.removed]) == list(range(len(before)))
    assert sorted([*found.after, *found.added]) == list(range(len(after)))
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


# --- broken files -------------------------------------------------------------------------------------------


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


@settings(max_examples=150)
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
            json.dumps(difference_json(found, old, new))
    except CircleToolsError:
        return
    assert lines[-1].startswith("no differences") == (found.changes == ())
