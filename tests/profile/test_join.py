"""Which runs of a trace are which operators of a model."""

from __future__ import annotations

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import as_atrace, as_report, as_rows, litert_events
from tests.kit.profile_support import MLP, joined, traced
from tests.kit.support import bytes_of, path_of


@pytest.mark.parametrize("report", [False, True], ids=["marks", "report"])
def test_marks_of_another_model_are_refused(report: bool) -> None:
    events = litert_events(path_of("tflite/cnn"), 1)
    trace = read_profile(as_report(as_rows(events), 1) if report else as_atrace(events))
    with pytest.raises(InvalidInputError, match="the trace is from another model"):
        joined(bytes_of("tflite/transformer_block"), trace)
    with pytest.raises(InvalidInputError, match="the trace is from another model"):
        joined(bytes_of("tflite/custom_op"), trace)
    if report:
        odd = OperatorRun(0, 0, "MyOp", "", 0, 5, 0)
        with pytest.raises(InvalidInputError, match=r"operators\[0\] is MyOp in the trace"):
            joined(bytes_of("tflite/custom_op"), OperatorTrace("benchmark_model", (odd,), 1, averaged=True))


def test_what_the_runtime_inserted() -> None:
    """Also with the index of an operator that the model has."""
    permutes = tuple(OperatorRun(0, index, "Permute", "builtin", 900, index, 0) for index in (2, 3))
    found = joined(MLP, traced({0: 10, 1: 20, 2: 30}, extra=permutes))
    assert [(row.kind, row.index, row.name, row.backends, row.time.total_ns) for row in found.added] == [
        ("inserted", 2, "Permute", ("builtin",), 2), ("inserted", 3, "Permute", ("builtin",), 3)
    ]  # fmt: skip
    assert (found.total_ns, found.unchecked) == (65, 0)


def test_names_that_cannot_be_compared_are_counted() -> None:
    odd = OperatorRun(0, 0, "SomethingNew", "npu", 0, 5, 0)
    found = joined(MLP, OperatorTrace("onert", (odd,), 1))
    assert (found.unchecked, found.operators[0].backends) == (1, ("npu",))
    stranger = OperatorRun(0, 0, "SomethingNew", "", 0, 5, 0)
    found = joined(MLP, OperatorTrace("litert", (stranger,), 1))
    assert (found.ignored, found.total_ns) == (("SomethingNew",), 0)


def test_a_called_subgraph_s_time_is_its_own() -> None:
    data = bytes_of("circle/if_cond")
    runs = (
        OperatorRun(0, 0, "If", "builtin", 100, 50, 0),
        OperatorRun(2, 0, "FullyConnected", "cpu", 110, 30, 0),
        OperatorRun(0, 0, "If", "builtin", 200, 20, 1),
        OperatorRun(1, 0, "FullyConnected", "cpu", 205, 5, 1),
    )
    found = joined(data, OperatorTrace("onert", runs, 2))
    assert [(row.subgraph, row.time and row.time.total_ns) for row in found.operators] == [(0, 35), (1, 5), (2, 30)]
    assert found.total_ns == 70


def test_averages_leave_a_called_subgraph_in_its_operator() -> None:
    data = bytes_of("circle/if_cond")
    runs = (
        OperatorRun(0, 0, "IF", "", 0, 50, 0, calls=2),
        OperatorRun(1, 0, "FULLY_CONNECTED", "", 0, 30, 0, calls=1),
    )
    found = joined(data, OperatorTrace("benchmark_model", runs, 2, averaged=True))
    assert found.total_ns == 50
    assert [(row.kind, row.subgraph, row.time.total_ns) for row in found.added] == [("inside", 1, 30)]
