"""The registry of findings: what is not in it cannot be reported, and documents and commands have its words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from circletool_cli.table import COMMANDS

import circletools as ct
from circletools.findings import Explanation, explanations, severities
from tests.laws.source import files, text_of
from tools.findings import DOCUMENT, document


def test_a_finding_without_a_rule_cannot_be_made() -> None:
    with pytest.raises(ValueError, match="there is no code 'NOTHING'"):
        ct.Finding("NOTHING", "error", "model", "words")


def codes_in(path: Path) -> set[str]:
    """Return the codes that a source file gives to `Finding`."""
    calls = (node for node in ast.walk(ast.parse(text_of(path))) if isinstance(node, ast.Call))
    given = (call.args[0] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "Finding")
    return {str(one.value) for one in given if isinstance(one, ast.Constant)}


def test_every_code_of_the_source_is_explained() -> None:
    assert set().union(*map(codes_in, files("circletools", "cli"))) <= explanations().keys()


def test_every_explained_code_is_in_the_source() -> None:
    text = "".join(map(text_of, files("circletools")))
    assert explanations().keys() <= set(re.findall(r'"([A-Z_]+|T\d+)"', text))


@pytest.mark.parametrize("code", explanations())
def test_an_explanation_is_complete(code: str) -> None:
    rule = explanations()[code]
    assert severities()[code]
    assert rule.meaning
    assert rule.remedy
    assert not {"|", "\n"} & {*rule.meaning, *rule.remedy}


def test_remedies_name_commands_that_there_are() -> None:
    commands = {word for row in COMMANDS for word in row.name.split()}
    remedies = " ".join(rule.remedy for rule in explanations().values())
    assert {*re.findall(r"`(?:circletool )?([a-z][a-z-]+)[^`]*`", remedies)} <= commands


def test_the_document_has_the_same_words() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text == document(text), "run `python -m tools.findings`"


def test_a_code_is_explained() -> None:
    assert ct.checks.explain("DUPLICATE_OUTPUT") == Explanation(
        "DUPLICATE_OUTPUT",
        "check",
        "warning; info in called subgraphs",
        ct.checks.explain("DUPLICATE_OUTPUT").meaning,
        "run `fix-outputs`",
        ct.checks.explain("DUPLICATE_OUTPUT").example,
        "asked",
    )


def test_only_what_check_reports_can_be_selected() -> None:
    with pytest.raises(ct.UsageError) as caught:
        ct.checks.CheckRequest(ignore=("STRAY_FILE",))
    assert str(caught.value) == "`check` never reports STRAY_FILE (it is for findings about verify-split)"
