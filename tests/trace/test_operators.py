"""Operator-level traces: what three runtimes write, read into one vocabulary.

The runtimes themselves are the oracles: onert writes three traces of one run, by three writers; LiteRT hands out the
events that its marks and reports are made of.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.errors import CircleToolsError, InvalidInputError
from circletools.trace.operators.profile import UNKNOWN_SUBGRAPH, OperatorRun, self_times
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import (
    SAMPLES,
    TRACES,
    Row,
    as_atrace,
    as_report,
    as_rows,
    litert_events,
    litert_record,
    onert_traces,
)
from tests.kit.oracles.litert_events import DELEGATE_PROFILED_OPERATOR, OPERATOR
from tests.kit.support import path_of

# testdata/README.md: onert 0.1.0 does not run these.
NOT_IN_ONERT = {"mlp_external", "cnn_external", "lstm", "rms_norm", "instance_norm"}
IN_ONERT = sorted(path for path in path_of("circle/mlp").parent.glob("*.circle") if path.stem not in NOT_IN_ONERT)
LITERT_MODELS = ("cnn", "cnn_int8", "if_cond", "while_nested", "transformer_block", "custom_op", "debug_metadata")


# --- onert --------------------------------------------------------------------------------------------------


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
    told, text = {}, data.decode()
    while text := text.strip():
        document, end = json.JSONDecoder().raw_decode(text)
        text = text[end:]
        for backend in document["Execution_Data"].keys() - {"memory", "runtime"}:
            for name, row in document["Execution_Data"][backend].items():
                told[backend, name] = (row["Avg_Time"], row["Max_Time"], row["Min_Time"])
    return told


@pytest.mark.parametrize("name", ["trace.json", "trace.table.md"])
def test_onert_s_other_files_are_refused(name: str, tmp_path: Path) -> None:
    """The table loses operators that begin in one microsecond, the averages are cut: neither adds up."""
    (tmp_path / "run").mkdir()
    data = onert_traces(path_of("circle/mlp"), 1, tmp_path / "run")[name]
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"onert writes trace\.chrome\.json beside it") as caught:
        read_profile(path)
    assert caught.value.location == str(path)


def chrome(*events: dict[str, object]) -> bytes:
    return json.dumps({"traceEvents": [*events, {}]}).encode()


def event(name: str, phase: str, time: object, track: str = "$0 sess, $0 subg, cpu") -> dict[str, object]:
    return {"name": name, "pid": "0", "tid": track, "ph": phase, "ts": time, "args": {"session": "0"}}


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
    ("time", "nanoseconds"), [("5", 5_000), (5, 5_000), (5.25, 5_250), ("5.0019", 5_001), ("000", 0)]
)
def test_times_of_tools_that_rewrote_the_trace(time: object, nanoseconds: int) -> None:
    trace = read_profile(chrome(event("@0 Add", "B", time), event("@0 Add", "E", "1000")))
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
        (b"{}", "no operator times"),
        (chrome(event("$0 subg", "B", "1", MAIN), event("$0 subg", "E", "2", MAIN)), "no operator times"),
        (chrome(event("@0 Add", "B", "12 o'clock")), "no time in microseconds"),
        (chrome(event("@0 Add", "B", "9" * 5000)), "no time in microseconds"),
        (chrome(event("@0 Add", "B", "5"), event("@0 Add", "E", "4")), "before it begins"),
        (b'{"traceEvents": [{"ts": ' + b"9" * 10_000 + b"}]}", "no operator times"),
    ],
)  # fmt: skip
def test_what_is_no_trace_of_onert(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_profile(data)


# --- LiteRT's marks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LITERT_MODELS)
def test_litert_marks_are_its_events(name: str) -> None:
    events = litert_events(path_of(f"tflite/{name}"), 3)
    trace = read_profile(as_atrace(events))
    assert (trace.runtime, trace.executions) == ("litert", 3)
    assert sorted(run[:6] for run in trace.runs) == sorted(
        (event.subgraph, event.number, event.tag, "", event.start * 1000, event.elapsed * 1000)
        for event in events
        if event.type == OPERATOR
    )
    begins = [
        event.start * 1000 for event in events if event.tag == "Invoke" and event.type == 1 and not event.subgraph
    ]
    assert all(begins[run.execution] <= run.start_ns for run in trace.runs)
    assert all(run.start_ns <= begin for run in trace.runs for begin in begins[run.execution + 1 :])


def marks(*texts: str) -> bytes:
    """Return ftrace text with a mark each 10 microseconds; `E` ends the innermost one."""
    lines = (
        f" app-77 (70) [001] .... 1.{10 * number:06}: tracing_mark_write: {'E|70' if text == 'E' else 'B|70|' + text}"
        for number, text in enumerate(texts, 1)
    )
    return "\n".join(["# tracer: nop", "#", *lines, ""]).encode()


def test_what_an_operator_marks_itself_is_a_part_of_it() -> None:
    trace = read_profile(marks("Invoke@0/0", "TheDelegate@5/0", "Conv@0/0", "E", "E", "ADD@4/0", "E", "E"))
    assert [(run.name, run.duration_ns) for run in trace.runs] == [("TheDelegate", 30_000), ("ADD", 10_000)]
    assert [(run.name, run.duration_ns) for run in trace.inside] == [("Conv", 10_000)]


def test_a_called_subgraph_runs_within_its_operator() -> None:
    trace = read_profile(
        marks("Invoke@0/0", "WHILE@0/0", "Invoke@0/1", "ADD@0/1", "E", "E", "foreign", "E", "E", "E")
    )
    assert trace.executions == 1
    assert [(run.name, run.duration_ns) for run in trace.runs] == [("ADD", 10_000), ("WHILE", 70_000)]
    assert self_times(trace.runs) == [10_000, 60_000]


@pytest.mark.parametrize(
    "data",
    [marks("Invoke@0/0", "E"), marks("ADD@0/0", "E"), marks("[NN_LR_PE]run", "E"), b"# nothing\n", b"", b"\0\1\2"],
    ids=["no operator", "no inference", "other marks", "no marks", "empty", "binary"],
)
def test_what_has_no_marks_of_litert(data: bytes) -> None:
    with pytest.raises(InvalidInputError):
        read_profile(data)


# --- benchmark_model ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [False, True], ids=["csv", "text"])
@pytest.mark.parametrize("start", [False, True], ids=["new", "old"])
@pytest.mark.parametrize(("name", "kernels"), [("while_nested", 2), ("cnn_int8", 0), ("custom_op", 0)])
def test_reports_of_litert_s_events(name: str, kernels: int, text: bool, start: bool) -> None:
    events = litert_events(path_of(f"tflite/{name}"), 3, kernels)
    trace = read_profile(as_report(as_rows(events), 3, text=text, start=start))
    assert (trace.runtime, trace.executions, trace.averaged) == ("benchmark_model", 3, True)
    totals: Counter[tuple[int, int, str, bool]] = Counter()
    calls: Counter[tuple[int, int, str, bool]] = Counter()
    for event in events:
        if event.type in (OPERATOR, DELEGATE_PROFILED_OPERATOR):
            key = (event.subgraph, event.number, event.tag, event.type != OPERATOR)
            totals[key] += event.elapsed * 1000
            calls[key] += 1
    found = {(run.subgraph, run.operator, run.name, run.of_delegate): run for run in trace.runs}
    assert found.keys() == totals.keys()
    for key, run in found.items():
        assert run.calls == calls[key] // 3 * 3 or run.calls == 3 > calls[key]
        # Six digits of the mean, or whole microseconds of it.
        slack = 501 if text else totals[key] * 1e-5 / calls[key] + 1
        assert abs(run.duration_ns / run.calls - totals[key] / calls[key]) <= slack


@pytest.mark.parametrize(("name", "kernels"), [("cnn", 2), ("cnn_int8", 0), ("custom_op", 0), ("while_loop", 2)])
def test_litert_s_own_summary(name: str, kernels: int) -> None:
    events, summary = litert_record(path_of(f"tflite/{name}"), 5, kernels)
    trace = read_profile(summary)
    assert (trace.runtime, trace.executions, trace.averaged) == ("benchmark_model", 5, True)
    times = defaultdict(list)
    for event in events:
        if event.type in (OPERATOR, DELEGATE_PROFILED_OPERATOR):
            times[event.number, event.tag, event.type != OPERATOR].append(event.elapsed * 1000)
    found = {(run.operator, run.name, run.of_delegate): run for run in trace.runs}
    assert {key: run.calls for key, run in found.items()} == {key: len(values) for key, values in times.items()}
    for key, run in found.items():
        assert abs(run.duration_ns - sum(times[key])) <= 500 * run.calls  # whole microseconds of the mean
    assert {run.subgraph for run in trace.runs if not run.of_delegate} <= {UNKNOWN_SUBGRAPH}


AWKWARD = Row(0, "Convolution (NHWC, F32) IGEMM", "Delegate/Convolution (NHWC, F32) IGEMM:3", [5, 7])


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("start", [False, True])
def test_commas_in_types_and_names(text: bool, start: bool) -> None:
    rows = [AWKWARD, Row(0, "SPLIT/x, 1, 2", "[a, b, 1, c]:4", [1, 1])]
    trace = read_profile(as_report(rows, 2, text=text, start=start))
    assert [(run.operator, run.name, run.duration_ns) for run in trace.runs] == [
        (3, "Convolution (NHWC, F32) IGEMM", 12_000),
        (4, "SPLIT/x, 1, 2", 2_000),
    ]


def test_parts_of_a_delegate_s_run_are_told_apart() -> None:
    main = as_report([Row(0, "TheDelegate", "[out]:3", [50, 70])], 2)
    parts = as_report([AWKWARD], 2).split(b"\n", 1)[1]
    trace = read_profile(main + b"Delegate internal: \n" + parts)
    assert [(run.name, run.duration_ns) for run in trace.runs] == [("TheDelegate", 120_000)]
    assert [(run.name, run.duration_ns) for run in trace.inside] == [(AWKWARD.kind, 12_000)]


def test_the_initialization_does_not_count() -> None:
    first = as_report([Row(0, "ADD", "[a]:0", [9_000])], 1).replace(
        b"Operator-wise Profiling Info for Regular Benchmark Runs:", b"Profiling Info for Benchmark Initialization:"
    )
    trace = read_profile(first + as_report([Row(0, "ADD", "[a]:0", [5, 7])], 2))
    assert [(run.duration_ns, run.calls) for run in trace.runs] == [(12_000, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.replace(b"avg_ms", b"average"), ":3: the table has columns that are not known"),
        (lambda data: data.replace(b"0.006,", b"six,"), ":4: this row of the table does not fit its columns"),
        (lambda data: data.replace(b"0.006,", b"-1,"), ":4: '-1' is no time in milliseconds"),
        (lambda data: data.replace(b"0.006,", b"1e99,"), ":4: '1e99' is no time in milliseconds"),
        (lambda data: data.replace(b"]:3", b""), "no operator times"),
    ],
)
def test_reports_that_cannot_be_read(change: Callable[[bytes], bytes], message: str) -> None:
    data = change(as_report([Row(0, "ADD", "[a]:3", [5, 7])], 2))
    with pytest.raises(InvalidInputError, match=message):
        read_profile(data)


# --- every kind ---------------------------------------------------------------------------------------------


def test_standard_input_and_names_in_errors(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"{")
    with pytest.raises(InvalidInputError) as caught:
        read_profile(path)
    assert caught.value.location == f"{path}:1"
    with pytest.raises(InvalidInputError, match="cannot read it: No such file"):
        read_profile(tmp_path / "missing")


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=150)
@given(st.data())
def test_any_bytes_give_a_trace_or_one_error(name: str, data: st.DataObject) -> None:
    try:
        trace = read_profile(data.draw(mutations((TRACES / name).read_bytes())))
    except CircleToolsError:
        return
    assert trace.runs
    assert all(0 <= run.execution < trace.executions and run.duration_ns >= 0 for run in trace.runs)
    assert all(time >= 0 for time in self_times(trace.runs))


@st.composite
def mutations(draw: st.DrawFn, data: bytes) -> bytes:
    """Return `data` cut, with bytes replaced, removed or put in, or with lines in another order."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(changed)))
        changed[at : at + draw(st.integers(0, 9))] = draw(
            st.binary(max_size=6) | st.sampled_from([b"9" * 30, b"\n", b"@"])
        )
    lines = bytes(changed[: draw(st.integers(0, len(changed)) | st.just(len(changed)))]).split(b"\n")
    if draw(st.booleans()):
        first, second = draw(st.tuples(*[st.integers(0, len(lines) - 1)] * 2))
        lines[first], lines[second] = lines[second], lines[first]
    return b"\n".join(lines)


# --- runs within runs ---------------------------------------------------------------------------------------


@st.composite
def nested(draw: st.DrawFn, start: int = 0, subgraph: int = 0) -> tuple[list[OperatorRun], int]:
    """Return the runs of a subgraph one after the other, some of which call the next subgraph; and the end."""
    runs = []
    for index in range(draw(st.integers(1, 3))):
        start += draw(st.integers(0, 3))
        inner, end = draw(nested(start, subgraph + 1)) if subgraph < 3 and draw(st.booleans()) else ([], start)
        end += draw(st.integers(0, 5))
        runs += [OperatorRun(subgraph, index, "X", "", start, end - start, 0), *inner]
        start = end
    return runs, start


@given(nested(), st.randoms(use_true_random=False))
def test_self_times_add_up_to_what_was_covered(made: tuple[list[OperatorRun], int], random: object) -> None:
    runs, end = made
    order = sorted(range(len(runs)), key=lambda _: random.random())  # type: ignore[attr-defined]
    own = self_times([runs[at] for at in order])
    assert min(own) >= 0
    assert sum(own) == sum(run.duration_ns for run in runs if run.subgraph == 0) <= end


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.integers(0, 20), st.integers(0, 1))))
def test_self_times_of_any_runs(rows: list[tuple[int, int, int, int]]) -> None:
    runs = [OperatorRun(subgraph, 0, "X", "", start, time, 0, lane) for subgraph, start, time, lane in rows]
    own = self_times(runs)
    assert all(0 <= time <= run.duration_ns for time, run in zip(own, runs, strict=True))
    for lane in (0, 1):
        covered = {
            at for run in runs if run.lane == lane for at in range(run.start_ns, run.start_ns + run.duration_ns)
        }
        assert sum(time for time, run in zip(own, runs, strict=True) if run.lane == lane) >= len(covered)


def test_operators_side_by_side_keep_their_times() -> None:
    runs = [OperatorRun(0, index, "X", "", index, 10, 0) for index in range(3)]
    assert self_times(runs) == [10, 10, 10]
