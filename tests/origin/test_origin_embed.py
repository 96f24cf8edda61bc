"""Origins in models: embedded, read back, kept up to date, and reported when stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, InvalidInputError, ModelFormatError
from circletools.model.model import open_model
from circletools.origin.embed import embed, strip
from circletools.origin.names import NameSource, collect_sources
from circletools.origin.read import Origins
from tests.kit.build import Build
from tests.kit.origin_support import (
    EXACT,
    OP,
    SOURCE,
    STAMP,
    embedded,
    entries,
    origins,
    origins_of,
    output_names,
    rebuilt,
    u32s,
    value_of,
)
from tests.kit.support import bytes_of, edited, read, unpacked, with_entry

CIRCLE, LOOP = "circle/transformer_block", "circle/while_loop"  # 41 operators; subgraphs of 1, 1 and 3


def test_default_origins(own_model: Path) -> None:
    """Operators are their own sources, named after their first outputs; operator i of subgraph 0 is source i.

    Those of the main subgraph, and of subgraphs with a signature.
    """
    data = own_model.read_bytes()
    found = origins_of(embedded(data))
    model = unpacked(data)
    entry = {0, *(signature.subgraphIndex for signature in model.signatureDefs or ())}
    names = [output_names(data, index) if index in entry else [] for index in range(len(model.subgraphs))]
    assert list(found.sources.items()) == list(enumerate(name or "(noname)" for one in names for name in one))
    numbers = iter(found.sources)
    assert found.operators == tuple({index: {next(numbers)} for index in range(len(one))} for one in names)


def test_entries_are_appended(own_model: Path) -> None:
    """The tables are new entries and new buffers at the end, in this order; all else is as it was."""
    data = own_model.read_bytes()
    after = embedded(data)
    wanted = read(data)
    several = any(origins_of(after).operators[1:])
    for name in (SOURCE, OP, *([EXACT] if several else []), STAMP):
        value = value_of(after, name)
        assert value is not None
        wanted = with_entry(wanted, name.encode(), value)
    assert read(after) == wanted


def test_strip_restores_the_file(own_model: Path) -> None:
    data = own_model.read_bytes()
    assert edited(embedded(data), strip) == data
    assert edited(data, strip) == data


def test_embed_twice(own_model: Path) -> None:
    once = embedded(own_model.read_bytes())
    with pytest.raises(EditError, match=f"{SOURCE}, {OP}"):
        embedded(once)
    assert embedded(once, replace=True) == once


def test_embed_reports_its_changes() -> None:
    data = bytes_of("circle/gather")
    changes: list[str] = []

    def change(edit: ModelEdit) -> None:
        changes.extend(embed(edit, collect_sources(edit.model), replace=True).changes)

    once = edited(data, change)
    assert [line.split(":")[0] for line in changes] == [f"metadata {name}" for name in (SOURCE, OP, STAMP)]
    changes.clear()
    edited(once, change)
    assert changes == []
    with open_model(once) as model:
        assert strip(ModelEdit(model)).changes == tuple(f"metadata {name}: removed" for name in (SOURCE, OP, STAMP))


def test_no_stamp() -> None:
    after = embedded(bytes_of("circle/mlp"), stamp=False)
    assert value_of(after, STAMP) is None
    assert value_of(after, OP) == u32s(3, 0, 1, 0, 1, 1, 1, 2, 1, 2)
    assert value_of(embedded(embedded(bytes_of("circle/mlp")), stamp=False, replace=True), STAMP) is None


def test_sources_without_operators_are_kept() -> None:
    wanted = origins({2: "gone", 4294967295: "last"}, {1: {4294967295}})
    found = origins_of(embedded(bytes_of("circle/mlp"), wanted))
    assert (found.sources, found.operators) == (wanted.sources, wanted.operators)


def stated(*codes: str, output: str = "") -> Origins:
    return Origins({0: "a"}, (), document="o.csv", stated={(0, at): (code, output) for at, code in enumerate(codes)})


NOWHERE: list[tuple[Origins, str]] = [
    (origins({0: "a"}, {3: {0}}), r"subgraphs\[0\]\.operators\[3\]: the operator does not exist; the count is 3"),
    (origins({0: "a"}, {-1: {0}}), r"operators\[-1\]: the operator does not exist"),
    (origins({0: "a"}, {}, {0: {0}}), "subgraph 1 does not exist; the count is 1"),
    (origins({0: "a"}, {2: {0, 5}}), r"operators\[2\]: source 5 does not exist"),
    (stated("TANH", "RELU", "SOFTMAX"), "o.csv: the origins belong to another model: 2 of 3 operator codes differ"),
]


def test_origins_of_what_does_not_exist() -> None:
    for wanted, message in NOWHERE:
        with pytest.raises(InvalidInputError, match=message):
            embedded(bytes_of("circle/mlp"), wanted)
    own = "FULLY_CONNECTED", "FULLY_CONNECTED"
    for some, count in ((stated(*own), 0), (stated(*own, output="x"), 2), (stated("TANH", *own[1:]), 1)):
        with open_model(bytes_of("circle/mlp")) as model:
            notes = [note.message for note in embed(ModelEdit(model), some).notes]
        assert notes == [f"{count} of 2 operators differ from the origins in code or output"] * bool(count)


def test_an_unknown_origin_has_no_entry() -> None:
    assert value_of(embedded(bytes_of("circle/mlp"), origins({0: "a"}, {0: set(), 1: {0}})), OP) == u32s(1, 1, 1, 0)


def test_nameless_operators() -> None:
    def change(model: Any) -> None:
        graph = model.subgraphs[0]
        graph.tensors[graph.operators[0].outputs[0]].name = ""
        graph.operators[2].outputs = []

    found = origins_of(embedded(rebuilt(bytes_of("circle/mlp"), change)))
    assert found.sources == {0: "(noname)", 1: "torch.nn.modules.linear.Linear::linear_1", 2: "(noname)"}


@pytest.mark.parametrize(("name", "sources", "operators"), [
    ("circle/mlp", "__main__.Mlp::relu torch.nn.modules.linear.Linear::linear_1 __main__.Mlp::_softmax",
     {0: {0}, 1: {1}, 2: {2}}),
    ("tflite/cnn", "Relu Conv2D MaxPool2d Relu_1 add Conv2D_1 MaxPool2d_1 Reshape matmul2 PartitionedCall:0",
     {0: {0, 1}, 1: {2}, 2: {3, 4, 5}, 3: {6}, 4: {7}, 5: {8}, 6: {9}}),
    ("tflite/debug_metadata", "MatMul Tanh add", {0: {0}, 1: {1}, 2: {2}}),
])  # fmt: skip
def test_names_by_default(name: str, sources: str, operators: dict[int, set[int]]) -> None:
    found = origins_of(embedded(bytes_of(name), names=NameSource.AUTO))
    assert found.sources == dict(enumerate(sources.split()))
    assert found.operators == entries(operators)


def test_every_subgraph_with_a_signature_is_described() -> None:
    data = bytes_of("tflite/two_signatures")
    for names in (NameSource.AUTO, NameSource.OUTPUT):
        found = origins_of(embedded(data, names=names))
        assert [sorted(operators) for operators in found.operators] == [
            list(range(len(output_names(data, subgraph)))) for subgraph in range(2)
        ]
    assert list(found.sources) == list(range(sum(map(len, found.operators))))
    called = origins_of(embedded(bytes_of("tflite/while_loop"), names=NameSource.OUTPUT))
    assert [bool(operators) for operators in called.operators] == [True, False, False]


def test_a_result_reports_the_chosen_names() -> None:
    def shown(name: str | bytes, names: NameSource) -> str:
        with open_model(bytes_of(name) if isinstance(name, str) else name) as model:
            (note,) = embed(ModelEdit(model), names=names).notes
        assert (note.code, note.severity, note.location) == ("SOURCE_NAMES", "info", "")
        return note.message.removeprefix("sources are named after ")

    assert shown("circle/mlp", NameSource.AUTO) == "TICO's tensor names"
    assert shown("circle/mlp", NameSource.OUTPUT) == "the first outputs of operators"
    assert shown("circle/only_input", NameSource.TENSOR_NAMES) == "the first outputs of operators"
    assert shown("tflite/debug_metadata", NameSource.AUTO) == "the locations of debug_metadata"
    assert shown("tflite/cnn", NameSource.AUTO) == "TensorFlow's tensor names"
    assert shown("circle/while_loop", NameSource.AUTO) == "the first outputs of operators"
    build = Build("MLIR Converted.")
    for name in ("StatefulPartitionedCall:0", "net.Lm;"):
        graph = build.graph()
        graph.ends([x := graph.tensor("x", (2, 2))], [graph.compute("COS", [x], name)])
    assert shown(build.to_bytes(), NameSource.AUTO).startswith("litert-torch's tensor names")


def test_names_that_are_not_there(own_model: Path) -> None:
    """All models have names for `output`; only one has locations, and those without operators need none."""
    data = own_model.read_bytes()
    if own_model.stem == "debug_metadata" or not output_names(data):
        assert embedded(data, names=NameSource.DEBUG_METADATA) != data
    else:
        with pytest.raises(EditError, match=r"no debug_metadata locations .*use `names=auto` or `names=output`"):
            embedded(data, names=NameSource.DEBUG_METADATA)


def test_broken_locations() -> None:
    broken = edited(bytes_of("tflite/debug_metadata"), lambda edit: edit.set_metadata("debug_metadata", b"\xff" * 40))
    with pytest.raises(ModelFormatError, match=r"metadata debug_metadata: the locations are broken"):
        embedded(broken, names=NameSource.DEBUG_METADATA)
    found = origins_of(embedded(broken, names=NameSource.AUTO))
    assert list(found.sources.values()) == ["MatMul", "Tanh", "PartitionedCall:0"]  # by the names of tensors
