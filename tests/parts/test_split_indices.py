"""Parts hold what their operators and tensors name: the scales of blocks, and the subgraphs that are called."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from circletools.model.indices import model_indices
from circletools.model.model import open_model
from circletools.parts.compare import check_files, open_split
from circletools.parts.digests import ModelDigests
from circletools.parts.verify import compare_runs
from circletools.runtimes.worker import Worker
from tests.kit.callers import CALLERS, calling
from tests.kit.renumbered import orders_of, renumbered
from tests.kit.split_support import assert_parts_are_the_source, by_list, files_of, split_to, with_devices
from tests.kit.support import bytes_of, packed, unpacked

BLOCKWISE = "tflite/blockwise_int4"


@pytest.fixture(scope="module")
def litert() -> Iterator[Worker]:
    with Worker("litert:builtin", 60) as worker:
        yield worker


def parts_of(folder: Path) -> list[Any]:
    """Return the parts as objects."""
    return [unpacked(data) for name, data in files_of(folder).items() if name.endswith((".tflite", ".circle"))]


@pytest.mark.parametrize("devices", [(0, 1) * 3, (0, 0, 1, 1, 0, 0), (1, 0, 0, 0, 0, 1)])
def test_scales_go_along_with_what_they_scale(devices: Sequence[int], tmp_path: Path, litert: Worker) -> None:
    data = with_devices(bytes_of(BLOCKWISE), by_list(devices))
    done = split_to(data, tmp_path / "parts", "tflite")
    assert_parts_are_the_source(data, tmp_path / "parts", done)
    assert compare_runs(open_split(tmp_path / "parts"), litert) == []
    source, seen = unpacked(data).subgraphs[0].tensors, 0
    for part in parts_of(tmp_path / "parts"):
        tensors = part.subgraphs[0].tensors
        for tensor in tensors:
            if tensor.quantization is not None and tensor.quantization.details is not None:
                scales = tensors[tensor.quantization.details.scales]
                assert scales.name == tensor.name + b"_scales"
                assert part.buffers[scales.buffer].data.size == np.prod(scales.shape) * 2
                assert tensor.quantization.details.zeroPoints == -1
                seen += 1
    assert seen == sum(tensor.quantization.details is not None for tensor in source if tensor.quantization) == 3


@pytest.mark.parametrize("change", ["other scales", "other data", "left out"])
def test_other_scales_are_reported(change: str, tmp_path: Path) -> None:
    """What a part computes depends on its scales, although no operator names them."""
    data = with_devices(bytes_of(BLOCKWISE), by_list((0, 0, 1, 1, 0, 0)))
    split_to(data, tmp_path / "parts", "tflite")
    path = sorted((tmp_path / "parts").glob("*.tflite"))[0]
    model = unpacked(path.read_bytes())
    tensors = model.subgraphs[0].tensors
    details = next(one.quantization.details for one in tensors if one.quantization and one.quantization.details)
    if change == "other scales":
        details.scales = 0
    elif change == "left out":
        details.zeroPoints = 0
    else:
        buffer = model.buffers[tensors[details.scales].buffer]
        buffer.data = np.array([*buffer.data[:-1], buffer.data[-1] ^ 1], np.uint8)
    path.write_bytes(packed(model, b"TFL3"))
    assert "OPERATORS_DIFFER" in {finding.code for finding in check_files(open_split(tmp_path / "parts"))}


def test_tensors_that_name_each_other_have_a_digest() -> None:
    model = unpacked(bytes_of(BLOCKWISE))
    tensors = model.subgraphs[0].tensors
    for first, second in ((1, 4), (4, 1), (7, 7)):
        tensors[first].quantization.details.scales = second
    forms = []
    for data in (packed(model, b"TFL3"), bytes_of(BLOCKWISE)):
        with open_model(data) as opened:
            contents = ModelDigests(opened)
            forms.append([contents.form(0, tensor) for tensor in range(13)])
    assert [first == second for first, second in zip(*forms, strict=True)] == [
        tensor not in (1, 4, 7) for tensor in range(13)
    ]


@pytest.mark.parametrize(("caller", "nested"), list(zip(CALLERS, cycle(("", "STABLEHLO_CASE")))))
def test_called_subgraphs_go_along_wherever_they_are(caller: str, nested: str, tmp_path: Path) -> None:
    data = calling(caller, idle=2, nested=nested)
    with open_model(data) as model:
        count = len(model.subgraphs)
    backwards = [0, *range(count - 1, 0, -1)]
    moved = renumbered(data, replace(orders_of(data, lambda indices: indices), subgraphs=backwards))
    computed = []
    for name, one in (("plain", data), ("moved", moved)):
        folder = tmp_path / name
        folder.mkdir()
        annotated = with_devices(one, lambda subgraph, operator: int((subgraph, operator) == (0, 2)))
        assert_parts_are_the_source(annotated, folder / "parts", split_to(annotated, folder / "parts", "tflite"))
        with open_model(next(part for part in files_of(folder / "parts").values() if calls(part))) as part:
            assert len(part.subgraphs) == count - 2
            named = {value for indices in model_indices(part, "subgraph") for value in indices.values.tolist()}
            assert named == set(range(1, count - 2))
            computed.append(sorted(ModelDigests(part).computed(0, {}).operators.values()))
    assert computed[0] == computed[1]


def calls(data: bytes) -> bool:
    """Say whether this is a model with operators that call subgraphs."""
    if data[4:8] != b"TFL3":
        return False
    with open_model(data) as model:
        return len(model.subgraphs) > 1
