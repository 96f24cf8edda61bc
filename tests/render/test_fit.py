"""Verdicts as text, JSON and SARIF, to the letter."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.findings import Finding
from circletools.fit.verdicts import Asked, Blamed, Cuts, Disagreement, Fit, Misfit, Obstacle, TargetFit
from circletools.origin.source import NOTHING, SourceDetails


def misfit(at: int, name: str, why: str, **more: Any) -> Misfit:
    values: dict[str, Any] = {
        "subgraph": 0,
        "operator": at,
        "code": name,
        "reason": why,
        "remedy": f"do {why}",
        "measured": True,
        "origin": (f"s{at}",),
        "from_tables": True,
        "is_new": True,
    }
    return Misfit(**values | more)


CALL = SourceDetails("layers.0", "m.Layer", "net.py", 42, "aten.add.Tensor")
CALL_JSON = {"path": "layers.0", "class": "m.Layer", "file": "net.py", "line": 42, "call": "aten.add.Tensor"}
MISFITS = (
    misfit(3, "ADD", "late"),
    misfit(4, "ADD", "rank", subgraph=1, origin=("a", "b"), details=(CALL, NOTHING)),
    misfit(5, "ADD", "rank"),
    misfit(9, "NEG", "early", from_tables=False, wrong=True),
    misfit(2, "COS", "rank", measured=False),
    misfit(12, "COS", "rank", measured=False),
    misfit(13, "COS", "rank", measured=False),
)
SOURCES = (
    Blamed("s5", ((0, 5), (0, 6), (0, 9), (1, 4)), 20480),
    Blamed("s8", ((0, 8),), 2, from_tables=False),
    Blamed("s3", ((0, 3),), 1, CALL),
    Blamed("s7", ((1, 7),), 8, CALL._replace(path="layers.1")),
)
NPU = TargetFit("npu", "npu 1.2", 1234, MISFITS, SOURCES, Cuts(3, 4, 5678), 0)
CPU = TargetFit("a-cpu", "", 2, (), (), Cuts(1, 0, 0), 0)


def found(*targets: TargetFit, has_baseline: bool = False) -> Fit:
    return Fit("dir/a b.tflite", "tflite", targets, has_baseline, ())


def test_text() -> None:
    expected = Path(__file__).with_name("fit.txt").read_text().splitlines()
    assert list(ct.render.fit_text(found(NPU, CPU))) == expected


@pytest.mark.parametrize(("count", "last"), [(30, []), (31, ["and 1 other"]), (1234, ["and 1,204 others"])])
def test_text_has_the_first_operators_and_the_worst_sources(count: int, last: list[str]) -> None:
    misfits = tuple(misfit(at, "ADD", "late", origin=(f"s{at}",)) for at in range(count))
    sources = tuple(Blamed(f"s{at}", ((0, at),), 1) for at in range(count))
    lines = list(ct.render.fit_text(found(TargetFit("npu", "", 9, misfits, sources, Cuts(0, 0, 0), 0)), full=True))
    for indent, before in (
        ("      ", "    do late"),
        ("    ", f"  change these {count:,} sources and nothing is refused:"),
    ):
        start = lines.index(before) + 1
        assert [line.split()[-1] for line in lines[start : start + 30]] == [f"s{at}" for at in range(30)]
        more = [f"{indent}{words} (--full or --json)" for words in last]
        assert lines[start + 30 : start + 30 + len(more)] == more
    assert len(lines) == start + 30 + len(last)


def test_text_is_a_screen_where_there_are_many_reasons() -> None:
    misfits = tuple(misfit(at, "ADD", f"late {at % 40} by operator {at}") for at in range(4000))
    target = TargetFit("npu", "", 4000, misfits, (), Cuts(0, 0, 0), 0)
    lines = list(ct.render.fit_text(found(target)))
    assert len(lines) <= 41
    assert lines[4:6] == ["  100 ADD: late 0 by an operator", "    do late 0 by that operator"]
    assert lines[-1] == "  and 35 other reasons for 3,500 operators (--full)"
    assert len(list(ct.render.fit_text(found(target), full=True))) > 1000


def test_a_reason_for_the_whole_model_is_the_only_one() -> None:
    target = TargetFit("npu", "", 9, MISFITS, SOURCES, Cuts(0, 0, 0), 0, cause="float model")
    assert list(ct.render.fit_text(found(target)))[2:] == ["", "npu: not resident: float model"]
    old, new = (Finding("NO_BUFFERS", "error", "model", words) for words in ("old", "no kernel for NEG: register"))
    target = replace(target, obstacles=(Obstacle(old, False), Obstacle(new, True)))
    assert list(ct.render.fit_text(found(target)))[4:] == [
        "  NO_BUFFERS model: no kernel for NEG: register",
        "  once loaded, the model would have 4 refused operators (--full)",
        "  1 NEG: early",
        "    do early",
        "      9  s9 (output)",
    ]


def test_text_of_unknown_values() -> None:
    target = TargetFit("npu", "", 1, (misfit(0, "COS", "rank", measured=False),), (), Cuts(0, 0, 0), 0)
    assert list(ct.render.fit_text(found(target)))[1:] == [
        "npu     not known          1        0             1           0             0",
        "",
        "npu: not known",
        "  1 COS: not measured: rank",
        "    do rank",
        "      0  s0",
    ]


def test_text_with_a_baseline_has_what_is_new() -> None:
    known = tuple(misfit(one.operator, one.code, one.reason, is_new=one.operator == 3) for one in MISFITS)
    some = TargetFit("npu", "", 9, known, SOURCES[2:3], Cuts(3, 4, 5), 7)
    none = TargetFit("old", "", 9, known[1:], SOURCES, Cuts(3, 4, 5), 0)
    assert list(ct.render.fit_text(found(some, none, has_baseline=True))) == [
        "target  verdict       operators  refused  not measured  partitions  bytes across  new  fixed",
        "npu     not resident          9        7             0           3             5    1      7",
        "old     not resident          9        6             0           3             5    0      0",
        "",
        "npu: not resident",
        "  1 ADD: late",
        "    do late",
        "      3  s3",
        "  change this line and nothing is refused:",
        "    1 operator  1 byte  3  s3 (net.py:42)",
    ]


def test_json() -> None:
    target = TargetFit("npu", "npu 1.2", 9, (MISFITS[1], MISFITS[3], MISFITS[4]), SOURCES[2:3], Cuts(3, 4, 5), 7)
    finding = {"subgraph": 0, "reason": "rank", "remedy": "do rank", "measured": True, "wrong": False}
    finding |= {"origin_from": "tables", "is_new": True}
    origin = {"origin": ["a", "b"], "origin_details": [CALL_JSON, {}]}
    source = {"source": "s3", "operators": [{"subgraph": 0, "operator_index": 3}], "computed_bytes": 1}
    assert ct.render.fit_json(found(target)) == {
        "schema_version": 1,
        "file": "dir/a b.tflite",
        "format": "tflite",
        "targets": [
            {
                "target": "npu",
                "runtime": "npu 1.2",
                "cause": "",
                "verdict": "not_resident",
                "operator_count": 9,
                "refused_count": 2,
                "not_measured_count": 1,
                "new_count": 3,
                "fixed_count": 7,
                "partition_count": 3,
                "cut_count": 4,
                "cut_bytes": 5,
                "obstacles": [],
                "findings": [
                    finding | {"subgraph": 1, "operator_index": 4, "code": "ADD", **origin},
                    finding
                    | {"operator_index": 9, "code": "NEG", "reason": "early", "remedy": "do early"}
                    | {"origin": ["s9"], "origin_from": "output", "wrong": True},
                    finding | {"operator_index": 2, "code": "COS", "measured": False, "origin": ["s2"]},
                ],
                "sources": [{**source, **CALL_JSON}],
                "asked": [],
            }
        ],
    }


def test_sarif() -> None:
    target = TargetFit("npu", "", 9, (MISFITS[1], MISFITS[4]), (), Cuts(0, 0, 0), 0)
    run = ct.render.fit_sarif(found(target))
    codes = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert codes == ["REFUSED_OPERATOR", "REFUSED_MODEL", "TABLE_DISAGREES", "NOT_MEASURED"]
    assert run["invocations"] == [{"executionSuccessful": True}]
    prints = [result.pop("partialFingerprints") for result in run["results"]]
    assert prints[0] != prints[1]

    def place(path: str) -> list[dict[str, Any]]:
        file = {"artifactLocation": {"uri": "dir/a%20b.tflite"}, "region": {"startLine": 1}}
        return [{"physicalLocation": file, "logicalLocations": [{"fullyQualifiedName": path}]}]

    assert run["results"] == [
        {
            "ruleId": "REFUSED_OPERATOR",
            "level": "error",
            "message": {"text": "npu does not support ADD from a (net.py:42), b: rank. To do: do rank."},
            "locations": place("subgraphs[1].operators[4]"),
        },
        {
            "ruleId": "NOT_MEASURED",
            "level": "note",
            "message": {"text": "npu was not tested with COS from s2: rank. To do: do rank."},
            "locations": place("subgraphs[0].operators[2]"),
        },
    ]
    log = ct.render.sarif_log([run])
    assert log == {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}


WRONG = (Disagreement(0, 3, True, "no ADD"), Disagreement(1, 4, False, ""))
ASKED = (
    Asked("vela:ethos-u55-128", "5.2", "not_resident", "it is late", WRONG),
    Asked("litert:gpu", "", "not_resident", "", (Disagreement(None, None, True, ""),)),
    Asked("p", "1", "resident", "", (Disagreement(None, None, False, "yes"),)),
)


def test_programs_as_text() -> None:
    npu = TargetFit("npu", "", 9, (), (), Cuts(1, 0, 0), 0, ASKED[:2])
    cpu = TargetFit("cpu", "", 9, (), (), Cuts(1, 0, 0), 0, ASKED[2:])
    assert list(ct.render.fit_text(found(npu, cpu)))[3:] == [
        "",
        "npu: not resident according to vela:ethos-u55-128 5.2: it is late",
        "  the table accepts operator 3, but vela:ethos-u55-128 refuses it: no ADD",
        "  the table refuses operator 1/4, but vela:ethos-u55-128 accepts it",
        "",
        "npu: not resident according to litert:gpu",
        "  the table accepts the model, but litert:gpu refuses it",
        "",
        "cpu: resident according to p 1",
        "  the table refuses the model, but p accepts it: yes",
    ]


def test_programs_as_json() -> None:
    (target,) = ct.render.fit_json(found(TargetFit("npu", "", 9, (), (), Cuts(1, 0, 0), 0, ASKED[:1])))["targets"]
    assert target["asked"] == [
        {
            "program": "vela:ethos-u55-128",
            "version": "5.2",
            "verdict": "not_resident",
            "words": "it is late",
            "disagreements": [
                {"subgraph": 0, "operator_index": 3, "table_takes": True, "words": "no ADD"},
                {"subgraph": 1, "operator_index": 4, "table_takes": False, "words": ""},
            ],
        }
    ]


def test_programs_as_sarif() -> None:
    target = TargetFit("npu", "", 9, MISFITS[:1], (), Cuts(1, 0, 0), 0, ASKED[:2])
    refused, *others = ct.render.fit_sarif(found(target))["results"]
    assert refused["ruleId"] == "REFUSED_OPERATOR"
    assert {(one["ruleId"], one["level"]) for one in others} == {("TABLE_DISAGREES", "warning")}
    assert [
        (one["message"]["text"], one["locations"][0]["logicalLocations"][0]["fullyQualifiedName"]) for one in others
    ] == [
        (
            "the table of npu accepts the operator, but the program vela:ethos-u55-128 refuses it: no ADD.",
            "subgraphs[0].operators[3]",
        ),
        (
            "the table of npu refuses the operator, but the program vela:ethos-u55-128 accepts it.",
            "subgraphs[1].operators[4]",
        ),
        ("the table of npu accepts the model, but the program litert:gpu refuses it.", "model"),
    ]


def test_sarif_with_a_baseline() -> None:
    old = misfit(1, "ADD", "rank", is_new=False)
    target = TargetFit("npu", "", 9, (old, MISFITS[0]), (), Cuts(0, 0, 0), 0)
    results = ct.render.fit_sarif(found(target, has_baseline=True))["results"]
    assert [result["baselineState"] for result in results] == ["unchanged", "new"]


@pytest.mark.parametrize(
    "change", [{"code": "SUB"}, {"reason": "late"}, {"origin": ("s9",)}, {"origin": ("s1", "s9")}]
)
def test_a_fingerprint_is_of_what_a_finding_is_known_by(change: dict[str, Any]) -> None:
    def fingerprint(one: Misfit, target: str = "npu") -> str:
        (result,) = ct.render.fit_sarif(found(TargetFit(target, "", 9, (one,), (), Cuts(0, 0, 0), 0)))["results"]
        return str(result["partialFingerprints"]["primaryLocationLineHash"])

    one = misfit(1, "ADD", "rank")
    assert fingerprint(one) == fingerprint(misfit(1, "ADD", "rank", subgraph=3, operator=7))
    assert fingerprint(one) != fingerprint(misfit(1, "ADD", "rank", **change))
    assert fingerprint(one) != fingerprint(one, "gpu")


def test_a_run_of_a_model_that_cannot_be_read() -> None:
    run = ct.render.sarif_run("", "./x", (), (), "x: it is broken")
    (result,), (rule,) = run["results"], run["tool"]["driver"]["rules"]
    assert (result["ruleId"], result["message"]) == (rule["id"], {"text": "x: it is broken"})
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": "x"}
    assert run["invocations"] == [
        {
            "executionSuccessful": False,
            "toolExecutionNotifications": [{"level": "error", "message": {"text": "x: it is broken"}}],
        }
    ]


def test_a_name_that_is_no_utf_8_is_a_uri() -> None:
    target = TargetFit("npu", "", 9, (misfit(0, "ADD", "x\udc80", origin=("\udc80",)),), (), Cuts(0, 0, 0), 0)
    (result,) = ct.render.fit_sarif(Fit("\udc80.tflite", "tflite", (target,), False, ()))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "%80.tflite"
