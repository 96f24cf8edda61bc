"""Signatures and origins follow the outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.build import Build, floats
from tests.kit.origin_support import embedded, entries, freshness_of, origins, origins_of
from tests.kit.outputs_support import (
    assert_every_output_is_its_own,
    assert_fixed,
    assert_same_in_runtimes,
    fixed,
    telling,
    vector,
)
from tests.kit.support import bytes_of, read


def test_several_names_for_one_tensor(tmp_path: Path) -> None:
    """The k-th name goes with the k-th slot; a name more than slots goes with the last."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    total, negative = graph.compute("ADD", [x, x], "total"), graph.compute("NEG", [x], "negative")
    graph.ends([x], [total, negative, total, x])
    names = [("z", total), ("n", negative), ("a", total), ("m", total), ("same", x)]
    build.signature("serving_default", [("x", x)], names)
    build.signature("one", [("x", x)], [("only", total)])
    build.signature("none", [("x", x)], [])
    data = build.to_bytes()
    after = fixed(data)
    assert_fixed(data, after)
    first, second, third = read(after)["signatureDefs"]
    outputs = vector(read(after)["subgraphs"][0]["outputs"])
    assert [entry["tensorIndex"] for entry in first["outputs"]] == [outputs[slot] for slot in (0, 1, 2, 2, 3)]
    assert [entry["name"] for entry in first["outputs"]] == [b"z", b"n", b"a", b"m", b"same"]
    assert [entry["tensorIndex"] for entry in second["outputs"]] == [outputs[0]]
    assert not third["outputs"]
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    signatures = {key: [name for name, *_ in values] for key, values in now["litert"].signatures.items()}
    assert signatures["serving_default"] == ["a", "m", "n", "same", "z"]


def test_a_subgraph_of_its_own_for_each_signature(tmp_path: Path) -> None:
    build = Build()
    for index, key in enumerate(("first", "second")):
        graph = build.graph(key)
        x, c = graph.tensor("x"), graph.constant("c", floats(2, 2, seed=index))
        graph.ends([x], [graph.compute("ADD", [x, c], "total"), c, x])
        build.signature(key, [("x", x)], [("y", 2), ("c", c), ("x", x)], index)
    build.graph("nobody calls").ends([], [])
    data = build.to_bytes()
    after = fixed(data)
    assert_fixed(data, after)
    assert_every_output_is_its_own(after)
    now = assert_same_in_runtimes(data, after, tmp_path, "tflite")
    assert sorted(now["litert"].signatures) == ["first", "second"]
    only = fixed(data, "1")
    assert_fixed(data, only, [1])
    assert_same_in_runtimes(data, only, tmp_path, "tflite")


def test_origins_follow() -> None:
    """A copy comes from where the copied value comes from; inputs and constants come from nowhere."""
    build = Build()
    graph = build.graph()
    x, c = graph.tensor("x"), graph.constant("c", floats(2, 2))
    total = graph.compute("ADD", [x, c], "total")
    negative = graph.compute("NEG", [total], "negative")
    graph.ends([x], [total, x, c, negative, total, negative])
    data = embedded(build.to_bytes(), origins({0: "sum", 1: "minus", 5: "both"}, {0: {0, 5}, 1: {1}}))
    after = fixed(data)
    assert_fixed(data, after, metadata=False)
    found = origins_of(after)
    assert found.operators == entries({0: {0, 5}, 1: {1}, 4: {0, 5}, 5: {1}})
    assert found.sources == {0: "sum", 1: "minus", 5: "both"}
    assert freshness_of(after).state == "fresh"
    assert telling(after) == []
    assert fixed(after) == after


def test_origins_follow_in_several_subgraphs() -> None:
    build = Build()
    for index, key in enumerate(("first", "second")):
        graph = build.graph(key)
        x = graph.tensor("x")
        total = graph.compute("ADD", [x, x], "total")
        graph.ends([x], [total, total])
        build.signature(key, [("x", x)], [("y", total)], index)
    data = embedded(build.to_bytes(), origins({0: "a", 1: "b"}, {0: {0}}, {0: {1}}))
    after = fixed(data)
    assert_fixed(data, after, metadata=False)
    assert origins_of(after).operators == entries({0: {0}, 1: {0}}, {0: {1}, 1: {1}})
    assert freshness_of(after).state == "fresh"


@pytest.mark.parametrize("name", ["circle/output_twice", "circle/input_as_output", "tflite/output_twice"])
def test_origins_of_models_of_others_follow(name: str) -> None:
    data = embedded(bytes_of(name))
    before = origins_of(data)
    after = fixed(data)
    assert after != data
    assert freshness_of(after).state == "fresh"
    (described,) = origins_of(after).operators
    assert {index: described[index] for index in before.operators[0]} == before.operators[0]
    assert origins_of(after).sources == before.sources
