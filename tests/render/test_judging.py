"""Findings that count as text, JSON, SARIF, JUnit and lines for GitHub, to the letter."""

from __future__ import annotations

from dataclasses import asdict, replace
from xml.etree import ElementTree

import pytest

import circletools as ct
from circletools.findings import fingerprint

DOUBLE = ct.Finding("DUPLICATE_OUTPUT", "warning", "subgraphs[0].outputs[1]", "'a<b' & \"c\" 50%\r\n\x01\udc80")
TAP = ct.Finding("OUTPUT_TAP", "info", "subgraphs[0].outputs[0]", "x & y")
ORIGIN = ct.Finding("UNKNOWN_SOURCE_ID", "error", "metadata ONE_op_table", "source 7")
FAILS = frozenset({"error", "warning"})
FOUND = ct.checks.Judgement((DOUBLE, TAP, ORIGIN), (True, True, True), None, FAILS)
AGAIN = ct.checks.Judgement((DOUBLE, TAP, ORIGIN), (False, True, False), 2, FAILS)
NOTHING = ct.checks.Judgement((), (), None, FAILS)
FILE = "a,b:%.tflite"


def test_text_has_what_is_new() -> None:
    assert list(ct.render.judgement_text("a", AGAIN)) == [
        "a: ok (2 fixed since the baseline)",
        "  info OUTPUT_TAP subgraphs[0].outputs[0]: x & y",
    ]
    assert list(ct.render.headline_text("a", FOUND)) == ["a: findings"]
    assert list(ct.render.judgement_text("a", NOTHING, "it is broken")) == ["a: invalid"]
    assert list(ct.render.headline_text("a", NOTHING, "it is broken")) == ["a: invalid"]


def test_json() -> None:
    about = {"file": "a", "schema_version": 1}
    rows = [asdict(finding) for finding in FOUND.findings]
    found = ct.render.judgement_json("a", FOUND)
    assert found == about | {"verdict": "findings", "error": None, "findings": rows}
    broken = ct.render.judgement_json("a", NOTHING, "broken")
    assert broken == about | {"verdict": "invalid", "error": "broken", "findings": []}
    model = ct.render.judgement_json("a", AGAIN)
    assert [(one["code"], one["is_new"]) for one in model.pop("findings")] == [
        ("DUPLICATE_OUTPUT", False),
        ("OUTPUT_TAP", True),
        ("UNKNOWN_SOURCE_ID", False),
    ]
    assert model == about | {"verdict": "ok", "error": None, "new_count": 1, "fixed_count": 2}


def test_sarif() -> None:
    run = ct.render.judgement_sarif("a b.tflite", FOUND)
    assert run["tool"]["driver"]["rules"] == [
        {"id": one.code, "help": {"text": f"To do: {one.remedy}"}}
        | {key: {"text": one.meaning} for key in ("shortDescription", "fullDescription")}
        for one in (ct.checks.explain(finding.code) for finding in FOUND.findings)
    ]
    assert run["invocations"] == [{"executionSuccessful": True}]
    assert run["results"][0] == {
        "ruleId": "DUPLICATE_OUTPUT",
        "level": "warning",
        "message": {"text": DOUBLE.message},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": "a%20b.tflite"}, "region": {"startLine": 1}},
                "logicalLocations": [{"fullyQualifiedName": "subgraphs[0].outputs[1]"}],
            }
        ],
        "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint(DOUBLE)}:1"},
    }
    assert [one["level"] for one in run["results"]] == ["warning", "note", "error"]
    again = ct.render.judgement_sarif("a", AGAIN)["results"]
    assert [one["baselineState"] for one in again] == ["unchanged", "new", "unchanged"]
    (invocation,) = ct.render.judgement_sarif("a", NOTHING, "a: broken")["invocations"]
    assert invocation == {
        "executionSuccessful": False,
        "toolExecutionNotifications": [{"level": "error", "message": {"text": "a: broken"}}],
    }


def test_lines_for_github() -> None:
    assert list(ct.render.judgement_github(FILE, FOUND)) == [
        "::warning file=a%2Cb%3A%25.tflite,title=DUPLICATE_OUTPUT::subgraphs[0].outputs[1]: "
        "'a<b' & \"c\" 50%25%0D%0A\x01\udc80",
        "::notice file=a%2Cb%3A%25.tflite,title=OUTPUT_TAP::subgraphs[0].outputs[0]: x & y",
        "::error file=a%2Cb%3A%25.tflite,title=UNKNOWN_SOURCE_ID::metadata ONE_op_table: source 7",
    ]
    assert list(ct.render.judgement_github("a", NOTHING, "b: c")) == ["::error file=a,title=cannot be read::b: c"]
    assert len(list(ct.render.judgement_github("a", AGAIN))) == 1


def parsed(found: ct.checks.Judgement, error: str | None = None) -> ElementTree.Element:
    document = ct.render.JUNIT_BEGIN + ct.render.junit_suite("a<\x01.tflite", found, error) + ct.render.JUNIT_END
    (suite,) = ElementTree.fromstring(document.encode())  # noqa: S314  (our own)
    return suite


def test_junit() -> None:
    suite = parsed(FOUND)
    assert suite.attrib == {"name": "a<\\x01.tflite", "tests": "3", "failures": "2", "errors": "0"}
    assert [case.attrib for case in suite] == [
        {"classname": "a<\\x01.tflite", "name": f"{one.code} {one.location}"} for one in FOUND.findings
    ]
    assert [[(inside.tag, inside.text, inside.attrib) for inside in case] for case in suite] == [
        [("failure", (text := "'a<b' & \"c\" 50%\\r\\n\\x01\\udc80"), {"type": "DUPLICATE_OUTPUT", "message": text})],
        [("system-out", "info: x & y", {})],
        [("failure", "source 7", {"type": "UNKNOWN_SOURCE_ID", "message": "source 7"})],
    ]
    assert parsed(AGAIN).attrib["tests"] == "1"
    twice = ct.checks.Judgement((ORIGIN, replace(ORIGIN, message="source 8")), (True, True), None, FAILS)
    assert [case.get("name", "")[-8:] for case in parsed(twice)] == ["source 7", "source 8"]


def test_junit_of_a_model_without_findings_and_of_a_broken_one() -> None:
    suite = parsed(NOTHING)
    assert [(case.get("name"), len(case)) for case in suite] == [("check", 0)]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    suite = parsed(NOTHING, "it is broken")
    assert [(case.get("name"), case[0].tag, case[0].text, case[0].attrib) for case in suite] == [
        ("read", "error", "it is broken", {"message": "it is broken"})
    ]
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")


@pytest.mark.parametrize(
    "code", [0x20, 0x7E, 0xA0, 0xD7FF, 0xE000, 0xFFFD, 0x10000, 0x7F, 0x9F, 0xFFFE, 0xFFFF, 0x1F]
)
def test_characters_not_allowed_in_xml_are_escaped(code: int) -> None:
    allowed = code not in (0x7F, 0x9F, 0xFFFE, 0xFFFF, 0x1F, 0xD800)
    message = parsed(NOTHING, chr(code))[0][0].get("message")
    assert message == (chr(code) if allowed else f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def test_statistics_and_summary() -> None:
    counts = {("warning", "B"): 2, ("info", "A"): 2, ("error", "C"): 1000, ("warning", "D"): 1}
    assert ct.render.tally(AGAIN) == {("info", "OUTPUT_TAP"): 1, ("known", ""): 2}
    assert list(ct.render.statistics_text(counts)) == [
        "count  severity  code",
        "1,000  error     C",
        "    2  info      A",
        "    2  warning   B",
        "    1  warning   D",
    ]
    assert list(ct.render.statistics_text({})) == []
    assert ct.render.summary_text(counts, 3, 0) == "3 models: 1,000 errors, 3 warnings, 2 informational"
    assert ct.render.summary_text({("known", ""): 2}, 1, 1) == "1 model: no new findings, 2 known; 1 cannot be read"
    assert ct.render.summary_text({("error", "C"): 1}, 2000, 1000) == "2,000 models: 1 error; 1,000 cannot be read"


def test_an_explanation() -> None:
    assert list(ct.render.explanation_text(ct.checks.explain("OPERATOR_TYPES"))) == [
        "OPERATOR_TYPES (warning)",
        "  LiteRT's kernel does not support this combination of types, according to the same table as for "
        "`OPERATOR_VERSION`",
        "  To do: fix the exporter",
        f"  Example: {ct.checks.explain('OPERATOR_TYPES').example}",
    ]
