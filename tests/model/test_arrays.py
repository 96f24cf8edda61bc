"""The values of constants as arrays, against the published object API, LiteRT and numbers written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from circletools.errors import ModelFormatError, UsageError
from circletools.model.model import open_model
from circletools.model.views import Tensor
from tests.kit.build import Build, Table, strings
from tests.kit.presence import need
from tests.kit.support import bytes_of, path_of, published_names, unpacked

PLAIN: dict[str, Any] = {
    "FLOAT32": np.float32,
    "FLOAT16": np.float16,
    "INT32": np.int32,
    "UINT8": np.uint8,
    "INT64": np.int64,
}
PLAIN |= {"BOOL": np.bool_, "INT16": np.int16, "INT8": np.int8, "FLOAT64": np.float64, "UINT32": np.uint32}


def test_arrays_equal_the_object_api(own_model: Path) -> None:
    data = own_model.read_bytes()
    known, names = unpacked(data), published_names("TensorType")
    with open_model(own_model) as model:
        for graph, theirs in zip(model.subgraphs, known.subgraphs, strict=True):
            for tensor, other in zip(graph.tensors, theirs.tensors, strict=True):
                buffer = known.buffers[other.buffer]
                inside = b"" if buffer.data is None else bytes(bytearray(buffer.data))
                raw = data[buffer.offset : buffer.offset + buffer.size] if buffer.offset > 1 else inside
                assert tensor.is_constant == (bool(raw) and other.buffer > 0 and not other.isVariable)
                kind = names.get(other.type, "")
                if not raw or kind not in PLAIN or other.sparsity is not None:
                    continue
                expected = np.frombuffer(raw, PLAIN[kind]).reshape([] if other.shape is None else other.shape)
                found = tensor.numpy()
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
                assert found.tobytes() == expected.tobytes()
                assert not found.flags.writeable


def made(kind: str, shape: Sequence[int], data: bytes | None, **fields: Any) -> bytes:
    """Return a model with one tensor."""
    build = Build()
    graph = build.graph()
    at = graph.tensor("t", shape, "FLOAT32" if kind in CIRCLE_ONLY else kind, data=data, **fields)
    if kind in CIRCLE_ONLY:
        graph.table.tensors[at].type = CIRCLE_ONLY[kind]
    return build.to_bytes("circle" if kind in CIRCLE_ONLY else "tflite")


CIRCLE_ONLY = {"GGML_Q4_0": -2, "CIRCLE:UINT4": -1}


def array(kind: str, shape: Sequence[int], data: bytes, **fields: Any) -> NDArray[Any]:
    with open_model(made(kind, shape, data, **fields)) as model:
        return model.subgraphs[0].tensors[0].numpy()


@pytest.mark.parametrize(
    ("kind", "shape", "data", "values"),
    [
        ("INT4", (5,), bytes([0x10, 0xF7, 0x08]), [0, 1, 7, -1, -8]),
        ("INT4", (2, 1), bytes([0x9A]), [[-6], [-7]]),
        ("UINT4", (3,), bytes([0xF7, 0x08]), [7, 15, 8]),
        ("CIRCLE:UINT4", (2,), bytes([0xF7]), [7, 15]),
        ("INT2", (5,), bytes([0b11100100, 0b01]), [0, 1, -2, -1, 1]),
        ("BOOL", (3,), bytes([0, 1, 1]), [False, True, True]),
        ("BOOL", (3,), bytes([0, 2, 1]), [False, True, True]),
        ("BFLOAT16", (3,), np.array([0x3F80, 0xC040, 0x7F80], "<u2").tobytes(), [1.0, -3.0, np.inf]),
        ("FLOAT8_E5M2", (4,), bytes([0x3C, 0xC2, 0x01, 0x7C]), [1.0, -3.0, 2.0**-16, np.inf]),
        (
            "FLOAT8_E4M3FN",
            (7,),
            bytes([0x38, 0xC4, 0x01, 0x7E, 0xFE, 0x00, 0x08]),
            [1, -3, 2**-9, 448, -448, 0, 2**-6],
        ),
        ("COMPLEX64", (1,), np.array([1 + 2j], "<c8").tobytes(), [1 + 2j]),
        ("COMPLEX128", (1,), np.array([1 - 2j], "<c16").tobytes(), [1 - 2j]),
        ("UINT64", (1,), bytes([255] * 8), [2**64 - 1]),
        ("UINT16", (1,), bytes([1, 2]), [513]),
        ("STRING", (2, 1), strings(b"a", b"\xff"), [[b"a"], [b"\xff"]]),
        ("STRING", (), strings(b""), b""),
        ("FLOAT32", (), np.array(2.5, "<f4").tobytes(), 2.5),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_values_of_each_type(kind: str, shape: Sequence[int], data: bytes, values: Any) -> None:
    found = array(kind, shape, data)
    assert found.tolist() == values
    assert found.shape == tuple(shape)
    assert not found.flags.writeable


def test_types_that_numpy_has_not() -> None:
    assert array("BFLOAT16", (1,), bytes(2)).dtype == np.float32
    assert array("FLOAT8_E5M2", (1,), bytes(1)).dtype == np.float32
    assert array("INT4", (1,), bytes(1)).dtype == array("INT2", (1,), bytes(1)).dtype == np.int8
    assert array("UINT4", (1,), bytes(1)).dtype == np.uint8
    assert np.isnan(array("FLOAT8_E4M3FN", (2,), b"\x7f\xff")).all()
    codes = bytes(code for code in range(256) if code & 127 != 127)
    numbers = array("FLOAT8_E4M3FN", (254,), codes).tolist()
    assert numbers[:127] == sorted(set(numbers[:127]))
    assert numbers[127:] == [-number for number in numbers[:127]]
    assert np.signbit(array("FLOAT8_E4M3FN", (2,), b"\x00\x80")).tolist() == [False, True]


def test_the_file_is_not_copied() -> None:
    data = bytearray(made("FLOAT32", (2,), np.array([1, 2], "<f4").tobytes()))
    with open_model(data) as model:
        values = model.subgraphs[0].tensors[0].numpy()
        at = data.index(np.array([1, 2], "<f4").tobytes())
        data[at : at + 4] = np.array(7, "<f4").tobytes()
        assert values.tolist() == [7, 2]
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 1
        del values


@pytest.mark.parametrize(
    ("kind", "shape", "data", "words"),
    [
        ("FLOAT32", (2,), bytes(7), "7 bytes are not 2 elements of FLOAT32"),
        ("FLOAT32", (2,), bytes(12), "12 bytes are not 2 elements"),
        ("FLOAT32", (0,), bytes(4), "4 bytes are not 0 elements"),
        ("INT4", (3,), bytes(1), "1 bytes are not 3 elements of INT4"),
        ("INT4", (2,), bytes(2), "2 bytes are not 2 elements"),
        ("FLOAT32", (-1, 2), bytes(8), "dynamic dimension"),
        ("STRING", (2,), strings(b"a"), "not 2 elements of STRING"),
        ("STRING", (1,), strings(b"a", b"b"), "not 1 elements of STRING"),
        ("STRING", (1,), bytes(3), "not 1 elements of STRING"),
        ("STRING", (1,), np.array([1, 8, 12], "<i4").tobytes(), "not 1 elements of STRING"),
        ("STRING", (1,), np.array([1, 12, 13], "<i4").tobytes(), "not 1 elements of STRING"),
        ("STRING", (1,), np.array([1, 13, 12], "<i4").tobytes(), "not 1 elements of STRING"),
        ("STRING", (2,), np.array([2, 16, 17, 16], "<i4").tobytes() + b"a", "not 2 elements of STRING"),
    ],
)
def test_data_that_is_not_of_the_shape(kind: str, shape: Sequence[int], data: bytes, words: str) -> None:
    with pytest.raises(ModelFormatError, match=words) as raised:
        array(kind, shape, data)
    assert raised.value.location == "subgraphs[0].tensors[0]"


def test_tensors_without_values() -> None:
    computed = made("FLOAT32", (2,), None)
    for data, words in (
        (computed, "no values for this tensor"),
        (made("FLOAT32", (0,), b""), "no values for this tensor"),
        (made("RESOURCE", (), bytes(4)), "RESOURCE has no NumPy type"),
        (made("GGML_Q4_0", (32,), bytes(18)), "GGML_Q4_0 has no NumPy type"),
        (made("FLOAT32", (2,), None, external_buffer=3), "in another file"),
    ):
        with open_model(data) as model, pytest.raises(UsageError, match=words) as raised:
            model.subgraphs[0].tensors[0].numpy()
        assert raised.value.location == "subgraphs[0].tensors[0]"
    build = Build()
    build.graph().tensor("t", (2,), "INT8", data=bytes(2), compression_type=1)
    with open_model(build.to_bytes("circle")) as model, pytest.raises(UsageError, match="compressed INT8"):
        model.subgraphs[0].tensors[0].numpy()


def test_buffers_that_do_not_exist() -> None:
    for number in (1, 9):
        with open_model(made("FLOAT32", (2,), None, buffer=number)) as model:
            for ask in (Tensor.numpy, lambda tensor: tensor.is_constant):
                with pytest.raises(ModelFormatError, match=f"buffer {number} does not exist") as raised:
                    ask(model.subgraphs[0].tensors[0])
                assert raised.value.location == "subgraphs[0].tensors[0]"
    build = Build()
    build.graph().tensor("t", (2,))
    build.model.buffers[0].data = bytes(8)
    with open_model(build.to_bytes()) as model:
        assert not model.subgraphs[0].tensors[0].is_constant
    build.model.buffers = []
    with open_model(build.to_bytes()) as model:
        assert not model.subgraphs[0].tensors[0].is_constant
    with open_model(made("FLOAT32", (2,), bytes(8), is_variable=True)) as model:
        assert not model.subgraphs[0].tensors[0].is_constant
        assert model.subgraphs[0].tensors[0].numpy().tolist() == [0, 0]
    with open_model(made("FLOAT32", (2,), None, external_buffer=3)) as model:
        assert model.subgraphs[0].tensors[0].is_constant


def level(
    size: int = 0, segments: Sequence[int] = (), indices: Sequence[int] = (), kind: str = "Int32Vector"
) -> Table:
    if size:
        return Table("DimensionMetadata", format=0, dense_size=size)
    vectors = {name: Table(kind, values=list(values)) for name, values in
               (("array_segments", segments), ("array_indices", indices))}  # fmt: skip
    return Table("DimensionMetadata", format=1, **vectors)


def sparse(shape: Sequence[int], order: Sequence[int], levels: Sequence[Table], stored: int, **more: Any) -> Any:
    values = np.arange(1, stored + 1, dtype=np.float32)
    table = Table("SparsityParameters", traversal_order=list(order), dim_metadata=list(levels), **more)
    return array("FLOAT32", shape, values.tobytes(), sparsity=table).tolist()


@pytest.mark.parametrize("kind", ["Int32Vector", "Uint16Vector", "Uint8Vector"])
def test_sparse_rows(kind: str) -> None:
    rows = [level(2), level(segments=[0, 1, 3], indices=[2, 0, 1], kind=kind)]
    assert sparse((2, 3), (0, 1), rows, 3) == [[0, 0, 1], [2, 3, 0]]


def test_sparse_columns_and_blocks() -> None:
    columns = [level(3), level(segments=[0, 1, 1, 3], indices=[1, 0, 1])]
    assert sparse((2, 3), (1, 0), columns, 3) == [[0, 0, 2], [1, 0, 3]]
    blocks = [level(2), level(segments=[0, 1, 2], indices=[1, 0]), level(2)]
    assert sparse((2, 4), (0, 1, 2), blocks, 4, block_map=[1]) == [[0, 0, 1, 2], [3, 4, 0, 0]]
    both = [level(1), level(segments=[0, 1], indices=[1]), level(2), level(2)]
    found = sparse((2, 4), (0, 1, 2, 3), both, 4, block_map=[0, 1])
    assert found == [[0, 0, 1, 2], [0, 0, 3, 4]]
    turned = [level(1), level(segments=[0, 1], indices=[1]), level(2), level(2)]
    assert sparse((2, 4), (0, 1, 3, 2), turned, 4, block_map=[0, 1]) == [[0, 0, 1, 3], [0, 0, 2, 4]]
    assert sparse((2, 2), (0, 1), [level(2), level(2)], 4) == [[1, 2], [3, 4]]


def test_sparsity_that_leads_outside() -> None:
    for indices in ([2, 0, 3], [2, 0, -1]):
        with pytest.raises(ModelFormatError, match="outside the shape"):
            sparse((2, 3), (0, 1), [level(2), level(segments=[0, 1, 3], indices=indices)], 3)
    with pytest.raises(ModelFormatError, match=r"levels \(1\), dimensions \(2\)"):
        sparse((2, 3), (0,), [level(2)], 2)
    with pytest.raises(ModelFormatError, match="8 bytes are not 3 elements") as raised:
        sparse((2, 3), (0, 1), [level(2), level(segments=[0, 1, 3], indices=[2, 0, 1])], 2)
    assert raised.value.location == "subgraphs[0].tensors[0]"
    shape = (1 << 16, (1 << 15) + 1)
    with pytest.raises(ModelFormatError, match=f"a sparse tensor of {shape[0] * shape[1]} elements"):
        sparse(shape, (0, 1), [level(1), level(segments=[0, 1], indices=[0])], 1)


def test_sparse_tensors_are_what_litert_makes_of_them() -> None:
    need("ai_edge_litert")
    from ai_edge_litert.interpreter import Interpreter, OpResolverType  # noqa: PLC0415

    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    path = path_of("tflite/sparse").as_posix()
    runtime = Interpreter(path, experimental_preserve_all_tensors=True, experimental_op_resolver_type=plain)
    runtime.allocate_tensors()
    runtime.invoke()
    with open_model(bytes_of("tflite/sparse")) as model:
        assert model.subgraphs[0].tensors[1].numpy().tolist() == runtime.get_tensor(2).tolist()
