"""The report: that its document says what the other commands say, that the page is sound, and the command itself."""

from __future__ import annotations

import itertools
import json
import re
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from circletools.edit.edit import ModelEdit
from circletools.errors import CircleToolsError
from circletools.html.document import page_document
from circletools.html.graph import NAME_LENGTH
from circletools.html.html import SCRIPTS
from circletools.html.layout import STRAIGHT, Edges, Layout, lay_out
from circletools.html.modules import ROOT as TOP
from circletools.html.modules import module_tree, operators_below, parts_of, time_below
from circletools.model import open_model
from tests.cli.test_cli import Ran, files_in, put, run
from tests.flatbuf.test_verify import Damage, damages
from tests.kit.affinity_support import affinity, annotated
from tests.kit.exports_support import codes_of, named
from tests.kit.origin_support import embedded
from tests.kit.page_support import BENCHMARK, ODD_NAMES, Page, document_of, full, odd, onert_trace, page_of
from tests.kit.support import ROOT, TESTDATA, bytes_of, path_of, put_u32, unpacked, within

ASSETS = ROOT / "circletools" / "html" / "assets"


# --- the document says what the other commands say ----------------------------------------------------------


def said(*arguments: str | Path) -> dict[str, Any]:
    """Return what a command says as JSON."""
    document: dict[str, Any] = json.loads(run(*arguments, "--json").out)
    return document


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return put(tmp_path / "full.circle", full())


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return onert_trace(tmp_path, codes_of(full()))


@pytest.mark.parametrize("name", ["tflite/two_signatures", "tflite/zip_tail", "circle/mlp_external"])
def test_what_inspect_says(name: str) -> None:
    assert document_of(bytes_of(name))["model"] == said("inspect", path_of(name))


@pytest.mark.parametrize("name", ["circle/output_twice", "tflite/while_nested", "circle/input_as_output"])
def test_what_check_says(name: str) -> None:
    (expected,) = said("check", path_of(name))["models"]
    assert expected["findings"]
    assert document_of(bytes_of(name))["findings"] == expected["findings"]


def test_what_dump_origins_says(model: Path) -> None:
    document, expected = document_of(model.read_bytes()), said("dump-origins", model)
    origins = document["origins"]
    assert (origins["from"], origins["state"], origins["scope"]) == ("tables", "fresh", expected["scope"])
    names = dict(zip(origins["source_ids"], origins["source_names"], strict=True))
    assert names == {source["id"]: source["name"] for source in expected["sources"]}
    for operator in expected["operators"]:
        column = document["subgraphs"][operator["subgraph"]]["operators"]["origin"]
        rows = origins["sets"][column[operator["operator_index"]]]
        assert [origins["source_ids"][row] for row in rows] == operator["sources"]


def test_what_dump_affinity_says(model: Path) -> None:
    document, expected = document_of(model.read_bytes()), said("dump-affinity", model)
    devices = [device["name"] for device in document["affinity"]["devices"]]
    assert (devices, document["affinity"]["state"]) == (expected["devices"], expected["freshness"])
    for graph in expected["subgraphs"]:
        columns = document["subgraphs"][graph["index"]]
        groups = columns["layout"]["groups"]
        for operator in graph["operators"]:
            index = operator["operator_index"]
            assert devices[columns["operators"]["device"][index]] == operator["device"]
            assert groups[columns["layout"]["group"][index]]["partition"] == operator["partition"]
        assert [(group["partition"], devices[group["device"]], group["operators"]) for group in groups] == [
            (part["partition"], part["device"], len(part["operators"])) for part in graph["partitions"]
        ]


def test_what_partition_says_of_cuts(model: Path) -> None:
    (transfers,) = [graph["transfers"] for graph in document_of(model.read_bytes())["subgraphs"]]
    settings_ = [word for rule in ("op:*SOFTMAX=cpu", "op:TRANSPOSE=cpu") for word in ("--set", rule)]
    plan = said("partition", model, "--devices", "npu,cpu", *settings_, "--default", "npu")
    expected = plan["subgraphs"][0]["transfers"]
    assert transfers["cuts"]
    assert [cut["tensor"] for cut in transfers["cuts"]] == [cut["tensor"] for cut in expected["cuts"]]
    for name in ("launches", "copies", "copied_bytes", "copies_of_unknown_size"):
        assert transfers[name] == expected[name]


def test_what_attribute_says(model: Path, trace: Path) -> None:
    (times,) = document_of(model.read_bytes(), trace)["operator_traces"]
    expected = said("attribute", trace, "--model", model)
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


def test_what_trace_stats_says() -> None:
    (layers,) = document_of(bytes_of("circle/mlp"), BENCHMARK)["traces"]
    expected = said("trace-stats", BENCHMARK)
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
        layout = graph["layout"]
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
    assert len(document["subgraphs"][0]["layout"]["level"]) == len(codes_of(full()))


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
    assert [(part["partition"], part["device"], part["operators"]) for part in graph["layout"]["groups"]] == [
        (0, 0, 1), (1, 0, 1), (None, None, 2),
    ]  # fmt: skip
    cuts = [(cut["producer"], cut["consumers"]) for cut in graph["transfers"]["cuts"]]
    assert cuts == [(0, [None]), (None, [1]), (1, [None])]


@settings(max_examples=60)
@given(damages)
def test_any_model_gives_a_page_or_our_error(damage: Damage) -> None:
    data = damage.done()
    with within(5), suppress(CircleToolsError), open_model(data) as model:
        json.dumps(page_document(model, "x"), allow_nan=False)


def test_very_long_names_are_cut() -> None:
    tensors = document_of(odd())["subgraphs"][0]["tensors"]["name"]
    assert max(map(len, tensors)) < NAME_LENGTH + 30
    assert any(name.endswith("… (10000 characters)") for name in tensors)


# --- where operators stand ----------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], Edges, np.ndarray[Any, Any]]:
    count = draw(st.integers(1, 30))
    numbers = st.integers(0, count - 1)
    pairs = sorted(draw(st.sets(st.tuples(numbers, numbers).filter(lambda pair: pair[0] != pair[1]), max_size=60)))
    if draw(st.booleans()):  # in the order of execution, as nearly all files are
        pairs = sorted({(min(pair), max(pair)) for pair in pairs})
    groups = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)), np.int64)
    groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
    source, target = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    fed = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    return groups, Edges(source, target, source.copy()), fed


def in_order(edges: Edges) -> bool:
    return bool((edges.source < edges.target).all())


@given(graphs())
def test_operators_do_not_lie_on_each_other(graph: tuple[Any, Edges, Any]) -> None:
    layout = lay_out(*graph)
    places = list(zip(layout.group.tolist(), layout.level.tolist(), layout.column.tolist(), strict=True))
    assert len(set(places)) == len(places)
    for group, level in {place[:2] for place in places}:
        columns = sorted(place[2] for place in places if place[:2] == (group, level))
        assert sum(columns) == 0  # the level is in the middle
        assert all(after - before == 2 for before, after in itertools.pairwise(columns))


@given(graphs())
def test_edges_lead_down(graph: tuple[Any, Edges, Any]) -> None:
    groups, edges, _ = graph
    layout = lay_out(*graph)
    if not in_order(edges):
        return
    inside = groups[edges.source] == groups[edges.target]
    assert (layout.level[edges.source] < layout.level[edges.target])[inside].all()
    quotient = {(a, b) for a, b in zip(groups[edges.source], groups[edges.target], strict=True) if a != b}
    if all(a < b for a, b in quotient):
        assert all(layout.row[a] < layout.row[b] for a, b in quotient)


@given(graphs())
def test_no_level_is_empty(graph: tuple[Any, Edges, Any]) -> None:
    layout = lay_out(*graph)
    for group in set(layout.group.tolist()):
        levels = set(layout.level[layout.group == group].tolist())
        assert levels == set(range(len(levels)))


def crossings(layout: Layout, edges: Edges, groups: Any) -> list[tuple[int, int]]:
    """Return the pairs of edges of different tensors that share a lane somewhere."""
    found = []
    inside = groups[edges.source] == groups[edges.target]
    level = np.where(inside, layout.level[edges.source], layout.row[groups[edges.source]])
    end = np.where(inside, layout.level[edges.target], layout.row[groups[edges.target]])
    scope = np.where(inside, groups[edges.source], -1)
    for a in range(len(level)):
        for b in range(a):
            same = layout.lane[a] == layout.lane[b] != STRAIGHT and scope[a] == scope[b]
            if same and edges.tensor[a] != edges.tensor[b] and level[a] < end[b] and level[b] < end[a]:
                found.append((a, b))
    return found


@given(graphs())
def test_lanes_are_for_one_tensor_at_a_time(graph: tuple[Any, Edges, Any]) -> None:
    groups, edges, _ = graph
    layout = lay_out(*graph)
    assert crossings(layout, edges, groups) == []
    inside = groups[edges.source] == groups[edges.target]
    spans = (layout.level[edges.target] - layout.level[edges.source])[inside]
    assert ((layout.lane[inside] != STRAIGHT) == (spans > 1)).all()


def test_what_constants_feed_stands_above_its_reader() -> None:
    """0 -> 1 -> 2 -> 3 from an input; 4 -> 5 -> 3 from constants."""
    source, target = np.array([0, 1, 2, 4, 5]), np.array([1, 2, 3, 5, 3])
    layout = lay_out(np.zeros(6, np.int64), Edges(source, target, source), np.arange(6) == 0)
    assert layout.level.tolist() == [0, 1, 2, 3, 1, 2]


# --- modules ------------------------------------------------------------------------------------------------

names = st.lists(st.sampled_from(["a", "b", "::", "/", ".", ";", "long"]), max_size=8).map("".join)


def paths(tree: Any) -> list[str]:
    found: list[str] = []
    for parent, label in zip(tree.parents, tree.labels, strict=True):
        found.append((found[parent] if parent != TOP else "") + label)
    return found


@given(st.lists(names, max_size=12))
def test_the_tree_has_every_name(given_names: list[str]) -> None:
    tree = module_tree(given_names)
    ending: dict[int, list[str]] = {}
    for path, sources in zip(paths(tree), tree.sources, strict=True):
        for source in sources:
            ending.setdefault(source, []).append(path)
    for row, name in enumerate(given_names):
        expected = {path for path in name.split(";") if path} or {name}
        assert sorted(ending[row]) == sorted(expected)
    children = [tree.parents.count(row) for row in range(len(tree.parents))]
    assert all(count != 1 or sources for count, sources in zip(children, tree.sources, strict=True))


@given(st.lists(names, min_size=1, max_size=8), st.data())
def test_what_is_below_a_branch(given_names: list[str], draw: st.DataObject) -> None:
    tree = module_tree(given_names)
    rows = st.integers(0, len(given_names) - 1)
    sets = [sorted(one) for one in draw.draw(st.lists(st.sets(rows), max_size=5))]
    uses = draw.draw(st.lists(st.integers(0, 9), min_size=len(sets), max_size=len(sets)))

    def below(branch: int) -> set[int]:
        found = set(tree.sources[branch])
        return found.union(*(below(row) for row, parent in enumerate(tree.parents) if parent == branch))

    expected = [
        sum(used for one, used in zip(sets, uses, strict=True) if below(branch) & set(one))
        for branch in range(len(tree.parents))
    ]
    assert operators_below(tree, sets, uses) == expected
    times = {row: draw.draw(st.integers(0, 100)) for row in range(len(given_names))}
    totals = time_below(tree, times)
    assert sum(total for total, parent in zip(totals, tree.parents, strict=True) if parent == TOP) == sum(
        times.values()
    )


@given(st.text(alphabet="a:/.;", max_size=80))
def test_the_parts_of_a_path_are_the_path(path: str) -> None:
    assert "".join(parts_of(path)) == path
    assert len(parts_of(path)) <= 24


# --- the page -----------------------------------------------------------------------------------------------


def test_the_page_holds_the_document(model: Path, trace: Path) -> None:
    page = Page(page_of(model.read_bytes(), trace, BENCHMARK))
    assert page.document == document_of(model.read_bytes(), trace, BENCHMARK)
    assert page.contents["title"] == ["model.circle - circletools report"]


def test_the_policy_allows_the_style_and_the_script_and_nothing_else() -> None:
    page = Page(page_of(bytes_of("circle/mlp")))

    def hashed(source: str) -> str:
        return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode()}'"

    (style,), (_, script) = page.contents["style"], page.contents["script"]
    assert page.policy.split("; ") == [
        "default-src 'none'", f"script-src {hashed(script)}", f"style-src {hashed(style)}",
        "base-uri 'none'", "form-action 'none'",
    ]  # fmt: skip
    assert page.elements.index("meta") < page.elements.index("style")


def test_the_page_refers_to_nothing_outside() -> None:
    page = Page(page_of(full(), BENCHMARK))
    loading = ("src", "href", "action", "srcset", "data", "poster", "style")
    assert [value for _, name, value in page.attributes if name in loading or name.startswith("on")] == ["#main"]
    style, script = page.contents["style"][0], page.contents["script"][1]
    assert not re.search(r"@import|url\(|https?:", style)
    assert not re.search(r"https?:|import\b|\bfetch\b|XMLHttp|WebSocket|innerHTML|insertAdjacent|\beval\b", script)


def test_names_are_never_markup() -> None:
    plain, hostile = Page(page_of(full())), Page(page_of(odd(), name=ODD_NAMES[0]))
    assert hostile.elements == plain.elements
    assert hostile.attributes == plain.attributes
    assert hostile.contents["script"][1:] == plain.contents["script"][1:]
    shown = hostile.document["subgraphs"][0]["tensors"]["name"]
    assert {name for name in ODD_NAMES if len(name) < 1000} <= set(shown)
    data = page_of(odd(), name=ODD_NAMES[0])
    block = data[data.index(b'id="document">') + 14 :]
    assert not re.search(rb"[<>&\x80-\xff\x00-\x1f]", block[: block.index(b"</script>")])


def test_all_scripts_are_in_the_page() -> None:
    assert {f"{name}.js" for name in SCRIPTS} == {path.name for path in ASSETS.glob("*.js")}


@pytest.mark.parametrize("path", sorted(ASSETS.iterdir()), ids=lambda path: path.name)
def test_the_assets_are_of_a_size_to_read(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 400
    assert "</script" not in text or path.suffix == ".html"
    assert max(map(len, text.splitlines())) <= 118
    assert not re.search(r"[^\S\n]$", text, re.M)


# --- the command --------------------------------------------------------------------------------------------


def test_report(model: Path, trace: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    assert run("report", model, "--trace", trace, "--trace", BENCHMARK, "-o", target) == Ran(0, b"", "")
    document = Page(target.read_bytes()).document
    assert document == document_of(full(), trace, BENCHMARK, name="full.circle")
    assert run("report", model, "--trace", trace, "--trace", BENCHMARK, "-o", "-").out == target.read_bytes()


def test_standard_input(trace: Path) -> None:
    page = run("report", "-", "-o", "-", "--trace", trace, stdin=full()).out
    assert Page(page).document == document_of(full(), trace, name="standard input")
    model = path_of("circle/mlp")
    page = run("report", model, "-o", "-", "--trace", "-", stdin=BENCHMARK.read_bytes()).out
    assert Page(page).document["traces"][0]["name"] == "<standard input>"
    assert run("report", "-", "-o", "-", "--trace", "-").status == 2


def test_executions_can_be_left_out(model: Path, trace: Path) -> None:
    page = Page(run("report", model, "--trace", trace, "--skip", "1", "-o", "-").out)
    (times,) = page.document["operator_traces"]
    assert times["executions"] == 2
    assert times["total_ns"] == said("attribute", trace, "--model", model, "--skip", "1")["total_ns"]
    ran = run("report", model, "--trace", trace, "--skip", "3", "-o", "-")
    assert (ran.status, ran.out) == (2, b"")


def test_findings_end_with_status_1_and_the_page_is_written(tmp_path: Path) -> None:
    ran = run("report", path_of("circle/output_twice"), "-o", tmp_path / "r.html")
    assert ran == Ran(1, b"", "1 warning about the model: see the page\n")
    assert Page((tmp_path / "r.html").read_bytes()).document["findings"]


def refusals(folder: Path) -> dict[str, tuple[list[str | Path], int, str]]:
    model = put(folder / "m.circle", full())
    text = put(folder / "text", "no trace")
    broken = put(folder / "broken.circle", full()[:3000])
    other = onert_trace(folder, ["ADD", "MUL"])
    target = folder / "old.html"
    return {
        "a broken model": ([broken, "-o", target], 3, "broken.circle"),
        "no trace": ([model, "--trace", text, "-o", target], 3, "neither operator times nor NNAPI marks"),
        "no file": ([model, "--trace", folder / "none", "-o", target], 3, "cannot read it"),
        "another model's trace": ([model, "--trace", other, "-o", target], 3, "the trace is not of this model"),
        "the output is the model": ([model, "-o", model], 2, "the output is a file that is read"),
        "the output is a trace": ([model, "--trace", other, "-o", other], 2, "the output is a file that is read"),
        "a directory": ([model, "-o", folder], 2, "the output is a directory"),
        "nowhere": ([model, "-o", folder / "no" / "r.html"], 4, "cannot write it"),
    }


REFUSALS = (
    *("a broken model", "no trace", "no file", "another model's trace", "the output is the model"),
    *("the output is a trace", "a directory", "nowhere"),
)


@pytest.mark.parametrize("what", REFUSALS)
def test_refusals_leave_all_files_as_they_were(what: str, tmp_path: Path) -> None:
    put(tmp_path / "old.html", "precious")
    arguments, status, words = refusals(tmp_path)[what]
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ran = run("report", *arguments)
    assert (ran.status, ran.out) == (status, b"")
    assert words in ran.err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_traces_of_every_kind_are_told_apart(tmp_path: Path) -> None:
    folder, model = TESTDATA / "trace", path_of("tflite/custom_op")
    chosen: dict[str, Callable[[dict[str, Any]], int]] = {
        "operator_traces": lambda document: len(document["operator_traces"]),
        "traces": lambda document: len(document["traces"]),
    }
    for name, operators, layers in (
        ("benchmark_custom_op.csv", 1, 0), ("litert_custom_op.ftrace", 1, 0), ("benchmark.html", 0, 1),
    ):  # fmt: skip
        page = Page(run("report", model, "--trace", folder / name, "-o", "-").out)
        assert [count(page.document) for count in chosen.values()] == [operators, layers]
    assert files_in(tmp_path) == set()


def test_one_model_gives_one_page(tmp_path: Path) -> None:
    data = embedded(bytes_of("tflite/transformer_block"))
    assert page_of(data) == page_of(data)
