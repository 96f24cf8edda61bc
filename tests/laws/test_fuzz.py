"""The fuzz targets on inputs that are always the same: their corpus, their seeds, and mutations of both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from circletool_cli.table import COMMANDS
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.flatbuf.verify import walk
from circletools.model.model import open_model
from fuzz.limits import limited
from fuzz.mutate import mutate_model
from fuzz.run import CORPUS
from fuzz.target import Target
from fuzz.targets import TARGETS
from tests.kit.support import ROOT, own_models

_EDITS = {"embed-origins", "annotate-affinity", "fix-outputs", "metadata", "compact"}
_SECONDS = 20.0
_LONGEST = 8192  # of an input that is mutated: the mutations of small ones are tried more often


def corpus() -> list[tuple[str, Path]]:
    return [(name, path) for name in TARGETS for path in sorted((CORPUS / name).glob("*"))]


def test_the_corpus_is_small_and_of_targets() -> None:
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} <= TARGETS.keys()
    assert sum(path.stat().st_size for _, path in corpus()) < 300_000


def test_every_command_has_a_target() -> None:
    named = {command for target in TARGETS.values() for command in target.commands.split()}
    assert named == {word for row in COMMANDS for word in row.name.split()}


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus(name: str) -> None:
    for path in sorted((CORPUS / name).glob("*")):
        with limited(_SECONDS):
            TARGETS[name].outcome(path.read_bytes())


@pytest.mark.parametrize("target", TARGETS.values(), ids=list(TARGETS))
def test_mutations(target: Target) -> None:
    inputs = [data for data in target.seeds() if len(data) < _LONGEST]
    kept = [path.read_bytes() for path in sorted((CORPUS / target.name).glob("*"))]

    @settings(max_examples=8)
    @given(st.integers(0, 2**32 - 1))
    def run(seed: int) -> None:
        random = Random(seed)
        data = random.choice(inputs + kept)
        for _ in range(random.choice((1, 1, 2, 5))):
            data = target.mutate(data, random, random.choice(inputs))
        with limited(_SECONDS):
            target.outcome(data)

    run()


def test_the_mutator_makes_models_that_are_taken() -> None:
    """Else the edits would never see one."""
    random, taken = Random(7), 0
    models = [path.read_bytes() for path in own_models() if path.stat().st_size < _LONGEST]
    for _ in range(60):
        data = mutate_model(random.choice(models), random, random.choice(models))
        try:
            with open_model(data) as model:
                walk(model.wire, model.schema)
                taken += 1
        except Exception:  # noqa: S112 - only what is taken counts
            continue
    assert taken > 10


def test_time_is_limited() -> None:
    # In a process of its own: threads that other tests left behind take of the time, and of the signals, too.
    program = """
from fuzz.limits import TooSlow, limited
try:
    with limited(0.05):
        while True:
            pass
except TooSlow as stopped:
    print(stopped)
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    assert done.stdout == "more than 0.05 s\n"


@pytest.mark.parametrize("name", sorted(_EDITS))
def test_an_edit_target_notices_a_change_that_the_edit_does_not_own(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from circletools.edit.edit import ModelEdit  # noqa: PLC0415
    from circletools.storage.files import Part  # noqa: PLC0415
    from fuzz import models  # noqa: PLC0415

    data = own_models()[0].read_bytes()
    good = ModelEdit.to_bytes

    def spoiled(edit: ModelEdit) -> bytes:
        after = bytearray(good(edit))
        with open_model(bytes(after)) as model:
            at = int(model.operator_columns.outputs.start[0])
        after[at] ^= 1
        return bytes(after)

    def shortened(model: object) -> list[Part]:
        return [data[:-40]]

    if name == "compact":
        monkeypatch.setattr(models, "compact_parts", shortened)
    else:
        monkeypatch.setattr(ModelEdit, "to_bytes", spoiled)
    with pytest.raises(AssertionError):
        TARGETS[name].outcome(data)
