"""The command report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.kit.origin_support import embedded
from tests.kit.page_support import BENCHMARK, Page, document_of, full, json_of, onert_trace, page_of
from tests.kit.program import Ran, files_in, put, run
from tests.kit.support import TESTDATA, bytes_of, path_of


def test_report(model: Path, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert run("report", model, "--trace", trace, "--trace", BENCHMARK, "-o", target) == Ran(0, b"", "")
    document = Page(target.read_bytes()).document
    assert document == document_of(full(), trace, BENCHMARK, name="full.circle")
    assert run("report", model, "--trace", trace, "--trace", BENCHMARK, "-o", "-").out == target.read_bytes()


def test_standard_input(trace: Path) -> None:
    page = run("report", "-", "-o", "-", "--trace", trace, stdin=full()).out
    assert Page(page).document == document_of(full(), trace, name="standard input")
    model = path_of("circle/mlp")
    page = run("report", model, "-o", "-", "--trace", "-", stdin=BENCHMARK.read_bytes()).out
    assert Page(page).document["traces"][0]["name"] == "<standard input>"
    assert run("report", "-", "-o", "-", "--trace", "-").status == 2


def test_executions_can_be_left_out(model: Path, trace: Path) -> None:
    page = Page(run("report", model, "--trace", trace, "--skip", "1", "-o", "-").out)
    (times,) = page.document["operator_traces"]
    assert times["executions"] == 2
    assert times["total_ns"] == json_of("attribute", trace, "--model", model, "--skip", "1")["total_ns"]
    ran = run("report", model, "--trace", trace, "--skip", "3", "-o", "-")
    assert (ran.status, ran.out) == (2, b"")


def test_findings_end_with_status_1_and_the_page_is_written(tmp_path: Path) -> None:
    ran = run("report", path_of("circle/output_twice"), "-o", tmp_path / "r.html")
    assert ran == Ran(1, b"", "1 warning about the model: see the page\n")
    assert Page((tmp_path / "r.html").read_bytes()).document["findings"]


def refusals(folder: Path) -> dict[str, tuple[list[str | Path], int, str]]:
    model = put(folder / "m.circle", full())
    text = put(folder / "text", "no trace")
    broken = put(folder / "broken.circle", full()[:3000])
    other = onert_trace(folder, ["ADD", "MUL"])
    target = folder / "old.html"
    return {
        "a broken model": ([broken, "-o", target], 3, "broken.circle"),
        "no trace": ([model, "--trace", text, "-o", target], 3, "neither operator times nor NNAPI marks"),
        "no file": ([model, "--trace", folder / "none", "-o", target], 3, "cannot read it"),
        "another model's trace": ([model, "--trace", other, "-o", target], 3, "the trace is from another model"),
        "the output is the model": ([model, "-o", model], 2, "the output is also an input"),
        "the output is a trace": ([model, "--trace", other, "-o", other], 2, "the output is also an input"),
        "a directory": ([model, "-o", folder], 2, "the output is a directory"),
        "nowhere": ([model, "-o", folder / "no" / "r.html"], 4, "cannot write it"),
    }


REFUSALS = (
    *("a broken model", "no trace", "no file", "another model's trace", "the output is the model"),
    *("the output is a trace", "a directory", "nowhere"),
)


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals_leave_all_files_as_they_were(what: str, tmp_path: Path) -> None:
    put(tmp_path / "old.html", "precious")
    arguments, status, words = refusals(tmp_path)[what]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ran = run("report", *arguments)
    assert (ran.status, ran.out) == (status, b"")
    assert words in ran.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_traces_of_every_kind_are_distinguished(tmp_path: Path) -> None:
    folder, model = TESTDATA / "trace", path_of("tflite/custom_op")
    chosen: dict[str, Callable[[dict[str, Any]], int]] = {
        "operator_traces": lambda document: len(document["operator_traces"]),
        "traces": lambda document: len(document["traces"]),
    }
    for name, operators, layers in (
        ("benchmark_custom_op.csv", 1, 0), ("litert_custom_op.ftrace", 1, 0), ("benchmark.html", 0, 1),
    ):  # fmt: skip
        page = Page(run("report", model, "--trace", folder / name, "-o", "-").out)
        assert [count(page.document) for count in chosen.values()] == [operators, layers]
    assert files_in(tmp_path) == set()


def test_one_model_gives_one_page(tmp_path: Path) -> None:
    data = embedded(bytes_of("tflite/transformer_block"))
    assert page_of(data) == page_of(data)
