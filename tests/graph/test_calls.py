"""Which graphs operators call, directly and through others."""

from __future__ import annotations

import pytest

from circletools.graph.build import model_graph
from circletools.model.model import open_model
from tests.kit.build import Build, Graph
from tests.kit.callers import CALLERS, calling
from tests.kit.support import bytes_of


@pytest.mark.parametrize("caller", CALLERS)
def test_calls_are_those_of_the_options(caller: str) -> None:
    with open_model(calling(caller, idle=1)) as opened:
        model = model_graph(opened)
        main = model.graphs[0]
        called = list(range(2, 2 + CALLERS[caller][0]))
        assert main.callees == {2: called}
        assert main.called([2]) == model.reached(main.called([2])) == set(called)
        assert main.called([0, 1, 3]) == set()
        assert model.reaching([called[-1]]) == {0, called[-1]}


def test_a_signature_calls_nothing() -> None:
    with open_model(bytes_of("tflite/two_signatures")) as model:
        assert model_graph(model).callees == {}


def test_a_call_of_the_first_subgraph_and_one_of_none() -> None:
    build = Build()
    main, other = Graph(build, "main"), Graph(build, "other")
    other.operator("CALL_ONCE", [], [], init_subgraph_index=0)
    other.operator("CALL_ONCE", [], [], init_subgraph_index=-1)
    for graph in (main, other):
        graph.ends([], [])
    with open_model(build.to_bytes()) as opened:
        model = model_graph(opened)
        assert model.graphs[1].callees == {0: [0], 1: [-1]}
        assert (model.graphs[1].called([0]), model.graphs[1].called([1])) == ({0}, set())
        assert model.reaching([0]) == {0, 1}
