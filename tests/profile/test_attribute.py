"""`ct.attribute`: what it takes from the model, its notes, and the order of its rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import circletools as ct
from tests.kit.origin_support import embedded, origins, rebuilt
from tests.kit.profile_support import CODES, IF_MODEL, IF_TRACE, MLP, joined, traced


def notes(found: ct.types.Attribution) -> list[tuple[str, str, str]]:
    return [(note.code, note.severity, note.location) for note in found.notes]


def test_a_model_with_origins() -> None:
    data = embedded(MLP, origins({5: "a/x", 6: "a/b/y"}, {0: {5}, 1: {5, 6}}))
    with ct.open(data) as model:
        found = ct.attribute(model, traced({0: 100, 1: 10, 2: 1}))
        assert notes(found) == []
        assert [(row.source, row.name, row.time.total_ns) for row in found.sources] == [
            (5, "a/x", 105), (6, "a/b/y", 5), (None, None, 1)
        ]  # fmt: skip
        assert [row.name for row in found.modules] == ["a", "a/b", None]
        assert [row.name for row in ct.attribute(model, traced({0: 1, 1: 1}), depth=1).modules] == ["a", None]


def test_a_model_without_origins() -> None:
    with ct.open(MLP) as model:
        found = ct.attribute(model, trace := traced({0: 100, 1: 10, 2: 1}))
        assert notes(found) == [("NO_ORIGINS", "info", "<bytes>")]
        for size, count in ((len(MLP), 1), (len(MLP) + 10, 2)):
            logged = replace(trace, whole=replace(trace.whole, model_bytes=size))
            assert len(notes(ct.attribute(model, logged))) == count
        assert [row.source for row in found.sources] == [0, 1, 2]
        assert [row.name for row in found.sources] == [row.output for row in found.operators]
        assert all(row.name for row in found.sources)


def test_stale_origins_are_a_warning() -> None:
    stale = rebuilt(embedded(MLP), lambda made: made.subgraphs[0].operators.pop())
    with ct.open(stale) as model:
        found = ct.attribute(model, traced({0: 1}))
    assert notes(found) == [("STALE_ORIGIN", "warning", "<bytes>")]
    assert found.notes[0].message == "the origins are stale: the number of operators was 3 and is now 2"


def test_notes_on_a_trace(tmp_path: Path) -> None:
    events = json.loads(IF_TRACE.read_text(encoding="utf-8"))
    begins = [event for event in events["traceEvents"] if event.get("ph") == "B"]
    events["traceEvents"].insert(0, begins[-1])
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(events), encoding="utf-8")
    with ct.open(IF_MODEL) as model:
        found = ct.attribute(model, ct.read_profile(path))
    assert ("INCOMPLETE_EVENTS", "info", str(path)) in notes(found)


def test_groups_without_a_name_come_last() -> None:
    wanted = origins({7: "z/s", 2: "b/s", 3: "/"}, {0: {7}, 1: {2, 3}})
    found = joined(MLP, traced({0: 1, 1: 2, 2: 4}), wanted)
    assert [row.source for row in found.sources] == [2, 3, 7, None]
    assert [row.name for row in found.modules] == ["b", "/", "z", None]
    assert [row.shared for row in found.sources] == [True, True, False, False]
    assert [(row.time.median_ns, row.shared) for row in found.modules] == [
        (1, True), (1, True), (1, False), (4, False)
    ]  # fmt: skip


@pytest.mark.parametrize(("executions", "median"), [((4, 1), 2), ((4, 1, 2), 2), ((4,), 4)])
def test_medians(executions: tuple[int, ...], median: int) -> None:
    found = joined(MLP, traced(*({0: time} for time in executions)))
    (time,) = [row.time for row in found.operators if row.time is not None]
    assert (time.runs, time.total_ns, time.median_ns) == (len(executions), sum(executions), median)
    assert len(CODES) == len(found.operators)
