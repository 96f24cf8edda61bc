"""Origins, what tracking found, and what is in a model, to the letter."""

from __future__ import annotations

from dataclasses import replace

import circletools as ct
from circletools.findings import Finding
from circletools.inspection import Inspection
from circletools.metadata.stamp import Freshness
from circletools.origin.describe import OriginTable, describe
from circletools.parts.verify import SplitVerification
from circletools.render.findings import findings_text, verdict
from circletools.render.parts import split_verification_json
from tests.kit.origin_support import embedded, origins
from tests.kit.profile_support import MLP
from tests.kit.support import bytes_of
from tests.kit.tracking_support import tracked

DATA = embedded(MLP, origins({5: "a/x", 6: "a/b/y", 9: "z"}, {0: {5}, 1: {5, 6}}))
LINEAR = "torch.nn.modules.linear.Linear::linear_1"
OPERATORS: list[dict[str, object]] = [
    {"subgraph": 0, "operator_index": 0, "code": "FULLY_CONNECTED", "output": "__main__.Mlp::relu", "sources": [5]},
    {"subgraph": 0, "operator_index": 1, "code": "FULLY_CONNECTED", "output": LINEAR, "sources": [5, 6]},
    {"subgraph": 0, "operator_index": 2, "code": "SOFTMAX", "output": "__main__.Mlp::_softmax", "sources": []},
]


def described() -> OriginTable:
    with ct.open(DATA) as model:
        return describe(model)


def test_origins_as_text() -> None:
    table = described()
    assert list(ct.render.origins_text(table)) == [
        "operator -> sources",
        "  operator  code             output                                    sources",
        "  0         FULLY_CONNECTED  __main__.Mlp::relu                        <- 5 a/x",
        f"  1         FULLY_CONNECTED  {LINEAR}  <- 5 a/x, 6 a/b/y",
        "  2         SOFTMAX          __main__.Mlp::_softmax                    <- (none)",
        "",
        "source -> operators",
        "  5 a/x  -> 0 1",
        "  6 a/b/y  -> 1",
        "  9 z  -> (none)",
    ]
    several = list(ct.render.origins_text(replace(table, subgraph_count=2)))
    assert (several[2][:5], several[7]) == ("  0/0", "  5 a/x  -> 0/0 0/1")
    assert list(ct.render.origins_text(replace(table, freshness=None))) == []


def test_origins_as_json_and_csv() -> None:
    table = described()
    document = ct.render.origins_json(table)
    assert document == {
        "schema_version": 1,
        "format": "circle",
        "freshness": {"state": "fresh"},
        "scope": "main",
        "sources": [
            {
                "id": 5, "name": "a/x",
                "operators": [{"subgraph": 0, "operator_index": 0}, {"subgraph": 0, "operator_index": 1}],
            },
            {"id": 6, "name": "a/b/y", "operators": [{"subgraph": 0, "operator_index": 1}]},
            {"id": 9, "name": "z", "operators": []},
        ],
        "operators": OPERATORS,
    }  # fmt: skip
    assert ct.render.origins_json(replace(table, freshness=None))["freshness"] == {"state": "absent"}
    stale = replace(table, freshness=Freshness("stale", 1, 2, "other code"))
    assert ct.render.origins_json(stale)["freshness"] == {
        "state": "stale", "subgraph": 1, "operator_index": 2, "reason": "other code",
    }  # fmt: skip
    assert ct.render.origins_csv(table).splitlines() == [
        "subgraph,operator_index,code,output,source_id,source_name,path,class,file,line,call,caller",
        "0,0,FULLY_CONNECTED,__main__.Mlp::relu,5,a/x,,,,,,",
        f"0,1,FULLY_CONNECTED,{LINEAR},5,a/x,,,,,,",
        f"0,1,FULLY_CONNECTED,{LINEAR},6,a/b/y,,,,,,",
        "0,2,SOFTMAX,__main__.Mlp::_softmax,,,,,,,,",
        ",,,,9,z,,,,,,",
    ]


def test_what_tracking_found() -> None:
    found = tracked(DATA, MLP)
    assert list(ct.render.tracking_text(found)) == [
        "operator  code             output                                    source   evidence  confidence",
        "0         FULLY_CONNECTED  __main__.Mlp::relu                        5 a/x    name      1.00",
        f"1         FULLY_CONNECTED  {LINEAR}  5 a/x    name      1.00",
        "                                                                     6 a/b/y  name      1.00",
        "2         SOFTMAX          __main__.Mlp::_softmax                    (none)",
    ]
    doubled = list(ct.render.tracking_text(replace(found, grounds=found.grounds * 2)))
    assert doubled[1].startswith("0/0 ")
    document = ct.render.tracking_json(found)
    assert [source["id"] for source in document["sources"]] == [5, 6, 9]
    assert document["without_origin"] == [{"subgraph": 0, "operator_index": 2}]
    named: dict[str, object] = {"evidence": "name", "confidence": 1.0}
    five, six = {"source": 5} | named, {"source": 6} | named
    grounds = [[five], [five, six], []]
    assert document["operators"] == [one | {"grounds": why} for one, why in zip(OPERATORS, grounds, strict=True)]


def test_confidence_has_four_places() -> None:
    found = tracked(DATA, MLP)
    (grounds,) = found.grounds
    unsure = {0: {5: replace(grounds[0][5], confidence=0.123456)}}
    found = replace(found, grounds=(unsure,))
    assert ct.render.tracking_json(found)["operators"][0]["grounds"][0]["confidence"] == 0.1235
    assert list(ct.render.tracking_text(found))[1].endswith("  0.12")


def inspected(name: str) -> Inspection:
    with ct.open(bytes_of(name)) as model:
        return ct.inspect(model)


def test_what_is_in_a_model() -> None:
    found = inspected("tflite/two_signatures")
    lines = list(ct.render.inspection_text(found))
    assert lines == [
        "format        tflite, schema version 3",
        "description   MLIR Converted.",
        "size          1768 bytes, flatbuffer 1768",
        "buffers       12, 188 bytes inside the flatbuffer",
        "operator           2  FULLY_CONNECTED",
        "operator           1  ARG_MAX",
        "operator           1  SOFTMAX",
        "subgraph 0 best: 2 operators, 5 tensors",
        "  input  0  best_x:0           FLOAT32[1,6]  (tensor 0)",
        "  output 0  PartitionedCall:0  INT32[1]      (tensor 4)",
        "subgraph 1 scores: 2 operators, 4 tensors",
        "  input  0  scores_x:0           FLOAT32[1,6]  (tensor 0)",
        "  output 0  PartitionedCall_1:0  FLOAT32[1,3]  (tensor 3)",
        "signature     best (subgraph 0): x -> best",
        "signature     scores (subgraph 1): x -> scores",
        "metadata      min_runtime_version  16 bytes (buffer 10)",
        "metadata      CONVERSION_METADATA  96 bytes (buffer 11)",
    ]
    more = replace(found, prefix_bytes=8, trailing_bytes=9, associated_files=("a", "b"), description="")
    assert [line for line in ct.render.inspection_text(more) if line not in lines] == [
        "edited        8 bytes in front of the original file",
        "trailing      9 bytes, a ZIP archive: a, b",
    ]
    assert "trailing      9 bytes" in ct.render.inspection_text(replace(more, associated_files=()))


def test_findings() -> None:
    note, warning = (Finding("NO_ORIGINS", severity, "at", "why") for severity in ("info", "warning"))
    assert [verdict(some) for some in ([], [note], [note, warning])] == ["ok", "ok", "findings"]
    assert list(findings_text("m", [note])) == ["m: ok", "  info NO_ORIGINS at: why"]
    assert list(findings_text("m", [], "broken")) == ["m: invalid"]
    row = {"code": "NO_ORIGINS", "severity": "warning", "location": "at", "message": "why"}
    assert split_verification_json(SplitVerification("onert", (warning,))) == {
        "schema_version": 1, "verdict": "findings", "runtime": "onert", "findings": [row],
    }  # fmt: skip
