"""onert's trace of operators."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from circletools.errors import InvalidInputError
from circletools.trace.operators.profile import OperatorRun
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import IN_ONERT, event, onert_traces
from tests.kit.support import path_of


@pytest.mark.parametrize("model", IN_ONERT, ids=lambda path: path.stem)
def test_onert_agrees_with_its_other_writer(model: Path, tmp_path: Path) -> None:
    """`trace.json` has the mean, the most and the least of each operator, by a writer of its own."""
    runs = 1 if model.stem == "while_loop" else 3  # a second run of it fails in onert 0.1.0
    files = onert_traces(model, runs, tmp_path)
    trace = read_profile(files["trace.chrome.json"])
    assert (trace.runtime, trace.executions, trace.averaged, trace.incomplete) == ("onert", runs, False, 0)
    times = defaultdict(list)
    for run in trace.runs:
        times[run.backend, f"${run.subgraph} subgraph ${run.operator} {run.name}"].append(run.duration_ns // 1000)
    assert averages(files["trace.json"]) == {
        key: (sum(values) // len(values), max(values), min(values)) for key, values in times.items()
    }
    calls = Counter((run.subgraph, run.operator, run.execution) for run in trace.runs if run.subgraph == 0)
    assert set(calls.values()) == {1}
    assert {execution for _, _, execution in calls} == set(range(runs))


def averages(data: bytes) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Return mean, most and least in microseconds by backend and operator; the file has a document per subgraph."""
    shown, text = {}, data.decode()
    while text := text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        text = text[end:]
        for backend in document["Execution_Data"].keys() - {"memory", "runtime"}:
            for name, row in document["Execution_Data"][backend].items():
                shown[backend, name] = (row["Avg_Time"], row["Max_Time"], row["Min_Time"])
    return shown


@pytest.mark.parametrize("name", ["trace.json", "trace.table.md"])
def test_onert_s_other_files_are_refused(name: str, tmp_path: Path) -> None:
    """The table loses operators that begin in one microsecond, the averages are cut: neither adds up."""
    (tmp_path / "run").mkdir()
    data = onert_traces(path_of("circle/mlp"), 1, tmp_path / "run")[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=re.escape(str(path))):
        read_profile(path)


def chrome(*events: dict[str, object]) -> bytes:
    return json.dumps({"traceEvents": [*events, {}]}).encode()


MAIN = "$0 sess, $0 subg"


def test_newer_onert_names_the_model() -> None:
    track = "$0 sess, #0 model $1 subg, acl_cl"
    trace = read_profile(chrome(event("@3 Conv2D", "B", "17", track), event("@3 Conv2D", "E", "20", track)))
    assert trace.runs == (OperatorRun(1, 3, "Conv2D", "acl_cl", 17_000, 3_000, 0),)
    other = "$0 sess, #1 model $0 subg, cpu"
    with pytest.raises(InvalidInputError, match="several models"):
        read_profile(
            chrome(
                *(event("@3 Conv2D", phase, "17", track) for phase in "BE"),
                *(event("@0 Add", phase, "30", other) for phase in "BE"),
            )
        )


@pytest.mark.parametrize(
    ("time", "nanoseconds"),
    [
        ("5", 5_000),
        (5, 5_000),
        (5.25, 5_250),
        ("5.0019", 5_001),
        ("000", 0),
        ("1.05", 1_050),
        ("9" * 15, 10**18 - 1000),
    ],
)
def test_times_of_tools_that_rewrote_the_trace(time: object, nanoseconds: int) -> None:
    trace = read_profile(chrome(event("@0 Add", "B", time), event("@0 Add", "E", "9" * 15 + ".999123456789")))
    assert trace.runs[0].start_ns == nanoseconds


def test_executions_are_runs_of_the_main_subgraph_of_each_session() -> None:
    events = []
    for session, times in ((1, (10, 30)), (0, (20,))):
        for start in times:
            track = f"${session} sess, $0 subg"
            for name, place, begin, end in (
                ("$0 subg", track, start, start + 9),
                ("@0 Add", f"{track}, cpu", start + 1, start + 3),
                ("@0 Mul", f"${session} sess, $1 subg, cpu", start + 2, start + 3),
            ):
                events += [event(name, "B", str(begin), place), event(name, "E", str(end), place)]
    trace = read_profile(chrome(*events))
    assert trace.executions == 3
    assert {(run.lane, run.start_ns // 10_000): run.execution for run in trace.runs} == {
        (0, 2): 0, (1, 1): 1, (1, 3): 2
    }  # fmt: skip


def test_executions_within_one_microsecond() -> None:
    events = []
    for number in range(3):
        events += [event("$0 subg", "B", "5", MAIN), event(f"@{number} Add", "B", "5")]
        events += [event(f"@{number} Add", "E", "5"), event("$0 subg", "E", "5", MAIN)]
    trace = read_profile(chrome(*events))
    assert [(run.operator, run.execution) for run in trace.runs] == [(0, 0), (1, 1), (2, 2)]
    assert trace.executions == 3


def test_a_session_without_a_run_of_its_main_subgraph() -> None:
    other = "$1 sess, $1 subg, cpu"
    events = [event("$0 subg", phase, "1", MAIN) for phase in "BE"]
    events += [event("@0 Add", phase, "2", other) for phase in "BE"]
    trace = read_profile(chrome(*events))
    assert ([run.execution for run in trace.runs], trace.executions) == ([1], 2)


def test_a_trace_that_was_cut_within_an_execution() -> None:
    events = [event("$0 subg", "B", "1", MAIN), event("@0 Add", "B", "2"), event("@0 Add", "E", "3")]
    events += [event("$0 subg", "E", "4", MAIN), event("$0 subg", "B", "5", MAIN)]
    trace = read_profile(chrome(*events, event("@0 Add", "B", "6"), event("@0 Add", "E", "7")))
    assert ([run.execution for run in trace.runs], trace.executions, trace.incomplete) == ([0, 1], 2, 1)


def test_begins_and_ends_without_the_other_are_counted() -> None:
    data = chrome(
        event("@0 Add", "E", "1"), event("@0 Add", "B", "2"), event("@0 Add", "E", "5"), event("@1 A", "B", "6")
    )
    trace = read_profile(data)
    assert [(run.duration_ns, trace.incomplete) for run in trace.runs] == [(3_000, 2)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "not JSON: .*onert finishes the file when its session is closed"),
        (b'{"traceEvents": [\n{"name"; 1}]}', "<bytes>:2: not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{}", "no operator times: no pair of onert's events .* with -o, not --json"),
        (b"\xef\xbb\xbf\n # Session: 0\n", r"expected onert's trace\.chrome\.json"),
        (chrome(event("$0 subg", "B", "1", MAIN), event("$0 subg", "E", "2", MAIN)), "no operator times"),
        (chrome(event("@0 Add", "B", "12 o'clock")), "not a time in microseconds"),
        (chrome(event("@0 Add", "B", "9" * 5000)), f"'{'9' * 40}' is not a time in microseconds"),
        (chrome(event("@0 Add", "B", "5"), event("@0 Add", "E", "4")), "before it begins"),
        (b"{" + b'"":0,' * 1_000_000, "far more arrays, objects and keys"),
        (b'{"traceEvents": [{"ts": ' + b"9" * 10_000 + b"}]}", "no operator times"),
    ],
)  # fmt: skip
def test_files_that_are_not_traces_of_onert(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_profile(data)
