"""Origins and affinity of models whose operators and subgraphs have other indices, value for value."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from circletools.affinity.tables import Affinity, SubgraphAffinity
from circletools.flatbuf.comparison import Difference
from tests.kit.affinity_support import affinity, annotated, ids
from tests.kit.build import Build, floats
from tests.kit.difference_models import at
from tests.kit.difference_support import differences, paths
from tests.kit.origin_support import embedded, origins
from tests.kit.support import edited


def chained(**subgraphs: str) -> bytes:
    """Return subgraphs of these names; each letter is an operator that makes a tensor of its name."""
    build = Build()
    for name, letters in subgraphs.items():
        graph = build.graph(name)
        value = start = graph.tensor("x")
        for letter in letters:
            value = graph.compute("NEG", [value], f"{name}.{letter}")
        graph.ends([start], [value])
    return build.to_bytes("circle")


def other(kind: str, before: str, after: str, old: object, new: object) -> Difference:
    """Return a difference whose path is another in the second model."""
    return Difference(kind, before, after, old, new)  # type: ignore[arg-type]


def op(subgraph: int, operator: int, what: str) -> str:
    return f"subgraphs[{subgraph}].operators[{operator}].{what}"


def both_ways(before: bytes, after: bytes, section: str, expected: list[Difference]) -> None:
    """Check the differences, and their mirror image."""
    mirrored = {"added": "removed", "removed": "added"}
    assert differences(before, after, section) == expected  # type: ignore[arg-type]
    back = differences(after, before, section)  # type: ignore[arg-type]
    assert back == [
        Difference(mirrored.get(one.kind, one.kind), one.path_after, one.path, one.after, one.before)  # type: ignore[arg-type]
        for one in expected
    ]


# --- devices ------------------------------------------------------------------------------------------------


def test_devices_are_compared_by_what_belongs_together() -> None:
    before = annotated(
        chained(main="abc", second="pq"), affinity(["cpu", "npu"], ([0, 0, 1], [0, 0, 1]), ([1, 0], [0, 1]))
    )
    after = annotated(
        chained(main="zabc", second="pq"), affinity(["cpu", "npu"], ([1, 0, 1, 1], [0, 1, 2, 2]), ([1, 1], [0, 0]))
    )
    both_ways(before, after, "affinity", [
        other("changed", op(0, 1, "device"), op(0, 2, "device"), "cpu", "npu"),
        at("added", "subgraphs[0].partitions[0]", None, {"device": "npu", "operators": "0"}),
        other("changed", "subgraphs[0].partitions[0]", "subgraphs[0].partitions[1]",
              {"device": "cpu", "operators": "0-1"}, {"device": "cpu", "operators": "1"}),
        at("added", "subgraphs[0].partitions[2]", None, {"device": "npu", "operators": "2-3"}),
        at("removed", "subgraphs[0].partitions[1]", {"device": "npu", "operators": "2"}, None),
        at("changed", op(1, 1, "device"), "cpu", "npu"),
        at("changed", "subgraphs[1].partitions[0]",
           {"device": "npu", "operators": "0"}, {"device": "npu", "operators": "0-1"}),
        at("removed", "subgraphs[1].partitions[1]", {"device": "cpu", "operators": "1"}, None),
    ])  # fmt: skip


def test_devices_of_subgraphs_that_changed_places() -> None:
    before = annotated(
        chained(main="a", second="pq", third="r"), affinity(["cpu", "npu"], ([0], [0]), ([0, 1], [0, 1]), ([1], [0]))
    )
    after = annotated(
        chained(main="a", third="r", second="pq"), affinity(["cpu", "npu"], ([0], [0]), ([1], [0]), ([1, 1], [0, 0]))
    )
    both_ways(before, after, "affinity", [
        other("changed", op(1, 0, "device"), op(2, 0, "device"), "cpu", "npu"),
        other("changed", "subgraphs[1].partitions[0]", "subgraphs[2].partitions[0]",
              {"device": "cpu", "operators": "0"}, {"device": "npu", "operators": "0-1"}),
        at("removed", "subgraphs[1].partitions[1]", {"device": "npu", "operators": "1"}, None),
    ])  # fmt: skip


def test_devices_are_identified_by_their_names() -> None:
    data = chained(main="abc")
    before = annotated(data, affinity(["cpu", "npu"], ([0, 1, None], [0, 1, None])))
    after = annotated(data, affinity(["npu", "cpu"], ([1, 0, None], [0, 1, None])))
    both_ways(before, after, "affinity", [at("changed", "affinity.devices", ["cpu", "npu"], ["npu", "cpu"])])
    more = annotated(data, affinity(["cpu", "npu", "dsp"], ([0, 2, 1], [0, 1, 2])))
    both_ways(before, more, "affinity", [
        at("changed", "affinity.devices", ["cpu", "npu"], ["cpu", "npu", "dsp"]),
        at("changed", op(0, 1, "device"), "npu", "dsp"),
        at("changed", op(0, 2, "device"), None, "npu"),
        at("changed", "subgraphs[0].partitions[1]",
           {"device": "npu", "operators": "1"}, {"device": "dsp", "operators": "1"}),
        at("added", "subgraphs[0].partitions[2]", None, {"device": "npu", "operators": "2"}),
    ])  # fmt: skip
    assert differences(before, data, "affinity") == [at("removed", "affinity", {"devices": ["cpu", "npu"]}, None)]
    assert differences(data, chained(main="ab"), "affinity") == []


def test_devices_that_a_stale_table_does_not_reach() -> None:
    def with_table(count: int) -> bytes:
        """Annotate the model when it had so many operators, and give it the others later."""
        short = annotated(chained(main="abc"[:count]), affinity(["cpu"], ([0] * count, [0] * count)))

        def grow(edit: object) -> None:
            code = edit.add_operator_code("NEG")  # type: ignore[attr-defined]
            for number in range(count, 3):
                made = edit.add_tensor_like(0, number, f"main.{'abc'[number]}")  # type: ignore[attr-defined]
                edit.add_operator(0, code, [number], [made])  # type: ignore[attr-defined]

        return edited(short, grow)

    found = differences(with_table(2), with_table(3), "affinity")
    assert found == [
        at("changed", "affinity.freshness", "stale", "fresh"),
        at("changed", op(0, 2, "device"), None, "cpu"),
        at("changed", "subgraphs[0].partitions[0]",
           {"device": "cpu", "operators": "0-1"}, {"device": "cpu", "operators": "0-2"}),
    ]  # fmt: skip


def partitions(devices: Sequence[int | None], numbers: Sequence[int | None]) -> Affinity:
    return Affinity({0: "cpu", 1: "npu"}, {3: SubgraphAffinity(ids(*devices), ids(*numbers))})


# --- origins ------------------------------------------------------------------------------------------------


def test_origins_are_compared_by_what_belongs_together() -> None:
    names = {1: "one", 2: "two", 3: "three"}
    before = embedded(chained(main="abc", second="pq"), origins(names, {0: {1}, 1: {2}}, {0: {3}, 1: {1, 2}}))
    after = embedded(chained(main="zab", second="pq"), origins(names, {0: {2}, 1: {1}, 2: {1, 3}}, {0: {3}, 1: {2}}))
    both_ways(before, after, "origins", [
        other("changed", op(0, 1, "origin"), op(0, 2, "origin"), ["two"], ["one", "three"]),
        at("changed", op(1, 1, "origin"), ["one", "two"], ["two"]),
        at("added", op(0, 0, "origin"), None, ["two"]),
    ])  # fmt: skip


def test_origins_with_sources_of_other_numbers() -> None:
    data = chained(main="abc")
    before = embedded(data, origins({1: "one", 2: "two", 4: "four"}, {0: {1}, 1: {2}, 2: {4}}))
    after = embedded(data, origins({1: "two", 2: "one", 3: "four"}, {0: {2}, 1: {2}, 2: {3}}))
    both_ways(before, after, "origins", [
        at("changed", "origins.sources[1]", "one", "two"),
        at("changed", "origins.sources[2]", "two", "one"),
        at("added", "origins.sources[3]", None, "four"),
        at("removed", "origins.sources[4]", "four", None),
        at("changed", op(0, 1, "origin"), ["two"], ["one"]),
    ])  # fmt: skip
    assert differences(before, data, "origins") == [at("removed", "origins", {"sources": 3, "operators": 3}, None)]
    assert differences(data, after, "origins") == [at("added", "origins", None, {"sources": 3, "operators": 3})]


def test_origins_of_what_only_one_model_has() -> None:
    before = embedded(chained(main="abcd"), origins({0: "o", 1: "p"}, {1: {0}, 3: {1, 0}}))
    after = embedded(chained(main="a"), origins({0: "o", 1: "p"}, {0: {1}}))
    both_ways(before, after, "origins", [
        at("changed", op(0, 0, "origin"), [], ["p"]),
        at("removed", op(0, 1, "origin"), ["o"], None),
        at("removed", op(0, 3, "origin"), ["o", "p"], None),
    ])  # fmt: skip


# --- buffers and types --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("data", "is_reported"), [(b"", False), (None, False), (b"1", True)])
def test_an_unused_buffer_with_data_is_reported(data: bytes | None, is_reported: bool) -> None:
    def model(more: bool) -> bytes:
        build = Build()
        graph = build.graph()
        graph.constant("c", floats(2))
        if more:
            build.buffer(data)
        return build.to_bytes("circle")

    expected = [("added", "buffers[2]")] if is_reported else []
    assert paths(model(False), model(True)) == expected
    assert paths(model(True), model(False)) == [("removed", path) for _, path in expected]


def test_an_empty_buffer_that_a_tensor_names_is_reported() -> None:
    def model(*buffers: bytes) -> bytes:
        build = Build()
        graph = build.graph()
        for number, data in enumerate(buffers):
            graph.tensor(f"t{number}", data=data)
        return build.to_bytes("circle")

    assert paths(model(b"1"), model(b"1", b"")) == [("added", "subgraphs[0].tensors[1]"), ("added", "buffers[2]")]
