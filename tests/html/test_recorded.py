"""Documents and layouts, value for value, as they were recorded.

    python -m tests.html.test_recorded

records them again, after a change that is meant.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

import circletools as ct
from circletools.html.graph import Edges, lay_out
from tests.kit.exports_support import codes_of
from tests.kit.page_support import BENCHMARK, document_of, full, odd, onert_trace
from tests.kit.support import bytes_of

EXPECTED = Path(__file__).with_name("expected")
NAMES = ("full", "odd", "loop", "layouts")


def made(name: str) -> Any:
    """Return what a file should hold."""
    if name == "odd":
        return document_of(odd())
    if name == "loop":
        return document_of(bytes_of("tflite/while_nested"))
    if name == "layouts":
        return [layout_of(seed) for seed in range(6)]
    with TemporaryDirectory() as folder:
        return document_of(full(), onert_trace(Path(folder), codes_of(full())), BENCHMARK)


def layout_of(seed: int) -> dict[str, list[int]]:
    """Lay out a graph of 40 operators in four partitions; every other one has edges that lead back."""
    random = Random(seed)  # noqa: S311 - a graph, no secret
    count = 40
    pairs = sorted({(random.randrange(count), random.randrange(count)) for _ in range(60)})
    pairs = [(first, last) for first, last in pairs if first < last or (seed % 2 and first != last)]
    groups = np.sort(np.array([random.randrange(4) for _ in range(count)], np.int64))
    fed = np.array([random.random() < 0.2 for _ in range(count)])
    source, target = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    layout = lay_out(groups, Edges(source, target, source.copy()), fed)
    return {name: getattr(layout, name).tolist() for name in ("group", "level", "column", "lane", "row")}


@pytest.mark.parametrize("name", NAMES)
def test_nothing_has_changed(name: str) -> None:
    found = made(name)
    if isinstance(found, dict):
        found["circletools"] = ""
    assert found == json.loads((EXPECTED / f"{name}.json").read_text(encoding="utf-8"))


def test_a_report_counts_its_findings() -> None:
    with ct.open(full()) as model:
        report = ct.report_html(model)
    assert report.html.startswith(b"<!doctype html>")
    assert report.notes == ()
    with ct.open(bytes_of("circle/output_twice")) as model:
        report = ct.report_html(model)
    assert [(note.severity, note.location, note.message) for note in report.notes] == [
        ("warning", "bytes", "1 warning about the model")
    ]


def test_the_name_of_a_trace_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(b"{}")
    with ct.open(full()) as model, pytest.raises(ct.InvalidInputError) as caught:
        ct.report_html(model, [path])
    assert caught.value.names_file
    assert caught.value.location == str(path)


if __name__ == "__main__":
    for one in NAMES:
        value = made(one)
        if isinstance(value, dict):
            value["circletools"] = ""
        (EXPECTED / f"{one}.json").write_text(json.dumps(value) + "\n", encoding="utf-8")
