"""Parsing the output of Arm's compiler, with a program in its place that prints a set text."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from circletools.runtimes.protocol import Placed, RefusedError, Request, Verdict
from tests.kit.fake_programs import adapter, printing_to

ASKED = Request("placement", "model.tflite", "ethos-u85-256")
OUTPUT = """\
Warning (supported operators) operator: CUSTOM, ofm: 'a'
Reason: Unsupported opType

Warning (supported operators) operator: ADD, ofm: 'placeholder-for-3-OFM'
Reason: Operation has shapeless tensor
Tensors must have constant shape.

Warning (supported operators) operator: CALL_ONCENone, ofm: '<unnamed>'
Reason: No outputs

Warning (supported operators) operator: SVDF, ofm: '<unnamed>_act'
Reason: Unsupported opType

CPU operators = 3 (100.0%)
   CPU: Passthrough = a (outputs [1])
   CPU: Passthrough = fused away (outputs [1, 1, 1, 4])
   CPU: Passthrough = placeholder-for-3-OFM (outputs [1])
"""
Ask = Callable[..., Any]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Return what asks a question of a compiler that prints a text, and then returns or raises something."""

    def asked(question: str, text: str, end: int | BaseException = 0) -> Any:
        def main(arguments: list[str]) -> int:
            assert arguments[:3] == ["model.tflite", "--accelerator-config", "ethos-u85-256"]
            assert Path(arguments[-1]).is_dir()
            os.write(1, text.encode())
            if isinstance(end, BaseException):
                raise end
            return end

        modules: dict[str, dict[str, Any]] = {"ethosu": {}, "ethosu.vela": {}, "ethosu.vela.vela": {"main": main}}
        with printing_to(tmp_path / "errors"):
            return getattr(adapter("vela", modules, monkeypatch), question)(ASKED)

    return asked


def test_operators_on_the_cpu_have_a_reason_or_only_a_name(ask: Ask) -> None:
    assert ask("placement", OUTPUT) == Verdict(
        "ok",
        "",
        (
            Placed("cpu", "Unsupported opType", code="CUSTOM", tensor="a"),
            Placed("cpu", "Operation has shapeless tensor Tensors must have constant shape.", None, 3, "ADD"),
            Placed("cpu", "No outputs", code="CALL_ONCE"),
            Placed("cpu", "Unsupported opType", code="SVDF"),
            Placed("cpu", tensor="a"),
            Placed("cpu", tensor="fused away"),
        ),
        "npu",
    )
    none_left = OUTPUT.partition("CPU operators")[0] + "CPU operators = 0 (0.0%)"
    assert ask("placement", none_left).operators == (Placed("cpu", "No outputs", code="CALL_ONCE"),)


REASON = Placed("", "Unsupported opType", code="CUSTOM", tensor="a")


@pytest.mark.parametrize(
    ("end", "words", "operators"),
    [
        (3, "vela exited with status 3", ()),
        (SystemExit(1), "1", ()),
        (AssertionError(), "AssertionError", ()),
        (KeyError("0"), "KeyError: '0'", ()),
        (ValueError("Failed to parse TFLite file\n it is odd"), "it is odd", ()),
        (ValueError("no CUSTOM here"), "no CUSTOM here", (REASON,)),
        (
            RuntimeError("Error: ARGMAX 'b' Does not have valid"),
            "Error: ARGMAX 'b' Does not have valid",
            (Placed("", "Error: ARGMAX 'b' Does not have valid", code="ARGMAX", tensor="b"),),
        ),
        (
            RuntimeError("operation (CUSTOM) could not run"),
            "operation (CUSTOM) could not run",
            (Placed("", "operation (CUSTOM) could not run", code="CUSTOM"),),
        ),
    ],
)
def test_a_refusal_names_the_operator_that_it_is_about(
    end: int | BaseException, words: str, operators: tuple[Placed, ...], ask: Ask
) -> None:
    with pytest.raises(RefusedError) as caught:
        ask("loads", OUTPUT, end)
    assert (str(caught.value), caught.value.operators) == (words, operators)


@pytest.mark.parametrize("end", [0, ValueError("no")])
def test_what_the_compiler_prints_is_not_on_standard_output(
    end: int | BaseException, ask: Ask, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(RefusedError) if end else nullcontext():
        assert ask("loads", "of the compiler", end) == Verdict("ok")
    os.write(1, b"afterwards")
    assert capfd.readouterr().out == "afterwards"


def test_it_runs_nothing(ask: Ask) -> None:
    assert ask("run", "").failure == "vela is a compiler: it runs no models"
