"""Two flatbuffers compared by the schema: every number, every text and every table, and the rules of a caller."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from circletools.flatbuf.columns import Tables
from circletools.flatbuf.comparison import Comparison, Difference, Pairs
from tests.kit.build import Raw, Table, schema_of
from tests.kit.every_field import every_field, reader
from tests.kit.objects import file_of, wire_of

every_field = cache(every_field)
Rules = tuple[dict[tuple[str, str], Any], dict[tuple[str, str], Any]]
NO_RULES: Rules = {}, {}


def root_of(data: bytes) -> Tables:
    wire, schema, root = wire_of(data)
    return Tables(wire, schema.tables["Model"], np.array([root], np.int64))


def compared(before: bytes, after: bytes, rules: Rules = NO_RULES) -> tuple[list[Difference], list[str]]:
    """Return the differences of the roots, and what could not be compared."""
    comparison = Comparison(wire_of(before)[1], wire_of(after)[1], *rules)
    owners = np.array([5], np.int64), np.array([6], np.int64)
    found = list(comparison.tables(Pairs(root_of(before), root_of(after), lambda _: ("", ""), owners)))
    return found, comparison.unknown


def changes(before: Table, after: Table, rules: Rules = NO_RULES) -> dict[str, tuple[Any, Any]]:
    found, unknown = compared(file_of(before), file_of(after), rules)
    assert unknown == []
    assert {(one.kind, one.path == one.path_after) for one in found} <= {("changed", True)}
    return {one.path: (one.before, one.after) for one in found}


# --- numbers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["circle", "tflite"])
def test_a_change_of_every_number_is_reported(name: str) -> None:
    data = every_field(name)
    assert compared(data, data) == ([], [])
    schema, expected, changed = schema_of(name), {}, bytearray(data)
    for path, (owner, item, at, length) in reader(data).numbers.items():
        codes = {other.type_slot for other in schema.tables[owner].fields if other.kind == "union"}
        if item.slot in codes:
            continue
        place = at + (length - 1) * item.dtype.itemsize
        old = np.frombuffer(changed, item.dtype, 1, place)[0].item()
        changed[place] ^= 1
        new = np.frombuffer(changed, item.dtype, 1, place)[0].item()
        expected[path if item.kind == "scalar" else f"{path}[{length - 1}]"] = (old, new)
    found, unknown = compared(data, bytes(changed))
    assert {one.path: (one.before, one.after) for one in found} == expected
    assert (len(found), unknown) == (len(expected), [])
    assert len(expected) > 300


def quantized(**fields: Any) -> Table:
    parameters = Table("QuantizationParameters", **fields)
    tensor = Table("Tensor", quantization=parameters)
    return Table("Model", subgraphs=[Table("SubGraph", tensors=[tensor])])


def test_absent_is_the_default_and_nan_is_nan() -> None:
    options = Table("Operator", builtin_options=Table("SoftmaxOptions", beta=math.nan))
    model = Table("Model", subgraphs=[Table("SubGraph", operators=[options])])
    assert changes(model, model) == {}
    raw = Raw()
    written = raw.finish(raw.table({0: ("u32", 0)}))
    assert compared(written, file_of(Table("Model"))) == ([], [])
    assert changes(Table("Model", version=3), Table("Model")) == {"version": (3, 0)}
    place = "subgraphs[0].tensors[0].quantization"
    assert changes(quantized(scale=[math.nan, 1.0]), quantized(scale=[math.nan, 2.0])) == {
        f"{place}.scale[1]": (1, 2)
    }
    (found,) = changes(quantized(scale=[0.0]), quantized(scale=[-0.0])).items()
    assert str(found) == f"('{place}.scale[0]', (0.0, -0.0))"


# --- texts and vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ("a", "b", ("a", "b")),
        ("a", None, ("a", None)),
        (None, "", (None, "")),
        ("a" * 1000, "a" * 999, ("a" * 1000, "a" * 999)),
        ("a" * 1001, "b", ({"count": 1001, "begins": "a" * 1000}, "b")),
    ],
)
def test_texts(before: str | None, after: str | None, shown: tuple[Any, Any]) -> None:
    assert changes(Table("Model", description=before), Table("Model", description=after)) == {"description": shown}


def test_differences_of_long_texts_have_positions() -> None:
    before, after = "a" * 1500, "a" * 1200 + "b" * 10
    found = changes(Table("Model", description=before), Table("Model", description=after))["description"]
    assert [(one["count"], one["index"], one["value"]) for one in found] == [(1500, 1200, 97), (1210, 1200, 98)]
    found = changes(Table("Model", description=before), Table("Model", description=before[:1400]))["description"]
    assert [(one["count"], one["index"], one["value"]) for one in found] == [(1500, 1400, 97), (1400, 1400, None)]


def numbers(*values: int) -> Table:
    return Table("Model", metadata_buffer=list(values))


def test_vectors_are_reported_by_element_up_to_16_and_whole_when_resized() -> None:
    name = "metadata_buffer"
    many = tuple(range(16))
    assert changes(numbers(*many), numbers(9, *many[1:15], 9)) == {f"{name}[0]": (0, 9), f"{name}[15]": (15, 9)}
    assert changes(numbers(1, 2), numbers(1)) == {name: ([1, 2], [1])}
    assert changes(numbers(), Table("Model")) == {name: ([], None)}
    assert changes(Table("Model"), numbers()) == {name: (None, [])}
    assert changes(numbers(), numbers()) == {}
    long = ({"count": 17, "index": 16, "value": 5}, {"count": 17, "index": 16, "value": 6})
    assert changes(numbers(*many, 5), numbers(*many, 6)) == {name: long}
    assert changes(numbers(*many), numbers(*many, 6)) == {name: (list(many), {"count": 17})}


# --- tables -------------------------------------------------------------------------------------------------


def test_a_table_on_one_side_is_reported_as_it_is() -> None:
    place = "subgraphs[0].tensors[0].quantization"
    bare = Table("Model", subgraphs=[Table("SubGraph", tensors=[Table("Tensor")])])
    given = quantized(scale=[1.0], zero_point=list(range(17)), quantized_dimension=2)
    assert changes(bare, given) == {
        place: (None, {"scale": [1.0], "zero_point": {"count": 17}, "quantized_dimension": 2})
    }
    assert changes(given, bare)[place][1] is None


def test_elements_go_by_their_place() -> None:
    def model(*names: str) -> bytes:
        return file_of(Table("Model", subgraphs=[Table("SubGraph", name=name) for name in names]))

    before, after = model("a", "b"), model("a", "c", "d", "e")
    assert compared(before, after) == (
        [
            Difference("changed", "subgraphs[1].name", "subgraphs[1].name", "b", "c"),
            Difference("added", "subgraphs[2]", "subgraphs[2]", None, {"name": "d"}),
            Difference("added", "subgraphs[3]", "subgraphs[3]", None, {"name": "e"}),
        ],
        [],
    )
    found, _ = compared(after, before)
    assert [(one.kind, one.path, one.before, one.after) for one in found[1:]] == [
        ("removed", "subgraphs[2]", {"name": "d"}, None), ("removed", "subgraphs[3]", {"name": "e"}, None)
    ]  # fmt: skip


def test_an_empty_vector_of_tables_is_not_an_absent_one() -> None:
    assert changes(Table("Model", subgraphs=[]), Table("Model")) == {"subgraphs": ({}, None)}
    assert changes(Table("Model"), Table("Model", subgraphs=[])) == {"subgraphs": (None, {})}
    assert changes(Table("Model", subgraphs=[]), Table("Model", subgraphs=[])) == {}


def test_elements_of_several_owners_are_distinguished() -> None:
    def model(*names: tuple[str, ...]) -> Table:
        graphs = [Table("SubGraph", tensors=[Table("Tensor", name=one) for one in row]) for row in names]
        return Table("Model", subgraphs=graphs)

    found, _ = compared(file_of(model(("a", "b"), (), ("c",))), file_of(model(("a",), ("x",), ("d",))))
    assert [(one.kind, one.path) for one in found] == [
        ("changed", "subgraphs[2].tensors[0].name"),
        ("removed", "subgraphs[0].tensors[1]"),
        ("added", "subgraphs[1].tensors[0]"),
    ]


# --- unions -------------------------------------------------------------------------------------------------


def operators(*options: Table | None, kind: str = "tflite") -> bytes:
    made = [Table("Operator", builtin_options=one) for one in options]
    return file_of(Table("Model", subgraphs=[Table("SubGraph", operators=made)]), kind)


def test_members_of_unions() -> None:
    soft, add = Table("SoftmaxOptions", beta=1.5), Table("AddOptions", fused_activation_function=1)
    before = operators(soft, soft, None, add, soft)
    after = operators(Table("SoftmaxOptions", beta=2.5), add, add, None, soft)
    found, unknown = compared(before, after)
    place, add_options = (
        "subgraphs[0].operators[{}].builtin_options",
        {"type": "AddOptions", "fused_activation_function": 1},
    )
    assert sorted((one.path, one.before, one.after) for one in found) == [
        (place.format(0) + ".beta", 1.5, 2.5),
        (place.format(1), {"type": "SoftmaxOptions", "beta": 1.5}, add_options),
        (place.format(2), None, add_options),
        (place.format(3), add_options, None),
    ]
    assert unknown == []


def test_members_are_compared_by_name_across_the_formats() -> None:
    def model(kind: str, scales: int) -> bytes:
        details = Table("BlockwiseQuantization", scales=scales)
        return file_of(quantized(details=details), kind)

    assert compared(model("tflite", 1), model("circle", 1)) == ([], [])
    (found,), _ = compared(model("tflite", 1), model("circle", 2))
    assert (found.path, found.before, found.after) == (
        "subgraphs[0].tensors[0].quantization.details.scales", 1, 2
    )  # fmt: skip


def raw_operator(code: int, *, member: bool) -> bytes:
    raw = Raw()
    fields: dict[int, int | tuple[str, int]] = {3: ("u8", code)}
    if member:
        fields[4] = raw.table()
    operators = raw.refs([raw.table({0: ("u32", 0)}), raw.table(fields)])
    return raw.finish(raw.table({2: raw.refs([raw.table({3: operators})])}))


def test_codes_without_a_member_and_unknown_ones() -> None:
    place = "subgraphs[0].operators[1].builtin_options"
    softmax, add = (
        next(code for code, name in schema_of("tflite").unions["BuiltinOptions"].items() if name == wanted)
        for wanted in ("SoftmaxOptions", "AddOptions")
    )
    (found,), _ = compared(raw_operator(softmax, member=False), raw_operator(add, member=False))
    assert found == Difference("changed", f"{place}_type", f"{place}_type", "SoftmaxOptions", "AddOptions")
    (found,), _ = compared(raw_operator(softmax, member=False), raw_operator(add, member=True))
    assert (found.path, found.before, found.after) == (place, None, {"type": "AddOptions"})
    (found,), _ = compared(raw_operator(softmax, member=True), raw_operator(softmax, member=False))
    assert (found.path, found.before, found.after) == (place, {"type": "SoftmaxOptions"}, None)
    assert compared(raw_operator(250, member=True), raw_operator(250, member=True)) == ([], [place])
    (found,), unknown = compared(raw_operator(250, member=True), raw_operator(251, member=True))
    assert (found.before, found.after, unknown) == ({"type": "UNKNOWN:250"}, {"type": "UNKNOWN:251"}, [])


# --- fields that only one format has, or none ---------------------------------------------------------------


def test_fields_of_one_format_only() -> None:
    def differing(before: tuple[str, Table], after: tuple[str, Table]) -> list[tuple[Any, ...]]:
        return [
            (one.path, one.before, one.after)
            for one in compared(file_of(before[1], before[0]), file_of(after[1], after[0]))[0]
        ]

    graphs = ("tflite", Table("Model")), ("circle", Table("Model"))
    assert differing(*graphs) == []
    group = Table("Model", external_buffer_groups=[Table("ExternalBufferGroup", name="group")])
    assert differing(("tflite", group), graphs[1]) == [("external_buffer_groups[0]", {"name": "group"}, None)]
    tensor = Table("Model", subgraphs=[Table("SubGraph", tensors=[Table("Tensor", compression_type=1)])])
    plain = Table("Model", subgraphs=[Table("SubGraph", tensors=[Table("Tensor")])])
    place = "subgraphs[0].tensors[0].compression_type"
    assert differing(("circle", tensor), ("tflite", plain)) == [(place, 1, 0)]
    assert differing(("tflite", plain), ("circle", tensor)) == [(place, 0, 1)]


def test_fields_beyond_the_schema_can_only_be_counted() -> None:
    graphs = Table("Model", subgraphs=[Table("SubGraph"), Table("SubGraph")])
    slots = schema_of("tflite").tables["SubGraph"].slots
    plain, new = file_of(graphs), file_of(graphs, unknown={"SubGraph": (slots, b"text")})
    assert compared(new, new) == ([], [f"subgraphs[0].slot_{slots}"])
    found, unknown = compared(plain, new)
    assert [(one.path, one.before, one.after) for one in found] == [
        (f"subgraphs[{index}].slot_{slots}", None, {}) for index in range(2)
    ]
    assert unknown == []
    found, _ = compared(new, plain)
    assert [(one.before, one.after) for one in found] == [({}, None)] * 2


def test_what_cannot_be_compared_is_reported_by_its_place_in_the_file_before() -> None:
    data = file_of(Table("Model"), unknown={"Model": (schema_of("tflite").tables["Model"].slots, b"text")})
    comparison = Comparison(wire_of(data)[1], wire_of(data)[1], *NO_RULES)
    owners = np.array([5], np.int64), np.array([6], np.int64)
    pairs = Pairs(root_of(data), root_of(data), lambda _: ("was here", "is here"), owners)
    assert list(comparison.tables(pairs)) == []
    assert comparison.unknown == [f"was here.slot_{schema_of('tflite').tables['Model'].slots}"]


# --- rules --------------------------------------------------------------------------------------------------


def test_a_rule_takes_the_place_of_a_field() -> None:
    def rule(pairs: Pairs) -> Iterator[Difference]:
        yield Difference("moved", *pairs.place(0), len(pairs.before), len(pairs.after))

    before, after = Table("Model", subgraphs=[Table("SubGraph", name="a")]), Table("Model", description="x")
    found, _ = compared(file_of(before), file_of(after), ({("Model", "subgraphs"): rule}, {}))
    assert sorted(found) == [
        Difference("changed", "description", "description", None, "x"), Difference("moved", "", "", 1, 1)
    ]  # fmt: skip


def test_numbers_are_translated_before_they_are_compared() -> None:
    seen: list[tuple[list[int], list[int], list[int]]] = []

    def halved(
        pairs: Pairs, rows: NDArray[np.int64], before: NDArray[Any], after: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        assert pairs.owners is not None
        assert {pairs.owners[0][0].item(), pairs.owners[1][0].item()} == {5, 6}
        assert len(pairs.owners[0]) == len(pairs.before)
        seen.append((rows.tolist(), before.tolist(), after.tolist()))
        return before // 2, after // 2

    def model(opcode: int, *inputs: list[int] | None) -> Table:
        made = [Table("Operator", opcode_index=opcode, inputs=one) for one in inputs]
        return Table("Model", subgraphs=[Table("SubGraph", operators=made)])

    rules: Rules = {}, {("Operator", "inputs"): halved, ("Operator", "opcode_index"): halved}
    before, after = model(2, [2, 4], [], [6], None, [8, 8]), model(3, [3, 4], [], [6, 7], None, [8, 10])
    place = "subgraphs[0].operators"
    assert changes(before, after, rules) == {f"{place}[2].inputs": ([6], [6, 7]), f"{place}[4].inputs[1]": (8, 10)}
    assert seen == [
        ([0, 1, 2, 3, 4], [2] * 5, [3] * 5), ([0, 0, 4, 4], [2, 4, 8, 8], [3, 4, 8, 10]), ([4, 4], [8, 8], [8, 10])
    ]  # fmt: skip
    assert changes(model(1, None), model(2, None), rules) == {f"{place}[0].opcode_index": (1, 2)}
