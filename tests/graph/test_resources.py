"""Resources of the runtime, and the operators that use them, also through called subgraphs."""

from __future__ import annotations

import pytest

from circletools.flatbuf.columns import Budget
from circletools.graph.build import model_graph
from circletools.graph.resources import Resources
from circletools.model.model import open_model
from tests.kit.build import Build, Graph
from tests.kit.split_support import state_of


def resources(build: Build, name: str, count: int, shared: str = "") -> Graph:
    """Start a subgraph with as many handles: inputs, or named by a letter each."""
    graph = build.graph(name)
    handles = [graph.tensor(f"h{number}", (), "RESOURCE") for number in range(count)]
    for handle, letter in zip(handles, shared, strict=False):
        graph.operator("VAR_HANDLE", [], [handle], shared_name=letter)
    graph.ends([] if shared else handles, [])
    return graph


def users(build: Build, subgraph: int = 0) -> dict[str, list[int]]:
    """Return the operators that use what is written."""
    with open_model(build.to_bytes()) as model:
        return dict(state_of(model, subgraph).users)


def write(graph: Graph, handle: int) -> None:
    """Add an operator that sets a variable."""
    graph.operator("ASSIGN_VARIABLE", [handle, graph.tensor("value")], [])


def test_an_operator_uses_of_its_arguments_what_the_called_use() -> None:
    build = Build()
    graph = resources(build, "main", 3, "abc")
    graph.operator("IF", [graph.tensor("is", (), "BOOL"), 0, 1], [], then_subgraph_index=1, else_subgraph_index=2)
    graph.operator("CALL", [2, 1], [], subgraph=3)
    graph.operator("READ_VARIABLE", [1], [graph.tensor("read")])
    graph.operator("READ_VARIABLE", [2], [graph.tensor("read_too")])
    resources(build, "nothing", 2)
    write(resources(build, "second", 2), 1)
    write(resources(build, "first", 2), 0)
    assert users(build) == {"variable 'b'": [3, 5], "variable 'c'": [4, 6]}
    with open_model(build.to_bytes()) as model:  # who is handed a variable needs its name, used or not
        assert dict(state_of(model).copied) == {0: [3], 1: [3, 4, 5], 2: [4, 6]}


def test_arguments_are_followed_through_several_calls() -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    graph.operator("CALL", [0, 1], [], subgraph=1)
    graph.operator("CALL", [1, 0], [], subgraph=1)
    middle = resources(build, "middle", 2)
    middle.operator("CALL", [1, 0], [], subgraph=2)
    last = resources(build, "last", 2)
    write(last, 0)
    last.operator("READ_VARIABLE", [0], [last.tensor("read")])
    assert users(build) == {"variable 'a'": [2, 3], "variable 'b'": [2, 3]}  # the same operators get both


def test_each_caller_uses_only_what_it_hands_over() -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    kept = graph.tensor("kept", (1, 4), is_variable=True)
    graph.operator("CALL", [0], [], subgraph=1)
    graph.operator("CALL", [1, kept], [], subgraph=2)
    graph.operator("CALL", [1], [], subgraph=1)
    write(resources(build, "called", 1), 0)
    second = resources(build, "second", 1)
    second.operator("CALL", [0], [], subgraph=1)
    second.ends([0, second.tensor("kept", (1, 4))], [])
    assert users(build) == {"variable 'a'": [2], "variable 'b'": [3, 4], "the variable tensor 'kept'": [3]}


@pytest.mark.parametrize(
    ("order", "expected"), [([0, 1], {"variable 'a'": [2]}), ([1, 0], {"variable 'a'": [2], "variable 'b'": [2]})]
)
def test_a_value_carried_around_a_loop_counts_as_used(order: list[int], expected: dict[str, list[int]]) -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    given = [graph.tensor(f"after{number}", (), "RESOURCE") for number in range(2)]
    graph.operator("WHILE", [0, 1], given, cond_subgraph_index=1, body_subgraph_index=2)
    test = resources(build, "test", 2)
    test.ends([0, 1], [test.tensor("go", (), "BOOL")])
    body = resources(build, "body", 2)
    write(body, 0)
    body.ends([0, 1], order)
    assert users(build) == expected


@pytest.mark.parametrize("number", [0, 1])
def test_a_variable_that_comes_back_stays_with_who_gives_it(number: int) -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    given = [graph.tensor(f"after{number}", (), "RESOURCE") for number in range(2)]
    graph.operator("CALL", [0, 1], given, subgraph=1)
    write(graph, given[number])
    called = resources(build, "called", 2)
    called.ends([0, 1], [1, 0])
    name = "ba"[number]
    assert users(build) == {f"variable {name!r}": [3], f"the resource that tensor {given[number]} names": [2, 3]}


def test_a_loop_of_no_turns_hands_on_what_it_was_given() -> None:
    build = Build()
    graph = resources(build, "main", 1, "a")
    given = graph.tensor("after", (), "RESOURCE")
    graph.operator("WHILE", [0], [given], cond_subgraph_index=1, body_subgraph_index=2)
    write(graph, given)
    resources(build, "test", 1)
    body = build.graph("body")
    inside = [body.tensor(name, (), "RESOURCE") for name in ("h", "other")]
    body.operator("VAR_HANDLE", [], [inside[1]], shared_name="b")
    body.ends(inside[:1], inside[1:])
    assert users(build).keys() == {"variable 'a'", "variable 'b'", f"the resource that tensor {given} names"}


def test_a_called_graph_may_name_what_its_caller_uses() -> None:
    build = Build()
    graph = resources(build, "main", 3)
    graph.operator("CALL", [], [0], subgraph=1)
    write(graph, 0)
    for handle, name in ((1, "b"), (2, "c")):
        graph.operator("VAR_HANDLE", [], [handle], shared_name=name)
    resources(build, "called", 1, "a").ends([], [0])
    assert users(build) == {"variable 'a'": [0, 1], "the resource that tensor 0 names": [0, 1]}
    with open_model(build.to_bytes()) as model:
        found = Resources(model_graph(model))
        assert (found.named(0), found.named(1)) == ({"variable 'b'", "variable 'c'"}, {"variable 'a'"})
        assert (found.named(0, [3]), found.named(0, range(3))) == ({"variable 'c'"}, {"variable 'b'"})


def test_what_is_kept_of_resources_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    def charged(count: int) -> int:
        build, counts = Build(), list[int]()
        graph = resources(build, "main", count, "abcdefghijklmnopqrst")
        graph.operator("CALL", range(count), [], subgraph=1)
        called = resources(build, "called", count)
        called.ends(range(count), range(count))
        for handle in range(count):
            write(called, handle)
        nothing = list[int]().append
        monkeypatch.setattr(Budget, "tally", lambda _, what: counts.append if "resources" in what else nothing)
        with open_model(build.to_bytes()) as model:
            assert len(state_of(model).users) == count
        return sum(counts)

    assert (charged(10), charged(20)) == (32 * 12 * 10, 32 * 12 * 20)  # 12 entries for each


def test_calls_with_too_few_inputs_have_unknown_uses() -> None:
    build = Build()
    graph = resources(build, "main", 2, "ab")
    graph.operator("CALL", [0], [], subgraph=1)
    graph.operator("CALL", [1], [], subgraph=2)
    again = resources(build, "again", 1)
    again.operator("CALL", [0], [], subgraph=1)
    write(resources(build, "two", 2), 1)
    assert users(build) == {"an unknown resource": [3]}  # what only calls itself uses nothing


def test_a_name_may_be_an_integer() -> None:
    build = Build()
    graph = build.graph()
    named, known = graph.tensor("named", (), "INT32"), graph.tensor("known", (), "INT32", data=bytes(4))
    graph.operator("VAR_HANDLE", [], [named], shared_name="a")
    write(graph, named)
    write(graph, known)
    graph.operator("READ_VARIABLE", [known], [graph.tensor("read")])
    graph.ends([], [])
    assert users(build) == {"variable 'a'": [1], "an unknown resource": [2, 3]}


def test_readers_of_a_first_value_need_its_producer() -> None:
    """The second call gives `b` what the first gave `a`: it stays with who reads `b`, and needs the first."""
    build = Build()
    graph, *inits = build.graph(), build.graph("first"), build.graph("second")
    x = graph.tensor("x", (1, 4))
    for number in (1, 2):
        graph.operator("CALL_ONCE", [], [], init_subgraph_index=number)
    handles, values = {}, {}
    for index, owner in enumerate((graph, *inits)):
        for name in "ab" if index != 1 else "a":
            handles[index, name] = owner.tensor(f"handle_{name}", (), "RESOURCE")
            owner.operator("VAR_HANDLE", [], [handles[index, name]], shared_name=name)
    first, second = inits
    first.operator("ASSIGN_VARIABLE", [handles[1, "a"], first.tensor("one", (1, 4), data=bytes(16))], [])
    given = second.tensor("given", (1, 4))
    second.operator("READ_VARIABLE", [handles[2, "a"]], [given])
    second.operator("ASSIGN_VARIABLE", [handles[2, "b"], given], [])
    for name in "ab":
        values[name] = graph.tensor(f"value_{name}", (1, 4))
        graph.operator("READ_VARIABLE", [handles[0, name]], [values[name]])
    ends = [graph.compute("ADD", [x, values[name]], f"sum_{name}", (1, 4)) for name in "ab"]
    graph.ends([x], ends)
    for one in inits:
        one.ends([], [])
    with open_model(build.to_bytes()) as model:
        state = state_of(model)
    assert state.users == {"variable 'b'": [1, 5]}
    assert state.copied == {0: [1, 4], 2: [1, 4], 3: [1, 5]}


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        ({"shared_name": "a"}, {"shared_name": "b"}, None),
        ({"shared_name": "a"}, {"shared_name": "a"}, "variable 'a'"),
        ({"shared_name": "a", "container": "c"}, {"shared_name": "a"}, None),
        (
            {"shared_name": "a", "container": "c"},
            {"shared_name": "a", "container": "c"},
            "variable 'a' of container 'c'",
        ),
        ({}, {"shared_name": "", "container": ""}, "variable ''"),
    ],
)
def test_a_variable_is_known_by_container_and_name(
    first: dict[str, str], second: dict[str, str], words: str | None
) -> None:
    build = Build()
    graph = build.graph()
    x = graph.tensor("x")
    for number, options in enumerate((first, second)):
        handle = graph.tensor(f"h{number}", (), "RESOURCE")
        graph.operator("VAR_HANDLE", [], [handle], **options)
        graph.operator("ASSIGN_VARIABLE", [handle, x], [])
    graph.ends([x], [])
    with open_model(build.to_bytes()) as model:
        state = state_of(model)
    assert state.users.get(words or "") == ([1, 3] if words else None)
    assert len(state.users) == (1 if words else 2)
    assert dict(state.copied) == ({0: [1, 3], 2: [1, 3]} if words else {0: [1], 2: [3]})


def test_variable_tensors_of_one_name_are_several() -> None:
    build = Build()
    graph = build.graph()
    last = x = graph.tensor("x")
    for number, name in enumerate(("same", "same", "", "own")):
        last = graph.compute("ADD", [last, graph.tensor(name, is_variable=True)], f"y{number}")
    graph.ends([x], [last])
    with open_model(build.to_bytes()) as model:
        users = state_of(model).users
    words = ("1", "3", "5", "'own'")
    assert users == {f"the variable tensor {name}": [number] for number, name in enumerate(words)}


def test_a_hash_table_without_options_is_number_zero() -> None:
    build = Build()
    graph = build.graph()
    x, other = graph.tensor("x", (2,), "INT64"), graph.tensor("other", (), "INT64")
    table = graph.tensor("table", (), "RESOURCE")
    graph.operator("HASHTABLE", [], [table], None)
    graph.operator("HASHTABLE_FIND", [table, x, other], [graph.tensor("found", (2,), "INT64")])
    graph.operator("HASHTABLE_IMPORT", [table, x, x], [])
    graph.ends([x, other], [])
    with open_model(build.to_bytes()) as model:
        assert state_of(model).users == {"hash table 0": [1, 2]}


def test_hash_tables_are_known_by_their_number() -> None:
    build = Build()
    graph, first = build.graph(), build.graph("first")
    x, other = graph.tensor("x", (2,), "INT64"), graph.tensor("other", (), "INT64")
    graph.operator("CALL_ONCE", [], [], init_subgraph_index=1)
    for number in (3, 0):
        table = graph.tensor(f"table{number}", (), "RESOURCE")
        graph.operator("HASHTABLE", [], [table], table_id=number or None)
        graph.operator("HASHTABLE_FIND", [table, x, other], [graph.tensor(f"found{number}", (2,), "INT64")])
    graph.operator("HASHTABLE_IMPORT", [table, x, x], [])
    graph.ends([x, other], [])
    table = first.tensor("table", (), "RESOURCE")
    first.operator("HASHTABLE", [], [table], table_id=3)
    first.operator("HASHTABLE_IMPORT", [table, first.tensor("k"), first.tensor("v")], [])
    first.ends([], [])
    with open_model(build.to_bytes()) as model:
        state = state_of(model)
    assert state.users == {"hash table 0": [4, 5]}  # 3 is filled once, and then only read
    assert dict(state.copied) == {0: [2], 1: [2], 3: [4, 5]}
