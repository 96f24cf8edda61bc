"""Reports of benchmark_model and of LiteRT's CompiledModel."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

import circletools as ct
from circletools.errors import InvalidInputError
from circletools.profile.attribution import attribute
from circletools.profile.comparisons import compare_profiles
from circletools.render.attribution import attribution_text
from circletools.render.executions import whole_cells
from circletools.trace.operators.profile import Whole
from circletools.trace.operators.read import read_profile
from tests.kit.operator_support import TRACES, Row, as_report, as_rows, litert_events
from tests.kit.oracles.litert_events import DELEGATE_PROFILED_OPERATOR, OPERATOR
from tests.kit.support import path_of


@pytest.mark.parametrize("text", [False, True], ids=["csv", "text"])
@pytest.mark.parametrize("start", [False, True], ids=["new", "old"])
@pytest.mark.parametrize(
    ("name", "variant"), [("while_nested", "builtin"), ("cnn_int8", "xnnpack"), ("custom_op", "xnnpack")]
)
def test_reports_of_litert_s_events(name: str, variant: str, text: bool, start: bool) -> None:
    events = litert_events(path_of(f"tflite/{name}"), 3, variant)
    trace = read_profile(as_report(as_rows(events), 3, text=text, start=start))
    assert (trace.runtime, trace.executions, trace.averaged) == ("benchmark_model", 3, True)
    totals, calls = Counter[tuple[int, int, str, bool]](), Counter[tuple[int, int, str, bool]]()
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


def test_reports_that_are_cut() -> None:
    report = as_report([AWKWARD, Row(0, "ADD", "[a]:4", [5, 7])], 2)
    ends = (len(report), report.index(b"Timings"), report.index(b"ADD") + 9)
    assert [read_profile(report[:end]).incomplete for end in ends] == [0, 1, 1]


def test_parts_of_a_delegate_s_run_are_distinguished() -> None:
    main = as_report([Row(0, "TheDelegate", "[out]:3", [50, 70])], 2)
    parts = as_report([AWKWARD], 2).split(b"\n", 1)[1]
    trace = read_profile(main + b"Delegate internal: \n" + parts)
    assert [(run.name, run.duration_ns) for run in trace.runs] == [("TheDelegate", 120_000)]
    assert [(run.name, run.duration_ns) for run in trace.inside] == [(AWKWARD.kind, 12_000)]


def test_the_initialization_does_not_count() -> None:
    regular = b"Operator-wise Profiling Info for Regular Benchmark Runs:"
    first = as_report([Row(0, "ADD", "[a]:0", [9_000])], 1).replace(
        regular, b"Profiling Info for Benchmark Initialization:"
    )
    trace = read_profile(first + as_report([Row(0, "ADD", "[a]:0", [5, 7])], 2))
    assert [(run.duration_ns, run.calls) for run in trace.runs] == [(12_000, 2)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data.replace(b"avg_ms", b"average"), ":3: unknown table columns"),
        (lambda data: data.replace(b"mem KB", b"first"), ":3: unknown table columns"),
        (lambda data: data.replace(b"0.006,", b"1e99,"), ":4: '1e99' is not a time in milliseconds"),
        (lambda data: data.replace(b"[a]:3", b"ADD/3"), "no operator times"),
    ],
)
def test_reports_that_cannot_be_read(change: Callable[[bytes], bytes], message: str) -> None:
    data = change(as_report([Row(0, "ADD", "[a]:3", [5, 7])], 2))
    with pytest.raises(InvalidInputError, match=message):
        read_profile(data)


REPORT = (TRACES / "benchmark_custom_op.txt").read_bytes()
LOGS = (
    b"INFO: The input model file size (MB): 1.42972\ncount=55 first=1853 curr=1853 (all same)\n"
    b"INFO: count=50 first=152 curr=139 min=130 max=161 avg=145.75 std=9\n"
    b"Inference timings in us: Init: 5685, First inference: 1853, Warmup (avg): 1446.3, Inference (avg): 145.75\n"
    b"INFO: Memory footprint delta from the start of the tool (MB): init=5.1 overall=12.5\n",
    b"Model initialization: 5.685 ms\nWarmup (first):       1.853 ms\nWarmup (avg):         1.45 ms (55 runs)\n"
    b"Inference (avg):      0.14575 ms (88 runs)\nInit footprint:       5.1 MB\nOverall footprint:    12.5 MB\n",
)


@pytest.mark.parametrize(
    "prefix", [b"", b"11-25 8:00:0.123  1234  1240 I tflite  : ", b"[2026-11-25T8:0:0Z] ", b"1 " * 80]
)
def test_logs_with_a_prefix_on_each_line(prefix: bytes) -> None:
    for log in LOGS:
        found = read_profile(data := b"\n".join(prefix + line for line in (REPORT + log).splitlines()))
        assert found.runs == read_profile(REPORT).runs
        whole = Whole(5_685_000, (), 1_853_000, 145_750, int(12.5 * 2**20), memory_added=True, warm_up_runs=55)
        whole = replace(whole, initial_memory_bytes=5_347_737, others=read_profile(REPORT).whole.others)
        whole = replace(whole, first_operators_ns=found.whole.first_operators_ns, operators_ns=3500)
        warm_up = 1_446_300 if log is LOGS[0] else 1_450_000
        whole = replace(whole, warm_up_ns=(warm_up,), runs=88, delegates=("delegate's parts: 2 or more",))
        if log is LOGS[0]:
            whole = replace(whole, range_ns=(130_000, 161_000, 9000), model_bytes=1_429_720, runs=50)
        assert found.whole == whole
        assert read_profile(gzip.compress(data)) == found


def test_runs_of_the_program_and_tables_without_titles() -> None:
    table = b"  [node type] [first] [avg ms] [%] [times called] [Name]\n"
    table += b"  ADD 0.1 0.008 75.000% 1 [a]:ld\n  MUL 0.1 0.003 25.000% 0 [b]:ld\n\n"
    table += table + b"Timings (microseconds): count=50 first=9 curr=1 min=1 max=9 avg=10.9 std=2\n"
    first = b"STARTING!\nGraph: [v2/1.tflite]\n" + LOGS[0] + b"STARTING!\n--use_gpu=true\nCreated 1\n" + LOGS[0]
    data = first + b"Initialized \nLoaded model a/b.tflite\n" + LOGS[0].replace(b"5685", b"7") + table
    for trace in (read_profile(data), read_profile(data.replace(b"\n", b"\r\n"))):
        rows = [(run.operator, run.label, run.duration_ns) for run in trace.runs]
        assert rows == [(0, "a", 408_750), (1, "b", 136_250)]
        assert [one.model for one in trace.whole.sessions] == ["v2/1.tflite", "", "b.tflite"]
        assert (trace.whole.line, trace.whole.initialization_ns) == (trace.whole.sessions[2].line, 7000)
        assert trace.whole.sessions[1].options == (("use gpu", "true"),)


def test_exact_statistics_win_over_rounded_ones() -> None:
    exact = b"Initialized session in 5.6851ms.\ncount=9 first=1853 min=1 max=9 avg=5 std=1\n"
    exact += b"count=3 first=2 curr=1 min=1 max=9 avg=145.7512 std=2\n" + LOGS[1]
    exact += b"Peak memory usage not available. (peak_mem_mb <= 0)\n"
    whole = read_profile(REPORT + exact).whole
    assert (whole.initialization_ns, whole.first_ns, whole.mean_ns) == (5_685_100, 1_853_000, 145_751)
    assert (whole.runs, whole.range_ns, whole.memory_added) == (3, (1000, 9000, 2000), True)
    lacking = replace(whole, others=(), delegates=(), first_operators_ns=None, operators_ns=None)
    assert read_profile(b"Loading model from: a/b.tflite\n" + exact).whole == replace(lacking, model="b.tflite")
    assert whole.others[1][:3] == ("AllocateTensors", 52_000, 0)


TYPES = (("CONV_2D", 3, 7.25, 72.5), ("MY OP, v2", 1, 2.5, 25), ("Misc Runtime Ops", 1, 0.25, 2.5), ("PAD", 2, 0, 0))
TIMINGS = "Timings (microseconds): count=4 first=100 curr=13300 min=100 max=13300 avg=1e+04 std=5"


def by_type(prefix: str = "", gap: str = "\t", *, csv: bool = False, calls: bool = True) -> bytes:
    """Write a table by type as stats_calculator.cc does, which once had no calls and now may be CSV."""
    heads = "[Node type][count][avg ms][avg %][cdf %][mem KB]" + "[times called]" * calls
    lines = ["Number of nodes executed: 7", f"{'=' * 30} Summary by node type {'=' * 30}"]
    names = heads[1:-1].lower().replace("][", ", ").replace("avg ms", "avg_ms").replace("kb", "KB")
    lines.append(names if csv else heads.replace("[", f"{gap}["))
    for name, count, mean, share in TYPES:
        values = [name, str(count), f"{mean:.3f}", f"{share:.3f}%", "100.000%", "0.000", "0"][: None if calls else -1]
        lines.append(", ".join(values) if csv else gap + gap.join(f"{one:>9}" for one in values))
    return "".join(f"{prefix}{line}\n" for line in [*lines, "", TIMINGS, "Memory (bytes): count=0", ""]).encode()


@pytest.mark.parametrize(
    "report",
    [by_type(), by_type("I tflite: "), by_type(gap=" " * 12), by_type(calls=False), by_type(csv=True), by_type()[3:]],
    ids=["text", "logcat", "wide", "old", "csv", "cut"],
)
def test_reports_with_only_times_of_types(report: bytes) -> None:
    found = read_profile(report)
    rows = [(run.operator, run.name, run.duration_ns, run.calls) for run in found.runs]
    assert rows == [(-1, "CONV_2D", 29_000_000, 12), (-1, "MY OP, v2", 10_000_000, 4), (-1, "PAD", 0, 8)]
    assert (found.executions, found.averaged, found.whole.others[0][:2]) == (4, True, ("Misc Runtime Ops", 250_000))
    assert found.whole.types == (("CONV_2D", 3), ("MY OP, v2", 1), ("PAD", 2))
    assert (found.whole.first_operators_ns, found.whole.range_ns) == (100_000, (100_000, 13_300_000, 5000))
    assert found.whole.operators_ns == 10_000_000
    shown = "\n".join(attribution_text(attribute(None, found)))
    assert "only by type: 6 operators of 3 types" in shown
    assert "10.000 ms a run, 0.100 in the first, 13.300 in the others" in shown
    assert "not in the log  times of operators," in shown
    assert not attribute(None, found).to_rows()
    full = as_report([Row(0, "CONV_2D", f"[{at}]:{at}", [2000]) for at in range(3)], 1)
    compared = compare_profiles(found, read_profile(full)).rows
    assert [(row.operator_index, row.name, row.time.before_ns, row.time.after_ns) for row in compared[:2]] == [
        (None, "all operators", 9_750_000, 6_000_000),
        (None, "CONV_2D", 7_250_000, 6_000_000),
    ]


def test_tables_of_only_the_first_run_without_indices() -> None:
    rows = "[node type] [first] [avg ms] [%] [times called] [Name]\nA 6 6 3% 0 [a]\nX 0 0 0% 0 X/0\nM 2 2 1% 0 [b]"
    types = "[node type] [count] [avg ms] [avg %] [times called]\n A 1 0.06 75% 0\n M 1 0.02 25% 0"
    end = "\n\nTimings (microseconds): count=100 first=8000 curr=1 min=1000 max=32000 avg=20000 std=500\n"
    for table, places in ((rows, [(0, 6_000_000), (1, 2_000_000)]), (types, [(-1, 6_000_000), (-1, 2_000_000)])):
        trace = read_profile((table + end + "Average inference timings in us: no stats: 25000\n").encode())
        assert [(run.operator, run.duration_ns) for run in trace.runs] == places
        found = attribute(None, trace)
        assert next(attribution_text(found)).startswith("benchmark_model: rows of the first of 100 runs; ")
        spread = "1.000 to 32.000, standard deviation 0.500 (2.5%), 5.000 ms (20%) outside operators"
        assert f"20.000 ms a run, 8.000 in the first, {spread}" in " ".join(text for _, text in whole_cells(found))


def test_several_tables_of_types_in_a_document() -> None:
    command = b"```\nbenchmark_model --graph=x/other.tflite --use_gpu=true\n```\n"
    document = command + b"".join(b"## `%s.tflite`\n```\n%s```\n" % (name, by_type()) for name in (b"a-1", b"b"))
    for text in (document, document.replace(b"```", b"")):
        whole = read_profile(text + command).whole
        assert [(one.model, one.options, one.operators_ns) for one in whole.sessions] == [
            ("a-1.tflite", (), 10_000_000),
            ("b.tflite", (), 10_000_000),
        ]
        assert [text.split(b"\n")[one.line - 1][:6] for one in whole.sessions] == [b"\t[Node"] * 2
    logged = read_profile(b"STARTING!\nNum threads: [3]\nGraph: [b.tflite]\n" + by_type())
    assert (logged.whole.threads, logged.whole.model) == (3, "b.tflite")
    initial = by_type().replace(b"CONV_2D", b"AllocateTensors")
    regular = read_profile(initial + b"Operator-wise Profiling Info for Regular Benchmark Runs:\n" + by_type())
    assert (len(regular.runs), regular.whole.sessions) == (3, ())


def test_delegates_that_are_all_off_are_known() -> None:
    off = "none (gpu, nnapi off)", "off: allow fp16"
    for text, *listed in (
        (b"Use gpu: [0]\nUse nnapi: [0]", *off),
        (b"Use gpu: [0]\nUse nnapi: [1]", None, "use nnapi; off: use gpu, allow fp16"),
        (b"Use caching: [0]", None, "off: use caching, allow fp16"),  # Ruy's cache is no delegate
    ):
        trace = read_profile(REPORT.replace(b"Delegate/", b"") + text + b"\nAllow fp16: [0]\n")
        cells = dict(whole_cells(attribute(None, trace)))
        assert [cells.get("delegates"), cells["options"]] == listed


def test_times_of_types_fit_no_model() -> None:
    with (
        ct.open(path_of("tflite/cnn_int8")) as model,
        pytest.raises(InvalidInputError, match="has times only by type"),
    ):
        ct.attribute(model, read_profile(by_type()))


LOADED = b"INFO: STARTING!\nINFO: Graph: [x/%s.tflite]\nCreated TensorFlow Lite XNNPACK delegate for CPU.\n"
LOADED += b"Replacing 4 out of 6 node(s) with delegate (TfLiteXNNPackDelegate) node, yielding 3 partitions.\n"
WARM = b"Initialized session in 2.5ms.\nINFO: count=5 first=90 curr=9 min=8 max=90 avg=31.5 std=1\n"
REGULAR = b"INFO: count=7 first=9 curr=9 min=7 max=11 avg=9.5 std=1 p5=7 median=9 p95=11\n"
FAILED = LOADED % b"bad" + b"ERROR: kernels/add.cc:35 x != y\nERROR: Node number 3 (ADD) failed to prepare.\n"
FAILED += b"Failed to allocate tensors!\nERROR: Benchmarking failed.\n"


def test_runs_of_the_program_without_results() -> None:
    log = LOADED % b"a" + WARM + REGULAR + FAILED + LOADED % b"b" + WARM
    text = [*attribution_text(attribute(None, read_profile(log)))]
    at = text.index("runs of the program in the file, in ms: 3, 1 failed, 1 cut; above: run 0")
    assert [line.split(maxsplit=7)[1:] for line in text[at + 2 : at + 5]] == [
        ["2.500", "0.090", "0.009", "0.009", "0.001", "a.tflite", "XNNPACK 4/6, 3 pieces"],
        ["-", "-", "-", "-", "-", "bad.tflite", "XNNPACK 4/6, 3 pieces"],
        ["2.500", "0.090", "-", "-", "-", "b.tflite", "XNNPACK 4/6, 3 pieces"],
    ]
    assert text[at + 5 :] == ["  run 1 failed: Node number 3 (ADD) failed to prepare", "  run 2 cut"]
    wide = read_profile(log.replace(b"x/a", b"x/" + b"a" * 60).replace(b"x/b.tflite]", b"x/b.tflite]\nUse gpu: [1]"))
    assert [*attribution_text(attribute(None, wide))][-1] == "  run 2 XNNPACK 4/6, 3 pieces, use gpu; cut"
    alone = read_profile(LOADED % b"b" + WARM)
    assert (alone.whole.mean_ns, alone.whole.warm_up_ns, alone.whole.failure) == (None, (31_500, 8000, 90_000), "cut")
    assert next(attribution_text(attribute(None, alone))) == "benchmark_model: cut; no operator times"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (FAILED, "benchmark_model failed: Node number 3 .ADD. failed to prepare$"),
        (LOADED + b"Aborted (core dumped)\n", "benchmark_model failed: Aborted .core dumped."),
        (LOADED + b"I E tflite  : GPU Init: 5D\n", "nor results like `count=9 first=5` .cut: GPU Init: 5D"),
        (b"Graph: [" + b"\n" * 900_000, "far more lines than its size justifies"),
        (b"\x89PNG", "or an ETDump"),
        (b"Per kernel timing(2 kernels):\n  add 0; 0.5 ms\n", "no operator times of a known format .expected onert"),
    ],
)
def test_why_a_text_has_no_times(data: bytes, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        read_profile(data)


IMAGE = b"INFO: Loaded model x/%s.tflite\n%s\nINFO: invoked\nINFO: average time:%s ms\nINFO: 0.9: 653 bow tie\n"
ONERT = b"Model Filename x/d1\nMODEL_LOAD   takes 1.5 ms\nPREPARE  takes 2 ms\nEXECUTE  takes 8 ms\n"
RESULTS = WARM + REGULAR + b"Inference timings in us: Init: 1, First inference: 90, Inference (avg): 9.5\n"
MANY = REGULAR.replace(b"count", b" cpu w/ 4 threads (xnnpack): count") + REGULAR.replace(b"count", b" gpu: count")


@pytest.mark.parametrize(
    ("log", "count"),
    [
        (IMAGE % (b"a", b"", b" 5") * 3, 3),
        ((IMAGE % (b"a", b"", b" 5")).partition(b"INFO: inv")[0] + IMAGE % (b"b", b"", b"6"), 2),
        (IMAGE % (b"a", b"", b" 5") + b"$ label_image -x 1\nSegmentation fault\n", 2),
        (ONERT * 2, 2),
        (ONERT.partition(b"EXECUTE")[0] + ONERT, 2),
        (LOGS[1] * 2, 2),
        (b"Loading model from: a\n" + b"Loading model from: a.tflite\n" + LOGS[1], 2),
        ((b"Loaded model a\n" + RESULTS) * 2, 2),
        ((WARM + REGULAR) * 3, 3),
        ((b"## a\n```\n" + REGULAR + b"```\n") * 2, 2),
        (REPORT * 2, 2),
        (as_report([AWKWARD], 2, text=True).partition(b"\n")[2] * 2, 2),
        (MANY * 2, 4),
        ((LOADED % b"a" + RESULTS) * 2 + MANY, 2),
        (b"".join(line * 2 for line in RESULTS.splitlines(True)), 1),
        (IMAGE % (b"a", b"", b" 5") + REPORT + ONERT + b"Loading model from: a\n" + LOGS[1] + LOADED % b"a", 4),
    ],
)
def test_every_run_in_a_file_is_reported(log: bytes, count: int) -> None:
    assert (len(read_profile(log).whole.sessions) or 1) == count


def test_programs_and_summaries_of_runs() -> None:
    log = IMAGE % (b"a", LOADED.split(b"\n")[2], b" 31.5") + IMAGE % (b"a", b"Applied GPU delegate.invoked", b" 247")
    text = [*attribution_text(attribute(None, read_profile(log + LOADED % b"a" + RESULTS)))]
    rows = [line.split() for line in text[-4:]]
    assert rows[0] == [
        "run",
        "init",
        "first",
        "median",
        "average",
        "deviation",
        "program",
        "delegates",
        "or",
        "options",
    ]
    assert rows[1] == ["0", "-", "-", "-", "31.500", "-", "label_image", "XNNPACK"]
    assert rows[2] == ["1", "-", "-", "-", "247.000", "-", "label_image", "GPU:", "applied"]
    found = [(one.options[0][1], one.threads, one.runs) for one in read_profile(MANY).whole.sessions]
    assert found == [("cpu w/ 4 threads (xnnpack)", 4, 7), ("gpu", None, 7)]
    epochs = read_profile(ONERT + b"Epoch 1/1 - time: 0.25ms/step - loss: [0] 1\n").whole
    assert (epochs.program[:11], epochs.mean_ns) == ("onert_train", 250_000)


def test_what_label_image_prints_of_operators() -> None:
    old = ["0.500, Node   0, OpCode   3, CONV_2D", "0.250, Node  11, OpCode  25,   SOFTMAX, [ 1  2], uint8"]
    new = [
        "0.755, Subgraph   0, Node   0, OpCode   3, CONV_2D",
        *(one.replace("N", "Subgraph   0, N", 1) for one in old),
    ]
    for rows in (old, new):
        found = read_profile(IMAGE % (b"a", b"", b" 0.75") + "\n".join(rows * 3).encode())
        assert [(*run[1:3], run.duration_ns, run.calls) for run in found.runs] == [
            (0, "CONV_2D", 1_500_000, 3), (11, "SOFTMAX", 750_000, 3)
        ]  # fmt: skip
        assert (found.executions, found.whole.runs, found.whole.mean_ns) == (3, 3, 750_000)


def test_times_without_the_profiler_may_be_of_another_run() -> None:
    profiled = LOADED % b"a" + RESULTS + REPORT
    for before, lacking in ((b"", True), (LOADED % b"a" + RESULTS, False), (LOADED % b"b" + RESULTS, True)):
        cells = whole_cells(attribute(None, read_profile(before + profiled)))
        assert ("without the profiler" in " ".join(text for _, text in cells)) is lacking


@pytest.mark.parametrize(
    ("lines", "listed"),
    [
        ("Created TensorFlow Lite delegate for select TF ops.", "select TF ops"),
        ("GPU delegate created.\nFailed to apply GPU delegate.", "GPU: not applied"),
        ("Vx delegate: device set to 0.\nReplacing 3 out of 4 node(s) with delegate (Vx Delegate) node, yielding 2"
         " partitions", "3 of 4 operators in Vx Delegate, pieces: 2"),
        ("COREML delegate created.\nCoreML delegate: 7 nodes delegated out of 9 nodes, with 2 partitions.\nApplied"
         " Delegate_Provider_COREML delegate.", "CoreML: 7 of 9 operators, parts: 2"),
        ("EthosuDelegate: 1 nodes delegated out of 12 nodes", "EthosuDelegate: 1 of 12 operators"),
        ("Number of subgraphs:1 , 11 nodes delegated out of 12 nodes", "TIDL: 11 of 12 operators, parts: 1"),
        ("INFO: TfLiteArmnnDelegate: Created TfLite ArmNN delegate.", "ArmNN"),
    ],
)  # fmt: skip
def test_what_logs_state_about_delegates(lines: str, listed: str) -> None:
    assert read_profile(IMAGE % (b"a", lines.encode(), b" 5")).whole.delegates == (listed,)


def test_the_summary_of_onert_run() -> None:
    times = b"MODEL_LOAD   takes 1.5 ms\nPREPARE      takes 20 ms\nEXECUTE      takes 8.25 ms\n- MAX      :  9.5 ms\n"
    log = b"".join(b"Package Filename x/%s/\n%s- MIN      :  7.5 ms\n" % (name, times) for name in (b"d1", b"d2"))
    whole = read_profile(log).whole
    assert [one.model for one in whole.sessions] == ["d1", "d2"]
    assert (whole.program, whole.mean_ns, whole.range_ns) == ("onert_run", 8_250_000, (7_500_000, 9_500_000))
    assert (whole.initialization_ns, whole.parts[0][:2]) == (21_500_000, ("MODEL_LOAD", 1_500_000))


def test_the_kernels_of_a_gpu() -> None:
    log = LOADED.replace(b"XNNPackDelegate", b"GpuDelegateV2") % b"a" + b"Initialized OpenCL-based API.\n"
    names = ["convolution_2d 0 -> relu 1", "convolution_2d 2 -> relu 3", "depth_to_space 5"]
    rows = [Row(0, name, f"Delegate/{name}:{at}", [10]) for at, name in enumerate(names)]
    found = attribute(None, read_profile(log + as_report(rows, 1)))
    assert [kind.name for kind in found.types] == ["convolution_2d -> relu", "depth_to_space"]
    head, _, delegates, *_ = attribution_text(found)
    assert "3 rows, 100% of their time in delegates" in head
    assert "4 of 6 operators in TfLiteGpuDelegateV2 (OpenCL), 3 pieces, including" in delegates
