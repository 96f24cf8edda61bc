"""The picture for Graphviz, line by line."""

from __future__ import annotations

from circletools.affinity.exports.pictures import current_affinity, dot_graph
from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, annotated
from tests.kit.build import Build


def drawn(data: bytes) -> list[str]:
    with open_model(data) as model:
        return dot_graph(model_graph(model), current_affinity(model_graph(model))).splitlines()


def test_a_small_picture() -> None:
    build = Build()
    graph = build.graph("main")
    x = graph.tensor("x")
    a = graph.compute("NEG", [x], "a")
    b = graph.compute("EXP", [a], "b")
    c = graph.compute("ADD", [a, b], "c")
    graph.ends([x], [graph.compute("TANH", [c], "d")])
    data = annotated(build.to_bytes(), affinity(["cpu", "npu"], ([0, 0, 1, None], [0, 0, 1, None])))
    assert drawn(data) == [
        "digraph affinity {",
        "  newrank=true;",
        '  node [shape=box, style="filled", fontname="sans-serif"];',
        '  edge [fontname="sans-serif", fontsize=10];',
        "  subgraph cluster_0 {",
        '    label="subgraph 0 main";',
        "    subgraph cluster_0_0 {",
        '      label="partition 0: cpu";',
        '      s0_o0 [label="0 NEG", fillcolor="#9ecae9"];',
        '      s0_o1 [label="1 EXP", fillcolor="#9ecae9"];',
        "    }",
        "    subgraph cluster_0_1 {",
        '      label="partition 1: npu";',
        '      s0_o2 [label="2 ADD", fillcolor="#ffbf79"];',
        "    }",
        '    s0_o3 [label="3 TANH", fillcolor="#ffffff"];',
        "    s0_o0 -> s0_o1;",
        '    s0_o0 -> s0_o2 [label="a", style="bold"];',
        '    s0_o1 -> s0_o2 [label="b", style="bold"];',
        '    s0_o2 -> s0_o3 [label="c", style="bold"];',
        "  }",
        "}",
    ]


def test_what_cannot_be_shown_is_spelled_out() -> None:
    """Controls, and bytes that are not UTF-8; the backslash of both is written twice, as any other."""
    expected = {chr(code): chr(code) for code in range(1, 256)}
    expected |= {chr(code): f"\\\\x{code:02x}" for code in (*range(1, 32), *range(127, 160))}
    expected |= {'"': '\\"', "\\": "\\\\", "&": "&amp;"}
    names: list[tuple[str | bytes, str]] = [(f"a{letter}b", f"a{shown}b") for letter, shown in expected.items()]
    names += [(b"a" + bytes([code]) + b"b", f"a\\\\x{code:02x}b") for code in range(128, 256)]
    build = Build()
    graph = build.graph()
    given = value = graph.tensor("x")
    for name, _ in names:
        made = graph.tensor(name)
        graph.operator("NEG", [value], [made])
        value = made
    graph.operator("NEG", [value], [graph.tensor("end")])
    graph.ends([given], [])
    turns = [number % 2 for number in range(len(names) + 1)]
    lines = drawn(annotated(build.to_bytes(), affinity(["cpu", "npu"], (turns, list(range(len(turns)))))))
    for number, (_, shown) in enumerate(names):
        assert f'    s0_o{number} -> s0_o{number + 1} [label="{shown}", style="bold"];' in lines
