"""Limits that moving operators away does not meet: met if possible, otherwise reported as impossible."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import circletools as ct
from tests.kit.build import Build
from tests.kit.partition_support import seeded

TAKES = ("ADD", "NEG", "TANH")


def row(*codes: str) -> bytes:
    """Return operators one after the other."""
    build = Build()
    graph = build.graph()
    first = last = graph.tensor("x", (8,))
    for at, code in enumerate(codes):
        more = [graph.constant(f"c{at}", np.ones(8, np.float32))] if code == "ADD" else []
        last = graph.compute(code, [last, *more], f"o{at}", (8,))
    graph.ends([first], [last])
    return build.to_bytes("tflite")


def table(tmp_path: Any, device: str, *codes: str) -> str:
    path = tmp_path / f"{device}.json"
    forms = ", ".join(f'"{code}": [{{}}]' for code in codes)
    path.write_text(f'{{"schema_version": 1, "device": "{device}", "operators": {{{forms}}}}}', encoding="utf-8")
    return str(path)


def planned(data: bytes, **request: Any) -> ct.types.Plan:
    with ct.open(data) as model:
        return ct.plan(model, ct.PlanRequest(devices=("npu", "cpu"), **request))


def shown(plan: ct.types.Plan) -> list[tuple[str, tuple[int, ...]]]:
    return [(plan.devices[one.device], one.operators) for one in plan.subgraphs[0].partitions]


def test_operators_come_to_a_device_where_that_meets_its_limit(tmp_path: Any) -> None:
    """The CPU alone takes the ADD in the middle: its neighbor has to come along."""
    tables = (table(tmp_path, "npu", "NEG", "TANH"), table(tmp_path, "cpu", *TAKES))
    plan = planned(row("NEG", "ADD", "NEG", "NEG"), capabilities=tables, limits=("cpu:min-operators=2",))
    assert shown(plan) in ([("cpu", (0, 1)), ("npu", (2, 3))], [("npu", (0,)), ("cpu", (1, 2)), ("npu", (3,))])
    assert [one.device for one in plan.subgraphs[0].partitions] == [1, 0]  # the fewest
    assert plan.reason(0, 0).startswith("not npu, to stay within limit cpu:min-operators=2; before: ")
    assert "not npu" not in plan.reason(0, 3)


def test_few_operators_move_and_small_partitions_are_few(tmp_path: Any) -> None:
    tables = (table(tmp_path, "npu", "NEG", "TANH"), table(tmp_path, "cpu", *TAKES))
    request: dict[str, Any] = {"capabilities": tables, "limits": ("cpu:min-operators=2",)}
    plan = planned(row("NEG", "ADD", "NEG", "NEG", "NEG", "NEG"), **request)
    assert sum(number == 1 for number in plan.subgraphs[0].numbers) == 2
    plan = planned(row("TANH", "TANH", "ADD", "NEG", "NEG"), **request, min_size=3)
    assert shown(plan) == [("cpu", (0, 1, 2, 3, 4))]


def test_with_costs_what_takes_least_is_chosen(tmp_path: Any) -> None:
    times = [(1, 9), (None, 1), (1, 2), (1, 9)]
    lines = [
        f'{{"name": "{name}", "launch_us": 1, "operators": ['
        + ", ".join(
            f'{{"select": "index:{at}", "time_us": {"null" if pair[which] is None else pair[which]}}}'
            for at, pair in enumerate(times)
        )
        + "]}"
        for which, name in enumerate(("npu", "cpu"))
    ]
    costs = tmp_path / "costs.json"
    costs.write_text('{"schema_version": 1, "devices": [' + ", ".join(lines) + "]}", encoding="utf-8")
    plan = planned(row("NEG", "ADD", "NEG", "NEG"), costs=costs, limits=("cpu:min-operators=2",))
    assert shown(plan) == [("npu", (0,)), ("cpu", (1, 2)), ("npu", (3,))]


@pytest.mark.parametrize(("limits", "rules", "text"), [
    (("npu:max-operators=1", "cpu:max-partitions=0", "npu:max-partitions=3"), (),
     "limit npu:max-operators=1 and limit cpu:max-partitions=0 and limit npu:max-partitions=3 cannot be"),
    (("npu:max-operators=1", "npu:max-partitions=1", "cpu:max-bytes=900"), ("index:0,2=npu", "index:1=cpu"),
     "limit npu:max-partitions=1 cannot be met (rules and device capabilities"),
    (("npu:max-operators=1", "npu:max-partitions=1", "cpu:max-bytes=900"), ("index:0,2=npu",),
     "limit npu:max-operators=1 and limit npu:max-partitions=1 cannot be met together"),
    (("cpu:min-operators=4",), ("index:1=cpu", "index:2=npu"),
     "limit cpu:min-operators=4 cannot be met"),
    (("npu:max-bytes=31", "cpu:max-bytes=31"), (), "limit npu:max-bytes=31 and limit cpu:max-bytes=31 cannot be"),
])  # fmt: skip
def test_what_excludes_each_other_is_named(
    limits: tuple[str, ...], rules: tuple[str, ...], text: str, tmp_path: Any
) -> None:
    tables = tuple(table(tmp_path, device, *TAKES) for device in ("npu", "cpu"))
    with pytest.raises(ct.EditError) as caught:
        planned(row("NEG", "NEG", "NEG", "NEG"), capabilities=tables, limits=limits, rules=rules)
    assert text in str(caught.value)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_nothing_is_refused_that_some_rules_would_allow(first: int, tmp_path: Any) -> None:
    seen = set()
    for seed in range(first, first + 20):
        generator = seeded(seed)
        data = row(*(generator.choice(TAKES) for _ in range(generator.randint(1, 4))))
        codes = generator.sample(TAKES, 3)
        takes = {"npu": codes[:2], "cpu": codes[1:]}
        kinds = {"max-partitions": (1, 2), "min-operators": (2, 3), "max-operators": (1, 2), "max-bytes": (32, 64)}
        limits = []
        for device in generator.choice((("npu",), ("cpu",), ("npu", "cpu"))):
            kind = generator.choice(list(kinds))
            limits.append(f"{device}:{kind}={generator.choice(kinds[kind])}")
        tables = tuple(table(tmp_path, device, *codes) for device, codes in takes.items())
        request: dict[str, Any] = {"capabilities": tables, "limits": tuple(limits)}
        text = ""
        try:
            planned(data, **request)
        except ct.EditError as error:
            text = str(error)
        seen.add("cannot be met" in text)
        if text:
            assert "cannot be met" in text
            with ct.open(data) as model:
                codes = [operator.code.name for operator in model.subgraphs[0].operators]
            for devices in product(*[[name for name in takes if code in takes[name]] for code in codes]):
                rules = tuple(f"index:{at}={device}" for at, device in enumerate(devices))
                with pytest.raises(ct.EditError):
                    planned(data, **request, rules=rules)
    assert seen == {True, False}


def test_operators_that_leave_a_device_move_to_one_that_accepts_them(tmp_path: Any) -> None:
    """Each operator to another device, where none takes both."""
    takes = {"npu": TAKES, "gpu": ["NEG"], "cpu": ["TANH"]}
    tables = tuple(table(tmp_path, device, *codes) for device, codes in takes.items())
    with ct.open(row("NEG", "TANH")) as model:
        plan = ct.plan(
            model, ct.PlanRequest(devices=tuple(takes), capabilities=tables, limits=("npu:max-partitions=0",))
        )
    assert shown(plan) == [("gpu", (0,)), ("cpu", (1,))]
    for operator in range(2):
        assert "not npu, to stay within limit npu:max-partitions=0" in plan.reason(0, operator)


def wide(adds: int) -> bytes:
    """Return ADDs of one constant beside so many NEGs that not every way to order them can be tried."""
    build = Build()
    graph = build.graph()
    x, half = graph.tensor("x", (8,)), graph.constant("c", np.ones(8, np.float16))
    constant = graph.compute("DEQUANTIZE", [half], "whole", (8,))
    rows = [graph.compute("NEG", [x], f"n{at}", (8,)) for at in range(30)]
    rows += [graph.compute("ADD", [row, constant], f"a{at}", (8,)) for at, row in enumerate(rows[:adds])]
    graph.ends([x], rows)
    return build.to_bytes("tflite")


@pytest.mark.parametrize(
    ("adds", "limit", "join"),
    [
        (1, "cpu:min-operators=2", "connected"),
        (2, "cpu:min-operators=2", "connected"),
        (1, "cpu:min-operators=2", "any"),
        (2, "cpu:min-operators=3", "any"),
        (1, "cpu:max-bytes=31", "connected"),
    ],
)
def test_too_small_and_too_large_units_are_found_in_any_graph(
    adds: int, limit: str, join: Any, tmp_path: Any
) -> None:
    tables = (table(tmp_path, "npu", "NEG"), table(tmp_path, "cpu", "ADD"))
    with pytest.raises(ct.EditError, match=f"limit {limit} cannot be met"):
        planned(wide(adds), capabilities=tables, limits=(limit,), join=join)


@pytest.mark.parametrize(("adds", "limit"), [(2, "cpu:min-operators=2"), (1, "cpu:min-operators=1")])
def test_what_is_just_large_enough_is_not_refused(adds: int, limit: str, tmp_path: Any) -> None:
    tables = (table(tmp_path, "npu", "NEG"), table(tmp_path, "cpu", "ADD"))
    plan = planned(wide(adds), capabilities=tables, limits=(limit, "cpu:max-bytes=128"), join="any")
    assert shown(plan) == [("npu", tuple(range(1, 31))), ("cpu", (0, *range(31, 31 + adds)))]
