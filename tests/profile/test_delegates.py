"""Which operators a delegate's rows are of, in cases small enough to be seen at a glance."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from math import inf
from typing import Any

import pytest

from circletools.affinity.costs.times import CostDocument, Defaults, cost_tables, parse_costs
from circletools.errors import InvalidInputError
from circletools.graph.build import graph_of, model_graph
from circletools.graph.selectors import Chooser
from circletools.model.model import open_model
from circletools.planning.inputs import CostInputs, costs_of
from circletools.profile import delegates, joining
from circletools.profile.delegates import WHOLE, Delegates, ExpectedRows, Row, align
from circletools.profile.joining import Time
from circletools.trace.operators.names import kind_of, kinds_before, kinds_of
from circletools.trace.operators.profile import OperatorRun, OperatorTrace
from tests.kit.build import Build
from tests.kit.profile_support import joined

A, B, C = (frozenset({kind}) for kind in "ABC")
NONE: frozenset[str] = frozenset()


def becomes(
    does: frozenset[str] | None,
    before: frozenset[str] = NONE,
    after: frozenset[str] = NONE,
    *,
    many: bool = False,
    elided: bool = False,
) -> ExpectedRows:
    return ExpectedRows(before, does, after, many, elided)


@pytest.mark.parametrize(
    ("operators", "rows", "expected"),
    [
        ([becomes(A), becomes(B)], "AB", [[0], [1]]),
        ([becomes(A), becomes(A)], "AA", [[0], [1]]),
        ([becomes(A), becomes(A)], "A", [[0, 1]]),
        ([becomes(A), becomes(A, elided=True)], "A", [[0]]),
        ([becomes(A, elided=True), becomes(A)], "A", [[1]]),
        ([becomes(A), becomes(B), becomes(A)], "AB", [[0], [1]]),
        ([becomes(A), becomes(B), becomes(A)], "BA", [[1], [2]]),
        ([becomes(A, after=C), becomes(B)], "ACB", [[0], [0], [1]]),
        ([becomes(A), becomes(B, before=C)], "ACB", [[0], [1], [1]]),
        ([becomes(A, after=C), becomes(C)], "AC", [[0], [1]]),
        ([becomes(A, after=C), becomes(C)], "ACC", [[0], [0], [1]]),
        ([becomes(A, many=True), becomes(B)], "AAAB", [[0], [0], [0], [1]]),
        ([becomes(A, many=True), becomes(A)], "AAA", [[0], [0], [1]]),
        ([becomes(None), becomes(B)], "ACB", [[0], [0], [1]]),
        ([becomes(A)], "AA", [[0], [0]]),
        ([becomes(A), becomes(B)], "AXB", [[0], [0, 1], [1]]),
        ([becomes(A), becomes(C), becomes(B)], "AXB", [[0], [1], [2]]),
        ([], "A", [[]]),
        ([becomes(A)], "", []),
    ],
)  # fmt: skip
def test_alignments(operators: list[ExpectedRows], rows: str, expected: list[list[int]]) -> None:
    assert align(operators, rows) == expected


def test_long_lists_are_aligned_in_pieces() -> None:
    kinds = [A, B, C, A, A, B]
    operators = [becomes(kinds[at % 6], elided=at % 7 == 0) for at in range(2500)]
    kept = [at for at in range(2500) if at % 7]
    rows = [next(iter(kinds[at % 6])) for at in kept]
    found = align(operators, rows)
    assert len(found) == len(rows)
    assert all(at in places for at, places in zip(kept, found, strict=True))
    assert sum(len(places) == 1 for places in found) > 0.6 * len(rows)


def model_of(*codes: str, inputs: Sequence[Sequence[int]] | None = None, **options: Any) -> bytes:
    """Return a model with these operators; by default each reads what the one before it writes.

    `options` are those of the first one.
    """
    build = Build()
    graph = build.graph()
    first = graph.tensor("in")
    for at, code in enumerate(codes):
        outputs = [graph.tensor(f"t{at}")]
        graph.operator(code, list(inputs[at]) if inputs else [at], outputs, **({} if at else options))
    graph.ends([first], [len(codes)])
    return build.to_bytes()


def operators_of(data: bytes, *rows: Row) -> list[list[int]]:
    with open_model(data) as model:
        return [list(operators) for operators in Delegates(graph_of(model, 0)).operators_of(rows)]


def own(number: int) -> Row:
    return Row(number, "", of_delegate=False)


def row(number: int, name: str, copies: int = 1) -> Row:
    return Row(number, name, True, copies)


def test_groups_are_distinguished_by_the_operators_between_them() -> None:
    data = model_of("ADD", "MUL", "POW", "MUL", "ADD")
    rows = (row(0, "Add (ND)"), row(1, "Multiply (ND)"), own(2), row(0, "Multiply (ND)"), row(1, "Add (ND)"))
    assert operators_of(data, *rows) == [[0], [1], [], [3], [4]]
    assert operators_of(data, rows[1], own(2), rows[3]) == [[1], [], [3]]
    assert operators_of(data, own(2), rows[3]) == [[], [3]]
    data = model_of("ADD", "POW", "MUL", "ABS", inputs=[[0], [1], [1], [2]])
    found = operators_of(data, row(0, "Add (ND)"), row(1, "Multiply (ND)"), own(1), row(0, "Abs (NC)"))
    assert found == [[0], [2], [], [3]]  # a group has all that is ready


def test_all_of_a_delegate_s_work_may_be_of_any_operator_of_the_group() -> None:
    data = model_of("ADD", "MUL", "POW", "MUL")
    whole = Row(WHOLE, "TheDelegate", of_delegate=True)
    assert operators_of(data, whole, own(2), whole) == [[0, 1], [], [3]]
    assert operators_of(data, own(0), own(1), own(2), own(3), whole) == [[], [], [], [], []]


def test_an_unexpected_order_does_not_separate_groups() -> None:
    data = model_of("ADD", "MUL", "POW", "MUL", "POW")
    rows = (own(4), row(0, "Multiply (ND)"), row(1, "Add (ND)"), own(2), row(0, "Mystery"))
    assert operators_of(data, *rows) == [[], [1, 3], [0], [], [0, 1, 3]]


def test_rows_of_no_known_kind_are_of_what_is_between_their_neighbors() -> None:
    data = model_of("ADD", "MUL", "ABS", "SUB")
    odd, add, sub = row(7, "Mystery"), row(0, "Add (ND)"), row(3, "Subtract (ND)")
    assert operators_of(data, add, odd, sub) == [[0], [0, 1, 2, 3], [3]]
    assert operators_of(data, odd, add, sub, odd) == [[0], [0], [3], [3]]
    assert operators_of(data, odd, odd) == [[0, 1, 2, 3]] * 2
    assert operators_of(data, row(0, "Softmax (NC, F32)"), row(1, "Add (ND)")) == [[], [0]]
    assert operators_of(data, add, row(1, "Softmax"), sub) == [[0], [], [3]]


@pytest.mark.parametrize(
    ("codes", "kind"),
    [
        (("RELU", "MAXIMUM"), "Clamp"),
        (("DEQUANTIZE", "CAST"), "Convert"),
        (("RESHAPE", "PACK"), "Copy"),
        (("CONV_2D", "FULLY_CONNECTED"), "Fully Connected"),
    ],
)
def test_operators_whose_work_is_done_elsewhere_seldom_have_a_row(codes: tuple[str, str], kind: str) -> None:
    elided = codes[0] != "CONV_2D"
    assert operators_of(model_of(*codes), row(0, f"{kind} (NC)")) == [[1] if elided else [0, 1]]
    assert operators_of(model_of(*codes[::-1]), row(0, f"{kind} (NC)")) == [[0] if elided else [0, 1]]


def test_an_activation_has_a_row_where_the_operator_s_own_does_not_clamp() -> None:
    rows = row(0, "Add (ND)"), row(1, "Clamp (NC)"), row(2, "Multiply (ND)")
    assert operators_of(model_of("ADD", "MUL", fused_activation_function="RELU"), *rows) == [[0], [0], [1]]
    assert operators_of(model_of("ADD", "MUL"), *rows) == [[0], [], [1]]
    rows = row(0, "Convolution (NHWC)"), *rows[1:]
    assert operators_of(model_of("CONV_2D", "MUL", fused_activation_function="RELU"), *rows) == [[0], [], [1]]


def test_inputs_of_a_fully_connected_are_flattened_unless_it_keeps_their_dimensions() -> None:
    rows = row(0, "Static Reshape (NC)"), row(1, "Fully Connected (NC)")
    assert operators_of(model_of("FULLY_CONNECTED", keep_num_dims=False), *rows) == [[0], [0]]
    assert operators_of(model_of("FULLY_CONNECTED", keep_num_dims=True), *rows) == [[], [0]]


def test_operators_that_may_have_several_rows() -> None:
    three = [row(at, "Slice (ND)") for at in range(3)]
    assert operators_of(model_of("SPLIT", "SLICE"), *three) == [[0], [0], [1]]
    assert operators_of(model_of("SLICE", "SPLIT"), *three) == [[0], [1], [1]]
    assert operators_of(model_of("SLICE", "SLICE"), *three) == [[0], [0, 1], [1]]


def test_rows_of_several_groups_in_averages() -> None:
    data = model_of("ADD", "MUL", "POW", "ADD", "SUB", "POW", "ABS", "MUL")
    first, second = row(0, "Add (ND)", 2), row(1, "Multiply (ND)", 2)
    rows = (first, second, own(2), row(1, "Subtract (ND)"), own(5), row(0, "Abs (NC)"))
    assert operators_of(data, *rows) == [[0, 3], [1, 7], [], [4], [], [6]]
    unsure = row(1, "Multiply (ND)", 3)
    assert operators_of(data, first, unsure, *rows[2:]) == [[0, 3], [1, 7], [], [4], [], [6]]
    both = (row(0, "Add (ND)", 2), row(0, "Multiply (ND)", 2), own(2), row(1, "Subtract (ND)"), own(5))
    assert operators_of(data, *both) == [[0, 3], [1, 7], [], [4], []]


@pytest.mark.parametrize(
    ("row_name", "kind"),
    [
        ("Convolution (NHWC, F32) IGEMM", "Convolution"),
        ("Fully Connected (NC, QS8, QC8W) GEMM", "Fully Connected"),
        ("Softmax (NC, F32)", "SOFTMAX"),
        ("Squared Difference (ND)", "SQUARED_DIFFERENCE"),
        ("Depth To Space (NHWC, X32) Transpose", "DEPTH_TO_SPACE"),
        ("", ""),
        ("(", "("),
    ],
)
def test_what_a_row_is(row_name: str, kind: str) -> None:
    assert kind_of(row_name) == kind


def test_what_operators_become() -> None:
    assert kinds_of("CONV_2D") == {"CONV_2D", "Convolution", "Fully Connected", "GroupConvolution"}
    assert kinds_of("SOFTMAX") == {"SOFTMAX"}
    assert kinds_before("FULLY_CONNECTED", flattened=True) == {"Convert", "Static Reshape"}
    assert kinds_before("FULLY_CONNECTED", flattened=False) == {"Convert"}
    assert kinds_before("RESHAPE", flattened=True) == NONE


def test_a_row_of_several_groups_is_where_its_number_is_missing() -> None:
    data = model_of("ADD", "MUL", "POW", "ADD", "SUB", "ADD", "POW", "ABS")
    add = row(0, "Add (ND)", 2)
    rows = (add, row(1, "Multiply (ND)"), own(2), row(1, "Subtract (ND)"), row(2, "Add (ND)"), own(6), row(0, "Abs"))
    assert operators_of(data, *rows) == [[0, 3], [1], [], [4], [5], [], [7]]


def test_a_number_that_is_missing_counts_before_one_that_may_follow() -> None:
    data = model_of("ADD", "MUL", "POW", "ABS", "MUL", "POW", "NEG", "MUL", "SUB")
    rows = (row(0, "Add (ND)"), row(1, "Multiply (ND)", 2), own(2), row(0, "Abs (NC)"), own(5))
    found = operators_of(data, *rows, row(0, "Negate (NC)"), row(2, "Subtract (ND)"))
    assert found == [[0], [1, 7], [], [3], [], [6], [8]]


def test_a_row_of_several_groups_follows_where_its_number_is_the_next() -> None:
    data = model_of("ADD", "MUL", "ABS", "POW", "ADD", "ABS", "POW", "ADD", "MUL", "ABS")
    rows = [row(0, "Add (ND)"), row(1, "Multiply (ND)"), row(2, "Abs (NC)", 2), own(3), row(0, "Add (ND)"), own(6)]
    found = operators_of(data, *rows, row(0, "Add (ND)"), row(1, "Multiply (ND)"))
    assert found == [[0], [1], [2, 9], [], [4], [], [7], [8]]
    data = model_of("ADD", "POW", "MUL", "POW", "ADD", "MUL", "SUB", "ADD")
    rows = [row(0, "Add (ND)", 2), own(1), row(0, "Multiply (ND)", 2), own(3), row(1, "Subtract (ND)")]
    assert operators_of(data, *rows) == [[0, 4, 7], [], [2, 5], [], [6]]


def test_rows_of_several_groups_are_assigned_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = model_of("ADD", "POW", "ADD", "MUL", "POW", "ADD")
    rows = row(0, "Add (ND)", 2), own(1), row(1, "Multiply (ND)"), own(4)
    for limit, first in ((3, [0, 2]), (2, [0, 2, 5])):  # a row, three groups
        monkeypatch.setattr(delegates, "_MOST_LOOKED_AT", limit)
        assert operators_of(data, *rows)[0] == first


def test_many_rows_of_several_groups_are_treated_equally() -> None:
    data = model_of(*["ADD", "POW"] * 1100)
    rows = [one for at in range(1100) for one in (row(at, "Add (ND)", 2), own(2 * at + 1))]
    found = operators_of(data, *rows)
    assert found[0] == found[2] == list(range(0, 2200, 2))


@pytest.mark.parametrize(("calls", "operators"), [(3, [0]), (6, [0, 3]), (7, [0]), (9, [0, 3, 5])])
def test_calls_in_averages_show_how_many_groups_a_row_is_of(
    calls: int, operators: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three executions; a number of calls that is not a multiple of theirs proves nothing."""
    data = model_of("ADD", "MUL", "POW", "ADD", "SUB", "ADD", "POW", "ABS")
    names = ["Add (ND)", "Multiply (ND)", "POW", "Subtract (ND)", "Add (ND)", "POW", "Abs (NC)"]
    numbers = [0, 1, 2, 1, 2, 6, 0]
    runs = [
        OperatorRun(0, number, name, "", at, 60, 0, calls=3, of_delegate=name != "POW")
        for at, (number, name) in enumerate(zip(numbers, names, strict=True))
    ]
    trace = OperatorTrace("benchmark_model", (runs[0]._replace(calls=calls), *runs[1:]), 3, averaged=True)
    found = joined(data, trace)
    shared = [row.operators for row in found.ambiguous]
    assert shared == ([] if len(operators) == 1 else [tuple((0, operator) for operator in operators)])
    times = {row.index: row.time for row in found.operators if row.time}
    assert {times[operator].ambiguous_ns for operator in operators} == {60 // len(operators) * bool(shared)}
    assert times[1] == Time(3, 60, None, delegated_ns=60)
    assert times[2] == Time(3, 60, None)
    assert all(time.delegated_ns == time.total_ns for operator, time in times.items() if operator not in (2, 6))
    monkeypatch.setattr(joining, "_SHARE_BYTES", 1 << 40)
    with pytest.raises(InvalidInputError, match="rows of a trace") if shared else nullcontext():
        joined(data, trace)


@pytest.mark.parametrize(
    ("rows", "fused"),
    [
        ([("Add (ND)", True), ("POW", False)], [0]),  # XNNPACK pads inside the operator that reads the result
        ([("ADD", False), ("POW", False)], []),  # no delegate: the trace lacks the operator
        ([("Add (ND)", True), ("Multiply (ND)", True), ("POW", False)], []),  # a row that fits no operator
        ([("GPU", False), ("POW", False)], []),  # the time of the group is that of all its operators
    ],
)
def test_operators_without_a_row_run_in_others_rows(rows: list[tuple[str, bool]], fused: list[int]) -> None:
    numbers = {"ADD": 1, "POW": 2, "GPU": 3}
    each = ((numbers.get(name, at), name, "", at, 60, 0, 0, 1, of) for at, (name, of) in enumerate(rows))
    trace = OperatorTrace("litert", tuple(OperatorRun(0, *one) for one in each), 1)
    stated = '{"schema_version": 1, "devices": [{"name": "npu", "operators": [{"select": "op:PAD", "time_us": 7}]}]}'
    with open_model(model_of("PAD", "ADD", "POW")) as model:
        graph = model_graph(model)
        for document, time_us in ((CostDocument(), 0.0 if fused else inf), (parse_costs(stated, "a.json"), 7.0)):
            inputs = CostInputs(document, {"npu": ("a", trace)}, Defaults())
            (table,) = cost_tables(Chooser(graph), ["npu"], costs_of(graph, inputs, ["npu"])[0])
            assert table.times_us[0].tolist() == [time_us]
