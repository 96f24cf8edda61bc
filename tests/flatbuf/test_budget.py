"""The budget as a property: files that share are made at random, and nothing takes more than the file justifies."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice
from random import Random

import pytest

from circletools.flatbuf.columns import OBJECT_BYTES, REPEATED_BYTES, REPEATS, SUBGRAPH_BYTES, Budget
from fuzz import seeds
from fuzz.sharing import ROWS, Cost, accepted, cost, excesses
from tests.kit.attacks.shared import SHARED, shared_file
from tests.kit.support import ROOT


def test_what_is_shared_at_random_is_in_proportion() -> None:
    sound = [data for data in seeds.models() if accepted(data)]
    for data, costs in islice(excesses(Random(18), sound, 10), 2):  # noqa: S311 - no secret
        assert not costs, (len(data), costs)


@pytest.mark.parametrize("name", sorted(SHARED)[::2])
def test_files_that_share_are_such_as_the_official_verifier_takes(name: str) -> None:
    assert accepted(shared_file(name))


def test_the_budget_is_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    data = shared_file("code_of_many_operators")
    assert not cost("embed-origins {} OUT", data).excessive(len(data))
    monkeypatch.setattr(Budget, "charge", lambda *_: None)
    monkeypatch.setenv("CIRCLETOOL_LIMITS", "off")
    assert cost("embed-origins {} OUT", data).excessive(len(data))


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("codes_of_operators", "fit {} --on xnnpack"),
        ("results_of_operators", "cost {}"),
        ("results_of_one_operator", "inspect {} --tensors --json"),
        ("handles_of_a_variable", "extract {} OUT --operators 0-3"),
        ("tables_of_four_bytes", "annotate-affinity {} OUT --devices a,b --default b"),
        ("graphs_that_call_each_other", "annotate-affinity {} OUT --devices a,b --set index:0=a --default b"),
    ],
)
def test_relations_of_one_operator_with_all_others(name: str, command: str) -> None:
    data = shared_file(name)
    assert not cost(command, data).excessive(len(data))


BOTH = """
import sys
from fuzz.sharing import main
for sys.argv[5:] in (["--count", "1"], ["--count", "20", "--without-budget"]):
    print(main())
"""


def test_a_row_is_found_without_the_budget_and_not_with_it() -> None:
    """In a process of its own: what a large one has freed would be used again, and not be seen."""
    name = "a tensor with a long name, very often an output"
    command = [sys.executable, "-c", BOTH, "--seed", "2", "--rows", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
    with_it, *ended, without, status = done.stdout.splitlines()
    assert (done.stderr, ended, status) == ("", ["0"], "1")
    assert with_it.startswith(f"{name}: nothing, after ")
    assert without.startswith(tuple(f"{name}: {work}: " for work in ROWS[name].commands))


def test_the_numbers_are_those_that_are_documented() -> None:
    text = " ".join((ROOT / "docs" / "security.md").read_text("utf-8").split())
    assert f"one budget of {REPEATS} times the file plus {REPEATED_BYTES >> 20} MiB" in text
    assert f"reference to a table adds {OBJECT_BYTES} bytes, and one to a subgraph {SUBGRAPH_BYTES >> 10} KiB" in text
    assert f"On the {len(SHARED)} files" in text


def test_what_is_excessive() -> None:
    assert Cost("check", 0, 5.1, 0).excessive(1 << 20)
    assert Cost("check", 99, 0, 0).excessive(1 << 20)
    assert not Cost("check", 0, 5, (200 << 20) + 10_000).excessive(1000)
    assert Cost("check", 0, 0, (200 << 20) + 10_001).excessive(1000)
