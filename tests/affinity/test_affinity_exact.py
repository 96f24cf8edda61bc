"""Rules, tables, exports and findings of affinity, value for value, and both sides of their limits."""

from __future__ import annotations

import json
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.form import OptionValues, TensorPattern
from circletools.affinity.capability.table import refusals
from circletools.affinity.capability.traits import SubgraphTraits, TensorTraits
from circletools.affinity.documents import PartFile, parse_part
from circletools.affinity.exports import export, pictures
from circletools.affinity.exports.export import onert_environment
from circletools.affinity.partitioning import make_partitioning, to_affinity
from circletools.affinity.problem import Sizing
from circletools.affinity.store import annotate, follow
from circletools.affinity.tables import (
    AFFINITY_STAMP,
    AFFINITY_TABLE,
    SubgraphAffinity,
    decode_affinity,
    encode_affinity,
    read_affinity,
)
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, InvalidInputError, TableFormatError, UsageError
from circletools.graph.build import graph_of, model_graph
from circletools.model.model import open_model
from circletools.planning.evaluate import Cut, transfers
from tests.kit.affinity_support import affinity, annotated, assigned, ids, unruled
from tests.kit.build import Build, Table, quantization, row
from tests.kit.support import bytes_of, edited

DIAMOND = bytes_of("circle/diamond")  # 0 feeds 1, 2 and 4; 1 and 2 feed 3; 3 and 4 feed 5


# --- rules --------------------------------------------------------------------------------------------------

RANKS = ("0/index:0", "index:0", "0/name:t0", "name:t0", "0/name:t*", "name:t*", "0/name:*", "name:*",
         "0/op:NEG", "op:NEG", "0/op:N*", "op:N*", "0/op:*", "op:*")  # fmt: skip


def test_the_more_particular_of_two_rules_counts() -> None:
    for first, second in combinations(RANKS, 2):
        with open_model(row("NEG").to_bytes("circle")) as model:
            for settings in ((f"{first}=a", f"{second}=b"), (f"{second}=b", f"{first}=a")):
                assert assigned(model, ("a", "b"), *settings).numbers == ([0],)


@pytest.mark.parametrize(("first", "second"), [("op:N*", "op:*G"), ("name:t0", "name:t0"), ("index:0", "index:0-0")])
def test_two_rules_of_one_rank_must_agree(first: str, second: str) -> None:
    with open_model(row("NEG").to_bytes("circle")) as model:
        assert assigned(model, ("a",), f"{first}=a", f"{second}=a").numbers == ([0],)
        with pytest.raises(UsageError, match=r"assigns \S+ to subgraphs\[0\]\.operators\[0\], .* assigns"):
            assigned(model, ("a", "b"), f"{first}=a", f"{second}=b")


# --- part files ---------------------------------------------------------------------------------------------


def test_a_part_file_is_read_value_for_value() -> None:
    text = "# of npu\r\n[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opcode\n\n"
    text += "[OPNAME]\n\\;a=b=npu\n[OPCODE]\n_=npu\nADD=cpu"
    with pytest.raises(InvalidInputError, match="'b=npu' is not one of the backends"):
        parse_part(text, "p")
    found = parse_part(text.replace("b=npu", "npu"), "p")
    assert found == PartFile(("cpu", "npu"), "npu", "opcode", {"ADD": ("cpu", 11)}, {";a": ("npu", 8)})
    named = parse_part(text.replace("b=npu", "npu").replace("comply=opcode", "comply=opname"), "p")
    assert (named.default, named.comply) == ("cpu", "opname")


HEAD = "[partition]\nbackends=cpu,npu\ndefault=cpu\ncomply=opname\n"


BAD_PART_FILES: list[tuple[str, str, str, str | None]] = [
    ("", "there is no [partition] section", "p", None),
    ("[partition]\n", "[partition] lacks backends", "p", None),
    (HEAD.replace("comply=opname\n", ""), "[partition] lacks comply", "p", None),
    (HEAD.replace("n]", "ns]"), "unknown section '[partitions]'", "p:1",
     "known sections: [partition], [OPCODE], [OPNAME]"),
    (HEAD.replace(",npu", ", gpu") + "[OPNAME]\na=npu", "'npu' is not one of the backends", "p:6",
     "the backends are 'cpu', ' gpu'"),
    (HEAD + "more=1", "unknown key 'more' in [partition]", "p:5", "known keys: backends, default, comply"),
    (HEAD.replace("opname", "name"), "invalid value comply='name'", "p:4", "write opcode or opname"),
    (HEAD.replace("cpu,npu", "cpu,"), "a backend has no name", "p:2", "write, for example, cpu,npu"),
    (HEAD.replace("=cpu\n", "=gpu\n"), "'gpu' is not one of the backends", "p:3", "the backends are 'cpu', 'npu'"),
    (HEAD + "[OPNAME]\na=gpu", "'gpu' is not one of the backends", "p:6", "the backends are 'cpu', 'npu'"),
    (HEAD + "[OPNAME]\na\0=cpu", "the line contains a NUL character", "p:6", "circle-partitioner stops at it"),
    (HEAD + "[OPNAME", "unknown section '[OPNAME'", "p:5",
     "known sections: [partition], [OPCODE], [OPNAME]"),
    (HEAD + "[" + "x" * 70 + "]", f"unknown section '[{'x' * 59}'", "p:5",
     "known sections: [partition], [OPCODE], [OPNAME]"),
    (HEAD + "y" * 61, f"'{'y' * 60}' contains no =", "p:5", "write key=value"),
    ("a=1", "'a=1' is outside every section", "p:1", "begin with [partition]"),
    (HEAD + "[OPNAME]\na=cpu\nb=cpu\na=npu", "duplicate line for 'a'", "p:8", "the first is line 6"),
]  # fmt: skip


def test_what_is_wrong_with_a_part_file() -> None:
    for text, message, place, hint in BAD_PART_FILES:
        with pytest.raises(InvalidInputError) as caught:
            parse_part(text, "p")
        assert (caught.value.message, caught.value.location, caught.value.hint) == (message, place, hint)


# --- capability ---------------------------------------------------------------------------------------------


def option(**keys: Any) -> bytes:
    return json.dumps({"operators": {"SOFTMAX": [{"options": {"beta": keys.get("beta", keys)}}]}}).encode()


def test_an_option_may_be_as_large_as_that() -> None:
    for value in (2**64, -(2**64)):
        (form,) = parse_capability(option(beta=[value]), "t.json").operators["SOFTMAX"]
        assert form.options["beta"].values == {float(value)}
    for value in (2**64 + 1, -(2**64) - 1):
        with pytest.raises(InvalidInputError) as caught:
            parse_capability(option(beta=[value]), "t.json")
        assert caught.value.message == "is too large"
        assert caught.value.location == "t.json: operators.SOFTMAX[0].options.beta[0]"


def test_options_are_between_limits_or_among_values() -> None:
    def beta(**keys: Any) -> OptionValues:
        return parse_capability(option(**keys), "t.json").operators["SOFTMAX"][0].options["beta"]

    between = beta(min=1, max=2)
    assert [between.holds(value) for value in (0.9, 1.0, 1.5, 2.0, 2.1)] == [False, True, True, True, False]
    assert (between.text, beta(min=1).text, beta(max=2).text) == ("1 to 2", "at least 1", "at most 2")
    assert [beta(min=1).holds(value) for value in (0.0, 1e300)] == [False, True]
    assert [beta(max=2).holds(value) for value in (-1e300, 3.0)] == [True, False]
    among = beta(beta=[1, 2.5, True])
    assert [among.holds(value) for value in (1.0, 2.0, 2.5)] == [True, False, True]
    assert (among.text, among.show(0.5)) == ("1 or 2.5 or True", "0.5")
    named = OptionValues(frozenset((1.0,)), "RELU", {1: "RELU"})
    assert (named.show(1.0), named.show(7.0)) == ("RELU", "7")


HELD: list[tuple[TensorPattern, list[bool]]] = [
    (TensorPattern("*"), [True, True, True, False]),
    (TensorPattern("INT8"), [False, True, False, False]),
    (TensorPattern("*", "unquantized"), [True, False, True, False]),
    (TensorPattern("*", "per_tensor"), [False, True, False, False]),
    (TensorPattern("*", "", "constant"), [False, True, False, False]),
    (TensorPattern("*", "", "computed"), [True, False, True, False]),
    (TensorPattern("*", none=True), [False, False, False, True]),
]


def test_tensors_that_match_a_pattern() -> None:
    for pattern, holds in HELD:
        tensors = [
            TensorTraits("FLOAT32", "", 2, False, False),
            TensorTraits("INT8", "per_tensor", 2, False, True),
            TensorTraits("INT4", "unquantized", 2, False, False),
            None,
        ]
        assert [pattern.holds(tensor) for tensor in tensors] == holds


QUANTIZED: list[tuple[str, Table | None, str]] = [
    ("INT8", None, "unquantized"),
    ("INT8", quantization(()), "unquantized"),
    ("INT8", quantization((0.5,)), "per_tensor"),
    ("INT8", quantization((0.5, 0.25)), "per_channel"),
    ("INT8", quantization((0.5, 0.25, 0.125)), "per_channel"),
    ("INT4", Table("QuantizationParameters", details=Table("BlockwiseQuantization")), "blockwise"),
    ("INT8", Table("QuantizationParameters", details=Table("CustomQuantization")), "custom"),
    ("FLOAT32", quantization((0.5,)), ""),
]


def test_how_a_tensor_is_quantized() -> None:
    for element, given, word in QUANTIZED:
        build = Build()
        graph = build.graph()
        x = graph.tensor("x", (2, 3), element, quantization=given)
        graph.operator("ADD", [x, -1, graph.tensor("c", data=bytes(16))], [graph.tensor("y", ())])
        with open_model(build.to_bytes()) as model:
            traits = SubgraphTraits(graph_of(model, 0), lambda _: ()).operator(0)
        assert (traits.code, traits.version, traits.settings) == ("ADD", 1, {})
        assert traits.inputs == (
            TensorTraits(element, word, 2, False, False), None, TensorTraits("FLOAT32", "", 2, False, True),
        )  # fmt: skip
        assert traits.outputs == (TensorTraits("FLOAT32", "", 0, False, False),)
        assert str(traits.inputs[0]) == " ".join(filter(None, (element, word, "computed")))


def test_operators_that_no_table_can_distinguish_are_of_one_kind() -> None:
    build = Build()
    graph = build.graph()
    x, y = graph.tensor("x"), graph.tensor("y", (2, 2, 2))
    c = graph.tensor("c", data=bytes(16))
    for inputs, axis in (([x], 0), ([x], 1), ([y], 0), ([x, x], 0), ([x, -1], 0), ([c], 0), ([x], 0), ([x], 1)):
        graph.operator("CONCATENATION", inputs, [graph.tensor("r")], axis=axis)
    graph.operator("NEG", [x], [graph.tensor("r")])
    with open_model(build.to_bytes()) as model:
        traits = SubgraphTraits(graph_of(model, 0), lambda code: ("axis",) * (code == "CONCATENATION"))
        kinds, examples = traits.kinds()
        assert sorted(examples) == [0, 1, 2, 3, 4, 5, 8]
        keys = [traits.key(index) for index in range(len(traits))]
        assert [keys.index(key) for key in keys] == [examples[kind] for kind in kinds]
        assert [traits.operator(index).settings for index in (0, 1, 8)] == [{"axis": 0.0}, {"axis": 1.0}, {}]
        assert (traits.with_codes("NEG".__eq__), traits.with_codes("ADD".__eq__)) == ([8], [])
        assert traits.with_codes(bool) == list(range(9))
        assert traits.last_reader_among(np.array([True] * 8 + [False]))[:4].tolist() == [7, 2, 5, -1]
        assert traits.last_reader_among(np.array([False] * 8 + [True]))[:4].tolist() == [8, -1, -1, -1]


MISMATCHES: list[tuple[dict[str, Any], str | None]] = [
    ({"min_inputs": 1, "max_inputs": 1}, None),
    ({"min_inputs": 2}, "1 input, not at least 2"),
    ({"max_inputs": 0}, "1 input, not 0"),
    ({"min_outputs": 2, "max_outputs": 3}, "1 output, not 2 to 3"),
    ({"inputs": ["* computed", "..."]}, None),
    ({"inputs": ["*", "*"]}, "1 input, not 2"),
    ({"inputs": ["*", "*", "..."]}, "1 input, not 2 or more"),
    ({"inputs": [["INT8", "none"]]}, "input 0 is FLOAT32 computed, not INT8 or left out"),
    ({"min_rank": 2, "max_rank": 2}, None),
    ({"min_rank": 3}, "input 0 has rank 2, not at least 3; output 0 has rank 2, not at least 3"),
    ({"types": ["INT8"]}, "input 0 is FLOAT32 computed, not INT8; output 0 is FLOAT32 computed, not INT8"),
    ({"max_version": 1}, None),
    ({"min_version": 2, "max_version": 3}, "version 1, not 2 to 3"),
    ({"static": True}, None),
]


def test_why_a_form_does_not_fit() -> None:
    for form, reason in MISMATCHES:
        table = parse_capability(json.dumps({"device": "npu", "operators": {"NEG": [form]}}).encode(), "t.json")
        with open_model(row("NEG").to_bytes("circle")) as model:
            assert [found and str(found) for found in refusals(table, model)] == [reason]


# --- exports ------------------------------------------------------------------------------------------------


def test_the_environment_of_onert_has_a_longest_value(monkeypatch: pytest.MonkeyPatch) -> None:
    data = annotated(row("TANH", "NEG").to_bytes("circle"), affinity(["cpu"], ([0, 0], [0, 0])))
    size = len("OP_BACKEND_MAP=0=cpu;1=cpu")
    with open_model(data) as model:
        monkeypatch.setattr(export, "VARIABLE_BYTES", size)
        assert onert_environment(model_graph(model), pictures.current_affinity(model_graph(model))) == {
            "BACKENDS": "cpu", "OP_BACKEND_MAP": "0=cpu;1=cpu",
        }  # fmt: skip
        monkeypatch.setattr(export, "VARIABLE_BYTES", size - 1)
        with pytest.raises(EditError, match=f"the map takes {size} bytes; Linux allows at most {size - 1}"):
            onert_environment(model_graph(model), pictures.current_affinity(model_graph(model)))


# --- the tables in a model ----------------------------------------------------------------------------------


BAD_TABLES: list[tuple[bytes, str, int]] = [
    (b"\1\0\0\0\0\0\0", "too short for its header (8 bytes)", 0),
    (np.array([2, 0], "<u4").tobytes(), "version 2 is not known", 0),
    (np.array([1, 1, 0], "<u4").tobytes(), "a subgraph's entry is truncated", 8),
    (np.array([1, 1, 0, 1, 0], "<u4").tobytes(), "the ids are truncated (operators: 1)", 16),
    (np.array([1, 2, 3, 0, 3, 0], "<u4").tobytes(), "duplicate entry for subgraph 3", 16),
    (np.array([1, 0], "<u4").tobytes() + b"x", "bytes left over", 8),
]


def test_what_is_wrong_with_a_table() -> None:
    for data, message, offset in BAD_TABLES:
        with pytest.raises(TableFormatError) as caught:
            decode_affinity(data)
        assert caught.value.message.startswith(message)
        assert (caught.value.offset, caught.value.location) == (offset, AFFINITY_TABLE)


def test_affinities_are_equal_where_devices_and_partitions_are() -> None:
    one = SubgraphAffinity(ids(0, 1), ids(0, 1))
    assert one == SubgraphAffinity(ids(0, 1), ids(0, 1))
    for other in (SubgraphAffinity(ids(0, 1), ids(1, 0)), SubgraphAffinity(ids(1, 0), ids(0, 1)), None):
        assert one != other


def test_a_table_with_unknown_devices_reports_the_lowest() -> None:
    data = annotated(DIAMOND, affinity(["cpu"], ([0, 7, 5, None, 0, 0], [0] * 6)))
    with open_model(data) as model, pytest.raises(TableFormatError) as caught:
        read_affinity(model)
    assert caught.value.message.startswith("subgraph 0 refers to the missing device 5")
    assert (caught.value.location, caught.value.offset) == (AFFINITY_TABLE, 0)


def test_what_annotating_changes_is_reported() -> None:
    what = affinity(["cpu"], ([0] * 6, [0] * 6))
    with open_model(DIAMOND) as model:
        assert annotate(ModelEdit(model), what).changes == (
            "metadata CIRCLETOOLS_devices: 16 bytes",
            "metadata CIRCLETOOLS_affinity: 64 bytes",
            "metadata CIRCLETOOLS_affinity_stamp: 26 bytes",
        )


@pytest.mark.parametrize("stamp", [True, False])
def test_an_affinity_that_is_stale_does_not_follow_an_edit(stamp: bool) -> None:
    """Its table counts five operators of six; nothing is made of that."""
    short = affinity(["cpu"], ([0] * 5, [0] * 5))
    data = annotated(DIAMOND, short)
    if not stamp:
        data = edited(data, lambda edit: edit.remove_metadata(AFFINITY_STAMP))
    with open_model(data) as model:
        edit = ModelEdit(model)
        follow(edit)
        operator = model.subgraphs[0].operators[4]
        output = edit.add_tensor_like(0, operator.outputs[0], "more")
        edit.add_operator(0, operator.code.index, operator.inputs, [output], inherits=[0])
        before = edit.metadata_value(AFFINITY_STAMP)
        edit.to_bytes()
        assert bytes(edit.metadata_value(AFFINITY_TABLE) or b"") == encode_affinity(short.subgraphs)
        assert edit.metadata_value(AFFINITY_STAMP) == before


# --- partitions and what crosses them -----------------------------------------------------------------------


@pytest.mark.parametrize(("least", "demoted"), [(1, set()), (2, {1}), (3, {1}), (4, {1})])
def test_partitions_of_fewer_operators_go_to_the_fallback(least: int, demoted: set[int]) -> None:
    with open_model(row("TANH", "NEG", "TANH", "TANH").to_bytes("circle")) as model:
        facts = [graph_of(model, 0)]
        given = unruled(assigned(model, ("cpu", "npu"), "op:TANH=cpu", "op:NEG=npu"))
        made = make_partitioning(facts, given, Sizing("min", least, "cpu"))
        assert made.subgraphs[0].moved.keys() == demoted
        assert made.subgraphs[0].numbers == [0, 0 if demoted else 1, 0, 0]
        last = make_partitioning(facts, given, Sizing("min", 3))
        assert last.subgraphs[0].numbers == [1, 1, 1, 1]
        assert last.subgraphs[0].moved.keys() == {0, 2, 3}
        assert last.subgraphs[0].partition_of() == [0] * 4
        assert to_affinity(last).subgraphs[0].devices.tolist() == ids(1, 1, 1, 1).tolist()


def test_a_cut_lists_its_readers() -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    a, b = graph.compute("NEG", [x], "a"), graph.tensor("b", (1, 4), shape_signature=[-1, 4])
    graph.operator("NEG", [a], [b])
    for name in "cd":
        graph.compute("ADD", [a, b], name)
    graph.ends([x], [a])
    with open_model(build.to_bytes()) as model:
        found = transfers(graph_of(model, 0), [0, 0, 1, 2], [0, 0, 1, 2])
    assert found.cuts == (Cut(1, "a", 0, (1, 2), 2, 16), Cut(2, "b", 0, (1, 2), 2, None))
    assert (found.copies, found.copied_bytes, found.copies_of_unknown_size, found.launches) == (4, 32, 2, 3)
