"""An entry of the op table without a source: refused by all that read it, as the ONE compiler does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import circletools as ct
from circletools.origin.read import EXACT_TABLE, Origins
from circletools.origin.tables import OP_TABLE, SOURCE_TABLE
from tests.kit.command_support import run
from tests.kit.support import TESTDATA

GOOD = TESTDATA / "circle" / "diamond.circle"
WORDS = "the entry for operator 1 is empty"


def u32s(*numbers: int) -> bytes:
    return np.array(numbers, "<u4").tobytes()


@pytest.fixture(params=["op", "exact"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a model of whose tables one has an entry with count 0."""
    path, table = tmp_path / "empty.circle", u32s(2, 0, 1, 0, 1, 0)
    with ct.open(GOOD) as model, ct.edit(model) as edit:
        edit.set_metadata(SOURCE_TABLE, u32s(1, 0, 2) + b"a\0")
        edit.set_metadata(OP_TABLE, table if request.param == "op" else u32s(1, 0, 1, 0))
        if request.param == "exact":
            edit.set_metadata(EXACT_TABLE, u32s(1, 1, 0, len(table)) + table)
        edit.save(path)
    return path


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("dump-origins IN", 3),
        ("dump-origins IN --tables OUT", 3),
        ("track-origins IN GOOD OUT", 3),
        ("extract IN OUT --operators 0-2", 3),
        ("check IN", 1),
        ("check --structure-only IN", 0),
        ("embed-origins IN OUT", 4),
        ("embed-origins IN OUT --replace", 0),
        ("metadata remove IN OUT --origins", 0),
    ],
)
def test_readers_agree_about_an_empty_entry(empty: Path, tmp_path: Path, command: str, status: int) -> None:
    places = {"IN": empty, "GOOD": GOOD, "OUT": tmp_path / "out.circle"}
    done = run(*(places.get(word, word) for word in command.split()))
    assert done.returncode == status
    assert (WORDS in done.stdout + done.stderr) == (status in {1, 3})


def test_an_operator_without_sources_is_written_without_an_entry() -> None:
    with ct.open(GOOD) as model, ct.edit(model) as edit:
        ct.origins.embed(edit, Origins({0: "a"}, ({0: frozenset({0}), 1: frozenset()},)))
        data = edit.to_bytes()
    with ct.open(data) as model:
        origins = ct.origins.read(model)
        assert origins is not None
        assert origins.operators == ({0: frozenset({0})},)
