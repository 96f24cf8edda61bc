"""The examples in docstrings run."""

from __future__ import annotations

import doctest
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

import circletools as ct
from tests.kit.support import path_of
from tests.laws.source import files, module_of, text_of

NEEDS_MORE = {"circletools.origin.exporters.recording"}  # TICO and PyTorch
WITH_EXAMPLES = [module_of(path) for path in files("circletools") if "    >>> " in text_of(path)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with the models that the examples name; the later ones have origins and devices."""
    monkeypatch.chdir(tmp_path)
    for kind in ("tflite", "circle"):
        with ct.open(path_of(f"{kind}/cnn")) as model, ct.edit(model) as edit:
            for name in ("in", "after", "a", "b"):
                edit.save(f"{name}.{kind}")
            ct.origins.embed(edit)
            ct.affinity.annotate(edit, ct.plan(model, ct.PlanRequest(devices=("npu",), default="npu")))
            for name in ("out", "before", "annotated"):
                edit.save(f"{name}.{kind}")
            ct.compact(model, f"compacted.{kind}")
    return tmp_path


@pytest.mark.parametrize("module", sorted({*WITH_EXAMPLES} - NEEDS_MORE))
@pytest.mark.usefixtures("folder")
def test_the_examples_of_a_module_run(module: str) -> None:
    """They name tensors of, and print what is in, a model other than this one."""
    tests = [one for one in doctest.DocTestFinder().find(import_module(module)) if one.examples]
    assert tests
    for one in tests:
        names = {**vars(import_module(module)), "ct": ct}
        for example in one.examples:
            with suppress(ct.UsageError):  # of tensors that this model does not have
                exec(compile(example.source, one.name, "single"), names)  # noqa: S102 - the examples are ours
