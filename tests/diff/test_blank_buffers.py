"""Buffers without data: what quantizers and converters leave out, add or renumber is not a difference."""

from __future__ import annotations

from tests.kit.build import Build
from tests.kit.difference_support import paths


def model(*tensors: int, buffers: tuple[bytes | None, ...] = (), **fields: int) -> bytes:
    """Return tensors a, b, ... of these buffers; buffer 0 is there."""
    build = Build()
    for data in buffers:
        build.buffer(data, **(fields if data is None else {}))
    graph = build.graph()
    for letter, buffer in zip("abcd", tensors, strict=False):
        graph.tensor(letter, buffer=buffer)
    return build.to_bytes()


def test_a_tensor_passed_from_one_to_another() -> None:
    separate = model(1, 2, 3, buffers=(None, b"data", None))
    assert paths(separate, model(0, 1, 0, buffers=(b"data",))) == []
    assert paths(model(0, 1, 0, buffers=(b"data",)), separate) == []
    assert paths(separate, model(3, 2, 1, buffers=(None, b"data", None))) == []
    assert paths(separate, model(1, 2, 1, buffers=(None, b"data"))) == []


def test_data_added_and_removed() -> None:
    assert paths(model(1, buffers=(None,)), model(1, buffers=(b"x",))) == [("changed", "buffers[1].data")]
    assert paths(model(1, buffers=(b"x",)), model(1, buffers=(None,))) == [("changed", "buffers[1].data")]
    assert ("changed", "subgraphs[0].tensors[0].buffer") in paths(model(0), model(1, buffers=(b"x",)))
    assert paths(model(0), model(1, buffers=(b"x",)))[-1] == ("added", "buffers[1]")


def test_data_that_comes_to_a_tensor_whose_buffer_is_another() -> None:
    before, after = model(1, 2, buffers=(None, b"same")), model(2, 1, buffers=(b"same", b"new"))
    assert paths(before, after) == [("changed", "buffers[1].data")]
    assert paths(after, before) == [("changed", "buffers[2].data")]


def test_data_of_no_bytes_is_data() -> None:
    assert paths(model(1, buffers=(None,)), model(1, buffers=(b"",))) == [("changed", "buffers[1].data")]


def test_an_index_that_leads_nowhere_is_not_one_without_data() -> None:
    assert paths(model(0), model(9)) == [("changed", "subgraphs[0].tensors[0].buffer")]
    assert paths(model(9), model(1, buffers=(None,))) == [("changed", "subgraphs[0].tensors[0].buffer")]
