"""Any edits in any groups: the result is what another reader expects, whatever the way there."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from circletools.edit.edit import ModelEdit
from circletools.model.model import open_model
from tests.kit.support import (
    blank,
    by_content,
    bytes_of,
    edited,
    ends_with,
    entry_at,
    field_at,
    generated,
    locate,
    plain,
    put,
    read,
    target,
)

IDENTIFIER = b"TFL3"
STARTS = ("tflite/two_signatures", "tflite/cnn_external", "tflite/zip_tail", "tflite/if_cond")
Step = tuple[Any, ...]
small = st.integers(0, 7)
values = st.binary(max_size=40)
indices = st.lists(small, max_size=3)
steps = st.one_of(
    st.tuples(st.just("set"), st.sampled_from("abc"), values),
    st.tuples(st.just("set"), st.sampled_from(["a", "min_runtime_version", "CONVERSION_METADATA"]), values),
    st.tuples(st.just("remove"), st.sampled_from(["a", "b", "c", "min_runtime_version"])),
    st.tuples(st.just("buffer"), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("tensor"), small, st.text("xyz", max_size=3), st.lists(st.integers(0, 5), max_size=3), small),
    st.tuples(st.just("like"), small, small, st.text("xyz", max_size=3)),
    st.tuples(
        st.just("shape"),
        small,
        small,
        st.lists(small, max_size=3),
        st.none() | st.lists(small, min_size=1, max_size=2),
    ),
    st.tuples(st.just("constant"), small, small, values),
    st.tuples(st.just("code"), st.sampled_from(["ADD", "BITCAST", "CUSTOM"]), st.integers(1, 2)),
    st.tuples(st.just("operator"), small, small, indices, indices, st.booleans()),
    st.tuples(st.just("outputs"), small, st.lists(small, max_size=3)),
    st.tuples(st.just("inputs"), small, st.lists(small, max_size=3)),
    st.tuples(st.just("entry"), small, st.sampled_from(["inputs", "outputs"]), small, small),
)
CODES = {"ADD": 0, "BITCAST": 159, "CUSTOM": 32}


class Expected:
    """What a model should look like: the plain data of the other reader, changed by hand."""

    def __init__(self, data: bytes) -> None:
        self.model = read(data)
        self.contents = {
            index: (buffer["data"] or b"", buffer["offset"], buffer["size"])
            for index, buffer in enumerate(self.model["buffers"])
        }
        self.metadata = [(entry["name"], self.contents[entry["buffer"]]) for entry in self.model["metadata"] or ()]
        for subgraph in self.model["subgraphs"]:
            for tensor in subgraph["tensors"]:
                tensor["buffer"] = self.contents[tensor["buffer"]]
        self.added: dict[int, bytes] = {}
        self.users: dict[tuple[int, int], int] = {}  # the added buffer of a tensor

    def subgraph(self, number: int) -> tuple[int, dict[str, Any]]:
        index = number % len(self.model["subgraphs"])
        return index, self.model["subgraphs"][index]

    def apply(self, edit: ModelEdit, step: Step) -> None:
        getattr(self, f"do_{step[0]}")(edit, *step[1:])

    def do_set(self, edit: ModelEdit, name: str, value: bytes) -> None:
        edit.set_metadata(name, value)
        entry = (name.encode(), (value, 0, 0))
        same = [index for index, (known, _) in enumerate(self.metadata) if known == name.encode()]
        if same:
            self.metadata[same[0]] = entry
        else:
            self.metadata.append(entry)

    def do_remove(self, edit: ModelEdit, name: str) -> None:
        kept = [entry for entry in self.metadata if entry[0] != name.encode()]
        assert edit.remove_metadata(name) == len(self.metadata) - len(kept)
        self.metadata = kept

    def do_buffer(self, edit: ModelEdit, data: bytes) -> None:
        index = edit.add_buffer(data)
        assert index not in self.added
        self.added[index] = data

    def do_tensor(self, edit: ModelEdit, number: int, name: str, shape: list[int], which: int) -> None:
        index, subgraph = self.subgraph(number)
        buffers = [0, *self.added]
        buffer = buffers[which % len(buffers)]
        added = edit.add_tensor(index, name, type="INT16", shape=shape, shape_signature=shape[:1], buffer=buffer)
        assert added == len(subgraph["tensors"])
        self.users |= {(index, added): buffer} if buffer else {}
        made = blank("Tensor", IDENTIFIER) | {
            "name": name.encode(), "shape": tuple(shape), "shapeSignature": tuple(shape[:1]), "type": 7,
            "hasRank": True, "buffer": (self.added.get(buffer, b""), 0, 0),
        }  # fmt: skip
        subgraph["tensors"].append(made)

    def do_like(self, edit: ModelEdit, number: int, like: int, name: str) -> None:
        index, subgraph = self.subgraph(number)
        like %= len(subgraph["tensors"])
        assert edit.add_tensor_like(index, like, name) == len(subgraph["tensors"])
        model = subgraph["tensors"][like]
        kept = {key: model[key] for key in ("shape", "shapeSignature", "type", "quantization", "hasRank")}
        made = blank("Tensor", IDENTIFIER) | kept | {"name": name.encode(), "buffer": (b"", 0, 0)}
        subgraph["tensors"].append(made)

    def do_shape(
        self, edit: ModelEdit, number: int, which: int, shape: list[int], signature: list[int] | None
    ) -> None:
        index, subgraph = self.subgraph(number)
        which %= len(subgraph["tensors"])
        edit.set_shape(index, which, shape, signature)
        subgraph["tensors"][which] |= {"shape": tuple(shape), "shapeSignature": tuple(signature or ()) or None}

    def do_constant(self, edit: ModelEdit, number: int, which: int, data: bytes) -> None:
        index, subgraph = self.subgraph(number)
        which %= len(subgraph["tensors"])
        computed = itertools.chain(*(operator["outputs"] or () for operator in subgraph["operators"] or ()))
        if which in {*(subgraph["inputs"] or ()), *computed}:
            return  # the caller sets its value
        edit.set_constant(index, which, data)
        if self.added.get(self.users.get((index, which), 0), data) != data:
            buffer = self.users.pop((index, which))
            if buffer not in self.users.values():  # what one tensor uses changes in its place
                del self.added[buffer]
        subgraph["tensors"][which]["buffer"] = (data, 0, 0)

    def do_code(self, edit: ModelEdit, name: str, version: int) -> None:
        custom = "mine" if name == "CUSTOM" else None
        codes, code = self.model["operatorCodes"], CODES[name]
        wanted = blank("OperatorCode", IDENTIFIER) | {
            "deprecatedBuiltinCode": min(code, 127), "builtinCode": code, "version": version,
            "customCode": custom and custom.encode(),
        }  # fmt: skip
        keys = ("builtinCode", "version", "customCode")
        found = [[known[key] for key in keys] for known in codes]
        index = edit.add_operator_code(name, version, custom or "")
        if [wanted[key] for key in keys] in found:
            assert index == found.index([wanted[key] for key in keys])
        else:
            assert index == len(codes)
            codes.append(wanted)

    def do_operator(
        self, edit: ModelEdit, number: int, code: int, inputs: list[int], outputs: list[int], options: bool
    ) -> None:
        index, subgraph = self.subgraph(number)
        code %= len(self.model["operatorCodes"])
        inputs, outputs = ([item % len(subgraph["tensors"]) for item in items] for items in (inputs, outputs))
        given = ("AddOptions", {"fused_activation_function": 1}) if options else None
        subgraph["operators"] = subgraph["operators"] or []
        assert edit.add_operator(index, code, inputs, outputs, options=given) == len(subgraph["operators"])
        made = blank("Operator", IDENTIFIER)
        made |= {"opcodeIndex": code, "inputs": tuple(inputs), "outputs": tuple(outputs)}
        if options:
            made["builtinOptionsType"] = generated("BuiltinOptions", IDENTIFIER).AddOptions
            made["builtinOptions"] = blank("AddOptions", IDENTIFIER) | {"fusedActivationFunction": 1}
        subgraph["operators"].append(made)
        names = tuple(subgraph["tensors"][item]["name"] or b"" for item in outputs)
        assert edit.index_map.added[-1].output_names == names

    def do_outputs(self, edit: ModelEdit, number: int, tensors: list[int], key: str = "outputs") -> None:
        index, subgraph = self.subgraph(number)
        tensors = [tensor % len(subgraph["tensors"]) for tensor in tensors]
        getattr(edit, f"set_{key}")(index, tensors)
        subgraph[key] = tuple(tensors)

    def do_inputs(self, edit: ModelEdit, number: int, tensors: list[int]) -> None:
        self.do_outputs(edit, number, tensors, "inputs")

    def do_entry(self, edit: ModelEdit, which: int, direction: Any, entry: int, tensor: int) -> None:
        signatures = self.model["signatureDefs"]
        index = which % len(signatures)
        entries = signatures[index][direction]
        tensor %= len(self.model["subgraphs"][signatures[index]["subgraphIndex"]]["tensors"])
        edit.set_signature_entry(index, direction, entry % len(entries), tensor)
        entries[entry % len(entries)]["tensorIndex"] = tensor

    def check(self, data: bytes) -> None:
        found = read(data)
        for index, contents in self.added.items():
            assert found["buffers"][index]["data"] == contents
        expected = {**self.model, "buffers": None, "metadata": self.metadata}
        assert by_content(found) == expected


@given(st.sampled_from(STARTS), st.lists(st.lists(steps, min_size=1, max_size=5), max_size=5))
@example("tflite/two_signatures", [[("set", "a", b""), ("constant", 0, 0, b"\0"), ("constant", 0, 0, b"")]])
def test_any_edits_in_any_groups_give_the_expected_model(name: str, groups: list[list[Step]]) -> None:
    data = after = bytes_of(name)
    expected = Expected(data)
    for group in groups:
        with open_model(after) as model:
            edit = ModelEdit(model)
            for step in group:
                expected.apply(edit, step)
            after = edit.to_bytes()
        assert ends_with(after, data)
        expected.check(after)
    assert edited(after) == after
    together = Expected(data)
    with open_model(data) as model:
        edit = ModelEdit(model)
        for step in itertools.chain(*groups):
            together.apply(edit, step)
        assert edit.to_bytes() == after


resizes = st.tuples(
    st.just("shape"), small, small, st.lists(small, max_size=3), st.none() | st.lists(small, min_size=1, max_size=2)
)
refills = st.tuples(st.just("constant"), small, small, st.sampled_from([b"", b"abcd", b"x" * 16]) | values)


@settings(max_examples=6)
@given(
    st.sampled_from([*STARTS, "tflite/dynamic_shape"]),
    st.lists(st.tuples(st.integers(0, 3), st.one_of(resizes, refills)), min_size=15, max_size=25),
    st.randoms(use_true_random=False),
)
def test_shapes_and_constants_that_go_back_give_the_original_file(
    name: str, changes: list[tuple[int, Step]], random: Random
) -> None:
    """240 edits: nothing else changes, one of them twice is one, and undone in any order all of them are gone."""
    data = after = bytes_of(name)
    expected, touched = Expected(data), []
    for pause, step in changes:
        with open_model(after) as model:
            edit = ModelEdit(model)
            expected.apply(edit, step)
            once = edit.to_bytes()
            expected.apply(edit, step)
            assert edit.to_bytes() == once
        if pause == 0:
            expected.check(once)
        after = once
        index, subgraph = expected.subgraph(step[1])
        touched.append((index, step[2] % len(subgraph["tensors"])))
    random.shuffle(touched)
    with open_model(data) as original:
        for index, tensor in touched:
            with open_model(after) as model:
                edit, was = ModelEdit(model), original.subgraphs[index].tensors[tensor]
                edit.set_shape(index, tensor, was.shape, was.shape_signature)
                edit.set_constant(index, tensor, bytes(original.buffers[was.buffer].data))
                after = edit.to_bytes()
    assert after == data


def test_the_plain_data_shows_every_difference() -> None:
    """The comparison itself: one changed byte of weights, one name, one index, an external byte."""
    data = bytes_of("circle/mlp_external")
    with open_model(data) as model:
        last = max(range(len(model.buffers)), key=lambda index: int(model.buffers.offsets[index]))
        offset = int(model.buffers.offsets[last])
    assert read(put(data, offset, b"\xee")) != read(data)
    name = data.index(b"tico::")
    assert read(put(data, name, b"T")) != read(data)
    subgraph = locate(data, "subgraphs", 0)
    outputs = target(data, field_at(data, subgraph, 2)) + 4
    assert read(put(data, outputs, b"\1")) != read(data)
    assert entry_at(data, subgraph, 99) == 0
    assert plain(float("nan")) == plain(float("nan"))
