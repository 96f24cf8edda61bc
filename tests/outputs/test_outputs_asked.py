"""Programs that are asked whether they still take a model: `fix-outputs --with`."""

from __future__ import annotations

import numpy as np
import pytest

from circletools import runtimes
from circletools.edit.edit import ModelEdit
from circletools.errors import EditError, UsageError
from circletools.model.model import open_model
from circletools.outputs.fixing import fix_outputs
from circletools.runtimes.protocol import Answer, Verdict
from tests.kit.build import Build
from tests.kit.outputs_support import plain
from tests.kit.presence import need


class Pretended:
    """A program that refuses models with some operators."""

    refuses: tuple[str, ...] = ()

    def __init__(self, name: str) -> None:
        self.runtime = name.partition(":")[0]

    def __enter__(self) -> Pretended:
        return self

    def __exit__(self, *_error: object) -> None:
        return

    def loads(self, path: object) -> Verdict:
        words = self._refusal(path)
        return Verdict("refused", words) if words else Verdict("ok")

    def run(self, path: object) -> Answer:
        return Answer([], [], self._refusal(path))

    def _refusal(self, path: object) -> str:
        with open_model(str(path)) as model:
            refused = [code.name for code in model.operator_codes if code.name in self.refuses]
        return f"no {refused[0]}" if refused else ""


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> type[Pretended]:
    monkeypatch.setattr(runtimes, "Worker", Pretended)
    monkeypatch.setattr(Pretended, "refuses", ())
    return Pretended


def codes_and_notes(data: bytes, *names: str) -> tuple[list[str], list[str]]:
    """Return the operators of the fixed model, and the messages."""
    with open_model(data) as model, ModelEdit(model) as edit:
        result = fix_outputs(edit, with_=names)
        fixed = edit.to_bytes()
    with open_model(fixed) as model:
        return list(model.code_names(0)), [note.message for note in result.notes]


@pytest.mark.parametrize("program", ["onert", "vela"])
def test_the_next_operator_is_taken_where_one_is_refused(program: str, pretended: type[Pretended]) -> None:
    data = plain("tflite", "FLOAT32")
    assert codes_and_notes(data, program) == (["RESHAPE"] * 2, [])
    pretended.refuses = ("RESHAPE",)
    codes, notes = codes_and_notes(data, program)
    assert codes == ["TRANSPOSE"] * 2
    assert notes == [f"copies by auto, reshape: {program} now refuses the model: no RESHAPE"]
    pretended.refuses = ("RESHAPE", "TRANSPOSE")
    assert codes_and_notes(data, program)[0] == ["CONCATENATION"] * 2


def test_if_every_operator_is_refused_nothing_is_done(pretended: type[Pretended]) -> None:
    pretended.refuses = ("RESHAPE", "TRANSPOSE", "CONCATENATION")
    data = plain("tflite", "FLOAT32")
    with pytest.raises(EditError, match=r"no copy operator keeps the model running: .* no RESHAPE; copies by tr"):
        codes_and_notes(data, "onert")
    pretended.refuses = ("TRANSPOSE",)
    with open_model(data) as model, ModelEdit(model) as edit:
        with pytest.raises(EditError, match="copies by transpose: onert now refuses the model: no TRANSPOSE"):
            fix_outputs(edit, copy_operator="transpose", with_=["onert"])
        assert edit.to_bytes() == data


def test_what_was_refused_before_stays_a_note(pretended: type[Pretended]) -> None:
    pretended.refuses = ("NEG",)
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "y")
    graph.ends([x], [y, y])
    codes, notes = codes_and_notes(build.to_bytes(), "onert", "litert")
    assert codes == ["NEG", "RESHAPE"]
    assert notes == [f"{name} still refuses the model: no NEG" for name in ("onert", "litert")]


def test_other_outputs_are_a_refusal(pretended: type[Pretended], monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([1, 2, 1, 2, 1, 1])
    monkeypatch.setattr(pretended, "run", lambda self, path: Answer([], [np.array(next(values))]))
    codes, notes = codes_and_notes(plain("tflite", "FLOAT32"), "litert")
    assert codes == ["TRANSPOSE"] * 2
    assert notes == ["copies by auto, reshape: litert now refuses the model: the outputs differ"]


def test_a_model_without_aliased_outputs_is_not_run_twice(pretended: type[Pretended]) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.ends([x], [graph.compute("NEG", [x], "y")])
    assert codes_and_notes(build.to_bytes(), "onert") == (["NEG"], [])


def test_an_unknown_program() -> None:
    with pytest.raises(UsageError, match="no runtime or compiler is called 'oneart'"):
        codes_and_notes(plain("tflite", "FLOAT32"), "oneart")


def test_onert_itself_chooses_for_a_type_it_does_not_transpose() -> None:
    need("onert")
    data = plain("circle", "BOOL")
    with open_model(data) as model, ModelEdit(model) as edit:
        with pytest.raises(EditError, match="unsupported data type"):
            fix_outputs(edit, runtime="litert", copy_operator="transpose", with_=["onert"])
        result = fix_outputs(edit, runtime="litert", with_=["onert"])
        assert result.changes
    assert any("unsupported data type" in note.message for note in result.notes)
