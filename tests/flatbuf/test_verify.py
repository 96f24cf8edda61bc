"""The structure of a file: the verdict is that of the official verifier, and a refusal gives the place."""

from __future__ import annotations

import gzip
import json
import os
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from circletools.model.model import open_model
from tests.kit.public import SHARED
from tests.kit.soundness import is_sound, refusal, verify
from tests.kit.support import bytes_of, field_at, locate, put, put_u32, target, within


def test_every_test_model_is_accepted(own_model: Path) -> None:
    assert verify(own_model.read_bytes()) == []


@pytest.mark.parametrize("name", ["circle/mlp", "tflite/cnn"])
def test_what_is_reached_ends_inside_the_file(name: str) -> None:
    data = bytes_of(name)
    with open_model(data + bytes(100)) as model:
        assert len(data) - 16 < model.reachable.end <= len(data)


@cache
def verdicts() -> dict[str, list[dict[str, Any]]]:
    """Return the verdicts of the official C++ verifier by model; none where the public folder is missing."""
    path, grouped = SHARED / "verifier" / "verdicts.jsonl.gz", defaultdict(list)
    if path.exists():
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                verdict = json.loads(line)
                grouped[verdict["model"]].append(verdict)
    return dict(grouped)


@pytest.mark.parametrize("name", sorted(verdicts()) or [None])
def test_the_verdict_is_that_of_the_official_verifier(name: str | None, shared: Path) -> None:
    """Every third is looked at; HYPOTHESIS_PROFILE=explore looks at all."""
    assert name is not None
    original, different = (shared / "models" / name).read_bytes(), []
    for verdict in verdicts()[name][:: 1 if os.environ.get("HYPOTHESIS_PROFILE") == "explore" else 3]:
        data = original
        for offset, new in verdict["set"]:
            data = put(data, offset, bytes.fromhex(new))
        with within(2):
            found = "ok" if is_sound(data[: verdict["cut"]]) else "fail"
        if found != verdict["verdict"]:
            different.append(verdict)
    assert different == []


def test_all_verdicts_are_there(shared: Path) -> None:
    assert sum(map(len, verdicts().values())) == 24_000
    assert len({verdict["verdict"] for found in verdicts().values() for verdict in found}) == 2


MODEL = "tflite/if_cond"
OPERATOR = "subgraphs[0].operators[0]"


def base() -> bytes:
    return bytes_of(MODEL)


@pytest.mark.parametrize(("slot", "field"), [(1, "inputs"), (2, "outputs"), (4, "builtin_options")])
def test_a_reference_out_of_the_file_is_reported_with_path_and_offset(slot: int, field: str) -> None:
    data = base()
    at = field_at(data, locate(data, "subgraphs", 0, "operators", 0), slot)
    error = refusal(put_u32(data, at, len(data)))
    assert (error.location, error.offset) == (f"{OPERATOR}.{field}", at)
    assert error.message == f"a reference points outside the file at byte {at}"
    assert error.hint == f"the file may be truncated: {len(data):,} of at least {at + len(data) + 1:,} bytes"


@pytest.mark.parametrize("model", ["tflite/if_cond", "circle/diamond", "tflite/cnn_int8"])
def test_a_file_that_was_cut_asks_whether_it_is_truncated(model: str) -> None:
    data = bytes_of(model)
    for size in range(8, len(data) // 2, 97):
        hint = str(refusal(data[:size]).hint)
        needed = int(hint.split()[-2].replace(",", ""))
        assert hint.startswith("the file may be truncated")
        assert size < needed <= len(data)


def test_a_path_leads_through_a_union() -> None:
    data = base()
    options = target(data, field_at(data, locate(data, "subgraphs", 0, "operators", 0), 4))
    error = refusal(put_u32(data, options, 0x7FFF0000))
    assert error.location == f"{OPERATOR}.builtin_options"
