"""The names that exporters give tensors: which exporter it was, and the sources in them."""

from __future__ import annotations

import pytest

from circletools.model.model import open_model
from circletools.origin.grammar import Exporter, exporter_of, parts_of, reader_of
from circletools.origin.names import collect_sources
from circletools.origin.source import Source, SourceDetails
from tests.kit.build import Build

LINEAR = "torch.nn.modules.linear.Linear"
BLOCK = "net.Lm/net.Block_0"


def module(path: str, class_name: str) -> Source:
    return Source(path or class_name, SourceDetails(path=path, class_name=class_name))


@pytest.mark.parametrize(
    ("description", "names", "exporter"),
    [
        ("circle", [f"{LINEAR}::linear_2", "unknown::permute", "a/b"], Exporter.TICO),
        ("", [*["net.Lm;"] * 2, *["net.Lm::add"] * 3, *["a/b"] * 2], Exporter.TICO),
        ("MLIR Converted.", [f"{BLOCK}/{LINEAR}_q;7", "serving_default_output_0_output"], Exporter.LITERT_TORCH),
        ("MLIR Converted.", [*["net.Lm::add"] * 2, *["net.Lm;"] * 3], Exporter.LITERT_TORCH),
        ("MLIR Converted.", ["model/dense/MatMul;model/dense/BiasAdd", "Identity"], Exporter.TENSORFLOW),
        ("MLIR Converted.", ["model/tf.nn.relu/Relu;model/tf.math.add/Add", "Identity"], Exporter.ONNX2TF),
        ("MLIR Converted.", ["a/b", "a/b", f"{BLOCK};1"], Exporter.TENSORFLOW),
        ("MLIR Converted.", ["a/b", "a/b", *[f"{BLOCK};1"] * 3], Exporter.LITERT_TORCH),
        ("MLIR Converted.", ["a/b", "a/b", *["m/tf.nn.relu/Relu;m/tf.math.add/Add"] * 3], Exporter.ONNX2TF),
        ("circle", ["a/b"], Exporter.TENSORFLOW),
        ("MLIR Converted.", ["Identity", "", "a;b;3"], Exporter.TENSORFLOW),
        ("MLIR Converted.", [""], None),
        ("", ["Identity", "Const_1", "7", "", "a;b;3", "x::", "std::map<a>::b"], None),
        ("circle", [], None),
    ],
)
def test_which_exporter(description: str, names: list[str], exporter: Exporter | None) -> None:
    assert exporter_of(description, names) is exporter


@pytest.mark.parametrize(
    ("exporter", "name", "sources"),
    [
        (Exporter.TICO, f"{LINEAR}::linear_2", [f"{LINEAR}::linear_2"]),
        (Exporter.TICO, "unknown::permute_1", ["unknown::permute_1"]),
        (Exporter.TICO, "tico::x", ["tico::x"]),
        (Exporter.TICO, "a;b", ["a;b"]),
        (Exporter.TICO, "", []),
        (Exporter.LITERT_TORCH, f"{BLOCK}/net.Att_attn/{LINEAR}_q;7", [module("0.attn.q", LINEAR)]),
        (Exporter.LITERT_TORCH, f"{BLOCK}/{LINEAR}_q;", [module("0.q", LINEAR)]),
        (Exporter.LITERT_TORCH, f"{BLOCK}/net.Att_my_attn;1", [module("0.my_attn", "net.Att")]),
        (Exporter.LITERT_TORCH, f"{BLOCK}/net._Att_attn;1", [module("0.attn", "net._Att")]),
        (Exporter.LITERT_TORCH, "net.Lm/net.Bare;", [module("Bare", "net.Bare")]),
        (Exporter.LITERT_TORCH, "net.My_Lm;3", [module("", "net.My_Lm")]),
        (
            Exporter.LITERT_TORCH,
            f"net.Lm;;{BLOCK};;{BLOCK}/{LINEAR}_q;;{BLOCK};12",
            [module("", "net.Lm"), module("0", "net.Block"), module("0.q", LINEAR)],
        ),
        (Exporter.LITERT_TORCH, "serving_default_output_0_output", ["serving_default_output_0_output"]),
        (
            Exporter.TENSORFLOW,
            "model/dense/MatMul;model/dense/BiasAdd",
            ["model/dense/MatMul", "model/dense/BiasAdd"],
        ),
        (Exporter.TENSORFLOW, "a/B;a/B/ReadVariableOp;a/B2", ["a/B", "a/B2"]),
        (Exporter.TENSORFLOW, "a;;a;7", ["a"]),
        (Exporter.TENSORFLOW, "Relu;Const_1;a/Const;Const12;Constant", ["Relu", "Constant"]),
        (Exporter.TENSORFLOW, "Const_1", ["Const_1"]),
        (Exporter.TENSORFLOW, "7", ["7"]),
        (Exporter.TENSORFLOW, "", []),
        (
            Exporter.ONNX2TF,
            "m/tf.nn.relu/Relu;m/tf.math.add/Add;m/tf.math.add/Add/y1",
            ["m/tf.nn.relu/Relu", "m/tf.math.add/Add"],
        ),
        (None, "a;b;7", ["a;b;7"]),
        (None, "", []),
    ],
)  # fmt: skip
def test_sources_in_a_name(exporter: Exporter | None, name: str, sources: list[Source]) -> None:
    assert reader_of(exporter)(name) == sources


def test_a_number_after_a_name_is_recognized_by_the_name_without_it() -> None:
    tensors = {"dw/depthwise", "7", "layer"}
    assert reader_of(Exporter.TENSORFLOW, tensors)("dw/depthwise12") == ["dw/depthwise"]
    assert reader_of(Exporter.ONNX2TF, tensors)("dw/depthwise12") == ["dw/depthwise"]
    assert reader_of(Exporter.TENSORFLOW, tensors)("dw/conv2") == ["dw/conv2"]
    assert reader_of(Exporter.TENSORFLOW, tensors)("77") == ["77"]
    assert reader_of(None, tensors)("layer1") == ["layer1"]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a;b;7", ["a", "b"]),
        ("a;;b;", ["a", "b"]),
        ("7;8", ["7"]),
        ("7", ["7"]),
        ("a;٣", ["a", "٣"]),
        ("", []),
        (";", []),
    ],
)
def test_parts(name: str, parts: list[str]) -> None:
    assert parts_of(name) == parts


def test_a_name_that_comes_from_a_constant_of_another_module_is_no_source() -> None:
    """The converter stores equal constants once, and adds the first one's name to what it fuses with it."""
    build = Build()
    graph = build.graph()
    start = value = graph.tensor("x", (4, 4))
    for number, before in ((0, ""), (1, "net.Lm/torch.nn.modules.activation.SiLU_act0;")):
        block, act = f"net.Lm/net.Block_{number};", f"net.Lm/torch.nn.modules.activation.SiLU_act{number};"
        value = graph.compute("ABS", [value], block, (4, 4))
        value = graph.compute("LOGISTIC", [value], act + before, (4, 4))
        value = graph.compute("TANH", [value], block + act, (4, 4))
    graph.ends([start], [value])
    with open_model(build.to_bytes()) as model:
        found = collect_sources(model)
    names = [sorted(found.sources[one] for one in found.of(0, row)) for row in range(6)]
    assert names == [["0"], ["act0"], ["0", "act0"], ["1"], ["act1"], ["1", "act1"]]
