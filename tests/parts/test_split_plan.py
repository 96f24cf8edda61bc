"""The plan of a split, what it refuses and leaves out, and what counts in digests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from circletools.errors import CircleToolsError, EditError, ModelFormatError, UsageError
from circletools.findings import Finding
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.digests import ModelDigests
from circletools.parts.plan import plan_split
from circletools.parts.split import MANIFEST, Split
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build, Graph, floats
from tests.kit.split_support import by_list, split_to, with_devices


def refused(action: Callable[[], object], error: type[CircleToolsError]) -> tuple[str, str | None, str | None]:
    """Return message, place and hint of an error."""
    with pytest.raises(error) as caught:
        action()
    return caught.value.message, caught.value.location, caught.value.hint


# --- the plan -----------------------------------------------------------------------------------------------


def forked() -> Build:
    """Return x -> a -> b; a, y -> c; both constants and an input are outputs, the result d is read by nobody."""
    build = Build()
    graph = build.graph()
    x, y, unread = (graph.tensor(name) for name in ("x", "y", "unread"))
    k, alone = graph.constant("k", floats(2, 2)), graph.constant("alone", floats(2, 2))
    a = graph.compute("ADD", [x, k], "a")
    graph.compute("NEG", [a], "d")
    b = graph.compute("NEG", [a], "b")
    c = graph.compute("ADD", [y, a], "c")
    graph.ends([y, unread, x], [c, alone, y, k, b, unread])
    return build


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ((0, 0, 0, 0), [((0, 1, 2, 3), (1, 2, 0), (8, 4, 1, 3, 7, 2))]),
        ((0, 1, 0, 0), [((0, 2, 3), (1, 2, 0), (8, 1, 3, 7, 2, 5)), ((1,), (5,), (4,))]),
        ((0, 1, 2, 2), [((0,), (2, 0), (3, 2, 5)), ((1,), (5,), (6,)), ((2, 3), (1, 5), (8, 4, 1, 7))]),
        ((0, 1, 2, 1), [((0,), (2, 0), (3, 2, 5)), ((1, 3), (1, 5), (8, 1)), ((2,), (5,), (4, 7))]),
    ],
)  # fmt: skip
def test_a_plan_lists_inputs_and_outputs_of_every_part(
    devices: Sequence[int], expected: list[tuple[tuple[int, ...], ...]]
) -> None:
    data = annotated(forked().to_bytes(), affinity(["a", "b", "c"], (devices, devices)))
    with open_model(data) as model:
        plan = plan_split(model)
    assert [(part.operators, part.inputs, part.outputs) for part in plan.parts] == expected
    assert (plan.subgraph, plan.inputs, plan.outputs) == (0, (1, 2, 0), (8, 4, 1, 3, 7, 2))
    assert plan.renamed == {}
    assert {tensor: plan.names[tensor] for tensor in (0, 3, 4, 8)} == {0: b"x", 3: b"k", 4: b"alone", 8: b"c"}


def test_what_cannot_be_planned() -> None:
    build = forked()
    second = build.graph("second")
    second.ends([second.tensor("z")], [])
    third = build.graph("third")
    third.compute("NEG", [third.tensor("z")], "r")
    data = build.to_bytes()
    hint = "run annotate-affinity again"
    with open_model(with_devices(data, by_list((0,) * 4))) as model:
        assert refused(lambda: plan_split(model, 3), UsageError)[0] == "subgraph 3 does not exist; the count is 3"
        assert refused(lambda: plan_split(model, 1), EditError) == (
            "there are no operators to split", "subgraphs[1]", None,
        )  # fmt: skip
        assert plan_split(model, 2).parts[0].outputs == (1,)
    only = annotated(data, affinity(["npu"], ([0] * 4, [0] * 4)))
    with open_model(only) as model:
        assert refused(lambda: plan_split(model, 2), EditError) == (
            "the operators have no device", "subgraphs[2]", hint,
        )  # fmt: skip
    with open_model(annotated(data, affinity(["npu"], ([0, 0, None, 0], [0] * 4)))) as model:
        message, place, text = refused(lambda: plan_split(model), EditError)
        assert (place, text) == ("subgraphs[0].operators[2]", hint), message
    with open_model(annotated(data, affinity(["npu"], ([0] * 4, [0, 0, 0, 2])))) as model:
        _, place, text = refused(lambda: plan_split(model), EditError)
        assert (place, text) == ("subgraphs[0]", hint)


# --- state --------------------------------------------------------------------------------------------------


def holding(element: str) -> Build:
    """Return two subgraphs, of which only the second has operators that touch a tensor of this type."""
    build = Build()
    main, inner = build.graph(), build.graph("inner")
    x = main.tensor("x")
    main.ends([x], [main.compute("NEG", [main.compute("NEG", [x], "a")], "b")])
    z, held = inner.tensor("z"), inner.tensor("held", (), element)
    inner.operator("ASSIGN_VARIABLE", [held, z], [])
    inner.compute("NEG", [z], "q")
    inner.operator("READ_VARIABLE", [held], [inner.tensor("r")])
    inner.ends([z], [4 - 1])
    return build


@pytest.mark.parametrize("element", ["RESOURCE", "VARIANT"])
def test_resources_bind_the_operators_of_their_subgraph_only(element: str) -> None:
    data = holding(element).to_bytes()
    with open_model(annotated(data, affinity(["a", "b"], ([0, 1], [0, 1]), ([0, 1, 0], [0, 1, 0])))) as model:
        assert [len(plan_split(model, subgraph).parts) for subgraph in (0, 1)] == [2, 2]
    with open_model(annotated(data, affinity(["a", "b"], ([0, 1], [0, 1]), ([0, 0, 1], [0, 0, 1])))) as model:
        assert refused(lambda: plan_split(model, 1), EditError) == (
            "an unknown resource is used by operator 0 on a and by operator 2 on b, but only one part can contain it",
            "subgraphs[1]",
            "put these operators on one device, as `annotate-affinity --keep-together variables` does",
        )


# --- what is left out ---------------------------------------------------------------------------------------


def chain(shapes: Sequence[Sequence[int]], signature: Sequence[int] | None = None) -> Graph:
    """Return x -> y1 -> y2 ... of these shapes; the first result may have an open one."""
    graph = Build().graph()
    last = first = graph.tensor("x", shapes[0])
    for number, shape in enumerate(shapes[1:], 1):
        made = graph.tensor(f"y{number}", shape, shape_signature=signature if number == 1 else None)
        graph.operator("NEG", [last], [made])
        last = made
    graph.ends([first], [last])
    return graph


@pytest.mark.parametrize(
    ("shape", "signature", "devices", "is_open"),
    [
        ((1, 2), None, (0, 1), False),
        ((1, 2), (-1, 2), (0, 1), True),
        ((-1, 2), None, (0, 1), True),
        ((1, 2), (1, 2), (0, 1), False),
        ((1, 2), (-1, 2), (0, 0), False),
    ],
)
def test_a_package_has_no_open_shape_between_parts(
    shape: Sequence[int], signature: Sequence[int] | None, devices: Sequence[int], is_open: bool, tmp_path: Path
) -> None:
    data = chain([(1, 2), shape, (1, 2)], signature).build.to_bytes("circle")
    done = split_to(with_devices(data, by_list(devices)), tmp_path / "parts", "circle")
    message = f"no {MANIFEST}: the shape of 'y1' is dynamic, which onert does not support between parts"
    assert done.notes == ((Finding("NO_MANIFEST", "info", "", message),) if is_open else ())
    assert (tmp_path / "parts" / MANIFEST).exists() != is_open
    assert check_files(open_split(tmp_path / "parts")) == []


def noted(done: Split) -> list[tuple[str, str, str]]:
    """Return code, place and words of the notes, all of severity info."""
    assert {note.severity for note in done.notes} <= {"info"}
    return [(note.code, note.location, note.message) for note in done.notes]


def test_signatures_and_repeated_inputs_are_noted(tmp_path: Path) -> None:
    build = Build()
    graph, other = build.graph(), build.graph("other")
    x = graph.tensor("x")
    a, b = graph.compute("NEG", [x], "a"), graph.compute("NEG", [x], "b")
    graph.ends([x], [a, b])
    z = other.tensor("z")
    other.ends([z], [other.compute("NEG", [z], "r")])
    build.signature("whole", [("x", x)], [("a", a), ("b", b)])
    build.signature("first", [("in", x)], [("a", a)])
    build.signature("elsewhere", [("z", 0)], [("r", 1)], subgraph=1)
    data = with_devices(build.to_bytes(), lambda subgraph, operator: operator)
    done = split_to(data, tmp_path / "parts", "tflite")
    assert noted(done) == [
        (
            "SIGNATURE_LEFT_OUT", "signatures[0]",
            "signature 'whole' is left out: no part has all its inputs and outputs",
        ),
        (
            "SIGNATURE_LEFT_OUT", "signatures[2]",
            "signature 'elsewhere' is left out: it calls subgraph 1, which `split --subgraph 1` splits",
        ),
        (
            "INPUT_REPEATED", "", "an input that several parts read is listed in the package once for each part",
        ),
    ]  # fmt: skip
    for piece, keys in zip(done.connections.parts, (["first"], []), strict=True):
        with open_model(tmp_path / "parts" / piece.file) as part:
            assert [signature.key for signature in part.signatures] == keys


# --- checking -----------------------------------------------------------------------------------------------


# --- how far digests look -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("calls", "too_deep"), [(63, False), (64, False), (65, True)])
def test_calls_are_followed_64_deep(calls: int, too_deep: bool) -> None:
    build = Build()
    for number in range(calls + 1):
        graph = build.graph(f"g{number}")
        x, y = graph.tensor("x"), graph.tensor("y")
        if number < calls:
            graph.operator("CALL", [x], [y], subgraph=number + 1)
        else:
            graph.operator("NEG", [x], [y])
        graph.ends([x], [y])
    with open_model(build.to_bytes()) as model:
        contents = ModelDigests(model)
        if too_deep:
            assert refused(lambda: contents.computed(0, {}), ModelFormatError) == (
                "calls of subgraphs are nested too deeply", "subgraphs[65]", None,
            )  # fmt: skip
        else:
            assert len(contents.computed(0, contents.inputs(0)).operators) == 1


def test_what_counts_in_a_digest() -> None:
    """The options, version, constants and order of inputs of an operator do; names and indices do not."""

    def digests(**changes: object) -> tuple[bytes, bytes]:
        build = Build()
        graph = build.graph()
        if changes.get("first"):
            graph.tensor("nobody reads it")
        x, y = graph.tensor(str(changes.get("name", "x"))), graph.tensor("y")
        k = graph.constant("k", floats(2, 2, seed=int(str(changes.get("seed", 0)))))
        z = graph.tensor("z", is_variable=bool(changes.get("variable")))
        inputs = [k, x, y] if changes.get("turned") else [x, k, y]
        graph.operator("ADD_N", inputs + [-1] * bool(changes.get("absent")), [z])
        graph.ends([x, y], [z])
        with open_model(build.to_bytes()) as model:
            flow = ModelDigests(model).computed(0, {x: b"x", y: b"y"})
            assert flow.reads == {0: (b"x", b"y")}
            assert flow.tensors[x] == b"x"
            return flow.operators[0], flow.tensors[z]

    plain = digests()
    assert plain[0] != plain[1]
    assert digests(first=True) == digests(name="w") == plain
    for change in ({"seed": 1}, {"variable": True}, {"turned": True}, {"absent": True}):
        assert digests(**change)[0] != plain[0]
