"""What cuts and pruning drop, keep and report: names, states, tables, archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.parts.names import TensorNames
from tests.kit.build import Build, Table, floats
from tests.kit.program import put
from tests.kit.surgery_support import extracted, pruned, shape, signatures, wired

# --- how many are listed --------------------------------------------------------------------------------------


def test_two_tensors_of_one_name_are_refused_and_eight_shown() -> None:
    for count, shown in ((2, 2), (8, 8), (9, 8)):
        build = Build()
        graph = build.graph()
        for _ in range(count):
            graph.tensor("same")
        with ct.open(build.to_bytes()) as model, pytest.raises(ct.UsageError) as caught:
            TensorNames(model_graph(model).graphs[0]).find("same")
        assert str(caught.value).startswith(f"subgraphs[0]: {count} tensors are called 'same'")
        assert caught.value.hint == "select one by " + ", ".join(f"0/index:{index}" for index in range(shown))


def test_tensors_are_called_by_unique_names() -> None:
    build = Build()
    graph = build.graph()
    for name in ("once", "twice", "twice", ""):
        graph.tensor(name)
    with ct.open(build.to_bytes()) as model:
        shown = [TensorNames(model_graph(model).graphs[0]).shown(tensor) for tensor in range(4)]
    assert shown == ["'once'", "index:1", "index:2", "index:3"]


# --- what is the default --------------------------------------------------------------------------------------


def test_the_file_that_is_read_is_not_written_unless_asked(tmp_path: Path) -> None:
    data = wired().to_bytes()
    path = put(tmp_path / "in.tflite", data)
    with ct.open(path) as model:
        with pytest.raises(ct.UsageError):
            ct.surgery.extract(model, path, ct.surgery.ExtractRequest(to=("h",)))
        with pytest.raises(ct.UsageError):
            ct.surgery.prune(model, path)
    assert path.read_bytes() == data
    with ct.open(path) as model:
        ct.surgery.extract(model, path, ct.surgery.ExtractRequest(to=("h",)), in_place=True)
    assert shape(path.read_bytes())[2] == ["h"]


def test_operators_without_readers_stay_unless_asked(tmp_path: Path) -> None:
    build = wired()
    graph = build.graph("called by a signature")
    graph.compute("ABS", [a := graph.tensor("a")], "nobody reads it")
    graph.ends([a], [graph.compute("NEG", [a], "b")])
    build.signature("b", [("a", a)], [("b", 2)], 1)
    with ct.open(build.to_bytes()) as model:
        ct.surgery.prune(model, tmp_path / "all", outputs=False)
        ct.surgery.prune(model, tmp_path / "default")
        ct.surgery.prune(model, tmp_path / "fewer", outputs=True)
    assert (tmp_path / "default").read_bytes() == (tmp_path / "all").read_bytes()
    assert len(shape((tmp_path / "default").read_bytes(), 1)[0]) == 2
    assert len(shape((tmp_path / "fewer").read_bytes(), 1)[0]) == 1


# --- the first and the last -----------------------------------------------------------------------------------


def test_tensor_0_counts_as_any_other() -> None:
    """It is what an operator makes that nobody needs, and what holds the state that one changes."""
    build = Build()
    graph = build.graph()
    unneeded, x, y = graph.tensor("unneeded"), graph.tensor("x"), graph.tensor("y")
    graph.operator("NEG", [x], [unneeded])
    graph.operator("ABS", [x], [y])
    graph.ends([x], [y])
    assert shape(pruned(build.to_bytes(), outputs=True)[0])[0] == ["ABS x > y"]

    build = Build()
    graph = build.graph()
    handle, x, y = graph.tensor("handle", (1,), "RESOURCE"), graph.tensor("x"), graph.tensor("y")
    graph.operator("VAR_HANDLE", [], [handle], shared_name="v")
    graph.operator("READ_VARIABLE", [handle], [graph.tensor("nobody reads it")])
    graph.operator("ABS", [x], [y])
    graph.ends([x], [y])
    assert len(shape(pruned(build.to_bytes(), outputs=True)[0])[0]) == 3


def test_an_input_that_is_left_out_is_no_use_of_the_last_tensor() -> None:
    """A variable that only one operator touches keeps nothing that another could see."""
    for second in (-1, 0):
        build = Build()
        graph = build.graph()
        x, y, gone = graph.tensor("x"), graph.tensor("y"), graph.tensor("gone")
        state = graph.tensor("state", is_variable=True)
        graph.operator("ADD", [x, state], [gone])
        graph.operator("ABS", [x, -1], [y])
        if second == 0:
            graph.operator("NEG", [state], [graph.tensor("seen")])
        graph.ends([x], [y])
        left = shape(pruned(build.to_bytes(), outputs=True)[0])[0]
        assert ("ADD x,state > gone" in left) == (second == 0)


def test_what_is_called_from_a_later_subgraph_stays() -> None:
    """The main subgraph calls one whose last operator calls what has a state."""
    build = Build()
    main, outer, inner = build.graph("main"), build.graph("outer"), build.graph("inner")
    x, y = main.tensor("x"), main.tensor("y")
    for code in ("ABS", "NEG", "EXP"):
        main.operator(code, [x], [main.tensor(code)])
    main.operator("CALL", [x], [main.tensor("nobody reads it")], subgraph=1)
    main.operator("ABS", [x], [y])
    main.ends([x], [y])
    a = outer.tensor("a")
    outer.operator("NEG", [a], [outer.tensor("idle")])
    outer.operator("CALL", [a], [outer.tensor("nor it")], subgraph=2)
    outer.ends([a], [outer.compute("ABS", [a], "b")])
    c, handle = inner.tensor("c"), inner.tensor("handle", (1,), "RESOURCE")
    inner.operator("VAR_HANDLE", [], [handle], shared_name="v")
    inner.operator("ASSIGN_VARIABLE", [handle, c], [])
    inner.ends([c], [inner.compute("ABS", [c], "d")])
    after, _ = pruned(build.to_bytes(), outputs=True)
    assert [[one.split()[0] for one in shape(after, index)[0]] for index in range(3)] == [
        ["CALL", "ABS"], ["CALL", "ABS"], ["VAR_HANDLE", "ASSIGN_VARIABLE", "ABS"],
    ]  # fmt: skip


def test_names_of_a_new_signature_are_those_of_the_same_side() -> None:
    build = Build()
    graph = build.graph()
    x, other = graph.tensor("x"), graph.tensor("other")
    y = graph.compute("ADD", [x, other], "y")
    z = graph.compute("NEG", [y], "z")
    graph.ends([x, other], [x, y, z])
    build.signature("run", [("as input", x), ("other", other)], [("as output", x), ("made", y), ("z", z)])
    after, _ = extracted(build.to_bytes(), to=("y",))
    assert signatures(after)["run"][0] == [("as input", "x"), ("other", "other")]
    after, _ = extracted(build.to_bytes(), from_=("y",), to=("z",))
    assert signatures(after)["run"] == ([("made", "y")], [("z", "z")])


def test_a_variable_that_the_part_does_not_use_is_not_reported() -> None:
    build = Build()
    main, set_up = build.graph(), build.graph("set up")
    x, y, handle, read = main.tensor("x"), main.tensor("y"), main.tensor("h", (1,), "RESOURCE"), main.tensor("read")
    main.operator("VAR_HANDLE", [], [handle], shared_name="used")
    main.operator("READ_VARIABLE", [handle], [read])
    main.operator("ADD", [x, read], [y])
    main.ends([x], [y])
    for name in ("used", "unused"):
        held, value = set_up.tensor(name, (1,), "RESOURCE"), set_up.constant(f"{name} value", floats(2, 2))
        set_up.operator("VAR_HANDLE", [], [held], shared_name=name)
        set_up.operator("ASSIGN_VARIABLE", [held, value], [])
    _, result = extracted(build.to_bytes(), to=("y",))
    notes = [note.message for note in result.notes if note.code == "STATE_APART"]
    assert notes == ["subgraph 1, which is left out, also sets variable 'used'"]


# --- metadata -------------------------------------------------------------------------------------------------


def test_tables_of_a_model_that_keeps_all_its_operators_stay_as_they_are() -> None:
    """Also those that are stale: nothing that is pruned makes them worse."""
    with ct.open(wired().to_bytes()) as model, ct.edit(model) as edit:
        ct.origins.embed(edit)
        edit.set_metadata("CIRCLETOOLS_stamp", b"not that of this model")
        edit.set_metadata("TFLITE_METADATA", b"of the inputs")
        edit.set_metadata("ONE_execution_plan_table", bytes(4))
        edit.add_tensor(0, "idle", type="FLOAT32", shape=(1,))
        data = edit.to_bytes()
    after, result = pruned(data)
    assert (result.notes, result.changes[0]) == ((), "1 tensor removed")
    with ct.open(data) as old, ct.open(after) as new:
        values = [
            {e.name: bytes(model.metadata_value(e.name) or b"") for e in model.metadata} for model in (old, new)
        ]
    assert values[0] == values[1]


def test_the_archive_after_a_pruned_model_is_readable(tmp_path: Path) -> None:
    build = wired()
    for index in range(50):
        build.model.subgraphs[0].tensors.append(Table("Tensor", name=f"idle {index}", shape=[1]))
    path = put(tmp_path / "in.tflite", build.to_bytes())
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("labels.txt", "cat")
    after, _ = pruned(path.read_bytes())
    end = after.rindex(b"PK\x05\x06")
    size, offset = (int.from_bytes(after[end + at : end + at + 4], "little") for at in (12, 16))
    assert (offset + size, after[offset : offset + 4]) == (end, b"PK\x01\x02")
