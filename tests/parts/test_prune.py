"""What goes because nothing uses it, and what stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import circletools as ct
from tests.kit.build import Build, Code, Table, floats
from tests.kit.callers import CALLERS, calling
from tests.kit.oracles import run_litert, run_onert, same_behavior
from tests.kit.program import compacted, put, run
from tests.kit.support import bytes_of, own_models, unpacked
from tests.kit.surgery_support import codes, pruned, shape, signatures, wired


def wasteful() -> Build:
    """Return a model with something of each kind that nothing uses, between what is used."""
    build = Build()
    build.buffer(b"idle 1")
    build.code("ABS")
    graph = build.graph()
    graph.tensor("idle tensor", data=b"idle 2")
    x, k = graph.tensor("x"), graph.constant("k", floats(2, 2))
    graph.tensor("idle again")
    y = graph.compute("ADD", [x, k], "y")
    z = graph.tensor("z")
    build.code("EXP")
    graph.operator("NEG", [y], [z])
    dead = graph.compute("TANH", [y], "dead")
    graph.compute("TANH", [dead], "deader")
    graph.ends([x], [z])
    other = build.graph("idle graph")
    other.ends([a := other.tensor("a")], [other.compute("LOGISTIC", [a], "b")])
    last = build.graph("of a signature")
    c = last.tensor("c")
    last.ends([c], [d := last.compute("NEG", [c], "d")])
    build.signature("last", [("c", c)], [("d", d)], 2)
    build.metadata("mine", b"value")
    return build


def test_unused_objects_are_dropped() -> None:
    data = wasteful().to_bytes()
    after, result = pruned(data)
    assert result.changes == (
        "1 subgraph removed",
        "1 operator removed",
        "4 tensors removed",
        "2 buffers removed",
        "3 operator codes removed",
        f"{len(data)} -> {len(after)} bytes",
    )
    assert shape(after) == shape(data)
    assert shape(after, 1) == shape(data, 2)
    assert signatures(after) == signatures(data)
    with ct.open(after) as model:
        assert [graph.name for graph in model.subgraphs] == ["main", "of a signature"]
        assert [tensor.name for tensor in model.subgraphs[0].tensors] == ["x", "k", "y", "z", "dead", "deader"]
        assert [code.name for code in model.operator_codes] == ["ADD", "NEG", "TANH"]
        assert [bytes(buffer.data) for buffer in model.buffers] == [b"", floats(2, 2).tobytes(), b"value"]
        assert bytes(model.metadata_value("mine") or b"") == b"value"
    assert compacted(after) == after


def test_operators_that_no_output_needs_go() -> None:
    after, result = pruned(wasteful().to_bytes(), outputs=True)
    assert shape(after) == (["ADD x,k > y", "NEG y > z"], ["x"], ["z"])
    assert result.changes[1] == "3 operators removed"
    with ct.open(after) as model:
        assert [code.name for code in model.operator_codes] == ["ADD", "NEG"]


def test_as_many_stay_as_after_the_clean_up_of_tico() -> None:
    """The model and the numbers are those of TICO's own test of dead code elimination and compaction of indices."""
    build = Build()
    shared, dead = build.buffer(b"shared weight..."), build.buffer(b"dead constant...")
    main = build.graph("primary")
    x, weight = main.tensor("x"), main.tensor("weight", buffer=shared)
    added, constant = main.tensor("added"), main.tensor("dead constant", buffer=dead)
    unread, output = main.tensor("unread"), main.tensor("output")
    main.tensor("orphan")
    main.operator("ADD", [x, weight], [added])
    main.operator("MUL", [added, weight], [output])
    main.operator("ADD", [constant, weight], [unread])
    build.code("SUB")
    main.ends([x], [output])
    other = build.graph("secondary")
    y = other.tensor("y")
    other.operator("MUL", [y, other.tensor("weight too", buffer=shared)], [z := other.tensor("z")])
    other.ends([y], [z])
    build.signature("primary", [("x", x)], [("output", output)])
    build.signature("secondary", [("y", y)], [("z", z)], 1)
    after, _ = pruned(build.to_bytes("circle"), outputs=True)
    with ct.open(after) as model:
        assert [len(graph.operators) for graph in model.subgraphs] == [2, 1]
        assert len(model.subgraphs[0].tensors) == 4
        assert (len(model.buffers), len(model.operator_codes)) == (2, 2)


def test_a_model_without_waste_is_compacted() -> None:
    data = wired().to_bytes()
    after, result = pruned(data, outputs=True)
    assert after == compacted(data)
    assert result == ct.types.RewriteResult((f"{len(data)} -> {len(after)} bytes",))


@pytest.mark.parametrize("caller", CALLERS)
def test_called_subgraphs_stay_and_are_found_again(caller: str) -> None:
    data = calling(caller, idle=2, nested="IF")
    after, result = pruned(data)
    count = CALLERS[caller][0] + 2
    assert result.changes[0] == "2 subgraphs removed"
    with ct.open(after) as model:
        assert len(model.subgraphs) == count + 1
    for index in range(1, count + 1):
        assert shape(after, index) == shape(data, index + 2)


def test_subgraphs_called_by_dead_operators_are_dropped() -> None:
    build = Build()
    main, body = build.graph("main"), [build.graph("then"), build.graph("else")]
    for graph in body:
        graph.ends([a := graph.tensor("a")], [graph.compute("NEG", [a], "b")])
    x, flag, y, z = main.tensor("x"), main.tensor("flag", (), "BOOL"), main.tensor("y"), main.tensor("z")
    main.operator("IF", [flag, x], [y], then_subgraph_index=1, else_subgraph_index=2)
    main.operator("NEG", [x], [z])
    main.ends([flag, x], [z])
    after, _ = pruned(build.to_bytes(), outputs=True)
    with ct.open(after) as model:
        assert (len(model.subgraphs), model.code_names(0)) == (1, ["NEG"])
    after, result = pruned(build.to_bytes())
    with ct.open(after) as model:
        assert len(model.subgraphs) == 3
    assert "removed" not in " ".join(result.changes)


def acting() -> Build:
    """Return a model whose operators do more than compute, by their doing; no output needs them."""
    build = Build()
    main, set_up, body = build.graph("main"), build.graph("set up"), build.graph("body")
    held, value = set_up.tensor("v", (1,), "RESOURCE"), set_up.constant("value", floats(2, 2))
    set_up.operator("VAR_HANDLE", [], [held], shared_name="v")
    set_up.operator("ASSIGN_VARIABLE", [held, value], [])
    a, inner = body.tensor("a"), body.tensor("inner", (1,), "RESOURCE")
    body.operator("VAR_HANDLE", [], [inner], shared_name="v")
    body.operator("ASSIGN_VARIABLE", [inner, a], [])
    body.ends([a], [a])
    x, y, flag = main.tensor("x"), main.tensor("y"), main.tensor("flag", (), "BOOL")
    state = main.tensor("state", is_variable=True)
    alone = main.tensor("alone", is_variable=True)
    main.operator("NEG", [x], [y])
    main.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    main.operator(
        "IF",
        [flag, main.compute("ABS", [x], "for if")],
        [main.tensor("of if")],
        then_subgraph_index=2,
        else_subgraph_index=2,
    )
    main.operator(Code("CUSTOM", 1, "print"), [main.compute("EXP", [x], "for print")], [main.tensor("printed")])
    main.operator("ADD", [x, state], [main.tensor("first user")])
    main.operator("ADD", [x, state], [main.tensor("second user")])
    main.operator("ADD", [x, alone], [main.tensor("only user")])
    main.operator("SQRT", [x], [main.tensor("dead")])
    main.ends([x, flag], [y])
    return build


def test_operators_that_do_more_than_compute_stay() -> None:
    after, result = pruned(acting().to_bytes(), outputs=True)
    assert shape(after)[0] == [
        "NEG x > y", "CALL_ONCE  > ", "ABS x > for if", "IF flag,for if > of if", "EXP x > for print",
        "CUSTOM:print for print > printed", "ADD x,state > first user", "ADD x,state > second user",
    ]  # fmt: skip
    assert result.changes[0] == "2 operators removed"


def test_tensors_that_only_a_signature_names_stay() -> None:
    build = wired()
    named = build.model.subgraphs[0]
    named.tensors.append(Table("Tensor", name="only named", shape=[1], type="FLOAT32", buffer=0))
    build.signature("odd", [("n", len(named.tensors) - 1)], [("g", 11)])
    after, _ = pruned(build.to_bytes())
    assert signatures(after)["odd"] == ([("n", "only named")], [("g", "g")])


@pytest.mark.parametrize("name", ["tflite/cnn_external", "circle/mlp_external", "tflite/zip_tail"])
def test_what_follows_stays(name: str) -> None:
    data = bytes_of(name)
    with ct.open(data) as model, ct.edit(model) as edit:
        edit.add_tensor(0, "idle", type="FLOAT32", shape=(1,), buffer=edit.add_buffer(bytes(range(256))))
        wasted = edit.to_bytes()
    after, result = pruned(wasted)
    assert result.changes[:2] == ("1 tensor removed", "1 buffer removed")
    if name == "tflite/zip_tail":
        assert after == compacted(data)
    with ct.open(after) as small, ct.open(data) as whole:
        assert [bytes(one.data) for one in small.buffers] == [bytes(one.data) for one in whole.buffers]
        assert [one.external for one in small.buffers] == [one.external for one in whole.buffers]
    assert abs(len(after) - len(compacted(data))) < 64


def test_tables_follow_and_descriptions_go() -> None:
    build = wasteful()
    build.signature("idle", [("a", 0)], [("b", 1)], 1)
    whole = build.to_bytes()
    with ct.open(whole) as model, ct.edit(model) as edit:
        ct.origins.embed(edit)
        ct.affinity.annotate(
            edit, ct.plan(model, ct.PlanRequest(devices=("npu", "cpu"), rules=("op:NEG=npu",), default="cpu"))
        )
        for name in ("TFLITE_METADATA", "ONE_execution_plan_table"):
            edit.set_metadata(name, bytes(4))
        data = edit.to_bytes()
    after, result = pruned(data, outputs=True)
    assert codes(result) == ["METADATA_LEFT_OUT"]
    with ct.open(after) as model:
        origins, affinity = ct.origins.read(model), ct.affinity.read(model)
        assert origins is not None
        assert affinity is not None
        assert [[origins.sources[one] for one in origins.of(0, index)] for index in (0, 1)] == [["y"], ["z"]]
        assert affinity.subgraphs[0].devices.tolist() == [1, 0]
        assert ct.origins.check_freshness(model, origins).state == "fresh"
        assert ct.affinity.check_freshness(model, affinity).state == "fresh"
        assert "TFLITE_METADATA" in {entry.name for entry in model.metadata}


def test_the_command(tmp_path: Path) -> None:
    source, out = put(tmp_path / "in.tflite", wasteful().to_bytes()), tmp_path / "out.tflite"
    assert run("compact", source, out, "--outputs").status == 2
    ran = run("compact", source, out, "--prune", "--outputs")
    assert (ran.status, ran.err.splitlines()[0]) == (0, "1 subgraph removed")
    assert out.read_bytes() == pruned(source.read_bytes(), outputs=True)[0]
    assert f"\n{source.stat().st_size} -> " in run("compact", source, out, "--prune", "--strip-names").err
    assert run("compact", out, "--prune", "--in-place").err == "nothing to change\n"
    assert run("compact", source, source, "--prune").status == 2


_NAMES = [path for path in own_models() if path.stat().st_size < 60_000]


@pytest.mark.parametrize("path", _NAMES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_values_stay(path: Path, tmp_path: Path) -> None:
    small = put(tmp_path / f"small{path.suffix}", pruned(path.read_bytes(), outputs=True)[0])
    runner = run_onert if path.suffix == ".circle" else run_litert
    assert same_behavior(runner(path), runner(small)) is None


def unused(data: bytes) -> dict[str, set[int]]:
    """Return what nothing names, as the published object API sees it."""
    model = unpacked(data)
    codes_used, buffers = set[int](), {0}
    left: dict[str, set[int]] = {}
    for index, graph in enumerate(model.subgraphs):
        used = set(_numbers(graph.inputs)) | set(_numbers(graph.outputs))
        for one in graph.operators or ():
            codes_used.add(one.opcodeIndex)
            used.update(*(map(int, _numbers(side)) for side in (one.inputs, one.outputs, one.intermediates)))
        for one in model.signatureDefs or ():
            if one.subgraphIndex == index:
                used.update(entry.tensorIndex for entry in (*(one.inputs or ()), *(one.outputs or ())))
        for tensor in graph.tensors or ():
            details = getattr(tensor.quantization, "details", None)
            used.update(getattr(details, name, -1) for name in ("scales", "zeroPoints"))
            buffers.add(tensor.buffer)
        left[f"tensors of {index}"] = set(range(len(graph.tensors or ()))) - used
    buffers.update(one.buffer for one in model.metadata or ())
    buffers.update(map(int, _numbers(model.metadataBuffer)))
    left["buffers"] = set(range(len(model.buffers or ()))) - buffers
    left["operator codes"] = set(range(len(model.operatorCodes or ()))) - codes_used
    return {what: some for what, some in left.items() if some}


def _numbers(vector: Any) -> list[int]:
    return [] if vector is None else list(vector)


def test_nothing_unused_is_left(own_model: Path) -> None:
    after, _ = pruned(own_model.read_bytes())
    assert unused(after) == {}


def test_what_is_unused_is_seen() -> None:
    assert unused(wasteful().to_bytes()).keys() == {"tensors of 0", "buffers", "operator codes"}
