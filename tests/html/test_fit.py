"""What targets take of a model, on the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools.fit.verdicts import Blamed, Cuts, Fit, Misfit, TargetFit
from circletools.html.document import MOST_FINDINGS, fit_document
from circletools.html.html import NO_LINKS
from tests.kit.browser import Browser
from tests.kit.page_support import Page, full
from tests.kit.page_views import PROGRAM, details, tab
from tests.kit.program import Ran, put, run


def page_on(*targets: str) -> dict[str, Any]:
    with ct.open(full()) as model:
        return Page(ct.report_html(model, on=targets).html).document


@pytest.fixture
def npu(tmp_path: Path) -> str:
    with ct.open(full()) as model:
        codes: dict[str, Any] = {code.name: [{}] for code in model.operator_codes if code.name != "SOFTMAX"}
    table = {"device": "npu", "operators": codes}
    return str(put(tmp_path / "npu.json", json.dumps(table)))


def test_the_document_has_the_results_of_fit(npu: str) -> None:
    with ct.open(full()) as model:
        answer = ct.render.fit_json(ct.fit(model, ct.FitRequest(on=("xnnpack", npu))))
    first, second = page_on("xnnpack", npu)["fit"]
    assert (first["verdict"], second["verdict"]) == ("resident", "not_resident")
    assert second.pop("source_count") == 1
    assert second["sources"][0].pop("operator_count") == 1
    assert (second.pop("refused_at"), second.pop("not_measured_at")) == ([[0, 21]], [])
    assert second == answer["targets"][1]
    assert "fit" not in page_on()


def test_long_lists_are_cut() -> None:
    count = MOST_FINDINGS + 3
    misfits = tuple(Misfit(0, at, "ADD", "r", "do", True, ("s",), True, True) for at in range(count))
    places = tuple((0, at) for at in range(count))
    target = TargetFit("npu", "", count, misfits, (Blamed("s", places, 1),) * count, Cuts(0, 0, 0), 0)
    (found,) = fit_document(Fit("f", "tflite", (target,), False, ()), NO_LINKS)
    assert (found["refused_count"], found["source_count"]) == (count, count)
    assert (len(found["findings"]), len(found["sources"])) == (MOST_FINDINGS, MOST_FINDINGS)
    assert found["sources"][0]["operator_count"] == count
    assert found["sources"][0]["operators"] == [{"subgraph": 0, "operator_index": at} for at in range(MOST_FINDINGS)]


def test_a_report_counts_what_is_refused(npu: str, tmp_path: Path) -> None:
    with ct.open(full()) as model:
        report = ct.report_html(model, on=(npu, "xnnpack"))
    assert [(note.severity, note.message) for note in report.notes] == [("error", "1 operator refused by npu")]
    model_file = put(tmp_path / "m.circle", full())
    ran = run("report", model_file, "--on", f"xnnpack, {npu}", "-o", tmp_path / "r.html")
    assert ran == Ran(1, b"", "1 operator refused by npu: see the page\n")
    targets = Page((tmp_path / "r.html").read_bytes()).document["fit"]
    assert [target["target"] for target in targets] == ["xnnpack", "npu"]
    assert run("report", model_file, "--on", "xnnpack", "-o", tmp_path / "r.html").status == 0
    ran = run("report", model_file, "--on", "xnnpak", "-o", tmp_path / "s.html")
    assert (ran.status, (tmp_path / "s.html").exists()) == (2, False)


@pytest.mark.skipif(PROGRAM is None, reason="no Chromium on the path, nor named by CHROMIUM")
def test_the_view(browser: Browser, npu: str, tmp_path: Path) -> None:
    with ct.open(full()) as model:
        page = put(tmp_path / "r.html", ct.report_html(model, on=("xnnpack", npu)).html)
    browser.open(page)
    tab(browser, "fit")
    shown = browser.text("#panel-fit")
    assert "npu does not support SOFTMAX" in shown
    assert "replace SOFTMAX with operators that npu supports" in shown
    browser.click_on("#panel-fit button.link")
    assert "SOFTMAX" in details(browser)
