"""Comparisons of times as text, JSON and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from circletools.profile.compare import ComparedTime
from circletools.profile.comparisons import ComparedBucket, ComparedOperator, ComparedProfile, ComparedTrace
from circletools.render.comparison import comparison_json, comparison_text
from circletools.render.table import rows_csv
from circletools.types import ProfileComparison, TraceComparison

EXPECTED = Path(__file__).with_name("expected")
TRACES = TraceComparison(
    (ComparedTrace("a.html", 1, 2000), ComparedTrace("a2.html", 1, 3)),
    (ComparedTrace("b.html", 2, 1),),
    5.0,
    (
        ComparedBucket("", "elapsed", "execution", ComparedTime(2_000_000, 3_000_000, 1.5, 1.25, 1.75, "slower")),
        ComparedBucket("LR", "PE", "execution", ComparedTime(0, 1_500, None, None, None, "cannot tell")),
        ComparedBucket("LD", "PC", "run", ComparedTime(4_000_000, 1_000_000, 0.25, 0.2, 0.3, "faster", 1.35)),
    ),
)
PROFILES = ProfileComparison(
    (ComparedProfile("onert", 6, False),),
    (ComparedProfile("benchmark_model", 1, True),),
    10.0,
    (
        ComparedOperator(None, None, None, "all operators", ComparedTime(1500, 1501, 1501 / 1500, 0.9, 1.1, "same")),
        ComparedOperator(0, 12, None, "Conv2D", ComparedTime(1000, 1500, 1.5, 1.4, 1.6, "slower")),
        ComparedOperator(1, 0, None, "Add", ComparedTime(500, 0, 0.0, None, None, "faster")),
    ),
)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("traces", lambda: comparison_text(TRACES)),
        ("operators", lambda: comparison_text(PROFILES)),
        ("one_subgraph", lambda: comparison_text(replace(PROFILES, rows=PROFILES.rows[:2]))),
    ],
)
def test_text(name: str, lines: Callable[[], Iterator[str]]) -> None:
    expected = EXPECTED / f"comparison_{name}.txt"
    assert "\n".join(lines()) + "\n" == expected.read_text(encoding="utf-8")


def test_csv() -> None:
    assert (
        rows_csv(TRACES)
        == """\
layer,phase,unit,before_ns,after_ns,delta_ns,ratio,low,high,visible,verdict
,elapsed,execution,2000000,3000000,1000000,1.5,1.25,1.75,,slower
LR,PE,execution,0,1500,1500,,,,,cannot tell
LD,PC,run,4000000,1000000,-3000000,0.25,0.2,0.3,1.35,faster
"""
    )
    assert (
        rows_csv(PROFILES)
        == """\
subgraph,operator_index,row,name,before_ns,after_ns,delta_ns,ratio,low,high,visible,verdict
,,,all operators,1500,1501,1,1.0006666666666666,0.9,1.1,,same
0,12,,Conv2D,1000,1500,500,1.5,1.4,1.6,,slower
1,0,,Add,500,0,-500,0.0,,,,faster
"""
    )


def test_json() -> None:
    document = comparison_json(TRACES)
    assert document.pop("rows")[0] == {
        "layer": "",
        "phase": "elapsed",
        "unit": "execution",
        "before_ns": 2000000,
        "after_ns": 3000000,
        "delta_ns": 1000000,
        "ratio": 1.5,
        "low": 1.25,
        "high": 1.75,
        "visible": None,
        "verdict": "slower",
    }
    assert document == {
        "schema_version": 1,
        "before": [
            {"name": "a.html", "runs": 1, "executions": 2000},
            {"name": "a2.html", "runs": 1, "executions": 3},
        ],
        "after": [{"name": "b.html", "runs": 2, "executions": 1}],
        "threshold_percent": 5.0,
        "regressed": True,
    }
    document = comparison_json(replace(PROFILES, rows=PROFILES.rows[::2]))
    assert document.pop("rows")[1] == {
        "subgraph": 1,
        "operator_index": 0,
        "row": None,
        "name": "Add",
        "before_ns": 500,
        "after_ns": 0,
        "delta_ns": -500,
        "ratio": 0.0,
        "low": None,
        "high": None,
        "visible": None,
        "verdict": "faster",
    }
    assert document == {
        "schema_version": 1,
        "before": [{"runtime": "onert", "executions": 6, "averaged": False}],
        "after": [{"runtime": "benchmark_model", "executions": 1, "averaged": True}],
        "threshold_percent": 10.0,
        "regressed": False,
    }
