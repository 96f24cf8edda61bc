"""What programs say about operators, as findings: one for each reason, at the first operator that it is about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from circletools import runtimes
from circletools.runtimes.protocol import Placed, Status, Verdict
from tests.kit.build import Build
from tests.kit.origin_support import embedded, origins


def two_graphs(count: int = 7) -> bytes:
    """Return a main subgraph of so many operators, NEG and TANH by turns, and one with an ABS."""
    build = Build()
    main = build.graph()
    last = start = main.tensor("x")
    for number in range(count):
        last = main.compute("TANH" if number % 2 else "NEG", [last], f"y{number}")
    main.ends([start], [last])
    other = build.graph("other")
    other.ends([other.tensor("x")], [other.compute("ABS", [0], "y")])
    return build.to_bytes("tflite")


class Program:
    """In the place of a worker: it gives one verdict."""

    version, verdict = "", Verdict("ok")
    started: list[tuple[str, float]] = []  # noqa: RUF012 - set again by each test

    def __init__(self, name: str, seconds: float) -> None:
        self.started.append((name, seconds))

    def __enter__(self) -> Program:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def called(self, model: Path) -> Verdict:
        assert model.is_file()
        return self.verdict


@pytest.fixture
def text(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function from a verdict to place and words of the findings."""
    monkeypatch.setattr(runtimes, "Worker", Program, raising=False)
    monkeypatch.setattr(runtimes, "located", lambda verdict, _operators: verdict, raising=False)
    monkeypatch.setattr(Program, "started", [])

    def found(
        status: Status, words: str, *operators: Placed, data: bytes | None = None, version: str = "1.2"
    ) -> list[tuple[str, str]]:
        monkeypatch.setattr(Program, "version", version)
        monkeypatch.setattr(Program, "verdict", Verdict(status, words, operators))
        with ct.open(two_graphs() if data is None else data) as model:
            findings = [one for one in ct.check(model, ["npu"], timeout_s=7) if one.code == "NOT_LOADED"]
        assert {one.severity for one in findings} <= {"error"}
        return [(one.location, one.message) for one in findings]

    return found


def refused(words: str, subgraph: int | None, operator: int | None) -> Placed:
    return Placed("", words, subgraph, operator)


def test_a_verdict_without_operators_is_about_the_model(text: Any) -> None:
    assert text("ok", "", refused("why not", 0, 0)) == []
    assert text("refused", "no  such\nformat") == [("model", "npu 1.2 refuses the model: no such format")]
    assert text("crash", "signal", version="") == [("model", "npu crashes on the model: signal")]
    assert text("timeout", "2 s") == [("model", "npu 1.2 takes too long: 2 s")]
    assert text("memory", "6 GiB") == [("model", "npu 1.2 needs too much memory: 6 GiB")]
    assert Program.started == [("npu", 7)] * 5
    with ct.open(two_graphs()) as model:
        ct.check(model, ["a", "b"])
    assert Program.started[5:] == [("a", 600.0), ("b", 600.0)]


def test_each_reason_is_reported_at_the_first_operator_that_it_is_about(text: Any) -> None:
    operators = [
        refused("no  kernel", 0, 3),
        Placed("cpu", "fine", 0, 0),
        refused("too large", 0, 2),
        refused("no kernel", 0, 1),
        refused("no kernel", 0, 2),
        refused("no kernel", 1, 0),
        refused("", 0, 5),
        refused("of some", None, None),
        refused("no kernel", 0, None),
        refused("no kernel", None, 4),
    ]
    assert text("refused", "two reasons", *operators) == [
        ("subgraphs[0].operators[3]", "npu 1.2 refuses the model: no kernel (TANH 3,1; NEG 2; subgraph 1 ABS 0)"),
        ("subgraphs[0].operators[2]", "npu 1.2 refuses the model: too large (NEG 2)"),
        ("subgraphs[0].operators[5]", "npu 1.2 refuses the model: no reason is given (TANH 5)"),
        ("model", "npu 1.2 refuses the model: of some"),
    ]
    assert text("refused", "why", Placed("cpu", "fine", 0, 0)) == [("model", "npu 1.2 refuses the model: why")]


@pytest.mark.parametrize(("count", "more"), [(5, ""), (6, ", …")])
def test_five_sources_are_named(count: int, more: str, text: Any) -> None:
    names = {10 + number: f"source {number}" for number in range(7)}
    data = embedded(two_graphs(), origins(names, {number: {10 + number} for number in range(7)}, {0: {10}}))
    listed = ", ".join(f"source {number}" for number in range(5))
    ((_, message),) = text("refused", "", *(refused("no", 0, number) for number in range(count)), data=data)
    assert message.endswith(f"; from {listed}{more})")
