"""`check --with`: programs that load the model, or say why not, as findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import circletools as ct
from tests.kit.build import Build
from tests.kit.command_support import run
from tests.kit.fake_programs import fake_litert
from tests.kit.origin_support import embedded

Found = list[tuple[str, str, str, str]]


def two_operators() -> bytes:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    y = graph.compute("NEG", [x], "negative")
    graph.ends([x], [graph.compute("TANH", [y], "bent")])
    return build.to_bytes("tflite")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.bin"  # programs get the ending that they expect all the same
    path.write_bytes(two_operators())
    return path


def found(
    model: Path | bytes, what: str, monkeypatch: pytest.MonkeyPatch, folder: Path, seconds: float = 60
) -> Found:
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(folder, what))
    with ct.open(model) as opened:
        findings = ct.check(opened, ["litert"], timeout_s=seconds)
    return [(one.code, one.severity, one.location, one.message) for one in findings]


def test_a_model_that_loads_has_no_finding(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert found(model, "nothing", monkeypatch, tmp_path) == []
    assert found(model.read_bytes(), "nothing", monkeypatch, tmp_path) == []


@pytest.mark.parametrize(
    ("what", "location", "message"),
    [
        (
            "refuse",
            "subgraphs[0].operators[1]",
            "refuses the model: no kernel for this.Node number 1 (TANH) failed to prepare. (TANH 1)",
        ),
        ("unreadable", "model", "refuses the model: no such format"),
        ("elsewhere", "model", "refuses the model: not now.Node number 9 (TfLiteXNNPackDelegate) failed to prepare."),
        ("hang", "model", "takes too long: no answer in 2 s"),
        (
            "eat natively",
            "model",
            "needs too much memory: litert ended with signal 6 (SIGABRT); its last output: "
            "terminate called after throwing an instance of 'std::bad_alloc'",
        ),
    ],
)
def test_a_refusal_is_a_finding(
    what: str, location: str, message: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what.startswith("eat"):
        pytest.importorskip("resource")  # with which the memory is limited
    ((code, severity, place, text),) = found(model, what, monkeypatch, tmp_path, 2)
    assert (code, severity, place) == ("NOT_LOADED", "error", location)
    program, _, words = text.partition(" ")
    assert program == "litert"
    assert words.removeprefix(words[: words.index(message)]) == message


def test_a_crash_is_a_finding(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ((*_, text),) = found(model, "crash", monkeypatch, tmp_path)
    assert "crashes on the model: litert ended with signal 6 (SIGABRT)" in text


def test_the_origin_is_named_unless_it_is_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = embedded(two_operators())
    ((*_, text),) = found(data, "refuse", monkeypatch, tmp_path)
    assert text.endswith("(TANH 1; from bent)")
    stale = data.replace(b"negative", b"positive")
    first, (*_, text) = found(stale, "refuse", monkeypatch, tmp_path)
    assert first[0] == "STALE_ORIGIN"
    assert text.endswith("(TANH 1)")


def test_a_broken_model_is_not_given_to_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    graph.operator("NEG", [x], [7])
    graph.ends([x], [x])
    findings = found(build.to_bytes("tflite"), "crash", monkeypatch, tmp_path)
    assert [code for code, *_ in findings] == ["INDEX_OUT_OF_RANGE"]


def test_the_command_asks_several(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(tmp_path, "refuse"))
    done = run("check", model, "--with", "litert,litert:reference", "--json")
    assert done.returncode == 1
    findings = json.loads(done.stdout)["findings"]
    assert [one["message"].split()[0] for one in findings] == ["litert", "litert:reference"]
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(tmp_path, "nothing"))
    assert run("check", model, "--with", "litert").returncode == 0
    monkeypatch.setenv("CIRCLETOOLS_LITERT_PYTHON", fake_litert(tmp_path, "hang"))
    done = run("check", model, "--with", "litert", "--timeout", "1")
    assert (done.returncode, "no answer in 1 s" in done.stdout) == (1, True)


def test_a_program_that_is_not_there_ends_the_command(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CIRCLETOOLS_VELA_PYTHON", "/nowhere/python")
    done = run("check", model, "--with", "vela")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: vela: /nowhere/python cannot be started: No such file or directory\n"
    done = run("check", model, "--with", "velar")
    assert done.stderr == "error: no runtime or compiler is called 'velar' (did you mean 'vela'?)\n"
