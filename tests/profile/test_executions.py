"""Which executions count: without the warm-up, of one model, of one process or thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from circletools.errors import InvalidInputError, UsageError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.profile.attribution import attribute
from circletools.profile.joining import joined_executions
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, warm_up, without_first
from circletools.trace.operators.read import read_profile
from tests.kit.origin_support import embedded
from tests.kit.profile_support import MLP, run, traced
from tests.kit.support import path_of


def lasting(*times: int) -> OperatorTrace:
    return traced(*({0: time} for time in times))


def test_averages_have_no_warm_up() -> None:
    trace = OperatorTrace("benchmark_model", (OperatorRun(0, 0, "X", "", 0, 9, 0),), 8, averaged=True)
    assert warm_up(trace) == 0
    assert without_first(trace, "auto") is trace


def notes(trace: OperatorTrace | list[OperatorTrace]) -> list[tuple[str, str]]:
    with open_model(embedded(MLP)) as model:
        return [(note.code, note.message) for note in attribute(model, trace).notes]


def test_notes_on_warm_up() -> None:
    trace = lasting(900, 100, 100, 100)
    answer = "1 execution at the start took longer than the rest (`skip=auto` omits warm-up)"
    assert notes(trace) == [("WARM_UP", answer)]
    assert notes([trace, lasting(1, 1, 1, 1), trace]) == [("WARM_UP", answer)] * 2
    assert notes(without_first(trace, 1)) == [("SKIPPED_EXECUTIONS", "executions at the beginning (left out): 1")]


def marks(*executions: tuple[int, int, str, int]) -> bytes:
    """Return ftrace text of LiteRT's marks: of executions process, thread, operators, microseconds of each."""
    lines, now = ["# tracer: nop"], 0
    for process, thread, operators, length in executions:
        head = f"  app-{thread} ({process}) [001] .... 1"
        lines.append(f"{head}.{now:06}: tracing_mark_write: B|{process}|Invoke@0/0")
        for at, name in enumerate(operators.split()):
            lines.append(f"{head}.{now:06}: tracing_mark_write: B|{process}|{name}@{at}/0")
            now += length
            lines.append(f"{head}.{now:06}: tracing_mark_write: E|{process}")
        lines.append(f"{head}.{now:06}: tracing_mark_write: E|{process}")
    return "\n".join([*lines, ""]).encode()


OTHER, OURS = "CONV_2D ADD", "FULLY_CONNECTED FULLY_CONNECTED SOFTMAX"


def test_processes_and_threads() -> None:
    data = marks((10, 11, OURS, 5), (10, 12, OURS, 50), (20, 21, OURS, 500))
    assert read_profile(data).executions == 3
    totals = {
        (process, thread): sum(one.duration_ns for one in read_profile(data, process=process, thread=thread).runs)
        for process, thread in ((10, None), (20, None), (None, 12), (10, 11))
    }
    assert totals == {(10, None): 165_000, (20, None): 1_500_000, (None, 12): 150_000, (10, 11): 15_000}
    with pytest.raises(InvalidInputError, match="no operator times"):
        read_profile(data, process=20, thread=11)
    for process, thread in ((1, None), (None, 0)):
        with pytest.raises(UsageError, match="only system traces have processes and threads"):
            read_profile(b'{"traceEvents": []}', process=process, thread=thread)


def test_operators_on_several_threads_are_reported() -> None:
    trace = read_profile(marks((10, 11, OURS, 5), (10, 12, OURS, 5)))
    assert notes(trace) == [("SEVERAL_THREADS", "operators ran on threads 11, 12; select one with `thread=`")]
    many = [(10, thread, OURS, 5) for thread in range(11, 21)]
    ((_, answer),) = notes(read_profile(marks(*many)))
    assert "threads 11, 12, 13, 14, 15, 16, 17, 18; " in answer
    alone = read_profile(marks((10, 11, OURS, 5)))
    assert notes([alone, alone]) == []


def test_executions_of_another_model_are_left_out() -> None:
    data = marks((10, 11, OTHER, 7), (10, 11, OURS, 5), (10, 11, OTHER, 7), (10, 11, OURS, 6))
    trace = read_profile(data)
    with open_model(MLP) as model:
        found = attribute(model, trace)
        kept, joined = joined_executions(model_graph(model), trace)
    assert (found.executions, found.others, found.total_ns) == (2, 2, 33_000)
    assert [row.time.runs for row in found.operators if row.time] == [2, 2, 2]
    assert ("OTHER_MODELS", "executions of other models (left out): 2") in [
        (note.code, note.message) for note in found.notes
    ]
    assert (kept.executions, sum(one.total_ns for one in joined.operators.values())) == (2, 33_000)


def test_delegate_rows_belong_to_operators_missing_from_the_trace() -> None:
    other = OperatorRun(0, 0, "ADD", "", 0, 5, 0)
    ours = OperatorRun(0, 0, "Softmax (NC, F32)", "", 0, 7, 1, of_delegate=True)
    with open_model(MLP) as model:
        found = attribute(model, OperatorTrace("litert", (other, ours), 2))
    assert [row.index for row in found.operators if row.time] == [2]
    assert (found.executions, found.added, found.total_ns) == (1, (), 7)


def test_a_trace_of_another_model_alone_is_refused() -> None:
    with open_model(MLP) as model:
        for threads in ((11,), (11, 12)):
            with pytest.raises(InvalidInputError, match="from another model"):
                attribute(model, read_profile(marks(*((10, thread, OTHER, 7) for thread in threads))))
        averages = (OperatorRun(0, 0, "ADD", "", 0, 5, 0), OperatorRun(0, 2, "SOFTMAX", "", 0, 5, 0))
        with pytest.raises(InvalidInputError, match="from another model"):
            attribute(model, OperatorTrace("benchmark_model", averages, 1, averaged=True))


def test_many_different_executions_are_not_compared_one_by_one() -> None:
    unlike = [(10, 11, f"{OTHER} X{number}", 1) for number in range(64)]
    with open_model(MLP) as model, pytest.raises(InvalidInputError, match="from another model"):
        attribute(model, read_profile(marks(*unlike, (10, 11, OURS, 5))))
    with open_model(MLP) as model:
        found = attribute(model, read_profile(marks((10, 11, OURS, 5), *unlike[:63])))
    assert found.others == 63


def test_the_options(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_bytes(marks(*[(10, 11, OURS, 90)], *[(10, 11, OURS, 10)] * 5, (10, 12, OURS, 1000)))
    model = path_of("circle/mlp")
    status, out, err = run(path, "--model", model, "--thread", "11", "--skip", "auto", "--by", "operator")
    assert status == 0
    assert out.startswith("litert: 5 executions, 150.000 us in all, median 30.000 us; 3 of 3 operators timed")
    assert "executions at the beginning (left out): 1" in err
    assert run(path, "--model", model, "--process", "10")[1].startswith("litert: 7 executions")
    status, _, err = run(path, "--model", model, "--skip", "some")
    assert (status, "--skip takes a number or `auto`, not 'some'" in err) == (2, True)
    assert run(path, "--model", model, "--skip", "-1")[0] == 2
