"""Random inputs that depend only on the interface of a model."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from circletools.errors import InvalidInputError
from circletools.runtimes.protocol import Array, Make, RefusedError

# Integer inputs are often indices, sizes or axes, and runtimes reject larger numbers.
_INT_LIMIT = 3
RANDOM_INPUTS = "the inputs were random; give others with `--inputs`"
_STRINGS = (b"hello world", b"", b"what is the weather", b"\xc3\xa9t\xc3\xa9 42", b"no")


def make_input(seed: int, place: int | str, dtype: np.dtype[Any], shape: Sequence[int]) -> NDArray[Any]:
    """Return the array for the input at `place`.

    `place` is the position of a subgraph input or the name of a signature input, never a tensor index: an edit may
    renumber tensors, but must not change the input values.
    """
    dims = tuple(int(size) for size in shape)
    rng = np.random.default_rng([seed, zlib.crc32(f"{place}|{dtype.name}|{dims}".encode())])
    if dtype.kind == "b":
        return rng.integers(0, 2, dims).astype(dtype)
    if dtype.kind in "iu":
        if dtype.itemsize == 1:
            info = np.iinfo(dtype)
            return rng.integers(info.min, int(info.max) + 1, dims).astype(dtype)
        return rng.integers(0, _INT_LIMIT, dims).astype(dtype)
    if dtype.kind == "f":
        return rng.uniform(-1, 1, dims).astype(dtype)
    if dtype.kind == "c":
        return (rng.uniform(-1, 1, dims) + 1j * rng.uniform(-1, 1, dims)).astype(dtype)
    if dtype.kind in "SO":
        texts = [_STRINGS[(seed + number) % len(_STRINGS)] for number in range(int(np.prod(dims)))]
        return np.array(texts, dtype=object).reshape(dims)
    raise NotImplementedError(f"no input values for dtype {dtype}")


def filled(
    given: Sequence[Array | None] | None, make: Make, forms: Iterable[tuple[Any, Iterable[int]]]
) -> list[Array]:
    """Return inputs of these types and shapes, generated if not given. Raises RefusedError for a wrong count."""
    ends = [(np.dtype(kind), tuple(shape)) for kind, shape in forms]
    values = [None] * len(ends) if given is None else given
    if len(values) != len(ends):
        raise RefusedError(f"the number of inputs is {len(ends)}, not {len(values)}")
    return [make(place, *ends[place]) if value is None else value for place, value in enumerate(values)]


def read_inputs(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Return the arrays of an .npz file by name, in file order. Raises InvalidInputError."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as found:
            if sum(entry.file_size for entry in found.zip.infolist()) > (64 << 20) + 10 * os.path.getsize(path):
                raise ValueError("its arrays unpack to far more bytes than the file has")
            return {name: found[name] for name in found.files}
    except MemoryError:
        raise
    except OSError as error:
        raise InvalidInputError(f"cannot read it: {error.strerror or error}", location=os.fspath(path)) from error
    except Exception as error:  # the parsers for ZIP, deflate and headers raise all kinds of errors
        message = "not an .npz file of input arrays" + ("" if "pickle" in str(error) else f": {error}")
        raise InvalidInputError(message, location=os.fspath(path), hint="numpy.savez writes them") from error
