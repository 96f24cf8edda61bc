"""Where one more or one less makes a difference: first tensors, room for tables, ranks, names of backends."""

from __future__ import annotations

import json

import numpy as np
import pytest

from circletools.affinity.capability.file import parse_capability
from circletools.affinity.capability.table import why_not
from circletools.affinity.documents import PartFile, format_part
from circletools.affinity.exports.export import onert_environment
from circletools.affinity.exports.pictures import current_affinity
from circletools.affinity.problem import check_limits, parse_limit
from circletools.affinity.solvers.seed import Effort
from circletools.affinity.store import follow, remap
from circletools.affinity.tables import SubgraphAffinity, check_freshness
from circletools.edit.edit import ModelEdit
from circletools.edit.results import AddedOperator, IndexMap
from circletools.errors import CircleToolsError, EditError
from circletools.graph.build import graph_of, model_graph
from circletools.model.model import open_model
from tests.kit.affinity_support import affinity, affinity_of, annotated, ids
from tests.kit.build import Build
from tests.kit.exports_support import with_affinity
from tests.kit.support import bytes_of


def test_the_first_tensor_counts_for_ruy() -> None:
    build = Build()
    graph = build.graph()
    given = graph.tensor("x", type="INT8")
    graph.ends([given], [graph.compute("FULLY_CONNECTED", [given, graph.tensor("w")], "y")])
    refused = pytest.raises(EditError, match="ruy computes only in FLOAT32; 'x' is INT8")
    with open_model(with_affinity(build.to_bytes("circle"), ["ruy"])) as model, refused:
        onert_environment(model_graph(model), current_affinity(model_graph(model)))


def test_the_first_tensor_can_be_an_unpacked_constant() -> None:
    build = Build()
    graph = build.graph()
    unpacked = graph.tensor("y")
    graph.operator("DEQUANTIZE", [graph.constant("c", np.ones((2, 2), np.float16))], [unpacked])
    graph.ends([], [graph.compute("ADD", [unpacked, unpacked], "sum")])
    unpacking = {"inputs": ["FLOAT16 constant"], "unpacks": True}
    table = parse_capability(json.dumps({"operators": {"DEQUANTIZE": [unpacking]}}).encode(), "npu.json")
    with open_model(build.to_bytes("tflite")) as model:
        assert [str(refusal) for refusal in why_not(table, graph_of(model, 0))] == [
            "operator 1, which reads the unpacked constant, is not supported",
            "npu does not support ADD",
        ]
        forms = {"DEQUANTIZE": [unpacking], "ADD": [{"inputs": ["* constant", "* constant"]}]}
        table = parse_capability(json.dumps({"operators": forms}).encode(), "npu.json")
        assert why_not(table, graph_of(model, 0)) == [None, None]


@pytest.mark.parametrize("backend", ["", "a,b", "a/b", "a\nb"])
def test_a_backend_that_a_part_file_cannot_name(backend: str) -> None:
    with pytest.raises(EditError, match=r"a \.part file cannot express a backend named"):
        format_part(PartFile((backend,), backend, "opname"))


BAD_LIMITS = [
    ("npu", "is not DEVICE:KIND=NUMBER"), (":max-bytes=1", "is not DEVICE:KIND=NUMBER"),
    ("npu:max-byte=1", "is not DEVICE:KIND=NUMBER .write npu:max-bytes=1"),
    ("npu:max-bytes=1.5", "'1.5' is not a number from 0 to 1e15"), ("npu:min-us=-1", "'-1' is not a number"),
    ("npu:max-bytes=1000000000000001", "is not a number"), ("gpu:max-bytes=1", "unknown device 'gpu'"),
    ("npu:min-us=1.5", "needs costs"), ("npu:max-bytes=1 npu:max-bytes=2", "duplicate max-bytes for 'npu'"),
    ("npu:min-bytes=3 npu:max-bytes=2", "cannot be met together"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), BAD_LIMITS)
def test_limits_that_are_refused(words: str, message: str) -> None:
    with pytest.raises(CircleToolsError, match=message):
        check_limits([*map(parse_limit, words.split())], ("npu", "cpu"), has_costs=False)


def test_limits_that_are_allowed() -> None:
    words = (
        "npu:min-bytes=2",
        "npu:max-bytes=2",
        "cpu:max-bytes=0",
        "a:b:max-operators=1000000000000000",
        "cpu:min-us=.5",
    )
    limits = [*map(parse_limit, words)]
    check_limits(limits, ("npu", "cpu", "a:b"), has_costs=True)
    assert [(one.device, one.number) for one in limits[3:]] == [("a:b", 1e15), ("cpu", 0.5)]


def test_effort_may_be_spent_to_the_last_unit() -> None:
    effort = Effort(3)
    assert effort.left == 15_000_000 + 3 * 2000
    effort.spend(effort.left)
    with pytest.raises(EditError, match="the graph of 3 operators needs too many steps"):
        effort.spend(1)


def test_an_added_operator_gets_the_device_of_its_work_or_the_most_common_one() -> None:
    before = affinity(["npu", "cpu"], ([0, 1, 1], [0, 1, 1]), ([0], [0]))

    def added(*rows: tuple[int, int, tuple[int, ...]]) -> IndexMap:
        return IndexMap(
            tuple(AddedOperator(subgraph, index, "ADD", (), parents) for subgraph, index, parents in rows)
        )

    after = remap(before, added((0, 3, (0, 1)), (0, 4, ()), (0, 5, ())))
    assert after.subgraphs[0] == SubgraphAffinity(ids(0, 1, 1, 0, 1, 1), ids(0, 1, 1, 0, 2, 3))
    assert after.subgraphs[1] == before.subgraphs[1]
    nowhere = remap(affinity(["npu"], ([None], [None])), added((0, 1, ()), (0, 2, (0,))))
    assert nowhere.subgraphs[0] == SubgraphAffinity(ids(None, None, None), ids(None, None, None))
    known = remap(before, added((0, 2, (0,))))  # an edit that is saved twice
    assert known.subgraphs[0] == SubgraphAffinity(ids(0, 1, 0), ids(0, 1, 0))
    unpartitioned = remap(affinity(["npu"], ([0], [None])), added((0, 1, ())))
    assert unpartitioned.subgraphs[0] == SubgraphAffinity(ids(0, 0), ids(None, 0))


def test_affinity_is_brought_up_to_date_with_an_edit() -> None:
    data = annotated(bytes_of("circle/diamond"), affinity(["npu", "cpu"], ([0, 0, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1])))
    with open_model(data) as model:
        edit = ModelEdit(model)
        follow(edit)
        operator = model.subgraphs[0].operators[4]
        output = edit.add_tensor_like(0, operator.outputs[0], "more")
        edit.add_operator(0, operator.code.index, operator.inputs, [output], inherits=[0])
        result = edit.to_bytes()
    assert affinity_of(result).subgraphs[0].devices.tolist() == [0, 0, 1, 1, 1, 1, 0]
    with open_model(result) as model:
        assert check_freshness(model, affinity_of(result)).state == "fresh"
