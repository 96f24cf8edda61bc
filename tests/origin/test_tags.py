"""Tags: names that say which operator makes a tensor, through tools that keep names."""

from __future__ import annotations

from pathlib import Path

import pytest

import circletools as ct
from circletools.origin.embed import only_tags
from circletools.origin.tracking.ends import Evidence
from tests.kit.build import Build
from tests.kit.program import run
from tests.kit.tracking_support import chain, tracked


def names(data: bytes) -> list[bytes]:
    with ct.open(data) as model:
        return [bytes(name) for name in model.tensor_columns.names]


def tag(data: bytes) -> tuple[bytes, tuple[str, ...]]:
    with ct.open(data) as model, ct.edit(model) as edit:
        result = ct.origins.tag(edit)
        return edit.to_bytes(), result.changes


def untag(data: bytes, before: bytes) -> tuple[bytes, tuple[str, ...]]:
    with ct.open(data) as model, ct.open(before) as old, ct.edit(model) as edit:
        result = ct.origins.untag(edit, old)
        return edit.to_bytes(), result.changes


def two_subgraphs(*extra: str) -> bytes:
    """Return a model with a SPLIT of two outputs, and one more subgraph; `extra` is added to the names there."""
    build = Build()
    main, other = build.graph(), build.graph()
    x, axis = main.tensor("x"), main.tensor("axis", ())
    halves = [main.tensor("a"), main.tensor("b")]
    main.operator("SPLIT", [axis, x], halves, num_splits=2)
    main.ends([x, axis], [main.compute("ADD", halves, "sum")])
    y = other.tensor("y")
    other.ends([y], [other.compute("TANH", [y], "".join(("t", *extra)))])
    return build.to_bytes()


def test_tags_name_subgraph_operator_and_place() -> None:
    data, changes = tag(two_subgraphs())
    assert names(data) == [
        b"x", b"axis", b"circletools:0:0:0", b"circletools:0:0:1", b"circletools:0:1:0", b"y", b"circletools:1:0:0",
    ]  # fmt: skip
    assert changes == ("tensors named after the operators that produce them: 4",)
    assert tag(data)[0] == data
    build = Build()
    build.graph()
    assert tag(build.to_bytes())[1] == ()


def test_names_come_back_with_what_a_tool_added() -> None:
    before = two_subgraphs()
    tagged, _ = tag(before)
    assert names(untag(tagged, before)[0]) == names(before)
    build = Build()
    graph = build.graph()
    for name in (
        "circletools:0:0:1_q",
        "circletools:0:0:0;circletools:1:0:0",
        "circletools:9:0:0",
        "circletools:0:0:12",
    ):
        graph.tensor(name)
    data, changes = untag(build.to_bytes(), before)
    assert names(data) == [b"b_q", b"a;t", b"circletools:9:0:0", b"circletools:0:0:12"]
    assert changes == ("tensors renamed back to their old names: 2",)
    assert untag(before, before)[1] == ()


def test_a_tensor_that_had_no_name_keeps_its_tag() -> None:
    before = chain("TANH", "NEG")
    tagged, _ = tag(before)
    assert untag(tagged, before)[0] == tagged


def test_only_known_tags_are_read() -> None:
    known = frozenset({b"circletools:0:1:0", b"circletools:0:2:0"})
    assert only_tags(b"circletools:0:1:0_dequant", known) == b"circletools:0:1:0"
    assert only_tags(b"p/circletools:0:1:0;circletools:0:2:0", known) == b"circletools:0:1:0;circletools:0:2:0"
    assert only_tags(b"circletools:0:3:0;circletools:0:2:0", known) == b"circletools:0:2:0"
    assert only_tags(b"circletools:0:3:0", known) == b"circletools:0:3:0"
    assert only_tags(b"", known) == b""


@pytest.mark.parametrize("suffix", ["", "_dequant"])
def test_tags_are_believed_against_all_that_speaks_for_others(suffix: str) -> None:
    """The operators stand in another order, and names and places say something else."""
    before = chain("TANH", "NEG", "TANH", "NEG", names=lambda n: f"n{n}")
    order = [2, 3, 0, 1]
    after = chain("TANH", "NEG", "TANH", "NEG", names=lambda n: f"circletools:0:{order[n]}:0{suffix}")
    tracking = tracked(before, after)
    assert [set(tracking.origins.of(0, index)) for index in range(4)] == [{2}, {3}, {0}, {1}]
    grounds = [why for own in tracking.grounds[0].values() for why in own.values()]
    assert {(why.evidence, why.confidence) for why in grounds} == {(Evidence.TAG, 1.0)}


def test_tags_of_another_model_are_names_like_any() -> None:
    before = chain("TANH", "NEG", names=lambda n: f"n{n}")
    after = chain("TANH", "NEG", names=lambda n: f"circletools:7:{n}:0")
    evidence = {why.evidence for own in tracked(before, after).grounds[0].values() for why in own.values()}
    assert evidence == {Evidence.POSITION}


def test_the_command_writes_tags_and_reads_them(tmp_path: Path) -> None:
    before, tagged, out = (tmp_path / f"{name}.tflite" for name in ("before", "tagged", "out"))
    before.write_bytes(two_subgraphs())
    ran = run("track-origins", before, tagged, "--tag")
    assert (ran.status, tagged.read_bytes()) == (0, tag(two_subgraphs())[0])
    ran = run("track-origins", before, tagged, out)
    assert ran.status == 0
    assert ran.out.count(b" tag ") == 3
    assert names(out.read_bytes()) == names(before.read_bytes())
    assert run("check", out).status == 0
    ran = run("track-origins", before, tagged, out, "--tag")
    assert (ran.status, "--tag only copies BEFORE to AFTER" in ran.err) == (2, True)
