"""Options that exclude or need each other, and messages of a command besides its results."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from circletool_cli.commands.parameters import first_executions

import circletools as ct
from tests.kit.origin_support import embedded, rebuilt
from tests.kit.program import MLP, put, run

TFLITE = MLP.parents[1] / "tflite"
SOURCES = {"--origins": "o.json", "--names": "auto", "--exported-program": "p.pt2", "--onnx": "m.onnx"}


@pytest.mark.parametrize("pair", list(combinations(SOURCES, 2)), ids=" ".join)
def test_there_is_one_source_of_names(pair: tuple[str, str], tmp_path: Path) -> None:
    words = [word for name in pair for word in (name, SOURCES[name])]
    ran = run("embed-origins", MLP, tmp_path / "out.circle", *words)
    assert ran.status == 2
    assert "cannot be combined" in ran.err
    assert not (tmp_path / "out.circle").exists()


@pytest.mark.parametrize("name", sorted(SOURCES.keys() - {"--names"}))
def test_one_alone_is_read(name: str, tmp_path: Path) -> None:
    ran = run("embed-origins", MLP, tmp_path / "out.circle", name, tmp_path / SOURCES[name])
    assert ran.status in (2, 3)  # whether or not what reads it is installed
    assert ran.status == 3 or "needs" in ran.err


def test_extracted_origins_that_are_stale_are_a_finding(tmp_path: Path) -> None:
    stale = rebuilt(embedded(MLP.read_bytes()), lambda model: model.subgraphs[0].operators.pop(1))
    ran = run("dump-origins", put(tmp_path / "a.circle", stale), "--tables", tmp_path / "tables")
    assert ran.status == 1
    assert "the origins are stale" in ran.err


@pytest.mark.parametrize("words", ["signature --remove serving_default", "expose --every CONV_2D",
    "metadata describe --name x"])  # fmt: skip
def test_something_is_to_be_changed(words: str, tmp_path: Path) -> None:
    model, (*command, option, value) = TFLITE / "cnn.tflite", words.split()
    ran = run(*command, model, tmp_path / "out.tflite")
    assert (ran.status, "nothing to" in ran.err, (tmp_path / "out.tflite").exists()) == (2, True, False)
    assert run(*command, model, tmp_path / "out.tflite", option, value).status == 0
    ran = run("signature", model, tmp_path / "other.tflite", "--remove", "serving_default", "--input", "a=b")
    assert (ran.status, "require --add" in ran.err) == (2, True)


@pytest.mark.parametrize("words", ["", "x7", "-1", "\u0663", "\u00b2", "1234567890", "1.5", "Auto"])
def test_executions_to_skip(words: str) -> None:
    assert [*map(first_executions, ("auto", "0", "123456789"))] == ["auto", 0, 123456789]
    with pytest.raises(ct.UsageError, match="a number or `auto`"):
        first_executions(words)


def test_a_model_and_a_document_do_not_mix() -> None:
    model = TFLITE / "output_twice.tflite"
    assert run("fix-outputs", model, "-").status == 0
    ran = run("fix-outputs", model, "-", "--json")
    assert (ran.status, "would both go" in ran.err) == (2, True)
    assert run("fix-outputs", model, "--json", "--dry-run").status == 0


def test_several_models_are_summed_up(tmp_path: Path) -> None:
    doubled = TFLITE / "output_twice.tflite"
    broken = put(tmp_path / "b.tflite", (TFLITE / "cnn.tflite").read_bytes()[:200])
    ran = run("check", broken, "--statistics")
    assert (ran.status, ran.err.count("\n"), "outside the file" in ran.err) == (3, 1, True)
    assert run("check", doubled, broken).err.endswith("2 models: 1 warning, 1 informational; 1 cannot be read\n")
