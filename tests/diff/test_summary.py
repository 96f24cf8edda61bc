"""What a difference comes to, checked against the object API; pairs by instance paths; 40 lines; Markdown."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import circletools as ct
from circletools.diff.summary import summarize
from circletools.origin.source import SourceDetails
from circletools.render.difference_lines import size_change
from tests.kit.build import Build, floats
from tests.kit.origin_support import embedded, origins
from tests.kit.support import bytes_of, unpacked

PAIRS = [("cnn", "cnn_int8"), ("cnn", "cnn_float16"), ("shuffle", "shuffle_flat"), ("while_loop", "while_nested")]


def objects(name: str) -> tuple[Counter[int], dict[str, tuple[int, list[int]]]]:
    """Return how many operators have each code, and type and shape of each tensor by name, from the object API."""
    model = unpacked(bytes_of(f"tflite/{name}"))
    codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
    graphs = model.subgraphs
    used = Counter(codes[one.opcodeIndex] for graph in graphs for one in graph.operators or ())
    return used, {
        tensor.name.decode(): (tensor.type, [*tensor.shape]) for graph in graphs for tensor in graph.tensors
    }


@pytest.mark.parametrize("pair", PAIRS)
def test_the_summary_is_true(pair: tuple[str, str]) -> None:
    with ct.open(bytes_of(f"tflite/{pair[0]}")) as before, ct.open(bytes_of(f"tflite/{pair[1]}")) as after:
        found = ct.diff(before, after)
        summary = summarize(found, before, after)
        assert len(list(ct.render.difference_text(found, before, after))) <= 40
        numbers = {name: number for number, name in before.schema.enums["BuiltinOperator"].items()}
    old, new = map(objects, pair)
    net = Counter({numbers[code]: count for code, count in (summary.added or {}).items()})
    net.subtract({numbers[code]: count for code, count in (summary.removed or {}).items()})
    net.update(old[0])
    assert +net == new[0]
    pairs = [(old[1][name], new[1][name]) for name in old[1].keys() & new[1].keys()]
    assert sum(summary.retyped.values()) >= sum(one[0] != other[0] and one[1] == other[1] for one, other in pairs)
    assert pair[1] != "cnn_float16" or (summary.added, summary.removed) == ({"DEQUANTIZE": 5}, {})
    assert pair[1] != "while_nested" or summary.changed == 1  # the WHILE; its ADD reads another operator's output


def net(calls: list[str], names: str, size: int, known: bool) -> bytes:
    """Return a net of calls `path::code` in a row, with a constant each; `known` adds origins."""
    graph = (build := Build()).graph("main")
    value = start = graph.tensor("x")
    for number, call in enumerate(calls):
        name = names.format(number, call)
        weights = graph.constant(f"c;{name}", floats(size, seed=len(call)))
        value = graph.compute(call.rpartition(":")[2], [value, weights], f"t;{name}")
    graph.ends([start], [value])
    found = origins(dict(enumerate(calls)), {at: {at} for at in range(len(calls))})
    details = {at: SourceDetails(call=call) for at, call in enumerate(calls)}
    return embedded(build.to_bytes("circle"), replace(found, details=details)) if known else build.to_bytes("circle")


@pytest.mark.parametrize("inserted", range(4))
@pytest.mark.parametrize("names", ["{0} {0} 3 known", "{0} r{0} 3", "{1} {1} 4"], ids=["calls", "renamed", "resized"])
def test_two_exports_are_paired_by_calls_before_numbered_names_and_by_places(names: str, inserted: int) -> None:
    calls, (old, new, size, *known) = ["up::ADD", "up.b::SUB", "down.conv::MUL"], names.split()
    later = [*calls[:inserted], "up.a.new::DIV", *calls[inserted:]]
    first, second = net(calls, old, 3, bool(known)), net(later, new, int(size), bool(known))
    with ct.open(first) as before, ct.open(second) as after:
        found = ct.diff(before, after, ["structure"])
        summary = summarize(found, before, after)
    assert found.pairing is not None
    assert found.pairing.operators.tolist() == [[at, at + (at >= inserted)] for at in range(3)]
    assert (summary.added, summary.removed, summary.retyped) == ({"DIV": 1}, {}, {})
    assert (summary.tensors["added"], summary.tensors.get("removed", 0)) == (2, 0)


def test_the_comment_for_a_pull_request() -> None:
    with ct.open(bytes_of("tflite/cnn")) as before, ct.open(bytes_of("tflite/cnn_int8")) as after:
        request = ct.FitRequest(on=("xnnpack",)).read()
        sides = [
            ct.render.ModelVerdicts(ct.cost(one), ct.check(one), ct.fit(one, request)) for one in (before, after)
        ]
        lines = list(ct.render.difference_markdown(ct.diff(before, after), before, after, sides))
    assert lines[2].startswith("* 3 weights FLOAT32 -\\> INT8, 2 weights")
    assert "| MACs | 46,720 | 46,720 |  |" in lines
    assert lines[-1].startswith("| fit on xnnpack | resident, 0 refused | not resident, 1 refused |")
    assert {line.count("|") for line in lines if line.startswith("|")} == {5}


def test_equal_bytes_in_another_buffer_are_no_other_values() -> None:
    def named(*buffers: int) -> bytes:
        graph = (build := Build()).graph()
        held = [build.buffer(data) for data in (b"same", b"same", b"rest")]
        for number, buffer in enumerate(buffers):
            graph.tensor(f"t{number}", buffer=held[buffer])
        return build.to_bytes("circle")

    with ct.open(named(0, 1, 2)) as before, ct.open(named(0, 0, 2)) as after:
        assert summarize(ct.diff(before, after), before, after).tensors == {"buffer": 1}


def test_size() -> None:
    expected = ["", "smaller by 44% (180 -> 100 bytes)", "larger by 1 byte (1,000 -> 1,001 bytes)"]
    assert [*map(size_change, (100, 180, 1000), (100, 100, 1001))] == expected
