"""What is known of devices, as times and as a document of costs."""

from __future__ import annotations

import numpy as np
import pytest

from circletools.graph.build import graph_of
from circletools.model.model import open_model
from circletools.parts.plan import PlannedPart
from circletools.split.measuring.fitting import Moving, Segment, fit_times
from circletools.split.measuring.known import Factors, Known, segments_of
from circletools.split.measuring.request import Device
from circletools.split.measuring.results import PlanTime, is_faster
from tests.kit.build import Build

DEVICES = tuple(Device(name, "litert", "builtin") for name in ("npu", "cpu"))
FACTORS = (Factors(3, 1, Moving(1, 0.25), Moving(2, 0)), Factors(5, 1, Moving(4, 0), Moving(8, 0.25)))
TIMES = np.array([[1.0, 4.0], [2.0, np.inf], [0.5, 6.0]])


def test_moving_and_segments_are_sums_of_what_was_fitted() -> None:
    known = Known(DEVICES, FACTORS, TIMES)
    assert known.copy_us(0, 1, 100) == 2 + 4
    assert known.copy_us(1, 0, 100) == 8 + 25 + 1 + 25
    assert known.segment_us(0, [0, 2]) == 3 + 1 + 0.5
    assert known.without(0, [1]).times_us[:, 0].tolist() == [1.0, np.inf, 0.5]


@pytest.mark.parametrize(("subgraphs", "others"), [(1, []), (2, [{"select": "op:*", "time_us": 0}])])
def test_the_document_of_costs(subgraphs: int, others: list[object]) -> None:
    npu, cpu = Known(DEVICES, FACTORS, TIMES, subgraphs).costs()["devices"]
    assert npu["operators"][: len(others)] == others
    assert [row["time_us"] for row in npu["operators"][len(others) :]] == [1.0, 2.0, 0.5]
    assert [row["time_us"] for row in cpu["operators"][len(others) :]] == [4.0, None, 6.0]
    assert (npu["launch_us"], cpu["launch_us"]) == (3, 5)


def test_a_rate_is_told_where_bytes_take_time() -> None:
    """From npu to cpu none takes any, from cpu to npu half a microsecond each."""
    there, back = Known(DEVICES, FACTORS, TIMES).costs()["transfers"]
    assert there == {"from": "npu", "to": "cpu", "overhead_us": 6}
    assert back == {"from": "cpu", "to": "npu", "overhead_us": 9, "bytes_per_us": 2}


def test_operators_that_take_less_than_a_microsecond_are_fitted_too() -> None:
    times = np.array([[0.25], [0.25]])
    assert fit_times(times, [0.0], [Segment(0, (0, 1), 1.0)]).tolist() == [[0.5], [0.5]]
    assert fit_times(times * 0, [0.0], [Segment(0, (0, 1), 1.0)]).tolist() == [[0.0], [0.0]]


def test_a_copy_counts_once_and_only_between_devices() -> None:
    """Two parts of cpu read what npu made: the first has the copy, 2 + 4 us. The last takes less than its copy."""
    build = Build()
    graph = build.graph()
    x = graph.tensor("x", (25,))
    made = graph.compute("ABS", [x], "made", (25,))
    ends = [graph.compute("NEG", [made], name, (25,)) for name in ("one", "two")]
    last = graph.compute("ABS", [ends[1]], "last", (25,))
    graph.ends([x], [ends[0], last])
    parts = [
        PlannedPart(0, "npu", (0,), (x,), (made,)),
        PlannedPart(1, "cpu", (1,), (made,), (ends[0],)),
        PlannedPart(1, "cpu", (2,), (made,), (ends[1],)),
        PlannedPart(0, "npu", (3,), (ends[1],), (last,)),
    ]
    with open_model(build.to_bytes()) as model:
        found = segments_of(Known(DEVICES, FACTORS, TIMES), graph_of(model, 0), parts, [7, 10, 10, 5])
    assert [(one.device, one.operators, one.run_us) for one in found] == [
        (0, (0,), 7), (1, (1,), 10 - 6), (1, (2,), 10), (0, (3,), 0),
    ]  # fmt: skip


def test_a_plan_is_not_chosen_by_itself() -> None:
    assert not PlanTime("split", (), 1.0).is_chosen


def test_a_small_gain_is_sure_where_the_times_hardly_differ() -> None:
    theirs = np.full((16, 1, 1), 1.0)
    ours = theirs - np.linspace(0.49, 0.51, 16).reshape(16, 1, 1)
    assert is_faster(ours, theirs)
    assert not is_faster(theirs, ours)
    assert not is_faster(theirs - np.linspace(-9, 10, 16).reshape(16, 1, 1), theirs)
