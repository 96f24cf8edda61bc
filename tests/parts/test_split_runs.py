"""Parts compute what the whole does, to the last bit, in runtimes that nobody here wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circletools.affinity.solvers.partitions import Mode
from circletools.errors import EditError
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.split import MANIFEST
from circletools.parts.verify import compare_runs
from circletools.runtimes.protocol import same
from circletools.runtimes.worker import Worker
from tests.kit.build import Build, Graph
from tests.kit.outputs_support import fixed
from tests.kit.presence import need
from tests.kit.split_support import (
    Assign,
    alternating,
    assert_parts_are_the_source,
    files_of,
    in_threes,
    kind_of,
    split_to,
    with_devices,
)
from tests.kit.support import bytes_of, put

MODES: tuple[Mode, ...] = ("seed", "min")
SHARED_STATE = {"tflite/variable"}  # by operators all over the model
NO_OPERATORS = {"circle/only_input"}
# What the runtime does not load or run before it is split, either.
NOT_WHOLE = {
    "circle/cnn_external",  # onert 0.1.0 crashes on data outside the flatbuffer
    "circle/mlp_external",
    "circle/instance_norm",  # no kernel
    "circle/lstm",  # its shape checks refuse these two
    "circle/rms_norm",
    "tflite/flex_op",  # LiteRT without TensorFlow's operators
}


@pytest.fixture(scope="module")
def workers() -> Iterator[dict[str, Worker]]:
    need("ai_edge_litert")
    need("onert")
    with Worker("litert:builtin", 60) as litert, Worker("onert", 60) as onert:
        yield {"tflite": litert, "circle": onert}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def verify(data: bytes, folder: Path, worker: Worker, mode: Mode, assign: Assign | None) -> list[str]:
    """Split, verify and run; return the codes of findings."""
    split_to(with_devices(data, assign, mode), folder, kind_of(data))
    files = open_split(folder)
    assert check_files(files) == []
    return [finding.code for finding in compare_runs(files, worker)]


@pytest.mark.parametrize("how", [alternating, None], ids=["alternating", "by code"])
def test_parts_compute_what_the_whole_does(
    own_model: Path, how: Assign | None, tmp_path: Path, workers: dict[str, Worker]
) -> None:
    name, data = name_of(own_model), own_model.read_bytes()
    if name in SHARED_STATE | NO_OPERATORS:
        with pytest.raises(EditError):
            split_to(with_devices(data, alternating), tmp_path / "parts", kind_of(data))
        return
    seen: dict[tuple[bytes, ...], Mode] = {}
    for mode in MODES:
        folder = tmp_path / mode
        try:
            annotated = with_devices(data, how, mode)
        except EditError:
            assert mode == "seed"
            continue
        split_to(annotated, folder, kind_of(data))
        files = tuple(files_of(folder).values())
        if files in seen:
            continue
        seen[files] = mode
        found = open_split(folder)
        assert check_files(found) == []
        codes = [finding.code for finding in compare_runs(found, workers[kind_of(data)])]
        assert codes == (["SOURCE_NOT_RUN"] if name in NOT_WHOLE else []), mode
    assert seen


@pytest.mark.parametrize("name", sorted(SHARED_STATE))
def test_what_shares_a_state_runs_in_one_part(name: str, tmp_path: Path, workers: dict[str, Worker]) -> None:
    data = bytes_of(name)
    assert verify(data, tmp_path / "parts", workers["tflite"], "min", lambda _subgraph, _operator: 0) == []


def test_onert_runs_the_package_of_many_parts(tmp_path: Path, workers: dict[str, Worker]) -> None:
    done = split_to(with_devices(bytes_of("circle/transformer_block"), alternating), tmp_path / "parts", "circle")
    files = open_split(tmp_path / "parts")
    assert len(done.plan.parts) > 20
    assert (files.directory / MANIFEST).exists()
    assert compare_runs(files, workers["circle"]) == []
    manifest = json.loads((files.directory / MANIFEST).read_bytes())
    manifest["pkg-outputs"] = [end for edge in manifest["model-connect"] for end in edge["to"]][-1:]
    (files.directory / MANIFEST).write_text(json.dumps(manifest))
    assert [finding.code for finding in check_files(files)] == ["MANIFEST_DIFFERS"]
    (finding,) = compare_runs(files, workers["circle"])
    assert (finding.location, finding.code) in {(MANIFEST, "PACKAGE_NOT_RUN"), (MANIFEST, "VALUES_DIFFER")}


@pytest.mark.parametrize("name", ["circle/lstm_cell", "circle/output_twice", "circle/input_as_output"])
def test_outputs_are_mended_first_for_a_package(name: str, tmp_path: Path, workers: dict[str, Worker]) -> None:
    data = with_devices(bytes_of(name), in_threes)
    done = split_to(data, tmp_path / "odd", "circle")
    assert not (tmp_path / "odd" / MANIFEST).exists()
    assert any("fix-outputs" in note.message for note in done.notes)
    split_to(with_devices(fixed(bytes_of(name), detach_taps=True), in_threes), tmp_path / "mended", "circle")
    assert (tmp_path / "mended" / MANIFEST).exists()
    assert compare_runs(open_split(tmp_path / "mended"), workers["circle"]) == []


def largest_constant(path: Path) -> bytes:
    with open_model(path) as model:
        return bytes(max((model.buffers[tensor.buffer].data for tensor in model.subgraphs[0].tensors), key=len))


@pytest.mark.parametrize("kind", ["tflite", "circle"])
def test_a_wrong_part_is_seen(kind: str, tmp_path: Path, workers: dict[str, Worker]) -> None:
    split_to(with_devices(bytes_of(f"{kind}/cnn"), alternating), tmp_path / "parts", kind)
    files = open_split(tmp_path / "parts")
    assert compare_runs(files, workers[kind]) == []
    constants = {files.part(index): largest_constant(files.part(index)) for index in range(4)}
    path, constant = max(constants.items(), key=lambda item: len(item[1]))
    data = path.read_bytes()
    path.write_bytes(put(data, data.index(constant), bytes(len(constant))))
    codes = [finding.code for finding in check_files(files)]
    assert codes == ["OPERATORS_DIFFER", "OPERATORS_DIFFER", "OUTPUT_DIFFERS"]  # that of the part, that of the source
    assert "VALUES_DIFFER" in [finding.code for finding in compare_runs(files, workers[kind])]
    path.write_bytes(b"")
    assert "PART_NOT_RUN" in [finding.code for finding in compare_runs(files, workers[kind])]


def test_strings_and_truth_values_cross(tmp_path: Path, workers: dict[str, Worker]) -> None:
    build = Build()
    graph = Graph(build, "main")
    text = graph.tensor("text", (2,), "STRING")
    index = graph.constant("index", np.array([1, 0], np.int32))
    swapped, back = (graph.tensor(name, (2,), "STRING") for name in ("swapped", "back"))
    graph.operator("GATHER", [text, index], [swapped])
    graph.operator("GATHER", [swapped, index], [back])
    value = graph.tensor("value")
    less, none = (graph.tensor(name, type="BOOL") for name in ("less", "none"))
    graph.operator("LESS", [value, value], [less])
    graph.operator("LOGICAL_NOT", [less], [none])
    graph.ends([text, value], [back, none])
    assert verify(build.to_bytes(), tmp_path / "parts", workers["tflite"], "min", alternating) == []
    assert len(list((tmp_path / "parts").glob("*.tflite"))) == 4


def test_shapes_that_are_known_only_then_cross(tmp_path: Path, workers: dict[str, Worker]) -> None:
    build = Build()
    graph = Graph(build, "main")
    value = graph.tensor("value", (2, 2))
    shape = graph.tensor("shape", (2,), "INT32")
    graph.operator("SHAPE", [value], [shape], out_type=2)
    sized = graph.tensor("sized", (2,), "INT32")
    graph.operator("REVERSE_V2", [shape, graph.constant("axis", np.array([0], np.int32))], [sized])
    made = graph.tensor("made", (1, 1), shape_signature=(-1, -1))
    graph.operator("RESHAPE", [value, sized], [made])
    after = graph.tensor("after", (1, 1), shape_signature=(-1, -1))
    graph.operator("NEG", [made], [after])
    graph.ends([value], [after])
    assert verify(build.to_bytes(), tmp_path / "parts", workers["tflite"], "min", alternating) == []


def test_a_runtime_that_takes_too_long_is_given_up(tmp_path: Path) -> None:
    split_to(with_devices(bytes_of("tflite/cnn"), alternating), tmp_path / "parts", "tflite")
    with Worker("litert:builtin", 1e-9) as worker:
        (finding,) = compare_runs(open_split(tmp_path / "parts"), worker)
    assert (finding.code, finding.severity) == ("SOURCE_NOT_RUN", "warning")
    assert "no answer in 1e-09 s" in finding.message


def test_arrays_are_compared_bit_by_bit() -> None:
    zero, minus = np.zeros(3, np.float32), -np.zeros(3, np.float32)
    assert same([zero], [zero.copy()]) is None
    assert same([zero], [minus]) == "output 0: 3 of 3 values differ"
    assert same([zero], [zero.astype(np.float64)]) == "output 0 is float32[3] and float64[3]"
    assert same([zero], []) == "the numbers of outputs differ: 1 and 0"
    assert same([np.full(2, np.nan)], [np.full(2, np.nan)]) is None
    assert same([np.array([b"a"], object)], [np.array([b"b"], object)]) == "output 0: the strings differ"


def in_tens(_subgraph: int, operator: int) -> int:
    return operator // 10 % 2


def test_public_models(public_model: Path, tmp_path: Path, workers: dict[str, Worker]) -> None:
    data, folder = public_model.read_bytes(), tmp_path / "parts"
    with open_model(data) as model:
        large = len(model.subgraphs[0].operators) > 60
    try:
        annotated = with_devices(data, in_tens if large else alternating)
        done = split_to(annotated, folder, kind_of(data))
    except EditError as error:
        pytest.skip(f"not split: {error.message}")
    assert_parts_are_the_source(annotated, folder, done)
    if "conv3d_huge_im2col" in public_model.name:
        pytest.skip("not run: takes 3.4 GB of memory")
    with open_model(data) as model:
        if model.format == "circle" and "SPLIT_V" in model.code_names(0):
            pytest.skip("not run: onert 0.1.0 writes no results for SPLIT_V")
    codes = [finding.code for finding in compare_runs(open_split(folder), workers[kind_of(data)])]
    assert codes in ([], ["SOURCE_NOT_RUN"])
