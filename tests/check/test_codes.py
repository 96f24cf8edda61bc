"""The table of docs/findings.md is what `circletool explain` says.

    python -m tests.check.test_codes

writes it again, after codes.json has changed.
"""

from __future__ import annotations

import re

import pytest

import circletools as ct
from circletools.codes import Explanation, explanations
from tests.kit.support import ROOT

DOCUMENT = ROOT / "docs" / "findings.md"
TABLE = re.compile(r"(?<=\| what to do \|\n\|---\|---\|---\|---\|\n)(?:\| .* \|\n)+")


def row(one: Explanation) -> str:
    return f"| `{one.code}` | {one.severity} | {one.meaning} | {one.remedy} |\n"


def table() -> str:
    return "".join(map(row, explanations().values()))


def test_the_document_has_the_same_words() -> None:
    (found,) = TABLE.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert found == table(), "change circletools/codes.json, then run python -m tests.check.test_codes"


def test_a_code_is_explained() -> None:
    found = ct.checks.explain("DUPLICATE_OUTPUT")
    assert found == Explanation(
        "DUPLICATE_OUTPUT",
        "warning, info in called subgraphs",
        "the tensor is already an earlier output",
        "`fix-outputs`",
    )


def test_an_unknown_code_is_refused_with_the_nearest() -> None:
    with pytest.raises(ct.UsageError) as caught:
        ct.checks.explain("DUPLICATE_OUTPT")
    assert str(caught.value) == "there is no finding 'DUPLICATE_OUTPT' (did you mean 'DUPLICATE_OUTPUT'?)"


if __name__ == "__main__":
    text = DOCUMENT.read_text(encoding="utf-8")
    DOCUMENT.write_text(TABLE.sub(lambda _: table(), text), encoding="utf-8")
