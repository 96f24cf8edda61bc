"""What is noted while an exporter runs; the exporters themselves are replaced by small ones of the same shape."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from traceback import FrameSummary, StackSummary
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import circletools as ct
from circletools.origin.exporters.nodes import (
    Root,
    frames_of,
    inner_nodes,
    name_roots,
    root_of,
    root_of_any,
    uncalled_modules,
)
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails, line_of
from tests.kit.build import Build, row
from tests.kit.origin_support import entries
from tests.kit.support import path_of

CIRCLE = path_of("circle/mlp")
LINEAR = "torch.nn.modules.linear.Linear"
TRACE = """  File "/home/u/net.py", line 40, in forward
    x = self.q(x)
  File "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134, in forward
    return F.linear(input, self.weight, self.bias)
"""


class Node:
    """As much of torch.fx.Node as is looked at."""

    def __init__(self, name: str, *inputs: Node, target: str = "aten.add.Tensor", **meta: Any) -> None:
        self.name, self.target, self.op = name, target, "call_function"
        self.all_input_nodes, self.meta = list(inputs), meta
        self.args, self.kwargs = inputs, dict[str, Any]()
        self.graph: Any = None

    def replace_all_uses_with(self, by: Node) -> None:
        by.meta.update(self.meta)


def made_of(*names_and_targets: tuple[str, str]) -> list[Any]:
    """Return the history of a node: of what it was made, what that was made of, and so on."""
    history: list[Any] = []
    for name, target in reversed(names_and_targets):
        history = [SimpleNamespace(name=name, target=target, from_node=history)]
    return history


def node(name: str, path: str, root: str, *inputs: Node, elements: int = 4, target: str = "aten.add.Tensor") -> Node:
    return Node(
        name, *inputs, target=target, from_node=made_of((root, "aten.linear.default")), stack_trace=TRACE,
        nn_module_stack={"a": ("", "net.Lm"), "b": (path, LINEAR)}, val=SimpleNamespace(numel=lambda: elements),
    )  # fmt: skip


def test_the_root_is_what_the_exported_program_calls() -> None:
    history = made_of(
        ("addmm", "aten.addmm.default"), ("linear_3", "aten.linear.default"), ("x", "<function linear>")
    )
    found = root_of(Node("view", from_node=history, stack_trace=TRACE, nn_module_stack={"q": ("0.q@1", LINEAR)}))
    assert found is not None
    assert (found.name, found.details) == (
        "linear_3", SourceDetails("0.q", LINEAR, "/home/u/net.py", 40, "aten.linear.default"),
    )  # fmt: skip
    assert root_of(Node("view")) is None
    itself = root_of_any(Node("view", nn_module_stack={"q": ("0", dict)}))
    assert (itself.name, itself.details) == (
        "view", SourceDetails("0", "builtins.dict", call="aten.add.Tensor"),
    )  # fmt: skip
    other = root_of(Node("a", from_node=made_of(("f", "<function f>"))))
    assert other is not None
    assert (other.name, other.details.call) == ("f", "aten.add.Tensor")
    assert root_of_any(Node("w", target="<function lowered at 0x7f>")).details.call == ""


def test_the_line_is_the_innermost_of_the_author() -> None:
    assert line_of(frames_of(TRACE)) == ("/home/u/net.py", 40, "")
    assert line_of(frames_of("")) == ("", 0, "")


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (("/home/u/a.py", "/home/u/b.py"), ("/home/u/b.py", 2, "")),
        (("/x/site-packages/torch/a.py",), ("", 0, "")),
        (("/home/u/a.py", "/x/site-packages/timm/m.py"), ("/x/site-packages/timm/m.py", 2, "/home/u/a.py:1")),
        (("/x/site-packages/timm/m.py", "/home/u/a.py"), ("/home/u/a.py", 2, "")),
        (("/x/site-packages/timm/m.py", "/usr/lib/python3.11/a.py"), ("/x/site-packages/timm/m.py", 1, "")),
        (("C:\\v\\Lib\\site-packages\\timm\\m.py",), ("C:\\v\\Lib\\site-packages\\timm\\m.py", 1, "")),
        (("<frozen runpy>", "<string>"), ("<string>", 2, "")),
        (("/run/ipykernel_71/902.py", "/x/site-packages/torch/a.py"), ("/run/ipykernel_71/902.py", 1, "")),
    ],
)
def test_pytorch_and_exporters_are_left_out(files: tuple[str, ...], expected: tuple[str, int, str]) -> None:
    assert line_of((file, number) for number, file in enumerate(files, 1)) == expected


def test_names_of_sources() -> None:
    roots = [
        root_of_any(Node(name, nn_module_stack={"m": (path, "net.Lm")}))
        for name, path in zip(
            ("add_7", "add_9", "add_7", "mul", "add_1", "sub_2"), ("a", "a", "a", "a", "a.b", ""), strict=True
        )
    ]
    bare = root_of_any(Node("neg"))
    assert [source.name for source in name_roots([*roots, bare])] == [
        "a::add", "a::add_1", "a::add", "a::mul", "a.b::add", "net.Lm::sub", "?::neg",
    ]  # fmt: skip


def test_the_most_detailed_source_is_used() -> None:
    bare, found = Root("linear", SourceDetails(call="p")), Root("linear", SourceDetails("a", LINEAR, "net.py", 3))
    placed = Root("linear", SourceDetails("b", LINEAR))
    assert [source.name for source in name_roots([bare, placed, found, placed])] == ["a::linear"] * 4
    assert {source.details for source in name_roots([bare, placed, found, bare])} == {found.details}
    other = Root("linear", SourceDetails("c", LINEAR))
    assert [source.name for source in name_roots([placed, other])] == ["b::linear"] * 2  # of equals the first


def program(*nodes: Node, fail: bool = False, **parameters: str) -> Any:
    """Return as much of torch.export.ExportedProgram as is looked at; parameters are `name=path`."""
    signature = SimpleNamespace(inputs_to_parameters=parameters, inputs_to_buffers={})
    return SimpleNamespace(graph=SimpleNamespace(nodes=nodes), graph_signature=signature, fail=fail)


def inside(path: str, name: str, *inputs: Node, target: str = "aten.linear.default", **meta: Any) -> Node:
    return Node(name, *inputs, target=target, nn_module_stack={"m": (path, f"net.{path or 'Lm'}")}, **meta)


def test_parameters_of_modules_that_are_not_called() -> None:
    names = ("x", "w", "b", "own", "other", "deep", "far", "top", "shared")
    x, w, b, own, other, deep, far, top, shared = (Node(name, target=name) for name in names)
    turned = inside("attn", "turned", w, target="aten.t.default")
    nodes = [
        inside("attn", "linear", x, w, b),
        inside("attn", "laid_out", x, turned),
        inside("attn", "in_proj", x, own),
        inside("attn", "both", w, other),
        inside("attn", "another", x, far),
        inside("mid", "below", x, deep),
        inside("mid", "tied", x, w),
        inside("embedding", "called", x, shared),
        inside("", "reused", x, shared),
        inside("", "whole", x, far),
        inside("", "table", x, top),
        inside("attn", "neither", x),
        inside("attn", "addmm", b, from_node=made_of(("before", "aten.linear.default"), ("f", "<function f>"))),
        inside("attn", "mm", inside("attn", "sum", w, x, target="aten.t.default")),
    ]
    uncalled = uncalled_modules(
        program(
            *nodes, w="attn.out.weight", b="attn.out.bias", own="attn.in_weight", other="attn.k.weight",
            deep="mid.inner.weight", far="attn2.weight", top="scale", shared="embedding.weight",
        )
    )  # fmt: skip
    out = "attn.out"
    assert uncalled == {"linear": out, "laid_out": out, "below": "mid.inner", "whole": "attn2", "before": out}
    assert root_of_any(nodes[0], uncalled).details[:2] == (out, "")
    assert root_of_any(nodes[2], uncalled).details[:2] == ("attn", "net.attn")


def test_calls_in_a_graph_of_their_own() -> None:
    """The innermost generated line names the call; the metadata of its copy is that of the block's call."""
    inner = inside("rotary", "mul_2", stack_trace=TRACE)
    graphs = SimpleNamespace(submod_1=SimpleNamespace(graph=SimpleNamespace(nodes=[inner])))
    graph = Node("submod_3", target="submod_1")
    graph.op = "get_attr"
    block = Node("block", graph, Node("x"), target="wrap_with_autocast")
    owner, block.graph = program(block), graphs
    owner.graph_module = graphs
    calls = inner_nodes(owner)
    line = '  File "<eval_with_key>.3{}", line 7, in forward\n    {} = torch.ops.aten.mul.Tensor(to, 2);  to = None\n'
    history = made_of(("b", "aten.mul.Tensor"), ("block", "wrap_with_autocast"))
    history[0].from_node[0].graph_id = id(graphs)
    stack = line.format(8, "outer") + line.format(9, "mul_2") + TRACE.replace("40", "1")
    found = root_of_any(inside("", "mul_9", from_node=history, stack_trace=stack), calls)
    assert (found.name, found.details.line, found.details.path) == ("block/mul_2", 40, "rotary")
    assert [source.name for source in name_roots([found])] == ["rotary::mul"]
    other = inside("", "mul_9", from_node=history, stack_trace=line.format(9, "gone"))
    assert root_of_any(other, calls).name == "b"


def module(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    made.__dict__.update(content)
    monkeypatch.setitem(sys.modules, name, made)
    return made


@pytest.fixture
def nothing_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tico", "litert_torch"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def chain(*names: str) -> bytes:
    """Return a model that hands a value from one operator to the next."""
    return row(*(("TANH", name) for name in names)).to_bytes()


def install_tico(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a converter like TICO's: nodes are replaced, tensors named, the file optimised."""
    module(monkeypatch, "tico")
    module(monkeypatch, "torch.fx", Node=Node)
    module(monkeypatch, "torch._dynamo.output_graph", uninteresting_files=lambda: {"<string>", "own.py"})

    def finalise_tensor_names(graph: Any) -> None:
        for tensor in graph.tensors:
            tensor.name = f"{LINEAR}::{tensor.name}"

    serializer = module(monkeypatch, "tico.serialize.circle_serializer", finalise_tensor_names=finalise_tensor_names)
    export = module(monkeypatch, "tico.circle.export", optimize_for_export=lambda binary: binary)

    def convert(program: Any) -> bytes:
        x, old = node("x", "", "x"), node("linear", "layers.0.q", "linear")
        inner = Node("mul_tensor", x)
        new = Node("add_tensor", inner)
        old.replace_all_uses_with(new)
        if program.fail:
            raise ValueError("as TICO would")
        tensors = [SimpleNamespace(name=name) for name in ("mul_tensor", "add_tensor", "const")]
        graph = SimpleNamespace(tensors=tensors, name_to_node={"mul_tensor": inner, "add_tensor": new})
        serializer.finalise_tensor_names(graph)
        return bytes(export.optimize_for_export(chain(*(tensor.name for tensor in tensors))))

    module(monkeypatch, "tico.utils.convert", convert_exported_module_to_circle=convert)


def test_what_tico_converts(monkeypatch: pytest.MonkeyPatch, nothing_imported: None, tmp_path: Path) -> None:
    install_tico(monkeypatch)
    before = Node.replace_all_uses_with
    utils = sys.modules["tico.utils.convert"]
    with ct.exporters.record() as log:
        binary = bytes(utils.convert_exported_module_to_circle(program()))
    assert Node.replace_all_uses_with is before
    assert [one.model for one in log.conversions] == [binary]
    assert log.origins.sources == {0: "layers.0.q::linear"}
    assert log.origins.operators == entries({0: {0}, 1: {0}})
    assert log.origins.details == {0: SourceDetails("layers.0.q", LINEAR, "net.py", 40, "aten.linear.default")}
    log.write(tmp_path / "origins.json")
    text = (tmp_path / "origins.json").read_text(encoding="utf-8")
    assert ct.origins.parse(text, "origins.json") == log.origins
    assert json.loads(text)["schema_version"] == 1
    weight = Node("p_w", target="p_w")
    attended = program(inside("layers.0.q", "linear", weight), p_w="layers.0.q.inner.weight")
    with ct.exporters.record() as inner:
        utils.convert_exported_module_to_circle(attended)
    assert inner.origins.sources == {0: "layers.0.q.inner::linear"}
    with ct.exporters.record() as failed, pytest.raises(ValueError, match="as TICO would"):
        utils.convert_exported_module_to_circle(program(fail=True))
    with pytest.raises(ct.UsageError, match="nothing was converted while recording"):
        _ = failed.origins


PATCHED = [
    ("tico.utils.convert", "convert_exported_module_to_circle"),
    ("tico.serialize.circle_serializer", "finalise_tensor_names"),
    ("tico.circle.export", "optimize_for_export"),
]


def recorded_with_one_warning(program: Any, restored: tuple[Any, str, Any] | None, convert: Any) -> str:
    """Record a conversion that must not fail, and return the warning; the record is empty."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with ct.exporters.record() as log:
            if restored is not None:
                setattr(*restored)  # what is called has another name now
            module = sys.modules["tico.utils.convert"]
            found = getattr(module, "convert_exported_module_to_circle", convert)(program)
    assert bytes(found) == chain(*(f"{LINEAR}::{name}" for name in ("mul_tensor", "add_tensor", "const")))
    assert log.origins == Origins({}, ())
    (warning,) = caught
    return str(warning.message)


@pytest.mark.parametrize(("where", "name"), PATCHED)
def test_a_version_without_what_is_recorded_still_converts(
    where: str, name: str, monkeypatch: pytest.MonkeyPatch, nothing_imported: None
) -> None:
    install_tico(monkeypatch)
    moved = getattr(home := sys.modules[where], name)
    monkeypatch.delattr(home, name)
    convert = moved if where == "tico.utils.convert" else None
    assert name in recorded_with_one_warning(program(), None if convert else (home, name, moved), convert)


def test_a_failure_of_recording_costs_nothing(monkeypatch: pytest.MonkeyPatch, nothing_imported: None) -> None:
    install_tico(monkeypatch)
    assert "AttributeError" in recorded_with_one_warning(SimpleNamespace(fail=False), None, None)


def test_stacks_keep_helper_functions(monkeypatch: pytest.MonkeyPatch, nothing_imported: None) -> None:
    class TracerBase:
        def _filter_traceback_frames(self, frames: list[FrameSummary]) -> StackSummary:
            return StackSummary.from_list([frame for frame in frames if frame.name == "forward"])

    install_tico(monkeypatch)
    module(monkeypatch, "torch.fx.proxy", TracerBase=TracerBase)
    calls = [("main.py", 1, "<module>"), ("<string>", 8, "forward"), ("net.py", 3, "rotate")]
    frames = StackSummary.from_list([FrameSummary(*call) for call in calls])
    with ct.exporters.record():
        assert TracerBase()._filter_traceback_frames(frames) == frames[1:]
        assert sys.modules["torch._dynamo.output_graph"].uninteresting_files() == {"own.py"}
    assert len(TracerBase()._filter_traceback_frames(frames)) == 1
    monkeypatch.delattr(TracerBase, "_filter_traceback_frames")
    monkeypatch.delitem(sys.modules, "tico.circle.export")  # came with TICO 0.2
    expected = "^lines of helper functions are not recorded from tico .* with torch"
    with pytest.warns(UserWarning, match=expected) as seen, ct.exporters.record() as log:
        sys.modules["tico.utils.convert"].convert_exported_module_to_circle(program())
    assert (len(seen), log.origins.sources) == (1, {0: "layers.0.q::linear"})


def constant(name: str) -> Node:
    """Return a node for an input, a parameter or a constant of a program."""
    made = Node(name, target=name)
    made.op = "placeholder"
    return made


def test_an_operator_has_what_computed_its_constants_of_weights(
    monkeypatch: pytest.MonkeyPatch, nothing_imported: None
) -> None:
    """Not what was computed of numbers alone, nor layouts, nor what only passed an input on."""
    install_tico(monkeypatch)
    serializer = sys.modules["tico.serialize.circle_serializer"]
    monkeypatch.setattr(serializer, "finalise_tensor_names", lambda graph: None)

    def convert(_: Any) -> bytes:
        x, weight, table = map(constant, ("x", "p_w", "b_table"))
        early, last, number, shift = map(constant, ("early", "last", "number", "shift"))
        zeros = node("zeros", "", "zeros", target="aten.zeros.default")
        turned = node("t", "gate.turn", "t", weight, target="aten.t.default")
        exp = node("exp", "gate", "exp", turned)
        node("mul", "gate.inner", "mul", exp, zeros, exp).replace_all_uses_with(early)
        node("sin", "late", "sin", early).replace_all_uses_with(last)
        node("tan", "rotary", "tan", table).replace_all_uses_with(shift)
        node("cos", "plain", "cos", zeros).replace_all_uses_with(number)
        node("drop", "drop", "drop", x, weight).replace_all_uses_with(x)
        graph = (build := Build()).graph()
        value = graph.tensor("x", [4])
        nodes = {"x": x, "last": last, "number": number, "shift": shift}
        for code, held in (("ADD", "last"), ("SUB", "number"), ("MUL", "shift")):
            value = graph.compute(code, [value, graph.tensor(held, [4], data=bytes(16))], code)
            nodes[code] = node(code, "layers.0", code, x, nodes[held])
        tensors = [SimpleNamespace(name=name) for name in nodes]
        serializer.finalise_tensor_names(SimpleNamespace(tensors=tensors, name_to_node=nodes))
        return build.to_bytes()

    utils = module(monkeypatch, "tico.utils.convert", convert_exported_module_to_circle=convert)
    attended = program(inside("gate", "exp", Node("p_w")), p_w="gate.weight")
    attended.graph_signature.inputs_to_buffers = {"b_table": "rotary.table"}
    with ct.exporters.record() as log:
        utils.convert_exported_module_to_circle(attended)
    assert [{log.origins.sources[one] for one in log.origins.of(0, row)} for row in range(3)] == [
        {"layers.0::ADD", "gate::exp", "gate.inner::mul", "late::sin"}, {"layers.0::SUB"},
        {"layers.0::MUL", "rotary::tan"},
    ]  # fmt: skip


def test_nothing_to_record(nothing_imported: None) -> None:
    with pytest.raises(ct.UsageError, match="no exporter to record"), ct.exporters.record():
        pass


def test_a_saved_program_is_converted_once_more(monkeypatch: pytest.MonkeyPatch, nothing_imported: None) -> None:
    install_tico(monkeypatch)
    programs: list[str] = []

    def load(path: str) -> Any:
        programs.append(path)
        return program(fail=path == "bad.pt2")

    module(monkeypatch, "torch", export=SimpleNamespace(load=load))

    def convert(program: Any) -> bytes:
        return bytes(sys.modules["tico.utils.convert"].convert_exported_module_to_circle(program))

    module(monkeypatch, "tico", convert_from_exported_program=convert)
    with ct.open(CIRCLE) as model:
        found = ct.exporters.from_exported_program(model, Path("m.pt2"))
        assert set(found.sources.values()) == {"layers.0.q::linear"}
        with pytest.raises(ct.InvalidInputError, match=r"bad\.pt2: tico cannot convert it: as TICO would"):
            ct.exporters.from_exported_program(model, "bad.pt2")
        assert programs == ["m.pt2", "bad.pt2"]
        monkeypatch.setitem(sys.modules, "torch", None)
        with pytest.raises(ct.UsageError, match="an exported program needs torch"):
            ct.exporters.from_exported_program(model, "m.pt2")
