"""Origins as a tree of modules."""

from __future__ import annotations

import circletools as ct
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails
from tests.kit.origin_support import embedded, entries
from tests.kit.support import bytes_of

Q = SourceDetails("layers.0.q", "nn.Linear", "u/net.py", 42)
SOURCES = {
    0: "layers.0.q::linear",
    1: "layers.1::add",
    2: "layers.0.q::relu",
    3: "model/dense/MatMul",
    4: "net.Lm::sub",
}
DETAILS = {0: Q, 1: SourceDetails("layers.1", "net.Block"), 2: Q}
ORIGINS = Origins(SOURCES, entries({0: {0, 2}, 1: {0, 1}, 2: {3}}), details=DETAILS)


def tree(data: bytes, depth: int | None = None) -> list[str]:
    with ct.open(data) as model:
        return list(ct.render.origins_tree(ct.origins.describe(model), depth))


def test_a_tree_of_modules() -> None:
    data = embedded(bytes_of("circle/mlp"), ORIGINS)
    assert [" ".join(line.split()) for line in tree(data)] == [
        "module operators class or line",
        "layers 2 operators",
        "0.q 2 operators nn.Linear",
        "linear 0 1 u/net.py:42",
        "relu 0 u/net.py:42",
        "1 1 operator net.Block",
        "add 1",
        "model/dense 1 operator",
        "MatMul 2",
        "net.Lm 0 operators",
        "sub (none)",
    ]
    assert [len(line) - len(line.lstrip()) for line in tree(data)[1:4]] == [2, 4, 6]


def test_a_tree_cut_off() -> None:
    data = embedded(bytes_of("circle/mlp"), ORIGINS)
    assert [" ".join(line.split()) for line in tree(data, 1)] == [
        "module operators class or line", "layers 2 operators", "model 1 operator", "net 0 operators",
    ]  # fmt: skip
    assert [" ".join(line.split()) for line in tree(data, 2)][2:5] == [
        "0 2 operators",
        "1 1 operator",
        "model/dense 1 operator",
    ]
    assert tree(bytes_of("circle/mlp")) == []
