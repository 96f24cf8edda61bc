"""What is true of any NNAPI trace: exact sums, and a value or one error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.traces import encoded, workload
from circletools.errors import CircleToolsError, InvalidInputError
from circletools.render.trace_slices import chrome_parts, perfetto_parts
from circletools.render.traces import trace_csv, trace_json, trace_text
from circletools.trace.nnapi.analysis import analyse
from circletools.trace.sources import open_trace
from tests.kit.trace_support import (
    _CALL,
    SIMPLE,
    US,
    Ev,
    executing,
    ftrace,
    inclusive,
    read,
    slow,
    table,
    total,
    traces,
)


@given(traces())
def test_times_are_those_of_a_slow_reading(trace: list[Ev]) -> None:
    found = total(read(trace))
    driver = 2000 if any(event.text == _CALL for event in trace) else 0
    own_times, whole = slow(trace, driver)
    assert found.self_ns == {bucket: ns for bucket, ns in own_times.items() if ns}
    assert found.inclusive_ns == {bucket: ns for bucket, ns in whole.items() if ns}


@given(executing())
def test_self_times_sum_to_covered_time_and_nothing_is_negative(trace: list[Ev]) -> None:
    found = read(trace)
    for part in found.tables.values():
        assert sum(part.self_ns.values()) == part.covered_ns
        assert min([*part.self_ns.values(), *part.inclusive_ns.values()], default=0) >= 0
        assert all(part.inclusive_ns[bucket] >= ns for bucket, ns in part.self_ns.items())
    assert all(one.elapsed_ns >= 0 for one in found.executions)
    span = (trace[-1].at - trace[0].at) * US
    assert total(found).covered_ns <= span * len({event.tid for event in trace})
    assert sum(one.self_ns for one in found.functions) <= total(found).covered_ns


@given(executing(), st.randoms(use_true_random=False))
def test_the_order_of_lines_of_unrelated_threads_does_not_matter(trace: list[Ev], random: object) -> None:
    threads = sorted({event.tid for event in trace})
    alone = [event._replace(at=event.at * 3 + threads.index(event.tid)) for event in trace]
    shuffled = sorted(alone, key=lambda event: threads.index(event.tid))
    assert _without_places(alone) == _without_places(shuffled)


def _without_places(trace: list[Ev]) -> dict[str, object]:
    found = trace_json(read(trace), per_execution=True)
    return {key: found[key] for key in ("runs", "executions", "functions", "driver_executions")} | {
        "codes": sorted((one["code"], one["count"]) for one in found["diagnostics"])
    }


@pytest.mark.parametrize(
    "ending", ["ftrace", "html", "pftrace", "z.pftrace", "ctrace", "ftrace.gz", "chrome", "track"]
)
def test_a_cut_anywhere_gives_a_value_or_one_error(ending: str) -> None:
    if ending in ("chrome", "track"):
        trace = open_trace(ftrace(table(SIMPLE)))
        parts = chrome_parts if ending == "chrome" else perfetto_parts
        data = b"".join(parts(trace, analyse(trace)))
    else:
        data = encoded(workload(20, per_run=1), ending)
    values = 0
    for cut in range(0, len(data), max(1, len(data) // 60)):
        try:
            found = read(data[:cut])
        except CircleToolsError:
            continue
        values += 1
        list(trace_text(trace_json(found)))
    assert ending == "chrome" or values > 12


def test_a_cut_at_any_line_keeps_what_was_before() -> None:
    whole = list(workload(40, per_run=1))
    covered = [total(read(encoded(whole[:cut], "ftrace"))).covered_ns for cut in range(1, len(whole) + 1)]
    assert covered == sorted(covered)


@given(st.sampled_from(["ftrace", "html", "pftrace", "z.pftrace", "ctrace"]), st.data())
def test_damage_gives_a_value_or_one_error(ending: str, data: st.DataObject) -> None:
    trace = bytearray(encoded(workload(20, per_run=1), ending))
    for _ in range(data.draw(st.integers(1, 8))):
        trace[data.draw(st.integers(0, len(trace) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(trace))
    except CircleToolsError:
        return
    document_ = trace_json(found, per_execution=True)
    list(trace_text(document_))
    trace_csv(document_, per_execution=True)


def test_times_that_cannot_be_true() -> None:
    far = [Ev(0, 100001, "[NN_LR_PP]p"), Ev(10**15, 100001, None)]
    many = [Ev(0, 100001 + at, "[NN_LR_PP]p") for at in range(90)]
    assert inclusive(read(far)) == {"LR_PP": 10**15}
    with pytest.raises(InvalidInputError, match="<bytes>: timestamps span 11574 days"):
        read([*many, Ev(10**15, 100001, None)])
