"""ETDumps: one that ExecuTorch wrote, beside what its own Inspector reads there, and made ones."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from circletools.errors import InvalidInputError
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from circletools.profile.comparisons import compare_profiles
from circletools.profile.joining import Join
from circletools.trace.operators.profile import OperatorRun, OperatorTrace, self_times
from circletools.trace.operators.read import read_profile

flatbuffers = pytest.importorskip("flatbuffers")

TESTDATA = Path(__file__).parents[2] / "testdata"
DUMP = TESTDATA / "trace" / "foreign" / "executorch.etdp"

Row = tuple[str | None, int, int, int, str | None, int, int]
"""Name, chain, instruction, the delegate's number and word, start, end: -1 and None are left out."""


def dump(*runs: Sequence[Row | None], sized: bool = True) -> bytes:
    """Write a dump with the builder of FlatBuffers; an event that is None has no time."""
    builder = flatbuffers.Builder(0)
    of_runs = []
    for rows in runs:
        events = []
        for row in rows:
            timed = 0 if row is None else _timed(builder, row)
            builder.StartObject(3)
            builder.PrependUOffsetTRelativeSlot(0, timed, 0)
            events.append(builder.EndObject())
        vector = _vector(builder, events)
        builder.StartObject(4)
        builder.PrependUOffsetTRelativeSlot(3, vector, 0)
        of_runs.append(builder.EndObject())
    vector = _vector(builder, of_runs)
    builder.StartObject(2)
    builder.PrependUOffsetTRelativeSlot(1, vector, 0)
    root = builder.EndObject()
    (builder.FinishSizePrefixed if sized else builder.Finish)(root, file_identifier=b"ED00")
    return bytes(builder.Output())


def _timed(builder: Any, row: Row) -> int:
    name, chain, instruction, number, word, start, end = row
    strings = [(slot, builder.CreateString(text)) for slot, text in ((0, name), (4, word)) if text is not None]
    builder.StartObject(8)
    for slot, at in strings:
        builder.PrependUOffsetTRelativeSlot(slot, at, 0)
    for slot, value, default in ((1, chain, 0), (2, instruction, -1), (3, number, -1)):
        builder.PrependInt32Slot(slot, value, default)
    builder.PrependUint64Slot(6, start, 0)
    builder.PrependUint64Slot(7, end, 0)
    return int(builder.EndObject())


def _vector(builder: Any, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def instruction(name: str | None, number: int, start: int, end: int) -> Row:
    return (name, 0, number, -1, None, start, end)


def of_delegate(word: str, number: int, start: int, end: int) -> Row:
    return (None, 0, number, -1, word, start, end)


def read(*runs: Sequence[Row | None]) -> OperatorTrace:
    return read_profile(dump(*runs))


def shown(runs: Sequence[OperatorRun]) -> list[tuple[int, int, str, int, int, int, bool]]:
    return [
        (run.subgraph, run.operator, run.name, run.start_ns, run.duration_ns, run.execution, run.of_delegate)
        for run in runs
    ]


def test_times_are_those_of_executorch_s_inspector() -> None:
    trace = read_profile(DUMP)
    (block,) = [
        one for one in json.loads(DUMP.with_suffix(".inspector.json").read_text()) if one["name"] == "Execute"
    ]
    wanted = defaultdict(list)
    for name, raw in block["events"]:
        wanted[name].append([round(value * 1e6) for value in raw])
    assert (trace.runtime, trace.executions, trace.inside) == ("executorch", 4, ())
    assert len(trace.runs) == trace.executions * 9
    times = defaultdict(list)
    for run in trace.runs:
        times[run.subgraph, run.operator, run.name].append(run.duration_ns)
    delegates = {name: own for (subgraph, _, name), own in times.items() if subgraph == 1}
    assert {name: [own] for name, own in delegates.items()} == {
        name: own for name, own in wanted.items() if name.endswith("#1") or name.endswith("#2")
    }
    assert times[0, 1, "cumsum.out"] == wanted["OPERATOR_CALL"][0] > wanted["native_call_cumsum.out"][0]
    assert [times[0, 0, "DELEGATE_CALL"], times[0, 2, "DELEGATE_CALL"]] == wanted["DELEGATE_CALL"]
    calls = [sum(own) for own in zip(*wanted["DELEGATE_CALL"], *wanted["OPERATOR_CALL"], strict=True)]
    own_ns = self_times(trace.runs)
    for execution, (call_ns, whole_ns) in enumerate(zip(calls, wanted["Method::execute"][0], strict=True)):
        mine = [own for own, run in zip(own_ns, trace.runs, strict=True) if run.execution == execution]
        assert sum(mine) == call_ns < whole_ns


def test_an_operator_is_its_call_and_named_after_the_kernel_within() -> None:
    loading: Sequence[Row] = [("Program::load_method", -1, 0, -1, None, 1, 9)]
    run = [
        instruction("native_call_add.out", 4, 11, 14),
        None,
        instruction("OPERATOR_CALL", 4, 10, 15),
        instruction("OPERATOR_CALL", 6, 16, 17),
        ("Method::execute", -1, 0, -1, None, 10, 20),
        ("something", 0, -1, -1, None, 10, 20),
    ]
    again = [instruction("native_call_add.out", 4, 31, 34), instruction("OPERATOR_CALL", 4, 30, 35)]
    trace = read(loading, run, again)
    assert trace.executions == 2
    assert shown(trace.runs) == [
        (0, 4, "add.out", 10, 5, 0, False),
        (0, 6, "OPERATOR_CALL", 16, 1, 0, False),
        (0, 4, "add.out", 30, 5, 1, False),
    ]


def test_what_delegates_ran_is_within_their_calls() -> None:
    run: Sequence[Row] = [
        of_delegate("Conv #1", 0, 10, 13),
        (None, 0, 0, 0, None, 13, 20),
        instruction("DELEGATE_CALL", 0, 10, 20),
        of_delegate("Conv #1", 3, 5, 9),
        of_delegate("Add #1", 3, 31, 41),
        of_delegate("Add #2", 3, 31, 40),
        instruction("DELEGATE_CALL", 3, 30, 40),
    ]
    trace = read(run)
    assert shown(trace.runs) == [
        (0, 0, "DELEGATE_CALL", 10, 10, 0, False),
        (1, 0, "Conv #1", 10, 3, 0, True),
        (1, 1, "0", 13, 7, 0, True),
        (0, 3, "DELEGATE_CALL", 30, 10, 0, False),
        (1, 4, "Add #2", 31, 9, 0, True),
    ]
    assert shown(trace.inside) == [(1, 2, "Conv #1", 5, 4, 0, True), (1, 3, "Add #1", 31, 10, 0, True)]
    assert self_times(trace.runs) == [0, 3, 7, 1, 9]


def test_a_dump_with_and_without_its_size() -> None:
    run = [instruction("OPERATOR_CALL", 0, 1, 2)]
    with_size, without = dump(run), dump(run, sized=False)
    assert (with_size[8:12], without[4:8]) == (b"ED00", b"ED00")
    assert read_profile(with_size) == read_profile(without)


def test_broken_dumps() -> None:
    for rows in ([], [instruction("native_call_x", 0, 1, 2)], [None]):
        with pytest.raises(
            InvalidInputError, match="no operator times: the dump has no OPERATOR_CALL or DELEGATE_CALL"
        ):
            read(rows)
    for start, end in ((5, 4), (0, 1 << 62)):
        with pytest.raises(InvalidInputError, match="an event ends before it starts or far too late") as caught:
            read([instruction("OPERATOR_CALL", 0, start, end)])
        assert caught.value.hint == "was the clock running?"
    assert read([instruction("OPERATOR_CALL", 0, 0, (1 << 62) - 1)]).runs[0].duration_ns == (1 << 62) - 1
    whole = DUMP.read_bytes()
    with pytest.raises(InvalidInputError, match="the dump is corrupt or truncated: ") as caught:
        read_profile(whole[: len(whole) // 2])
    assert caught.value.location == "<bytes>"


def test_recordings_are_compared_and_are_of_no_model() -> None:
    trace = read_profile(DUMP)
    compared = compare_profiles(trace, trace)
    assert {"all operators", "cumsum.out", "Softmax (NC, F32) #1"} <= {row.name for row in compared.rows}
    assert not compared.regressed
    with (
        open_model(TESTDATA / "tflite" / "cnn.tflite") as model,
        pytest.raises(InvalidInputError, match="not of this model"),
    ):
        Join(model_graph(model), trace)
