"""Excerpts, table by table: which tensors, buffers, codes and subgraphs they have, and by which numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from circletools.errors import EditError
from circletools.model.indices import model_indices
from circletools.model.model import Model, open_model
from circletools.parts.contents import Excerpt, Section, called_by
from circletools.parts.whole import read_whole
from circletools.storage.files import view
from tests.kit.build import Build, Code, Table
from tests.kit.callers import CALLERS, calling
from tests.kit.outside import PLACES, content, outside, ranges

Numbers = dict[str, list[int]]


def taken(data: bytes, operators: Sequence[int], subgraph: int = 0, **more: Any) -> bytes:
    """Return the file of an excerpt."""
    whole = {name: more.pop(name) for name in ("metadata", "signatures") if name in more}
    section = Section(subgraph, operators, **{"inputs": [], "outputs": [], **more})
    with open_model(data) as model:
        return b"".join(map(view, read_whole(model).bytes_of(Excerpt([section], **{"metadata": {}, **whole}))))


@pytest.fixture
def opened() -> Iterator[Any]:
    models: list[Model] = []

    def opener(data: bytes) -> Model:
        models.append(open_model(data))
        return models[-1]

    yield opener
    for model in models:
        model.close()


def names(model: Model, subgraph: int = 0) -> list[str]:
    return [tensor.name for tensor in model.subgraphs[subgraph].tensors]


def numbers(model: Model) -> Numbers:
    """Return all indices of a model, by the field that has them."""
    found: Numbers = {}
    for indices in model_indices(model, "tensor", "buffer", "operator_code", "subgraph"):
        found.setdefault(".".join(indices.key), []).extend(indices.values.tolist())
    return {key: values for key, values in found.items() if values}


def built() -> Build:
    """Return a model of three subgraphs; in the second tensors, buffers and codes are named in no order."""
    build = Build("of three")
    for name in ("first", "last"):
        graph = build.graph(name)
        x = graph.tensor(f"{name}.x")
        graph.ends([x], [graph.compute("TANH", [x], f"{name}.y")])
    build.model.subgraphs.insert(1, build.model.subgraphs.pop())
    graph = build.graph("middle")
    build.model.subgraphs.insert(1, build.model.subgraphs.pop())
    names = ("z", "late", "y", "unused", "x", "early", "out")
    z, late, y, _, x, early, out = (graph.tensor(name) for name in names)
    for tensor in (early, late, _):
        graph.table.tensors[tensor].buffer = build.buffer(names[tensor].encode())
    graph.operator("NEG", [x], [y])
    graph.operator(Code("CUSTOM", 1, "mine"), [y, late, -1], [z])
    graph.operator("NEG", [z], [out])
    graph.operator("ADD", [out, early], [x])
    graph.ends([x], [out])
    build.metadata("kept", b"as it is")
    build.metadata("left out", b"nobody")
    build.metadata("given", b"old")
    build.signature("else", [("in", 0)], [("out", 1)], 0)
    build.signature("run", [("the x", 4), ("the late", 1)], [("the z", 0)], 1)
    return build


def test_everything_has_a_new_number_in_the_old_order(opened: Any) -> None:
    part = opened(
        taken(
            built().to_bytes(), [0, 1], 1, inputs=[4], outputs=[0, 2], names={0: b"new", 1: b"\xff"},
            metadata={2: b"new value", 0: None}, signatures=[1],
        )
    )  # fmt: skip
    assert part.description == "of three"
    assert [(graph.name, graph.inputs.tolist(), graph.outputs.tolist()) for graph in part.subgraphs] == [
        ("middle", [3], [0, 2])
    ]
    assert names(part) == ["new", "\udcff", "y", "x"]
    assert [(op.code.name, op.inputs, op.outputs) for op in part.subgraphs[0].operators] == [
        ("NEG", (3,), (2,)),
        ("CUSTOM:mine", (2, 1, -1), (0,)),
    ]
    assert [code.name for code in part.operator_codes] == ["NEG", "CUSTOM:mine"]
    assert [bytes(buffer.data) for buffer in part.buffers] == [b"", b"late", b"as it is", b"new value"]
    assert [tensor.buffer for tensor in part.subgraphs[0].tensors] == [0, 1, 0, 0]
    assert [(entry.name, entry.buffer) for entry in part.metadata] == [("given", 3), ("kept", 2)]
    assert [(one.key, one.subgraph, one.inputs, one.outputs) for one in part.signatures] == [
        ("run", 0, (("the x", 3), ("the late", 1)), (("the z", 0),))
    ]


def test_operators_that_are_not_adjacent(opened: Any) -> None:
    part = opened(taken(built().to_bytes(), [1, 3], 1, inputs=[2, 6], outputs=[0, 4]))
    assert names(part) == ["z", "late", "y", "x", "early", "out"]
    assert [code.name for code in part.operator_codes] == ["CUSTOM:mine", "ADD"]
    assert [bytes(buffer.data) for buffer in part.buffers] == [b"", b"early", b"late"]
    assert (part.metadata, part.signatures) == ((), ())
    assert not part.root.has("signature_defs")[0]
    assert numbers(part) == {
        "Operator.opcode_index": [0, 1],
        "Operator.inputs": [2, 1, -1, 5, 4],
        "Operator.outputs": [0, 3],
        "SubGraph.inputs": [2, 5],
        "SubGraph.outputs": [0, 3],
        "Tensor.buffer": [0, 2, 0, 0, 1, 0],
    }


def test_all_of_it_is_the_subgraph_again(opened: Any) -> None:
    data = built().to_bytes()
    whole = opened(taken(data, range(4), 1, inputs=[4], outputs=[6, 3]))
    assert names(whole) == names(opened(data), 1)
    assert opened(taken(data, [0], 2, inputs=[0], outputs=[1])).subgraphs[0].name == "last"


def test_a_tensor_that_only_passes_through() -> None:
    with open_model(taken(built().to_bytes(), [], 1, inputs=[5], outputs=[5])) as part:
        assert (names(part), len(part.operator_codes)) == (["early"], 0)
        assert [bytes(buffer.data) for buffer in part.buffers] == [b"", b"early"]


def test_buffers_that_are_named_in_the_old_way_go_along(opened: Any) -> None:
    build = built()
    build.model.metadata_buffer = [build.buffer(b"second"), 1, build.buffer(b"third")]
    part = opened(taken(build.to_bytes(), [0], 1, inputs=[4], outputs=[2]))
    assert [bytes(buffer.data) for buffer in part.buffers] == [b"", b"early", b"second", b"third"]
    assert numbers(part)["Model.metadata_buffer"] == [2, 1, 3]


def test_without_buffers_there_are_none(opened: Any) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.ends([x], [graph.compute("TANH", [x], "y")])
    build.model.buffers = []
    assert len(opened(taken(build.to_bytes(), [0], inputs=[0], outputs=[1])).buffers) == 0


def test_a_broken_model_is_refused() -> None:
    build = built()
    build.model.subgraphs[0].tensors[0].buffer = 77
    with pytest.raises(EditError, match="buffer 77 does not exist"):
        taken(build.to_bytes(), [0], 1)


# --- what tensors name ----------------------------------------------------------------------------------------


def blockwise() -> bytes:
    """Return a model whose weights have scales and zero points that are tensors, of which one has its own."""
    build = Build()
    build.graph("other").tensor("none")
    graph = build.graph()
    tensors = [graph.tensor(name, data=name.encode() * 16) for name in ("c0", "c1", "c2", "c3", "w0", "w1", "w2")]
    x, y, z = (graph.tensor(name) for name in ("x", "y", "z"))
    for tensor, scales, zero_points in ((4, 2, 1), (1, 3, -1), (5, 0, 2), (6, 6, -1)):
        details = Table("BlockwiseQuantization", scales=scales, zero_points=zero_points, block_size=32)
        graph.table.tensors[tensor].quantization = Table("QuantizationParameters", details=details)
    graph.operator("FULLY_CONNECTED", [x, tensors[4], -1], [y])
    graph.operator("FULLY_CONNECTED", [y, tensors[5], -1], [z])
    graph.operator("FULLY_CONNECTED", [z, tensors[6], -1], [x])
    return build.to_bytes()


@pytest.mark.parametrize(
    ("operators", "expected", "scales", "zero_points"),
    [
        ([0], ["c1", "c2", "c3", "w0", "x", "y"], [2, 1], [-1, 0]),
        ([1], ["c0", "c2", "w1", "y", "z"], [0], [1]),
        ([2], ["w2", "x", "z"], [0], [-1]),
        ([1, 2], ["c0", "c2", "w1", "w2", "x", "y", "z"], [0, 3], [1, -1]),
    ],
)
def test_scales_go_along_and_what_they_name_in_turn(
    operators: list[int], expected: list[str], scales: list[int], zero_points: list[int], opened: Any
) -> None:
    part = opened(taken(blockwise(), operators, 1))
    assert names(part) == expected
    found = numbers(part)
    assert found["BlockwiseQuantization.scales"] == scales
    assert found["BlockwiseQuantization.zero_points"] == zero_points
    constants = [name for name in expected if name[0] in "cw"]
    assert [bytes(buffer.data) for buffer in part.buffers] == [b"", *(name.encode() * 16 for name in constants)]


# --- called subgraphs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("caller", CALLERS)
def test_called_subgraphs_go_along_whole(caller: str, opened: Any) -> None:
    source = opened(calling(caller, idle=2, nested="IF"))
    part = opened(taken(calling(caller, idle=2, nested="IF"), [2]))
    count = CALLERS[caller][0] + 2
    assert [names(part, index) for index in range(1, count + 1)] == [
        names(source, index) for index in range(3, count + 3)
    ]
    for index in range(1, count + 1):
        here, there = part.subgraphs[index], source.subgraphs[index + 2]
        assert [(op.code.name, op.inputs, op.outputs) for op in here.operators] == [
            (op.code.name, op.inputs, op.outputs) for op in there.operators
        ]
        assert (here.inputs.tolist(), here.outputs.tolist()) == (there.inputs.tolist(), there.outputs.tolist())
    called = [value for indices in model_indices(part, "subgraph") for value in indices.values.tolist()]
    assert sorted(called) == [*range(1, count + 1)]
    assert (len(part.subgraphs), len(part.subgraphs[0].operators)) == (count + 1, 1)


def test_only_who_calls_takes_subgraphs_along(opened: Any) -> None:
    data = calling("WHILE", idle=1)
    assert len(opened(taken(data, [0, 1, 3, 4])).subgraphs) == 1
    with open_model(data) as model:
        graph = read_whole(model).graph
        sections = [
            Section(subgraph, some, [], []) for subgraph, some in ((0, [2, 3]), (2, range(5)), (0, [0, 1, 3, 4]))
        ]
        assert called_by(graph, sections[:1]) == called_by(graph, sections) == [2, 3]
        assert called_by(graph, sections[1:2]) == called_by(graph, sections[2:]) == []


def test_constants_of_called_subgraphs_go_along(opened: Any) -> None:
    build = Build()
    main, body = build.graph("main"), build.graph("body")
    x, y = main.tensor("x"), main.tensor("y")
    idle = main.tensor("idle", data=b"idle")
    first, second = body.tensor("first", data=b"first"), body.tensor("second", data=b"second")
    out = body.tensor("out")
    body.operator("ADD", [second, first], [out])
    body.ends([], [out])
    main.operator("NEG", [idle], [x])
    main.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    main.operator("TANH", [x], [y])
    part = opened(taken(build.to_bytes(), [1, 2], outputs=[1]))
    assert [bytes(buffer.data) for buffer in part.buffers] == [b"", b"first", b"second"]
    assert [code.name for code in part.operator_codes] == ["ADD", "CALL_ONCE", "TANH"]
    assert [tensor.buffer for tensor in part.subgraphs[1].tensors] == [1, 2, 0]
    assert numbers(part)["Operator.opcode_index"] == [1, 2, 0]


# --- data outside the flatbuffer ------------------------------------------------------------------------------


def test_each_range_is_copied_and_aligned_as_it_was() -> None:
    data = outside(PLACES)
    part = taken(data, [0, 2, 3, 4, 5, 6], 1)
    found = ranges(part)
    assert [(kind, row, size) for kind, row, _, size in found] == [
        ("Buffer", 1, 33), ("Buffer", 2, 5), ("Buffer", 3, 15), ("Buffer", 4, 1),
        ("large_custom_options", 2, 90), ("bytecode", 3, 64),
    ]  # fmt: skip
    with open_model(part) as model:
        end: int = model.reachable.end + -model.reachable.end % 16
    stored = content(4096)
    alignments = {"a": 64, "b": 16, "c": 32, "d": 64, "options": 64, "program": 16}
    by_name = dict(zip(alignments, found, strict=True))
    for name in sorted(by_name, key=PLACES.__getitem__):
        alignment, (_, _, offset, size) = alignments[name], by_name[name]
        assert offset == end + -end % alignment, name
        at = PLACES[name][0]
        assert part[offset : offset + size] == stored[at : at + size]
        assert not any(part[end:offset])
        end = offset + size
    assert len(part) == end


@pytest.mark.parametrize(
    ("places", "moved"),
    [
        ({"a": (0, 32), "b": (16, 32), "c": (48, 16)}, {"a": 0, "b": 16, "c": 48}),
        ({"a": (0, 64), "b": (16, 8), "c": (40, 60)}, {"a": 0, "b": 16, "c": 40}),
        ({"a": (0, 16), "idle": (16, 16), "b": (48, 16), "c": (64, 8)}, {"a": 0, "b": 16, "c": 64}),
        ({"a": (64, 8), "b": (64, 8), "c": (200, 8)}, {"a": 0, "b": 0, "c": 16}),
    ],
)
def test_ranges_that_lie_over_each_other_stay_so(places: dict[str, tuple[int, int]], moved: dict[str, int]) -> None:
    data = outside(places)
    operators = [index for index, name in enumerate(places) if name != "idle"]
    part = taken(data, operators, 1)
    found = ranges(part)
    first = found[0][2]
    assert [offset - first for _, _, offset, _ in found] == list(moved.values())
    kept = [range_ for name, range_ in places.items() if name != "idle"]
    stored = content(4096)
    assert [part[at : at + size] for _, _, at, size in found] == [stored[at : at + size] for at, size in kept]
    assert len(part) == max(offset + size for _, _, offset, size in found)


def test_an_excerpt_that_names_nothing_outside_ends_with_its_flatbuffer() -> None:
    build = Build()
    graph = build.graph()
    graph.operator("NEG", [graph.tensor("x")], [])
    graph.operator("ABS", [graph.tensor("y", buffer=build.buffer(offset=4096, size=8))], [])
    data = build.to_bytes().ljust(4096, b"\0") + b"12345678"
    part = taken(data, [0])
    assert b"12345678" not in part
    with open_model(part) as model:
        assert len(part) - model.reachable.end < 16


def test_behind_large_data_inside_comes_the_data_outside() -> None:
    build = Build()
    graph = build.graph()
    large = bytes(range(250)) * 400
    graph.operator(
        "NEG", [graph.tensor("x", data=large), graph.tensor("y", buffer=build.buffer(offset=1 << 17, size=8))], []
    )
    data = build.to_bytes().ljust(1 << 17, b"\0") + b"12345678"
    part = taken(data, [0])
    ((_, _, offset, size),) = ranges(part)
    assert (part[offset:], size, offset % 64) == (b"12345678", 8, 0)
    with open_model(part) as model:
        assert bytes(model.buffers[1].data) == large
        assert 0 <= offset - model.reachable.end < 64 + 16
