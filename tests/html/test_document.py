"""The page's document agrees with the other commands."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given

from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError, UsageError
from circletools.html.document import page_document
from circletools.html.graph import NAME_LENGTH
from circletools.html.html import SourceLinks
from circletools.model.model import open_model
from circletools.origin.modules import ROOT as TOP
from circletools.origin.read import Origins
from circletools.origin.source import SourceDetails
from tests.kit.affinity_support import affinity, annotated
from tests.kit.damage import Damage, damages
from tests.kit.exports_support import codes_of, named
from tests.kit.origin_support import embedded
from tests.kit.page_support import BENCHMARK, document_of, full, json_of, odd
from tests.kit.support import bytes_of, path_of, put_u32, unpacked, within


@pytest.mark.parametrize("name", ["tflite/two_signatures", "tflite/zip_tail", "circle/mlp_external"])
def test_output_of_inspect(name: str) -> None:
    assert json_of("inspect", path_of(name)) == {"file": str(path_of(name))} | document_of(bytes_of(name))["model"]


@pytest.mark.parametrize("name", ["circle/output_twice", "tflite/while_nested", "circle/input_as_output"])
def test_output_of_check(name: str) -> None:
    expected = json_of("check", path_of(name))
    assert expected["findings"]
    assert document_of(bytes_of(name))["findings"] == expected["findings"]


def test_output_of_dump_origins(model: Path) -> None:
    document, expected = document_of(model.read_bytes()), json_of("dump-origins", model)
    origins = document["origins"]
    assert (origins["from"], origins["state"], origins["scope"]) == ("tables", "fresh", expected["scope"])
    names = dict(zip(origins["source_ids"], origins["source_names"], strict=True))
    assert names == {source["id"]: source["name"] for source in expected["sources"]}
    for operator in expected["operators"]:
        column = document["subgraphs"][operator["subgraph"]]["operators"]["origin"]
        rows = origins["sets"][column[operator["operator_index"]]]
        assert [origins["source_ids"][row] for row in rows] == operator["sources"]


def test_classes_and_lines_of_sources() -> None:
    details = {7: SourceDetails("q", "nn.Linear", "u/net.py", 42), 9: SourceDetails(class_name="net.Lm")}
    sources = {5: "a", 7: "q::linear", 9: "b"}
    wanted = Origins(sources, ({0: frozenset({5, 7})},), details=details)
    origins = document_of(embedded(bytes_of("circle/mlp"), wanted))["origins"]
    assert origins["source_classes"] == ["", "nn.Linear", "net.Lm"]
    assert origins["source_lines"] == ["", "u/net.py:42", ""]
    plain = document_of(embedded(bytes_of("circle/mlp")))["origins"]
    assert plain.keys().isdisjoint({"source_classes", "source_lines"})


def test_links_to_lines() -> None:
    details = {7: SourceDetails("q", file="u/net.py", line=42), 9: SourceDetails(path="b")}
    wanted = Origins({7: "q::linear", 9: "b"}, ({0: frozenset({7, 9})},), details=details)
    with open_model(embedded(bytes_of("circle/mlp"), wanted)) as model:
        given = SourceLinks("https://example.org/{file}#L{line}", "/home")
        assert page_document(model, "x", links=given)["origins"]["source_urls"] == [
            "https://example.org/u/net.py#L42", ""
        ]  # fmt: skip
        assert "source_urls" not in page_document(model, "x")["origins"]


@pytest.mark.parametrize(
    ("template", "root", "details", "address"),
    [
        ("vscode://file{file}:{line}", "", SourceDetails(file="/a/n.py", line=3), "vscode://file/a/n.py:3"),
        ("https://h/{file}#{line}-{line}", "/a/", SourceDetails(file="/a/b/n.py"), "https://h/b/n.py#1-1"),
        ("https://h/{file}#{line}", "/a", SourceDetails(file="/ab/n.py", line=3), ""),
        ("https://h/{file}#{line}", "", SourceDetails(path="x", line=3), ""),
        (
            "HTTPS://h/{file}#{line}",
            "",
            SourceDetails(file="<{line}>\udcff?#'\"%"),
            "HTTPS://h/%3C%7Bline%7D%3E%FF%3F%23%27%22%25#1",
        ),
        ("", "", SourceDetails(file="n.py", line=3), ""),
    ],
)
def test_addresses_of_lines(template: str, root: str, details: SourceDetails, address: str) -> None:
    assert SourceLinks(template, root).of(details) == address


@pytest.mark.parametrize(
    "template",
    [
        "{file}:{line}", "h/{file}#{line}", "1:///{file}#{line}", "JavaScript://%0a{file}{line}", "https://h/{line}",
        "https://h/{file}", "https://h", "https://h/{path}/{file}#{line}", "https:///{file}#{line}",
        "https://{file}#{line}", "https://h/a b/{file}#{line}",
    ],
)  # fmt: skip
def test_invalid_addresses(template: str) -> None:
    with pytest.raises(UsageError, match=r"is not an address with \{file\} and \{line\}"):
        SourceLinks(template)


def test_a_root_of_nothing() -> None:
    with pytest.raises(UsageError, match="`source_root=` requires `source_url=`"):
        SourceLinks(root="/a")


def test_modules_go_by_paths() -> None:
    details = {0: SourceDetails("a.b"), 1: SourceDetails("a.b"), 2: SourceDetails()}
    sources = {0: "a.b::add", 1: "n1", 2: "c::mul"}
    document = document_of(
        embedded(bytes_of("circle/mlp"), Origins(sources, ({0: frozenset(sources)},), details=details))
    )
    assert document["modules"]["label"] == ["a.b", "c"]
    assert (document["modules"]["parent"], document["modules"]["sources"]) == ([-1, -1], [[0, 1], [2]])


def test_output_of_dump_affinity(model: Path) -> None:
    document, expected = document_of(model.read_bytes()), json_of("partition", model)
    devices = [device["name"] for device in document["affinity"]["devices"]]
    assert (devices, document["affinity"]["state"]) == (expected["devices"], expected["freshness"])
    for graph in expected["subgraphs"]:
        columns = document["subgraphs"][graph["index"]]
        groups = columns["layouts"][0]["groups"]
        for operator in graph["operators"]:
            index = operator["operator_index"]
            assert devices[columns["operators"]["device"][index]] == operator["device"]
            assert groups[columns["layouts"][0]["group"][index]]["partition"] == operator["partition"]
        assert [(group["partition"], devices[group["device"]], group["operators"]) for group in groups] == [
            (part["partition"], part["device"], len(part["operators"])) for part in graph["partitions"]
        ]


def test_output_of_partition_about_cuts(model: Path) -> None:
    (transfers,) = [graph["transfers"] for graph in document_of(model.read_bytes())["subgraphs"]]
    settings_ = [word for rule in ("op:*SOFTMAX=cpu", "op:TRANSPOSE=cpu") for word in ("--set", rule)]
    plan = json_of("partition", model, "--devices", "npu,cpu", *settings_, "--default", "npu")
    expected = plan["subgraphs"][0]["transfers"]
    assert transfers["cuts"]
    assert [cut["tensor"] for cut in transfers["cuts"]] == [cut["tensor_index"] for cut in expected["cuts"]]
    for name in ("launches", "copies", "copied_bytes", "copies_of_unknown_size"):
        assert transfers[name] == expected[name]


def test_output_of_attribute(model: Path, trace: Path) -> None:
    (times,) = document_of(model.read_bytes(), trace)["operator_traces"]
    expected = json_of("attribute", trace, "--model", model)
    for row in expected["operators"]:
        columns, index = times["subgraphs"][row["subgraph"]], row["operator_index"]
        assert [columns[name][index] for name in ("runs", "total_ns", "median_ns")] == [
            row[name] for name in ("runs", "total_ns", "median_ns")
        ]
        assert times["backends"][columns["backend"][index]] == " ".join(row["backends"])
    assert times["sources_ns"] == [row["total_ns"] for row in expected["sources"]]
    for name in ("runtime", "executions", "averaged", "total_ns", "added", "ignored_marks"):
        assert times[name] == expected[name]


def test_times_of_modules_add_up(model: Path, trace: Path) -> None:
    document = document_of(model.read_bytes(), trace)
    (times,) = document["operator_traces"]
    tops = [row for row, parent in enumerate(document["modules"]["parent"]) if parent == TOP]
    assert sum(times["modules_ns"][row] for row in tops) + times["no_origin_ns"] == times["total_ns"] > 0
    assert sum(document["modules"]["operators"][row] for row in tops) >= len(codes_of(full()))


def test_output_of_trace_stats() -> None:
    (layers,) = document_of(bytes_of("circle/mlp"), BENCHMARK)["traces"]
    expected = json_of("trace-stats", BENCHMARK)
    assert layers["trace"] == expected["trace"] | {"name": BENCHMARK.name}
    assert (layers["runs"], layers["run_count"]) == (expected["runs"], len(expected["runs"]))
    assert sorted(layers["functions"], key=str) == sorted(expected["functions"], key=str)
    assert sum(bucket["self_ns"] for bucket in layers["buckets"]) == expected["trace"]["covered_ns"] > 0


def test_tensors_and_operators(own_model: Path) -> None:
    """Compare with the published object API."""
    data = own_model.read_bytes()
    document, expected = document_of(data), unpacked(data)
    for columns, graph in zip(document["subgraphs"], expected.subgraphs, strict=True):
        operators, tensors = columns["operators"], columns["tensors"]
        for index, operator in enumerate(graph.operators or ()):
            assert operators["code"][index] == operator.opcodeIndex
            assert operators["inputs"][index] == list(() if operator.inputs is None else operator.inputs)
            assert operators["outputs"][index] == list(() if operator.outputs is None else operator.outputs)
        assert tensors["name"] == [(tensor.name or b"").decode() for tensor in graph.tensors]
        for index, tensor in enumerate(graph.tensors):
            signature = tensor.shapeSignature
            shape = tensor.shape if signature is None else signature
            shown = document["shapes"][tensors["shape"][index]]
            assert shown == list(() if shape is None else shape)
            buffer = expected.buffers[tensor.buffer]
            size = len(() if buffer.data is None else buffer.data) or (buffer.size if buffer.offset > 1 else 0)
            assert tensors["constant_bytes"][index] == (size or -1)
            quantization = tensor.quantization
            scales = None if quantization is None else quantization.scale
            if scales is None:
                assert str(index) not in tensors["quantization"]
            else:
                assert tensors["quantization"][str(index)] == [
                    float(scales[0]), int(quantization.zeroPoint[0]), len(scales),
                ]  # fmt: skip


def test_every_model_has_a_page(any_model: Path) -> None:
    with open_model(any_model) as model:
        document = page_document(model, any_model.name)
    json.dumps(document, allow_nan=False)
    for graph in document["subgraphs"]:
        layout = graph["layouts"][0]
        places = list(zip(layout["group"], layout["level"], layout["column"], strict=True))
        assert len(set(places)) == len(places) == len(graph["operators"]["code"])
        edges = layout["edges"]
        for source, target in zip(edges["source"], edges["target"], strict=True):
            assert layout["level"][source] < layout["level"][target]  # there is one group, and no cycle


def test_an_index_out_of_range_is_a_finding_and_no_more() -> None:
    data = full()
    with open_model(data) as model:
        vectors = model.operator_columns.inputs
        at = int(vectors.start[3])
    document = document_of(put_u32(data, at, 9999))
    assert [finding["code"] for finding in document["findings"]] == ["INDEX_OUT_OF_RANGE"]
    assert document["subgraphs"][0]["operators"]["inputs"][3][0] == 9999
    assert len(document["subgraphs"][0]["layouts"][0]["level"]) == len(codes_of(full()))


@pytest.mark.parametrize("entry", ["ONE_op_table", "CIRCLETOOLS_affinity", "CIRCLETOOLS_stamp"])
def test_a_malformed_table_is_a_finding_and_no_more(entry: str) -> None:
    with open_model(full()) as model:
        edit = ModelEdit(model)
        edit.set_metadata(entry, b"\1\0\0\0\377")
        document = document_of(edit.to_bytes())
    assert any(finding["code"].startswith("MALFORMED") for finding in document["findings"])
    states = document["origins"]["state"], document["affinity"]["state"]
    assert ("malformed" in states) == (entry != "CIRCLETOOLS_stamp" or states[0] == "malformed")


def test_operators_without_a_device() -> None:
    """A device for every second operator of four, and partitions for those: 0, none, 1, none."""
    data = annotated(named("a", "b", "c", "d"), affinity(["npu"], ([0, None, 0, None], [0, None, 1, None])))
    (graph,) = document_of(data)["subgraphs"]
    assert graph["operators"]["device"] == [0, None, 0, None]
    assert [(part["partition"], part["device"], part["operators"]) for part in graph["layouts"][0]["groups"]] == [
        (0, 0, 1), (1, 0, 1), (None, None, 2),
    ]  # fmt: skip
    cuts = [(cut["producer"], cut["consumers"]) for cut in graph["transfers"]["cuts"]]
    assert cuts == [(0, [None]), (None, [1]), (1, [None])]


@given(damages)
def test_any_model_gives_a_page_or_our_error(damage: Damage) -> None:
    data = damage.done()
    with within(5), suppress(CircleToolsError), open_model(data) as model:
        json.dumps(page_document(model, "x"), allow_nan=False)


def test_very_long_names_are_cut() -> None:
    tensors = document_of(odd())["subgraphs"][0]["tensors"]["name"]
    assert max(map(len, tensors)) < NAME_LENGTH + 30
    assert any(name.endswith("… (10000 characters)") for name in tensors)
