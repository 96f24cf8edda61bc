"""Programs beside the tables: who decides about what, and what counts as a disagreement."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, ClassVar

import pytest

import circletools as ct
from circletools import runtimes
from circletools.fit import programs
from circletools.fit.programs import JUDGES, ProgramAnswer, compare
from circletools.fit.verdicts import Asked, Cuts, Disagreement, Fit, Misfit, TargetFit
from circletools.fit.verdicts import Verdict as Verdict_
from circletools.runtimes.programs import PROGRAMS
from circletools.runtimes.protocol import Answer, Placed, Verdict
from tests.kit.presence import need
from tests.kit.support import path_of


def target(*misfits: tuple[int, bool], name: str = "xnnpack") -> TargetFit:
    """Return a table's answer: the operators it refuses, and whether it was used."""
    made = tuple(Misfit(0, at, "ADD", "r", "do", known, ("s",), True, True) for at, known in misfits)
    return TargetFit(name, "", 3, made, (), Cuts(0, 0, 0), 0)


def on(*devices: str, subgraph: int = 0) -> tuple[Placed, ...]:
    return tuple(Placed(device, f"on {device}", subgraph, at) for at, device in enumerate(devices))


def answered(status: Any, *placed: Placed, words: str = "") -> ProgramAnswer:
    return ProgramAnswer("litert:xnnpack", "2.3", Verdict(status, words, placed))


def test_every_judge_is_a_program() -> None:
    for judge in JUDGES.values():
        assert any(variant.startswith(judge.variant) for variant in PROGRAMS[judge.program].variants)
    assert set(ct.affinity.shipped()) - JUDGES.keys() == {"intel-npu"}  # its plugin is asked without an adapter
    each = {"xnnpack", "litert-gpu", "ethos-u55", "ethos-u65", "ethos-u85"}
    assert {name for name, judge in JUDGES.items() if judge.places_each} == each
    assert {name for name, judge in JUDGES.items() if judge.runs} == {"litert-cpu", "onert-cpu", "onert-ruy"}


@pytest.mark.parametrize(
    ("table", "answer", "verdict", "wrong"),
    [
        ((), answered("ok", *on("xnnpack", "xnnpack")), "resident", []),
        ((), answered("ok"), "resident", []),
        (((1, True),), answered("ok", *on("xnnpack", "cpu")), "not_resident", []),
        ((), answered("ok", *on("xnnpack", "cpu")), "not_resident", [Disagreement(0, 1, True, "on cpu")]),
        (
            ((0, True), (1, True)),
            answered("ok", *on("xnnpack", "cpu")),
            "not_resident",
            [Disagreement(0, 0, False, "on xnnpack")],
        ),
        (((0, False),), answered("ok", *on("xnnpack")), "resident", []),  # nobody had asked
        (((0, False),), answered("ok", *on("cpu")), "not_resident", []),
        (((2, True),), answered("ok", *on("xnnpack")), "resident", [Disagreement(None, None, False, "")]),
        ((), answered("refused", *on("xnnpack")), "not_resident", [Disagreement(None, None, True, "")]),
        ((), answered("crash"), "not_resident", [Disagreement(None, None, True, "")]),
        (((1, True),), answered("crash"), "not_resident", []),
        ((), answered("timeout"), "not_known", []),
        ((), answered("memory"), "not_known", []),
        ((), answered("ok", Placed("", "no ADD", code="ADD")), "resident", []),  # nobody knows which it means
        ((), answered("ok", Placed("cpu", "", code="ADD")), "not_resident", [Disagreement(None, None, True, "")]),
    ],
)
def test_messages_of_a_program(
    table: tuple[tuple[int, bool], ...], answer: ProgramAnswer, verdict: Verdict_, wrong: list[Disagreement]
) -> None:
    assert compare(target(*table), answer) == Asked("litert:xnnpack", "2.3", verdict, "", tuple(wrong))


def test_another_subgraph() -> None:
    table = TargetFit("xnnpack", "", 3, (target((2, True)).misfits[0]._replace(subgraph=1),), (), Cuts(0, 0, 0), 0)
    answer = answered("ok", *on("xnnpack", "xnnpack", "xnnpack"), *on("xnnpack", "xnnpack", "cpu", subgraph=1))
    assert compare(table, answer).disagreements == ()
    answer = answered("ok", *on("xnnpack", "xnnpack", "cpu"), *on("xnnpack", "xnnpack", "xnnpack", subgraph=1))
    wrong = (Disagreement(0, 2, True, "on cpu"), Disagreement(1, 2, False, "on xnnpack"))
    assert compare(table, answer).disagreements == wrong


def test_output_of_a_program_that_explains_a_refusal() -> None:
    def left(at: int, words: str) -> Placed:
        return Placed("", words, 0, at)

    answer = answered(
        "refused", left(0, "rank 5"), left(1, "rank 5"), left(2, ""), left(3, "no CAST"), Placed("gpu", "", 0, 4)
    )
    found = [compare(target(*table, name="litert-gpu"), answer) for table in (((0, True), (2, True)), ((4, True),))]
    assert [one.verdict for one in found] == ["not_resident"] * 2
    assert [[(one.operator_index, one.table_takes) for one in answer.disagreements] for answer in found] == [
        [(3, True)],  # not 1, which has the reason of 0
        [(0, True), (1, True), (3, True), (4, False)],
    ]


def test_all_or_nothing() -> None:
    """Of what a program does not place one by one, only what it names is refused."""
    answer = ProgramAnswer(
        "onert:cpu", "1", Verdict("refused", "no  ADD\n", (*on("cpu"), Placed("", "no\nADD", 0, 2)))
    )
    found = compare(target((0, True), name="onert-cpu"), answer)
    assert found == Asked("onert:cpu", "1", "not_resident", "no ADD", (Disagreement(0, 2, True, "no ADD"),))


def test_all_of_a_model_that_loads() -> None:
    answer = ProgramAnswer("onert:cpu", "1", Verdict("ok", "", on("cpu", "cpu")))
    found = compare(target((1, True), name="onert-cpu"), answer)
    assert found == Asked("onert:cpu", "1", "resident", "", (Disagreement(0, 1, False, "on cpu"),))


def test_a_refused_model_whose_operators_are_placed() -> None:
    found = compare(target((0, True)), answered("refused", *on("xnnpack", "cpu"), words="late"))
    wrong = (Disagreement(0, 0, False, "on xnnpack"), Disagreement(0, 1, True, "on cpu"))
    assert found == Asked("litert:xnnpack", "2.3", "not_resident", "late", wrong)


class FakeWorker:
    """A worker whose answers stand in a table, and what it was asked."""

    asked: ClassVar[list[tuple[str, str, float]]] = []
    verdict = Verdict("ok")
    failure = ""

    def __init__(self, name: str, seconds: float) -> None:
        self.name, self.seconds, self.version = name, seconds, ""
        self.runtime = name.partition(":")[0]

    def __enter__(self) -> FakeWorker:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def placement(self, model: Path) -> Verdict:
        self.version = "7"
        self.asked.append((self.name, "placement", self.seconds))
        assert model.read_bytes()
        return self.verdict

    def run(self, _model: Path) -> Answer:
        self.asked.append((self.name, "run", self.seconds))
        return Answer([], [], self.failure)


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> type[FakeWorker]:
    monkeypatch.setattr(runtimes, "Worker", FakeWorker)
    monkeypatch.setattr(FakeWorker, "asked", [])
    return FakeWorker


def fitted(on_: str, with_: str, model: str = "tflite/cnn") -> Fit:
    request = ct.FitRequest(on=tuple(on_.split(",")), with_=tuple(with_.split(",")), timeout_s=5)
    with ct.open(path_of(model)) as opened:
        return ct.fit(opened, request)


@pytest.mark.parametrize(
    ("targets", "with_", "asked"),
    [
        ("xnnpack", "litert", [("litert:xnnpack", "placement")]),
        ("litert-cpu", "litert", [("litert:builtin", "placement"), ("litert:builtin", "run")]),
        (
            "litert-cpu,xnnpack",
            "litert",
            [("litert:xnnpack", "placement"), ("litert:builtin", "placement"), ("litert:builtin", "run")],
        ),
        ("litert-cpu,xnnpack", "litert:xnnpack", [("litert:xnnpack", "placement")]),
        (
            "onert-ruy,xnnpack",
            "litert,onert",
            [("litert:xnnpack", "placement"), ("onert:ruy", "placement"), ("onert:ruy", "run")],
        ),
        ("openvino-cpu", "openvino", [("openvino:CPU", "placement")]),
    ],
)
def test_programs_that_are_asked(
    targets: str, with_: str, asked: list[tuple[str, str]], worker: type[FakeWorker]
) -> None:
    fitted(targets, with_)
    assert worker.asked == [(*each, 5) for each in asked]


def test_the_configuration_of_a_compiler() -> None:
    """A target of Vela represents a family; the measured one is used unless another is named."""
    decides = programs._decides
    assert decides("vela", ["ethos-u85", "xnnpack"]) == [("ethos-u85", "vela:ethos-u85-256")]
    assert decides("vela:ethos-u85-512", ["ethos-u55", "ethos-u85"]) == [("ethos-u85", "vela:ethos-u85-512")]


def test_programs_that_decide_nothing() -> None:
    with pytest.raises(ct.UsageError, match=re.escape("litert cannot test any of the targets in `on=`")) as raised:
        fitted("onert-cpu", "litert")
    assert raised.value.hint == "it tests xnnpack, litert-cpu"
    with pytest.raises(ct.UsageError, match="no runtime or compiler is called 'lite'"):
        fitted("xnnpack", "lite")


def test_a_model_has_to_run_where_operators_had_to(worker: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "failure", "no kernel")
    (asked,) = fitted("litert-cpu", "litert").targets[0].asked
    assert (asked.verdict, asked.words, asked.version) == ("not_resident", "no kernel", "7")
    assert asked.disagreements == (Disagreement(None, None, True, ""),)
    monkeypatch.setattr(worker, "verdict", Verdict("refused", "not this"))
    worker.asked.clear()
    (asked,) = fitted("litert-cpu", "litert").targets[0].asked
    assert (asked.verdict, asked.words, len(worker.asked)) == ("not_resident", "not this", 1)


def test_circle_is_not_given_to_those_who_do_not_read_it(worker: type[FakeWorker]) -> None:
    found = fitted("xnnpack", "litert", "circle/mlp")
    assert found.targets[0].asked == (
        Asked("litert:xnnpack", "", "not_known", "it does not read models of this format", ()),
    )
    assert (found.unknown_count, worker.asked) == (1, [])


def test_a_program_that_is_missing_leaves_the_answer_unknown(worker: type[FakeWorker], monkeypatch: Any) -> None:
    def missing(*_: object) -> None:
        raise ct.UsageError("no device", hint="plug it in")

    monkeypatch.setattr(worker, "placement", missing)
    found = fitted("xnnpack", "litert")
    assert (found.targets[0].verdict, found.unknown_count, found.contradictions) == ("resident", 1, 0)
    assert found.targets[0].asked == (Asked("litert:xnnpack", "", "not_known", "no device (plug it in)", ()),)


def test_contradictions() -> None:
    def contradictions(table: tuple[tuple[int, bool], ...], verdict: Any, *wrong: Disagreement) -> int:
        asked = Asked("p", "", verdict, "", wrong)
        made = TargetFit("n", "", 3, target(*table).misfits, (), Cuts(0, 0, 0), 0, (asked,))
        return Fit("f", "tflite", (made,), False, ()).contradictions

    assert contradictions((), "resident") == 0
    assert contradictions((), "not_known") == 0
    assert contradictions(((0, True),), "not_resident") == 0
    assert contradictions(((0, False),), "not_resident") == 1
    assert contradictions(((0, False),), "resident") == 0
    assert contradictions(((0, True),), "not_resident", Disagreement(0, 1, True, "")) == 1


def test_composites(worker: type[FakeWorker], monkeypatch: pytest.MonkeyPatch) -> None:
    """The inside of a composite counts unless a delegate runs the composite as a single operator."""
    inside = on("cpu", "xnnpack", subgraph=1)
    for device, verdict, left in (("xnnpack", "resident", 0), ("cpu", "not_resident", 1)):
        monkeypatch.setattr(worker, "verdict", Verdict("ok", "", (*on(device), *inside)))
        (asked,) = fitted("xnnpack", "litert", "tflite/composite").targets[0].asked
        assert (asked.verdict, asked.left) == (verdict, left)


def test_the_programs_themselves() -> None:
    need("ai_edge_litert")
    assert fitted("xnnpack", "litert", "tflite/composite").targets[0].asked[0].verdict == "resident"
    found = fitted("xnnpack,litert-cpu", "litert")
    assert [(each.verdict, each.disagreements) for one in found.targets for each in one.asked] == [
        ("resident", ())
    ] * 2
    (target_,) = fitted("xnnpack", "litert", "tflite/while_loop").targets
    assert (target_.verdict, [each.verdict for each in target_.asked]) == ("not_resident", ["not_resident"])
