"""Where each rule of the room begins and ends: how many are listed, what is the default, the first and the last."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

import circletools as ct
from circletools.graph.build import model_graph
from circletools.parts.cut import Cutter
from circletools.parts.names import TensorNames, listed, quoted
from tests.kit.build import Build, Table, floats
from tests.kit.program import put
from tests.kit.split_support import state_of
from tests.kit.support import bytes_of
from tests.kit.surgery_support import codes, edited, extracted, pruned, shape, signatures, wired

# --- how many are listed --------------------------------------------------------------------------------------


def test_eight_names_are_listed_and_the_others_counted() -> None:
    names = [f"t{index}" for index in range(10)]
    eight = "'t0', 't1', 't2', 't3', 't4', 't5', 't6', 't7'"
    assert listed(names[:8]) == eight
    assert listed(names[:9]) == f"{eight} and 1 more"
    assert listed(names) == f"{eight} and 2 more"
    assert listed([]) == "none"


def test_two_hundred_characters_of_a_name_are_shown() -> None:
    assert quoted("n" * 200) == repr("n" * 200)
    assert "n" * 200 not in quoted("n" * 201)


def test_two_tensors_of_one_name_are_refused_and_eight_shown() -> None:
    for count, shown in ((2, 2), (8, 8), (9, 8)):
        build = Build()
        graph = build.graph()
        for _ in range(count):
            graph.tensor("same")
        with ct.open(build.to_bytes()) as model, pytest.raises(ct.UsageError) as caught:
            TensorNames(model_graph(model).graphs[0]).find("same")
        assert str(caught.value).startswith(f"subgraphs[0]: {count} tensors are called 'same'")
        assert caught.value.hint == "name one by " + ", ".join(f"0/index:{index}" for index in range(shown))


def test_tensors_are_called_by_names_that_stand_once() -> None:
    build = Build()
    graph = build.graph()
    for name in ("once", "twice", "twice", ""):
        graph.tensor(name)
    with ct.open(build.to_bytes()) as model:
        shown = [TensorNames(model_graph(model).graphs[0]).shown(tensor) for tensor in range(4)]
    assert shown == ["'once'", "index:1", "index:2", "index:3"]


def test_twenty_operators_that_share_a_state_are_named() -> None:
    for users in (20, 21):
        build = Build()
        graph = build.graph()
        x, handle = graph.tensor("x"), graph.tensor("handle", (1,), "RESOURCE")
        graph.operator("VAR_HANDLE", [], [handle], shared_name="v")
        for number in range(users):
            graph.operator("ASSIGN_VARIABLE", [handle, x], [])
            graph.operator("NEG", [x], [graph.tensor(f"y{number}")])
        graph.ends([x], [graph.tensor("last")])
        with ct.open(build.to_bytes()) as model, pytest.raises(ct.EditError) as caught:
            Cutter(model_graph(model).graphs[0], state_of(model)).of([1, 2])
        last = 2 * min(users, 20) - 1
        odd = ",".join(map(str, range(1, last + 1, 2)))
        assert caught.value.hint == f"take all of operators {odd}{', …' if users > 20 else ''}, or none of them"


def test_twenty_inputs_without_a_name_are_told() -> None:
    for count in (20, 21):
        build = Build()
        graph = build.graph()
        first, *others = [graph.tensor(f"x{index}") for index in range(count + 1)]
        graph.ends([first, *others], [graph.compute("NEG", [first], "y")])
        request = ct.surgery.SignatureRequest("run", inputs=("x=x0",))
        _, result = edited(build.to_bytes(), lambda edit, request=request: ct.surgery.sign(edit, request))  # type: ignore[misc]
        assert codes(result) == ["INPUT_WITHOUT_NAME"] * 20
        assert result.notes[0].message == "signature 'run' has no name for input 'x1'"


def test_a_hint_shows_a_hundred_characters_of_a_key() -> None:
    for length in (100, 101):
        key = "k" * length
        first, second = ct.surgery.SignatureRequest(key), ct.surgery.SignatureRequest(key, inputs=("one=x",))
        data, _ = edited(wired().to_bytes(), lambda edit, request=first: ct.surgery.sign(edit, request))  # type: ignore[misc]
        with pytest.raises(ct.EditError) as caught:
            edited(data, lambda edit, request=second: ct.surgery.sign(edit, request))  # type: ignore[misc]
        assert str(caught.value.hint).endswith(f"add `remove={key}`") == (length == 100)


def test_the_longest_pattern() -> None:
    for length in (10_000, 10_001):
        pattern = "*".rjust(length, "x")
        with pytest.raises(ct.UsageError, match="most" if length > 10_000 else "no tensor is called"):
            edited(
                wired().to_bytes(),
                lambda edit, pattern=pattern: ct.surgery.rename(edit, ct.surgery.RenameRequest((f"{pattern}=n",))),  # type: ignore[misc]
            )


@pytest.mark.parametrize(
    ("pattern", "new", "name"),
    [
        ("*1*2*3*", "*-*-*-*", "a-b-c-d"), ("*1*2*", "*-*-*", "a-b-c3d"), ("*1b2*3d", "*--*", "a--c"),
        ("a*?b*d", "-**-*", "-1-2c3"),
    ],
)  # fmt: skip
def test_every_star_stands_for_what_it_matched(pattern: str, new: str, name: str) -> None:
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("a1b2c3d")], [graph.tensor("y")])
    after, _ = edited(
        build.to_bytes(), lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest((f"{pattern}={new}",)))
    )
    with ct.open(after) as model:
        assert model.subgraphs[0].tensors[0].name == name


def test_a_pattern_of_many_stars_comes_to_an_end() -> None:
    # Trying again what a star stands for would be more than 5000**11 ways.
    build = Build()
    graph = build.graph()
    graph.ends([graph.tensor("a" * 5000)], [graph.tensor("y")])
    with pytest.raises(ct.UsageError, match="no tensor is called"):
        edited(
            build.to_bytes(), lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest(("*a" * 12 + "*b=n",)))
        )


# --- what is the default --------------------------------------------------------------------------------------


def test_a_star_is_a_pattern_unless_a_regular_expression_is_asked_for() -> None:
    assert ct.surgery.RenameRequest().regex is False
    _, result = edited(
        wired().to_bytes(), lambda edit: ct.surgery.rename(edit, ct.surgery.RenameRequest(("k*=weights*",)))
    )
    assert [change.split(": ")[1] for change in result.changes] == ["'k' -> 'weights'", "'k2' -> 'weights2'"]


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


def test_the_first_subgraph_is_the_one_that_is_meant() -> None:
    data = bytes_of("tflite/two_signatures")
    assert extracted(data, operators="0") == extracted(data, operators="0", subgraph=0)
    assert (ct.surgery.ExtractRequest().subgraph, ct.surgery.SignatureRequest().subgraph) == (0, 0)
    _, result = edited(data, lambda edit: ct.surgery.reorder(edit, inputs=[0], subgraph=0))
    assert result == edited(data, lambda edit: ct.surgery.reorder(edit, inputs=[0]))[1]
    _, result = edited(data, lambda edit: ct.surgery.expose(edit, every=("*",), subgraph=0))
    assert result == edited(data, lambda edit: ct.surgery.expose(edit, every=("*",)))[1]


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


def test_a_variable_that_the_part_does_not_use_is_not_told() -> None:
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
    assert notes == ["subgraph 1, which is left out, sets variable 'used' too"]


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


def test_the_archive_behind_a_pruned_model_is_where_it_says(tmp_path: Path) -> None:
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
