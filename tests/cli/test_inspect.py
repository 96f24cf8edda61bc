"""The commands inspect and verify."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from circletools.inspection import inspect_model
from circletools.model.model import open_model
from circletools.render.inspection import inspection_json
from tests.kit.origin_support import rebuilt
from tests.kit.program import MLP, Ran, files_in, put, run
from tests.kit.support import path_of, unpacked


def length(value: Any) -> int:
    return 0 if value is None else len(value)


def test_inspect_agrees_with_the_object_api(own_model: Path) -> None:
    data = own_model.read_bytes()
    with open_model(own_model) as model:
        document = inspection_json(inspect_model(model))
    known = unpacked(data)
    outside = [buffer for buffer in known.buffers if buffer.offset > 1]
    operators = [operator for graph in known.subgraphs for operator in graph.operators or ()]
    custom = [operator for operator in operators if operator.largeCustomOptionsOffset > 1]
    end = max(
        document["flatbuffer_bytes"],
        *(buffer.offset + buffer.size for buffer in outside),
        *(operator.largeCustomOptionsOffset + operator.largeCustomOptionsSize for operator in custom),
        0,
    )
    assert document["file_bytes"] == len(data) == end + document["trailing_bytes"]
    assert document["buffers"] == {
        "count": len(known.buffers), "inside_bytes": sum(length(buffer.data) for buffer in known.buffers)
    }  # fmt: skip
    assert document["external"] == [
        {"kind": kind, "count": len(sizes), "bytes": sum(sizes)}
        for kind, sizes in (
            ("Buffer", [buffer.size for buffer in outside]),
            ("large_custom_options", [operator.largeCustomOptionsSize for operator in custom]),
        )
        if sizes
    ]
    assert sum(document["operators"].values()) == len(operators)
    for shown, graph in zip(document["subgraphs"], known.subgraphs, strict=True):
        assert shown["operator_count"] == sum(shown["operators"].values()) == length(graph.operators)
        assert shown["tensors"] == length(graph.tensors)
        assert [tensor["tensor"] for tensor in shown["outputs"]] == list(graph.outputs)
    assert [signature["key"].encode() for signature in document["signatures"]] == [
        signature.signatureKey for signature in known.signatureDefs or ()
    ]
    assert [(entry["name"].encode(), entry["bytes"]) for entry in document["metadata"]] == [
        (entry.name, length(known.buffers[entry.buffer].data)) for entry in known.metadata or ()
    ]


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("tflite/cnn_external", ["external      6 x Buffer, 4200 bytes", "trailing      40 bytes"]),
        ("tflite/custom_options_external", ["external      1 x large_custom_options, 53 bytes"]),
        ("tflite/zip_tail", ["trailing      133 bytes, a ZIP archive: labels.txt"]),
        ("tflite/zip_tail_joined", ["trailing      133 bytes, a ZIP archive: labels.txt"]),
        (
            "tflite/two_signatures",
            ["subgraph 1 scores: 2 operators, 4 tensors", "signature     scores (subgraph 1): x -> scores"],
        ),
        ("tflite/cnn_int8", ["  input  0  serving_default_image:0  INT8[1,16,16,3]  (tensor 0)  0.0258446 * q"]),
        ("circle/dynamic_batch", ["  input  0  tico::x                 FLOAT32[-1,16]  (tensor 4)"]),
    ],
)
def test_inspect_text(name: str, lines: list[str]) -> None:
    shown = run("inspect", path_of(name)).out.decode().splitlines()
    assert [line for line in lines if line not in shown] == [], "\n".join(shown)


def test_inspect_json_and_edited_files(twice: Path) -> None:
    ran = run("inspect", twice, "--json")
    document = json.loads(ran.out)
    assert (document["schema_version"], document["format"]) == (1, "circle")
    assert document["prefix_bytes"] == len(twice.read_bytes()) - len(MLP.read_bytes()) > 0
    line = f"edited        {document['prefix_bytes']} bytes in front of the original file"
    assert line in run("inspect", twice).out.decode().splitlines()


def index_out_of_range() -> bytes:
    def change(model: Any) -> None:
        model.subgraphs[0].operators[1].inputs = [99, *model.subgraphs[0].operators[1].inputs[1:]]

    return rebuilt(MLP.read_bytes(), change)


def test_verify(tmp_path: Path) -> None:
    wrong = put(tmp_path / "wrong.circle", index_out_of_range())
    broken = put(tmp_path / "broken.circle", MLP.read_bytes()[:300])
    where = "subgraphs[0].operators[1].inputs[0]"
    text = f"{wrong}: findings\n  warning INDEX_OUT_OF_RANGE {where}: tensor 99 does not exist; the count is 8\n"
    assert run("check", "--structure-only", MLP) == Ran(0, f"{MLP}: ok\n".encode(), "")
    ran = run("check", "--structure-only", broken, wrong, MLP)
    assert (ran.status, ran.out.decode()) == (3, f"{broken}: invalid\n{text}{MLP}: ok\n")
    error, summary = ran.err.splitlines()
    assert re.fullmatch(rf"error: {broken}: .* at byte \d+ \(the file may be truncated.*\)", error)
    assert summary == "3 models: 1 warning; 1 cannot be read"


def test_verify_json(tmp_path: Path) -> None:
    wrong = put(tmp_path / "wrong.circle", index_out_of_range())
    missing = tmp_path / "absent"
    ran = run("check", "--structure-only", MLP, missing, wrong, "--json")
    documents = [json.loads(line) for line in ran.out.splitlines()]
    assert (ran.status, ran.err, {document["schema_version"] for document in documents}) == (3, "", {1})
    models = documents
    assert [(model["file"], model["verdict"]) for model in models] == [
        (str(MLP), "ok"),
        (str(missing), "invalid"),
        (str(wrong), "findings"),
    ]
    assert models[1]["error"] == f"{missing}: cannot read it: No such file or directory"
    assert models[2]["findings"] == [
        {
            "code": "INDEX_OUT_OF_RANGE",
            "severity": "warning",
            "location": "subgraphs[0].operators[1].inputs[0]",
            "message": "tensor 99 does not exist; the count is 8",
        }
    ]


def test_an_index_that_leads_nowhere_cannot_be_edited(tmp_path: Path) -> None:
    wrong = put(tmp_path / "wrong.circle", index_out_of_range())
    for command in ("embed-origins", "compact"):
        ran = run(command, wrong, tmp_path / "out.circle")
        assert (ran.status, files_in(tmp_path)) == (4, {"wrong.circle"})
        assert "subgraphs[0].operators[1].inputs[0]: tensor 99 does not exist" in ran.err


def test_tables_of_operators_and_tensors() -> None:
    path = path_of("tflite/two_signatures")
    shown = run("inspect", path, "--operators", "--tensors").out.decode().splitlines()
    heads = [line for line in shown if not line.startswith(" ")]
    assert heads == [f"{what} of subgraph {number}" for what in ("operators", "tensors") for number in (0, 1)]
    document = json.loads(run("inspect", path, "--tensors", "--subgraph", "1", "--json").out)
    with open_model(path) as model:
        assert document["tensor_rows"] == json.loads(json.dumps(model.subgraphs[1].tensors.to_rows()))
    assert "operator_rows" not in document
    for words in (["--digest", "--tensors"], ["--digest", "--operators"], ["--subgraph", "0"]):
        assert run("inspect", path, *words).status == 2
    assert run("inspect", path, "--operators", "--subgraph", "9").err == (
        "error: there is no subgraph 9 (the model has 2)\n"
    )
